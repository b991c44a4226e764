"""Logins of browsers: sessions, their ends, forged requests, other sites, and who is slowed down."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from urllib.parse import quote

import httpx
import pytest

from mahavishnu.access.sessions import Sessions
from mahavishnu.core.api import Access, create_app
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.http.auth import LIFETIME
from mahavishnu.model.errors import InvalidInput
from mahavishnu.testing import ManualClock
from tests.support.api import TOKENS, URL, ApiHarness, bearer

HTML = {"Accept": "text/html"}
COOKIE = "mahavishnu_session"
KEY, OTHER_KEY = "k" * 32, "o" * 32


async def log_in(api: ApiHarness, role: str = "operator", next: str = "/", **headers: str) -> httpx.Response:
    form = {"token": TOKENS[role], "next": next}
    return await api.client.post("/login", data=form, headers={**HTML, **headers})


async def form_token(api: ApiHarness) -> str:
    page = (await api.client.get("/", headers=HTML)).text
    return page.partition('name="form_token" value="')[2].partition('"')[0]


async def test_whoever_is_not_known_is_led_to_the_login_and_back(guarded_api: ApiHarness) -> None:
    led = await guarded_api.client.get("/groups?sort=count", headers=HTML)
    assert (led.status_code, led.headers["location"]) == (303, "./login?next=%2Fgroups%3Fsort%3Dcount")
    assert (await guarded_api.client.get(led.headers["location"], headers=HTML)).status_code == 200
    begun = await log_in(guarded_api, next="/groups?sort=count")
    assert (begun.status_code, begun.headers["location"]) == (303, "./groups?sort=count")
    assert (await guarded_api.client.get("/groups?sort=count", headers=HTML)).status_code == 200
    assert "olga, operator" in (await guarded_api.client.get("/", headers=HTML)).text


@pytest.mark.parametrize("task_id", ["a/b", "Zürich €", "a?b#c", "50%2F", "a b"])
async def test_the_login_leads_to_a_letter_whatever_its_id_is(guarded_api: ApiHarness, task_id: str) -> None:
    await guarded_api.keep(task_id)
    asked = f"/letters/{quote(task_id, safe='')}"
    led = await guarded_api.client.get(asked, headers=HTML)
    place = led.url.join(led.headers["location"])
    begun = await log_in(guarded_api, next=place.params["next"])
    shown = await guarded_api.client.get(place.join(begun.headers["location"]), headers=HTML)
    assert shown.status_code == 200 and shown.url.raw_path.decode() == asked


async def test_a_target_with_other_letters_than_those_of_addresses_is_escaped(guarded_api: ApiHarness) -> None:
    begun = await log_in(guarded_api, next='/letters?q="Zürich €"&sort=newest')
    assert begun.headers["location"] == "./letters?q=%22Z%C3%BCrich%20%E2%82%AC%22&sort=newest"


async def test_what_was_sent_when_the_login_had_ended_leads_back_and_says_that_it_was_not_done(
    guarded_api: ApiHarness,
) -> None:
    sent = {**HTML, "Referer": f"{URL}/letters/order-1?failure=0"}
    led = await guarded_api.client.post("/letters/order-1/edit", headers=sent)
    assert (led.status_code, led.headers["location"]) == (
        303,
        "../../login?next=%2Fletters%2Forder-1%3Ffailure%3D0&lost=true",
    )
    assert "what you sent was not done" in (await guarded_api.client.get("/login?lost=true", headers=HTML)).text


@pytest.mark.parametrize(
    "referer", ["https://evil.example/letters", "", f"{URL}//evil", f"{URL}/login", "http://[", URL]
)
async def test_only_a_page_of_this_console_is_led_back_to(guarded_api: ApiHarness, referer: str) -> None:
    sent = {**HTML, "Referer": referer}
    led = await guarded_api.client.post("/letters/order-1/edit", headers=sent)
    assert led.headers["location"] == "../../login?next=%2F&lost=true"


async def test_a_problem_is_said_to_people_and_leads_back(api: ApiHarness) -> None:
    await api.keep("order-1", status="completed")
    sent = {**HTML, "Referer": f"{URL}/letters/order-1"}
    page = await api.client.post("/letters/order-1/redrive", headers=sent)
    assert page.status_code == 409 and "<h1>It was not done</h1>" in page.text
    assert 'href="../../letters/order-1">Back to where you were' in page.text
    missing = (await api.client.get("/nope", headers=HTML)).text
    assert "There is no such thing here" in missing and "openapi" not in missing and "&#39;/nope&#39;" in missing


async def test_the_cookie_is_out_of_the_reach_of_scripts_and_other_sites(guarded_api: ApiHarness) -> None:
    begun = await log_in(guarded_api)
    attributes = begun.headers["set-cookie"].split("; ")
    assert {"HttpOnly", "SameSite=lax", "Path=/", "Max-Age=43200"} < {*attributes}
    assert "Secure" not in attributes and TOKENS["operator"] not in begun.headers["set-cookie"]
    secure = await guarded_api.client.post(f"{URL.replace('http', 'https')}/login", data={"token": TOKENS["operator"]})
    cookie = secure.headers["set-cookie"]
    assert cookie.startswith(f"__Host-{COOKIE}=") and "; Secure" in cookie and "Domain" not in cookie


async def test_a_login_is_audited_and_so_is_a_failed_one(guarded_api: ApiHarness) -> None:
    assert (await guarded_api.client.post("/login", data={"token": "guess"}, headers=HTML)).status_code == 403
    await log_in(guarded_api)
    entries = (await guarded_api.dlq.audit.list()).items
    assert [(each.action, each.actor) for each in entries] == [("login", "olga"), ("denied", "anybody")]
    assert "guess" not in str(entries)


async def test_a_session_ends_with_its_hours(guarded_api: ApiHarness) -> None:
    await log_in(guarded_api)
    guarded_api.clock.advance(LIFETIME.total_seconds() - 1)
    assert (await guarded_api.client.get("/", headers=HTML)).status_code == 200
    guarded_api.clock.advance(1)
    assert (await guarded_api.client.get("/", headers=HTML)).status_code == 303


async def test_a_logout_ends_copies_of_the_cookie_too(guarded_api: ApiHarness) -> None:
    await log_in(guarded_api)
    stolen = guarded_api.client.cookies[COOKIE]
    left = await guarded_api.client.post("/logout", data={"form_token": await form_token(guarded_api)}, headers=HTML)
    assert left.status_code == 303 and COOKIE not in guarded_api.client.cookies
    again = await guarded_api.client.get("/", headers={**HTML, "Cookie": f"{COOKIE}={stolen}"})
    assert again.status_code == 303


async def test_a_cookie_that_was_changed_is_none(guarded_api: ApiHarness) -> None:
    await log_in(guarded_api)
    whole = guarded_api.client.cookies[COOKIE]
    guarded_api.client.cookies.clear()
    for forged in (whole[:-9] + ("A" if whole[-9] != "A" else "B") + whole[-8:], "x" + whole, "", "..", "%ff"):
        headers = {**HTML, "Cookie": f"{COOKIE}={forged}"}
        assert (await guarded_api.client.get("/", headers=headers)).status_code == 303


@pytest.mark.parametrize(
    "target",
    ["https://evil.example", "//evil.example", "/\\evil.example", "evil", "javascript:alert(1)", "/login", "/\n"],
)
async def test_a_login_leads_to_no_other_site(guarded_api: ApiHarness, target: str) -> None:
    begun = await log_in(guarded_api, next=target)
    assert (begun.status_code, begun.headers["location"]) == (303, "./")


async def test_a_path_that_looks_like_a_scheme_stays_a_path(guarded_api: ApiHarness) -> None:
    begun = await log_in(guarded_api, next="/https:evil.example")
    assert httpx.URL(f"{URL}/login").join(begun.headers["location"]).host == httpx.URL(URL).host


FORGED: list[Mapping[str, str]] = [
    {},
    {"X-Form-Token": "0" * 32},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
]


@pytest.mark.parametrize("headers", FORGED)
async def test_a_change_that_another_site_makes_a_browser_send_is_refused(
    guarded_api: ApiHarness, headers: Mapping[str, str]
) -> None:
    await guarded_api.keep("wf_1")
    await log_in(guarded_api)
    proof = {} if not headers or "X-Form-Token" in headers else {"X-Form-Token": await form_token(guarded_api)}
    refused = await guarded_api.post("/dlq/wf_1/resolve", headers={**headers, **proof})
    assert refused.status_code == 403
    assert (await guarded_api.client.post("/logout", headers={**HTML, **headers, **proof})).status_code == 403
    letter = await guarded_api.dlq.get_task("wf_1")
    assert letter is not None and letter.is_open


async def test_a_session_changes_with_its_own_form_token_only(guarded_api: ApiHarness) -> None:
    await guarded_api.keep("wf_1")
    await log_in(guarded_api, "viewer")
    others = {"X-Form-Token": await form_token(guarded_api)}
    await log_in(guarded_api)
    own = {"X-Form-Token": await form_token(guarded_api), "Sec-Fetch-Site": "same-origin"}
    assert (await guarded_api.post("/dlq/wf_1/resolve", headers=others)).status_code == 403
    assert (await guarded_api.post("/dlq/wf_1/resolve", headers=own)).status_code == 200
    (entry,) = (await guarded_api.dlq.audit.list(action="resolve")).items
    assert (entry.actor, entry.role) == ("olga", "operator")


async def test_a_login_that_another_site_sends_is_refused(guarded_api: ApiHarness) -> None:
    assert (await log_in(guarded_api, **{"Sec-Fetch-Site": "cross-site"})).status_code == 403
    assert (await log_in(guarded_api, Origin="https://evil.example")).status_code == 403


async def test_without_tokens_changes_of_other_sites_are_refused_as_well(api: ApiHarness) -> None:
    await api.keep("wf_1")
    assert (await api.post("/dlq/wf_1/resolve", headers={"Sec-Fetch-Site": "cross-site"})).status_code == 403
    assert (await api.client.get("/", headers={**HTML, "Host": "rebound.example"})).status_code == 403
    assert (await api.post("/dlq/wf_1/resolve")).status_code == 200


async def test_failed_logins_wait_longer_and_longer_each_address_for_itself(guarded_api: ApiHarness) -> None:
    async def fail() -> httpx.Response:
        return await guarded_api.client.post("/login", data={"token": "guess"}, headers=HTML)

    assert [(await fail()).status_code for _ in range(7)] == [403] * 6 + [429]
    refused = await log_in(guarded_api)  # not even looked at
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "3")
    guarded_api.clock.advance(2)
    assert (await fail()).status_code == 403
    guarded_api.clock.advance(2)
    assert (await fail()).status_code == 429
    guarded_api.clock.advance(2)
    assert (await log_in(guarded_api)).status_code == 303
    assert [(await fail()).status_code for _ in range(5)] == [403] * 5


async def test_people_log_in_while_the_audit_cannot_be_written(
    guarded_api: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mahavishnu.model.errors import StoreUnavailable

    async def away(*_: object) -> None:
        raise StoreUnavailable("away")

    monkeypatch.setattr(guarded_api.dlq.audit, "_open", away)
    monkeypatch.setattr(type(guarded_api.dlq.audit._entries), "write", away)
    assert (await log_in(guarded_api)).status_code == 303


async def test_a_page_cannot_be_framed_and_runs_nothing_of_others(guarded_api: ApiHarness) -> None:
    for path in ("/login", "/nothing"):
        headers = (await guarded_api.client.get(path, headers={**HTML, **bearer("viewer")})).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy
        assert (headers["x-content-type-options"], headers["x-frame-options"]) == ("nosniff", "DENY")
        assert (headers["referrer-policy"], headers["cross-origin-opener-policy"]) == ("same-origin", "same-origin")


# --- keys


@pytest.fixture
async def clock() -> AsyncIterator[ManualClock]:
    yield ManualClock()


def sessions_of(clock: ManualClock, *keys: str, tokens: Mapping[str, str] | None = None) -> Sessions:
    return Sessions(Access.of({}, tokens or {"olga": "act-22"}, {}), clock, keys)


def test_a_session_is_known_to_all_who_have_the_key_and_survives_its_rotation(clock: ManualClock) -> None:
    begun = sessions_of(clock, KEY).begin("act-22")
    assert begun is not None
    session, cookie = begun
    for keys in ((KEY,), (OTHER_KEY, KEY)):
        found = sessions_of(clock, *keys).find(cookie)
        assert found is not None and (found.id, found.actor.name) == (session.id, "olga")
    assert sessions_of(clock, OTHER_KEY).find(cookie) is None
    assert sessions_of(clock).find(cookie) is None
    newer = sessions_of(clock, OTHER_KEY, KEY).begin("act-22")
    assert newer is not None and sessions_of(clock, OTHER_KEY).find(newer[1]) is not None


def test_a_token_that_is_taken_away_ends_its_sessions(clock: ManualClock) -> None:
    begun = sessions_of(clock, KEY).begin("act-22")
    assert begun is not None
    assert sessions_of(clock, KEY, tokens={"olga": "another"}).find(begun[1]) is None


def test_a_short_key_is_refused(clock: ManualClock) -> None:
    with pytest.raises(InvalidInput, match="32 characters"):
        sessions_of(clock, "short")


async def test_the_page_of_a_mounted_console_links_relatively() -> None:
    from fastapi import FastAPI

    outer = FastAPI()
    outer.mount("/dlq", create_app(DeadLetterQueue()))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(outer), base_url=URL) as client:
        for path in ("/dlq/", "/dlq/groups", "/dlq/no/such/page"):
            page = (await client.get(path, headers=HTML)).text
            for link in ("groups", "static/console.css"):
                start = page.index(link, page.index('href="')) if link == "groups" else page.index(link)
                href = page[page.rindex('"', 0, start) + 1 : page.index('"', start)]
                assert httpx.URL(f"{URL}{path}").join(href).path == f"/dlq/{link}", (path, href)
