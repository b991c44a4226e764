"""Logins at a real provider of OpenID Connect, a process of its own: who is let in, and all who are not."""

from __future__ import annotations

import asyncio
import hashlib
import re
import subprocess
import sys
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit, urlunsplit

import httpx
import pytest

from mahavishnu.access.oidc import Attempt, ProviderProblem, ProviderRules
from mahavishnu.access.sessions import Sessions
from mahavishnu.core.api import Access, create_app
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.http.auth import LIFETIME
from mahavishnu.http.proxies import RoleMap
from mahavishnu.model.clock import SystemClock
from mahavishnu.model.errors import InvalidInput
from mahavishnu.testing import ManualClock
from tests.support.api import TOKENS, URL, ApiHarness

HTML, RECHECK = {"Accept": "text/html"}, timedelta(minutes=15)
ROLES = {"on-call": "operator", "staff": "viewer"}
COOKIE, ATTEMPT = "mahavishnu_session", "mahavishnu_provider"
PEOPLE: dict[str, dict[str, Any]] = {
    "u-ann": {"preferred_username": "ann", "groups": ["everybody", "on-call", "staff"]},
    "u-eve": {"preferred_username": "eve", "groups": ["on-call-team", "ON-CALL", ""]},
    "u-text": {"preferred_username": "tim", "groups": "staff"},
    "u-odd": {"preferred_username": "odd", "groups": {"on-call": True}},
    "u-none": {"groups": ["on-call"]},
    "u-api": {"preferred_username": "api_user", "groups": ["on-call"]},
}


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    command = [sys.executable, "-W", "ignore", "-m", "oidc_provider_mock", "--port", "0", "--require-nonce"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            found = next(filter(None, (re.search(r"http://127\.0\.0\.1:\d+", line) for line in process.stderr)))
            for subject, claims in PEOPLE.items():
                httpx.put(f"{found[0]}/users/{subject}", json=claims).raise_for_status()
            yield found[0]
        finally:
            process.terminate()


def app_for(dlq: DeadLetterQueue, issuer: str, groups: dict[str, str] = ROLES) -> httpx.AsyncClient:
    roles = RoleMap(groups=groups, source=issuer)
    access = Access.of({}, {"olga": TOKENS["operator"]}, {}, provider_roles=roles)
    rules = ProviderRules(issuer, "dlq", "a-secret", URL)
    api = create_app(dlq, access=access, provider=rules, session_keys=["k" * 32])
    return httpx.AsyncClient(transport=httpx.ASGITransport(api), base_url=URL, headers=HTML)


@pytest.fixture
async def api(issuer: str) -> AsyncIterator[ApiHarness]:
    clock = ManualClock(SystemClock().now())  # which the provider's is, too
    async with DeadLetterQueue(clock=clock) as dlq, app_for(dlq, issuer) as http:
        yield ApiHarness(dlq, http, clock)


async def at_provider(api: ApiHarness, who: str = "u-ann", next: str = "/", **changed: str) -> str:
    """Begin, and log in at the provider, which may have been asked for something else; where it leads back to."""
    left = await api.client.get("/login/provider", params={"next": next})
    assert left.status_code == 303
    parts = urlsplit(left.headers["location"])
    asked = urlencode({**dict(parse_qsl(parts.query)), **changed})
    async with httpx.AsyncClient() as browser:
        back = await browser.post(urlunsplit(parts._replace(query=asked)), data={"sub": who})
    assert back.status_code == 302, back.text
    return back.headers["location"]


async def come_back(api: ApiHarness, who: str = "u-ann", **more: str) -> httpx.Response:
    return await api.client.get(await at_provider(api, who, **more))


async def who_is_in(api: ApiHarness) -> str:
    page = await api.client.get("/", headers=HTML)
    found = re.search(r"(\w+, (?:viewer|operator|admin))", page.text)
    return found[1] if page.status_code == 200 and found else "nobody"


async def test_somebody_in_a_group_is_let_in_and_led_on(api: ApiHarness, issuer: str) -> None:
    page = (await api.client.get("/login", params={"next": "/groups?sort=count"})).text
    assert 'href="./login/provider?next=%2Fgroups%3Fsort%3Dcount"' in page and 'name="token"' in page
    location = (await api.client.get("/login/provider", params={"next": "/groups?sort=count"})).headers["location"]
    asked = parse_qs(urlsplit(location).query)
    assert location.startswith(issuer) and asked["code_challenge_method"] == ["S256"] and len(asked["state"][0]) >= 32
    kept = Sessions(Access(), api.clock, ["k" * 32]).unsign(api.client.cookies[ATTEMPT], "provider login")
    assert kept is not None
    digest = hashlib.sha256(Attempt(*kept).verifier.encode()).digest()
    assert asked["code_challenge"] == [urlsafe_b64encode(digest).decode().rstrip("=")]
    begun = await come_back(api, next="/groups?sort=count")
    assert (begun.status_code, begun.headers["location"]) == (303, "../groups?sort=count")
    assert ATTEMPT not in api.client.cookies and await who_is_in(api) == "ann, operator"
    (entry,) = (await api.dlq.audit.list(action="login")).items
    assert (entry.actor, entry.changes.value["subject"]) == ("ann", {"after": "u-ann"})


async def test_the_session_is_one_like_others(api: ApiHarness) -> None:
    await come_back(api)
    stolen = api.client.cookies[COOKIE]
    page = (await api.client.get("/")).text
    token = page.partition('name="form_token" value="')[2].partition('"')[0]
    assert (await api.post("/dlq/wf_1/resolve")).status_code == 403
    assert (await api.post("/dlq/wf_1/resolve", headers={"X-Form-Token": token})).status_code == 404
    assert (await api.client.post("/logout", data={"form_token": token})).status_code == 303
    assert (await api.client.get("/", headers={"Cookie": f"{COOKIE}={stolen}"})).status_code == 303
    await come_back(api)
    api.clock.advance(LIFETIME)
    assert await who_is_in(api) == "nobody"


async def test_a_session_ends_when_its_groups_give_no_role_any_more(api: ApiHarness, issuer: str) -> None:
    await come_back(api)
    cookie = {"Cookie": f"{COOKIE}={api.client.cookies[COOKIE]}"}
    for groups, expected in (({"on-call": "viewer"}, 200), ({"others": "admin"}, 303)):
        async with app_for(api.dlq, issuer, groups) as later:
            answer = await later.get("/", headers=cookie)
            assert answer.status_code == expected
            assert expected != 200 or "ann, viewer" in answer.text
    async with app_for(api.dlq, "http://127.0.0.1:1") as of_another_provider:
        assert (await of_another_provider.get("/", headers=cookie)).status_code == 303


@pytest.mark.parametrize(
    ("who", "why"),
    [
        ("u-eve", "eve is in no group that server.oidc.groups gives a role"),
        ("u-odd", "odd is in no group"),
        ("u-api", "api_user is in no group"),
        ("u-none", "no claim &#39;preferred_username&#39;"),
    ],
)
async def test_who_has_no_role_or_no_name_is_told_so(api: ApiHarness, who: str, why: str) -> None:
    refused = await come_back(api, who)
    assert refused.status_code == 403 and why in refused.text
    assert COOKIE not in api.client.cookies and 'href="../login/provider' in refused.text
    denied = [each.actor for each in (await api.dlq.audit.list(action="denied")).items]
    assert denied == ([] if who == "u-none" else [PEOPLE[who]["preferred_username"]])


async def test_one_group_may_be_a_text(api: ApiHarness) -> None:
    await come_back(api, "u-text")
    assert await who_is_in(api) == "tim, viewer"


async def test_a_code_counts_once(api: ApiHarness) -> None:
    place = await at_provider(api)
    kept = {"Cookie": f"{ATTEMPT}={api.client.cookies[ATTEMPT]}"}
    assert (await api.client.get(place)).status_code == 303
    api.client.cookies.clear()
    again = await api.client.get(place, headers=kept)
    assert again.status_code == 403 and "used already" in again.text and COOKIE not in api.client.cookies


async def test_an_answer_for_another_login_is_none(api: ApiHarness) -> None:
    """Neither one that an attacker began and sends to somebody, nor one with another state or nonce."""
    theirs = await at_provider(api, "u-text")
    api.client.cookies.clear()
    assert (await api.client.get(theirs)).status_code == 403  # no login was begun in this browser
    await at_provider(api)
    assert (await api.client.get(theirs)).status_code == 403
    other_state = await come_back(api, state="x" * 43)
    other_nonce = await come_back(api, nonce="n" * 43)
    assert [each.status_code for each in (other_state, other_nonce)] == [403, 403]
    assert "not begun in this browser" in other_state.text
    assert "cannot be relied upon" in other_nonce.text
    assert COOKIE not in api.client.cookies


async def test_a_code_of_one_login_in_the_answer_of_another_is_refused(api: ApiHarness) -> None:
    """It has the nonce of the login that it was made for, even where a provider does not check its verifier."""
    stolen = dict(parse_qsl(urlsplit(await at_provider(api)).query))["code"]
    mine = dict(parse_qsl(urlsplit(await at_provider(api, "u-text")).query))
    answer = await api.client.get("/login/callback", params={**mine, "code": stolen})
    assert answer.status_code == 403 and COOKIE not in api.client.cookies


async def test_what_is_too_old_is_refused(api: ApiHarness) -> None:
    place = await at_provider(api)
    api.clock.advance(minutes=10)
    assert "took too long" in (await api.client.get(place)).text
    api.clock.advance(hours=1, minutes=5)  # what the provider says holds for an hour of its clock
    expired = await come_back(api)
    assert expired.status_code == 403 and "expired_token" in expired.text and COOKIE not in api.client.cookies


@pytest.mark.parametrize("target", ["https://evil.example", "//evil.example", "/\\evil.example", "/login/callback"])
async def test_it_leads_to_no_other_site(api: ApiHarness, target: str) -> None:
    assert (await come_back(api, next=target)).headers["location"] == "../"


async def test_a_page_with_a_long_address_hinders_no_login(api: ApiHarness) -> None:
    for length in (1900, 3900):
        target = "/letters?q=" + "".join(f"{hash((length, n)) & 15:x}" for n in range(length))
        left = await api.client.get("/login/provider", params={"next": target})
        assert len(left.headers["set-cookie"].partition(";")[0]) < 4096
        back = await come_back(api, next=target)
        assert back.headers["location"] == (f"..{target}" if length < 2000 else "../")


async def test_wrong_answers_are_slowed_down(api: ApiHarness) -> None:
    begun = dict(parse_qsl(urlsplit(await at_provider(api)).query))
    kept = {"Cookie": f"{ATTEMPT}={api.client.cookies[ATTEMPT]}"}
    api.client.cookies.clear()
    statuses = []
    for n in range(8):
        answer = await api.client.get("/login/callback", params={**begun, "code": str(n)}, headers=kept)
        statuses.append(answer.status_code)
    assert statuses == [403] * 6 + [429] * 2


async def test_refusals_of_the_provider_are_told_and_its_markup_is_not_ours(api: ApiHarness) -> None:
    state = dict(parse_qsl(urlsplit(await at_provider(api)).query))["state"]
    refused = await api.client.get("/login/callback", params={"state": state, "error": "<script>x</script>"})
    assert refused.status_code == 403 and "let nobody in" in refused.text and "<script>x" not in refused.text
    state = dict(parse_qsl(urlsplit(await at_provider(api)).query))["state"]
    other = await api.client.get("/login/callback", params={"state": state, "code": "x", "iss": "https://evil.example"})
    assert other.status_code == 403 and "another provider" in other.text


async def test_a_provider_that_is_away_is_told_and_tokens_still_count(issuer: str) -> None:
    async with DeadLetterQueue() as dlq, app_for(dlq, "http://127.0.0.1:1") as http:
        away = await http.get("/login/provider")
        assert away.status_code == 502 and "gives no answer" in away.text and 'name="token"' in away.text
        assert (await http.post("/login", data={"token": TOKENS["operator"]})).status_code == 303
    async with DeadLetterQueue() as dlq, app_for(dlq, f"{issuer}/") as http:  # it calls itself something else
        assert "must be exactly what it calls itself" in (await http.get("/login/provider")).text


async def test_a_server_without_one_says_so(guarded_api: ApiHarness) -> None:
    answer = await guarded_api.client.get("/login/provider", headers=HTML)
    assert answer.status_code == 404 and "server.oidc.issuer is not set" in answer.text


def test_a_cookie_of_a_provider_says_only_what_a_key_has_signed() -> None:
    clock = ManualClock()
    access = Access.of({}, {}, {}, provider_roles=RoleMap(groups=ROLES, source="https://id.example"))
    begun = Sessions(access, clock, ["k" * 32]).begin_for("ann", ["on-call", "x" * 5000])
    assert begun is not None and len(begun[1]) < 300
    assert Sessions(access, clock, ["o" * 32]).find(begun[1]) is None
    found = Sessions(access, clock, ["k" * 32]).find(begun[1])
    assert found is not None and found.actor.name == "ann"


def test_settings_that_cannot_work_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for rules, why in (
        (("http://id.example", "dlq", "", URL), "issuer must be an https"),
        (("https://id.example", "dlq", "", "http://dlq.example"), "console_url must be an https"),
        (("https://id.example?x=1", "dlq", "", URL), "without user, query"),
        (("https://id.example", "", "", URL), "client_id is missing"),
    ):
        with pytest.raises(InvalidInput, match=why):
            ProviderRules(*rules)
    access = Access.of({}, {}, {}, provider_roles=RoleMap(groups=ROLES))
    rules_ = ProviderRules("https://id.example", "dlq", "", URL)
    with pytest.raises(InvalidInput, match="needs roles"):
        create_app(DeadLetterQueue(), provider=rules_)
    with pytest.raises(InvalidInput, match="a provider"):
        create_app(DeadLetterQueue(), access=access)
    monkeypatch.setitem(sys.modules, "authlib.oidc.core", None)
    with pytest.raises(InvalidInput, match=r"pip install 'mahavishnu-dlq\[oidc\]'"):
        create_app(DeadLetterQueue(), access=access, provider=rules_)


async def put_in(issuer: str, groups: list[str]) -> None:
    """Have the provider say that mia is in these groups."""
    claims = {"preferred_username": "mia", "groups": groups}
    async with httpx.AsyncClient() as admin:
        (await admin.put(f"{issuer}/users/u-mia", json=claims)).raise_for_status()


async def test_who_leaves_a_group_is_out_soon_and_a_new_role_counts(api: ApiHarness, issuer: str) -> None:
    """The provider is asked again, with the refresh token that it gave; meanwhile nobody is asked."""
    await put_in(issuer, ["staff"])
    await come_back(api, "u-mia")
    assert await who_is_in(api) == "mia, viewer"
    await put_in(issuer, ["on-call"])
    api.clock.advance(RECHECK - timedelta(seconds=1))
    assert await who_is_in(api) == "mia, viewer"
    api.clock.advance(1)
    assert set(await asyncio.gather(*(who_is_in(api) for _ in range(5)))) == {"mia, operator"}
    await put_in(issuer, ["others"])
    api.clock.advance(RECHECK)
    assert await who_is_in(api) == "nobody"
    await put_in(issuer, ["staff"])
    assert await who_is_in(api) == "nobody", "it is over"


async def test_what_is_kept_open_for_a_session_ends_when_the_provider_is_to_be_asked(
    api: ApiHarness, issuer: str
) -> None:
    """A live connection is opened anew then, and the provider asked on the way."""
    await come_back(api)
    sessions = api.client._transport.app.state.sessions  # type: ignore[attr-defined]
    session = sessions.find(api.client.cookies[COOKIE])
    api.clock.advance(RECHECK - timedelta(seconds=1))
    assert not sessions.is_over(session)
    api.clock.advance(1)
    assert sessions.is_over(session)
    assert await who_is_in(api) == "ann, operator" and not sessions.is_over(session)


async def test_who_was_locked_out_at_the_provider_is_out_soon(api: ApiHarness, issuer: str) -> None:
    await come_back(api)
    async with httpx.AsyncClient() as admin:
        (await admin.post(f"{issuer}/users/u-ann/revoke-tokens")).raise_for_status()
    assert await who_is_in(api) == "ann, operator"
    api.clock.advance(RECHECK)
    assert await who_is_in(api) == "nobody"


async def test_a_server_that_cannot_ask_again_ends_the_session_then(api: ApiHarness, issuer: str) -> None:
    await come_back(api)
    cookie = {"Cookie": f"{COOKIE}={api.client.cookies[COOKIE]}"}
    async with app_for(api.dlq, issuer) as other:
        assert (await other.get("/", headers=cookie)).status_code == 200
        api.clock.advance(RECHECK)
        assert (await other.get("/", headers=cookie)).status_code == 303
    assert await who_is_in(api) == "ann, operator", "the one that has the refresh token goes on"


async def test_while_the_provider_is_away_nobody_is_thrown_out(
    api: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await come_back(api)
    logins = api.client._transport.app.state.sessions.logins  # type: ignore[attr-defined]
    api.clock.advance(RECHECK)
    there = logins.provider._about
    logins.provider._about = (there[0], {**there[1], "token_endpoint": "http://127.0.0.1:1/token"})
    assert await who_is_in(api) == "ann, operator"
    logins.provider._about = there
    api.clock.advance(60)
    assert await who_is_in(api) == "ann, operator"
    api.clock.advance(LIFETIME)
    assert await who_is_in(api) == "nobody"


async def test_a_provider_that_cannot_tell_the_groups_now_does_not_say_that_there_are_none(api: ApiHarness) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 503 Away\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        writer.close()

    provider = api.client._transport.app.state.provider  # type: ignore[attr-defined]
    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        about = {"userinfo_endpoint": f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"}
        with pytest.raises(ProviderProblem) as problem:
            await provider._find_person(about, {"sub": "u-ann"}, {"access_token": "token"})
    assert problem.value.status == 502, "as while it gives no answer: the session goes on"


async def test_a_logout_leads_to_that_of_the_provider(api: ApiHarness, issuer: str) -> None:
    await come_back(api)
    token = (await api.client.get("/")).text.partition('name="form_token" value="')[2].partition('"')[0]
    left = await api.client.post("/logout", data={"form_token": token})
    assert left.status_code == 303 and left.headers["location"].startswith("./logout/provider?key=")
    page = await api.client.get(left.headers["location"][1:])
    place = page.headers["Refresh"].removeprefix("0; url=")
    asked = parse_qs(urlsplit(place).query)
    assert place.startswith(f"{issuer}/oauth2/end_session") and 'href="' + place.replace("&", "&amp;") in page.text
    assert asked["post_logout_redirect_uri"] == [f"{URL}/login"] and asked["id_token_hint"][0].count(".") == 2
    async with httpx.AsyncClient() as browser:
        shown = await browser.get(place)
        done = await browser.post(f"{issuer}/oauth2/end_session/confirm", data={"redirect_uri": f"{URL}/login"})
    assert shown.status_code == 200 and done.headers["location"] == f"{URL}/login"
    again = await api.client.get(left.headers["location"][1:])
    assert (again.status_code, again.headers["location"]) == (303, "../login"), "a key counts once"
    assert await who_is_in(api) == "nobody"
