"""Users whom a proxy names: believed from its address only, with a role only, and never against other sites."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import httpx
import pytest

from mahavishnu.core.api import Access, create_app
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.http.auth import Limit
from mahavishnu.http.proxies import Proxies, RoleMap
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.permissions import Scope
from mahavishnu.testing import ManualClock
from tests.support.api import TOKENS, URL, ApiHarness

PROXY, ELSEWHERE = "10.1.2.3", "192.0.2.9"
HTML = {"Accept": "text/html"}
ROLES = RoleMap({"ann": "operator", "jürgen": "viewer"}, {"on-call": "admin"}, {"ann": Limit(scope=Scope())})
Headers = Sequence[tuple[str | bytes, str | bytes]]


@pytest.fixture
async def queue() -> AsyncIterator[DeadLetterQueue]:
    async with DeadLetterQueue(clock=ManualClock()) as made:
        await made.enqueue("wf_1", {}, [], "boom")
        yield made


def client(queue: DeadLetterQueue, peer: str, tokens: bool = False, **more: object) -> httpx.AsyncClient:
    """A client that sends from an address to a server behind the proxy."""
    proxies = Proxies.of([PROXY, "fd00::/8"], ROLES, "X-Remote-User", "X-Remote-Groups")
    access = Access.of({}, {"olga": TOKENS["operator"]} if tokens else {}, {}, proxies=proxies)
    transport = httpx.ASGITransport(create_app(queue, access=access), client=(peer, 4711))
    return httpx.AsyncClient(transport=transport, base_url=URL)


CASES: list[tuple[str, Headers, int]] = [
    (PROXY, [("X-Remote-User", "ann")], 200),
    (PROXY, [("x-REMOTE-user", "ann")], 200),
    (PROXY, [(b"X-Remote-User", "jürgen".encode())], 200),
    (PROXY, [("X-Remote-User", "nobody-known"), ("X-Remote-Groups", "staff, on-call")], 200),
    ("fd00::17", [("X-Remote-User", "ann")], 200),
    (f"::ffff:{PROXY}", [("X-Remote-User", "ann")], 200),
    (ELSEWHERE, [("X-Remote-User", "ann")], 401),
    ("fe80::1", [("X-Remote-User", "ann")], 401),
    ("127.0.0.1", [("X-Remote-User", "ann")], 401),
    ("10.1.2.30", [("X-Remote-User", "ann")], 401),
    (ELSEWHERE, [("X-Remote-User", "ann"), ("X-Forwarded-For", PROXY), ("X-Real-IP", PROXY)], 401),
    (ELSEWHERE, [("X-Remote-User", "ann"), ("Forwarded", f"for={PROXY}")], 401),
    (PROXY, [], 401),
    (PROXY, [("X-Remote-User", "")], 401),
    (PROXY, [("X_Remote_User", "ann")], 401),
    (PROXY, [("X-Remote-Groups", "on-call")], 401),
    (PROXY, [("X-Remote-User", "ANN")], 403),
    (PROXY, [("X-Remote-User", "annabel")], 403),
    (PROXY, [("X-Remote-User", "ann,olga")], 403),
    (PROXY, [("X-Remote-User", "api_user"), ("X-Remote-Groups", "on-call")], 403),
    (PROXY, [("X-Remote-User", "x"), ("X-Remote-Groups", "on-call-team")], 403),
    (PROXY, [("X-Remote-User", "ann"), ("X-Remote-User", "olga")], 400),
    (PROXY, [("X-Remote-User", "ann"), ("x-remote-user", "ann")], 400),
    (PROXY, [("X-Remote-User", "x"), ("X-Remote-Groups", "a"), ("X-Remote-Groups", "on-call")], 400),
    (PROXY, [(b"X-Remote-User", b"j\xfcrgen")], 400),
    (PROXY, [("X-Remote-User", "x" * 201)], 400),
]


@pytest.mark.parametrize(("peer", "headers", "status"), CASES)
async def test_who_is_believed(queue: DeadLetterQueue, peer: str, headers: Headers, status: int) -> None:
    async with client(queue, peer) as http:
        answer = await http.get("/api/v1/dlq", headers=httpx.Headers(headers))  # type: ignore[arg-type]
    assert answer.status_code == status, answer.text


async def test_a_change_needs_the_form_token_also_behind_a_proxy(queue: DeadLetterQueue) -> None:
    """Browsers send the proxy what proves who they are by themselves."""
    user = {"X-Remote-User": "ann"}
    async with client(queue, PROXY) as http:
        page = (await http.get("/letters/wf_1", headers={**HTML, **user})).text
        token = {"X-Form-Token": page.partition('name="form_token" value="')[2].partition('"')[0]}
        assert "ann, operator" in page and "Log out" not in page
        path = "/api/v1/dlq/wf_1/resolve"
        assert (await http.post(path, headers=user)).status_code == 403
        assert (await http.post(path, headers={**user, "Authorization": "Basic YTpi"})).status_code == 403
        assert (await http.post(path, headers={**user, **token, "Sec-Fetch-Site": "cross-site"})).status_code == 403
        others = await http.post(path, headers={"X-Remote-User": "x", "X-Remote-Groups": "on-call", **token})
        assert others.status_code == 403
        assert (await http.post("/logout", headers={**user, **token})).status_code == 409
        assert (await http.post(path, headers={**user, **token})).status_code == 200
    (entry,) = (await queue.audit.list(action="resolve")).items
    assert (entry.actor, entry.role) == ("ann", "operator")


async def test_a_token_counts_before_the_header_and_the_header_before_a_cookie(queue: DeadLetterQueue) -> None:
    async with client(queue, PROXY, tokens=True) as http:
        begun = await http.post("/login", data={"token": TOKENS["operator"]}, headers=HTML)
        assert begun.status_code == 303
        assert "olga, operator" in (await http.get("/", headers=HTML)).text
        assert "ann, operator" in (await http.get("/", headers={**HTML, "X-Remote-User": "ann"})).text
        assert (await http.get("/", headers={**HTML, "X-Remote-User": "eve"})).status_code == 403
        bearer = {"Authorization": f"Bearer {TOKENS['operator']}", "X-Remote-User": "eve"}
        assert (await http.get("/api/v1/dlq", headers=bearer)).status_code == 200


@pytest.mark.parametrize("peer", [PROXY, ELSEWHERE])
async def test_logins_are_slowed_down_by_the_address_that_the_proxy_saw(queue: DeadLetterQueue, peer: str) -> None:
    """A client may write what it likes in front of that; without a proxy, all of the header is the client's."""
    async with client(queue, peer, tokens=True) as http:
        for n in range(7):
            seen = f"203.0.113.{n}, 198.51.100.7" if peer == PROXY else f"198.51.100.{n}"
            failed = await http.post("/login", data={"token": "guess"}, headers={**HTML, "X-Forwarded-For": seen})
        assert failed.status_code == 429 and ("198.51.100.7" if peer == PROXY else peer) in failed.text
        another = {**HTML, "X-Forwarded-For": "198.51.100.8"}
        expected = 403 if peer == PROXY else 429
        assert (await http.post("/login", data={"token": "guess"}, headers=another)).status_code == expected


async def test_the_cookie_is_for_https_where_the_proxy_says_so(queue: DeadLetterQueue) -> None:
    async with client(queue, PROXY, tokens=True) as http:
        form, by = {"token": TOKENS["operator"]}, {"X-Forwarded-Proto": "https"}
        assert "__Host-" in (await http.post("/login", data=form, headers=by)).headers["set-cookie"]
    async with client(queue, ELSEWHERE, tokens=True) as http:
        assert "__Host-" not in (await http.post("/login", data=form, headers=by)).headers["set-cookie"]


async def test_without_tokens_nobody_comes_in_through_a_proxy_on_this_machine(api: ApiHarness) -> None:
    for headers in ({"X-Forwarded-For": "192.0.2.1"}, {"X-Forwarded-For": "127.0.0.1, x"}, {"Forwarded": "for=_a"}):
        assert (await api.get("/dlq", headers=headers)).status_code == 403
    assert (await api.get("/dlq", headers={"X-Forwarded-For": "127.0.0.1"})).status_code == 200


def test_settings_that_would_let_anybody_in_are_refused() -> None:
    for addresses, roles, header, why in (
        (["0.0.0.0/0"], ROLES, "X-G", "every machine"),
        (["10.1.2.3/8"], ROLES, "X-G", "host bits"),
        (["proxy.example"], ROLES, "X-G", "name addresses"),
        ([], ROLES, "X-G", "no addresses"),
        ([PROXY], ROLES, None, "groups_header"),
    ):
        with pytest.raises(InvalidInput, match=why):
            Proxies.of(addresses, roles, groups_header=header)
    with pytest.raises(InvalidInput, match="no role root"):
        RoleMap({"ann": "root"})
    with pytest.raises(InvalidInput, match="eve, who have no token"):
        Access.of({}, {}, {}, {"eve": Limit()}, proxies=Proxies.of([PROXY], RoleMap({"ann": "viewer"})))
