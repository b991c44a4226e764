"""What somebody on the network tries: forged forms on every page, framing, stolen cookies, names with markup."""

from __future__ import annotations

import re

import httpx
import pytest
from starlette.routing import Route

from mahavishnu.core.api import Access, create_app
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.model.errors import MahavishnuError
from tests.support.api import TOKENS, URL, ApiHarness, bearer

HTML = {"Accept": "text/html"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
COOKIE = "mahavishnu_session"
MARKUP = "<script>alert('x')</script><img src=x onerror=alert(1)>\"'\u202e"


def page_routes(method: str) -> list[str]:
    """The paths of the pages that answer this method, with something in their parts."""
    api = create_app(DeadLetterQueue())
    found = set()
    for route in api.routes:
        if isinstance(route, Route) and method in (route.methods or ()) and not route.path.startswith("/api"):
            found.add(re.sub(r"{[^}]*}", "x", route.path))
    return sorted(found)


CHANGES = [path for path in page_routes("POST") if path != "/login"]


def test_pages_that_change_something_are_known() -> None:
    assert len(CHANGES) > 8 and "/logout" in CHANGES, CHANGES


async def log_in(api: ApiHarness) -> str:
    await api.client.post("/login", data={"token": TOKENS["admin"]}, headers=HTML)
    page = (await api.client.get("/", headers=HTML)).text
    return page.partition('name="form_token" value="')[2].partition('"')[0]


async def test_no_form_counts_that_another_site_may_have_sent(guarded_api: ApiHarness) -> None:
    api = guarded_api
    await api.keep("x")
    token = await log_in(api)
    before = [entry.action for entry in (await api.dlq.audit.list()).items]
    for path in CHANGES:
        for form, headers in (
            ("", {}),
            ("form_token=", {}),
            (f"form_token={'0' * 32}", {}),
            (f"form_token={token}", {"Origin": "https://evil.example"}),
            (f"form_token={token}", {"Origin": "null"}),
            (f"form_token={token}", {"Sec-Fetch-Site": "cross-site"}),
            (f"form_token={token}", {"Sec-Fetch-Site": "same-site"}),
            (f"form_token={token}", {"Content-Type": "text/plain"}),
            (f"form_token={token}", {"Content-Type": "multipart/form-data; boundary=x"}),
        ):
            answer = await api.client.post(path, content=form, headers={**HTML, **FORM, **headers})
            assert answer.status_code == 403, (path, form, headers, answer.status_code)
    assert [entry.action for entry in (await api.dlq.audit.list()).items] == before


async def test_a_viewer_is_refused_every_form_and_that_is_written_down(guarded_api: ApiHarness) -> None:
    api = guarded_api
    await api.keep("x")
    for path in CHANGES:
        if path in ("/logout", "/plugins"):  # the latter only says how a text is classified
            continue
        answer = await api.client.post(path, content="", headers={**HTML, **FORM, **bearer("viewer")})
        assert answer.status_code in (403, 404, 405, 422), (path, answer.status_code)
    letter = await api.dlq.get_task("x")
    assert letter is not None and letter.is_open
    done = [entry for entry in (await api.dlq.audit.list()).items if entry.outcome == "done"]
    assert done == []
    assert {entry.actor for entry in (await api.dlq.audit.list(action="denied")).items} == {"vic"}


async def test_no_response_can_be_framed_or_guessed_at(guarded_api: ApiHarness) -> None:
    api = guarded_api
    await api.keep("x")
    await log_in(api)
    paths = [
        "/",
        "/login",
        "/healthz",
        "/readyz",
        "/metrics",
        "/nothing",
        "/api/v1/dlq",
        "/api/v1/dlq/none",
        "/letters/x",
    ]
    paths += ["/api/v1/openapi.json", "/api/v1/dlq?limit=no", "/login/provider", "/login/callback", "/static/none"]
    paths += re.findall(r'(?:src|href)="\./(static/[^"]+)"', (await api.client.get("/", headers=HTML)).text)
    assert any("static/" in path and "none" not in path for path in paths)
    for path in paths:
        for headers in (HTML, {}, {**HTML, "Cookie": ""}, {"Origin": "https://evil.example"}):
            answer = await api.client.get(path, headers=headers)
            seen = answer.headers
            assert seen["x-frame-options"] == "DENY" and seen["x-content-type-options"] == "nosniff", path
            assert "frame-ancestors 'none'" in seen["content-security-policy"], path
            assert "default-src 'none'" in seen["content-security-policy"], path
            assert "unsafe" not in seen["content-security-policy"], path
            assert "access-control-allow-origin" not in seen, path


async def test_a_cookie_of_http_is_none_on_https_and_the_other_way_round(guarded_api: ApiHarness) -> None:
    await log_in(guarded_api)
    cookie = guarded_api.client.cookies[COOKIE]
    https = URL.replace("http", "https")
    for url, name in ((https, COOKIE), (URL, f"__Host-{COOKIE}")):
        answer = await guarded_api.client.get(f"{url}/", headers={**HTML, "Cookie": f"{name}={cookie}"})
        assert answer.status_code == 303


async def test_another_host_name_reaches_nothing_without_tokens(api: ApiHarness) -> None:
    """A page of evil.example whose name suddenly means this machine."""
    for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", "[::1].evil.example", "localhost.evil"):
        for path in ("/", "/api/v1/dlq", "/metrics", "/login"):
            answer = await api.client.get(path, headers={**HTML, "Host": host})
            assert answer.status_code == 403, (host, path)
    assert (await api.client.get("/", headers={**HTML, "Origin": "http://evil.example"})).status_code == 403


async def test_markup_in_every_field_is_text_on_every_page(guarded_api: ApiHarness) -> None:
    dlq = guarded_api.dlq
    await dlq.enqueue(
        f"t{MARKUP}",
        {MARKUP: MARKUP, "list": [MARKUP]},
        [MARKUP],
        ValueError(MARKUP),
        metadata={MARKUP: MARKUP},
        adapter=f"a{MARKUP}",
    )
    (letter,) = await dlq.list_tasks()
    assert letter.fingerprint is not None
    await dlq.groups.update(letter.fingerprint, by=MARKUP, owner=MARKUP, note=MARKUP)
    await dlq.letters.edit(letter.task_id, priority=3, by=MARKUP, notes=MARKUP)
    for attempt in (
        dlq.queues.create("q" + MARKUP.replace("/", ""), by=MARKUP),
        dlq.views.save("v" + MARKUP, "adapter:orders", by=MARKUP),
        dlq.runs.start("resolve", everything=True, by=MARKUP, reason=MARKUP),
    ):
        try:
            await attempt
        except MahavishnuError:
            continue  # a name that is refused is on no page
    await log_in(guarded_api)
    pages = [path for path in page_routes("GET") if "x" not in path.split("/") and not path.startswith("/static")]
    quoted = httpx.QueryParams({"q": MARKUP})
    places = [
        *pages,
        f"/groups/{letter.fingerprint}",
        f"/letters?{quoted}",
        f"/audit?{httpx.QueryParams(actor=MARKUP)}",
    ]
    task_id = "".join(f"%{byte:02X}" for byte in letter.task_id.encode())
    (run, *_) = [*(await dlq.runs.list()).items, None]
    places += [f"/letters/{task_id}", f"/login?{httpx.QueryParams(next=MARKUP)}", f"/{task_id}"]
    places += [f"/runs/{run.run_id}"] if run else []
    shown = 0
    for path in places:
        answer = await guarded_api.client.get(path, headers=HTML)
        if not answer.headers.get("content-type", "").startswith("text/html"):
            continue  # no browser reads it as a page
        text = answer.text
        assert "<script>alert" not in text and "<img src=x" not in text and "\u202e" not in text, path
        shown += "&lt;script&gt;alert" in text
    assert shown >= 5


def test_a_token_is_looked_up_by_its_digest() -> None:
    """The time of a comparison of texts would tell how much of a guess is right."""
    access = Access.of({}, {"olga": "token-1"}, {})
    assert all(isinstance(key, bytes) and len(key) == 32 for key in access.tokens)
    assert access.holder("token-") is None and access.holder("token-1") is not None


@pytest.mark.parametrize("named", ["10.0.0.1", "127.0.0.1", "::1"])
async def test_no_header_of_a_client_makes_logins_faster(guarded_api: ApiHarness, named: str) -> None:
    statuses = []
    for n in range(8):
        headers = {**HTML, "X-Forwarded-For": f"{named}{n}", "X-Real-IP": named, "Forwarded": f"for={n}"}
        answer = await guarded_api.client.post("/login", data={"token": f"guess-{n}"}, headers=headers)
        statuses.append(answer.status_code)
    assert statuses == [403] * 6 + [429] * 2
