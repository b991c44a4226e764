"""What somebody with a part of the letters is shown: nothing of the others, on any page, route or stream."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator

import httpx
import pytest

from mahavishnu.alerts.rules import AlertRules
from mahavishnu.core.api import Access, create_app
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.engine.context import QueueOptions
from mahavishnu.events.routes import LiveEvent, _is_in
from mahavishnu.http.auth import Limit
from mahavishnu.model.errors import NoSuchGroup, PermissionDenied
from mahavishnu.model.letter_parts import DeadLetterStatus
from mahavishnu.model.permissions import Permission, Principal, Scope
from mahavishnu.testing import ManualClock

HTML = {"Accept": "text/html"}
# Names that nothing of the program has: each stands for the letter, adapter, queue and words of somebody else.
OTHERS = ("zebra-1", "zebraline", "zebraqueue", "zebrawords", "zebranote", "zebraview", "zebrareason")
PEOPLE = {
    "olga": "all-1",
    "ann": "part-22",
    "nora": "nowhere-333",
    "bea": "bare-4444",
    "amy": "part-55555",
    "noel": "blind-666666",
}
LIMITS = {
    "ann": Limit(scope=Scope(adapters=frozenset({"orders"}))),
    "amy": Limit(scope=Scope(adapters=frozenset({"orders"}))),
    "nora": Limit(scope=Scope(namespaces=frozenset({"elsewhere"}))),
    "bea": Limit(frozenset({Permission.VIEW})),
    "noel": Limit(frozenset({Permission.VIEW_PAYLOAD, Permission.RETRY, Permission.EDIT})),  # without `view`
}


@pytest.fixture
async def queue() -> AsyncIterator[DeadLetterQueue]:
    async with DeadLetterQueue(clock=ManualClock()) as made:
        await made.enqueue("own-1", {"n": 1}, [], "connection refused", adapter="orders")
        await made.enqueue("zebra-1", {"secret": "zebrawords"}, [], "no such zebrawords", adapter="zebraline")
        await made.queues.create("zebraqueue")
        await made.letters.edit("zebra-1", priority=4, by="eve", notes="zebrareason")
        letter = await made.get_task("zebra-1")
        assert letter is not None and letter.fingerprint is not None
        await made.groups.update(letter.fingerprint, by="eve", note="zebranote")
        await made.runs.start("redrive", everything=True, by="eve", reason="zebrareason")
        await made.views.save("zebraview", "adapter:zebraline", by="eve")
        made.context.set_rules(AlertRules(log=True, rules=("first_seen",)))
        assert await made.alerts.run() == 2, "of each group"
        yield made


@pytest.fixture
async def http(queue: DeadLetterQueue) -> AsyncIterator[httpx.AsyncClient]:
    access = Access.of({}, {}, PEOPLE, LIMITS)
    transport = httpx.ASGITransport(create_app(queue, access=access))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client


def of(name: str, **more: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {PEOPLE[name]}", **more}


async def everything(http: httpx.AsyncClient, queue: DeadLetterQueue) -> list[tuple[str, dict[str, str]]]:
    """Every path that is read: all of the API's without parts, all pages, and those of what there is."""
    document = (await http.get("/api/v1/openapi.json", headers=of("olga"))).json()
    paths = [path for path, operations in document["paths"].items() if "get" in operations]
    (run,) = (await queue.runs.list()).items
    letter = await queue.get_task("zebra-1")
    assert letter is not None
    known = {
        "task_id": "zebra-1",
        "run_id": run.run_id,
        "fingerprint": str(letter.fingerprint),
        "name": "zebraqueue",
        "queue": "zebraqueue",
    }
    filled = [re.sub(r"{(\w+)}", lambda part: known.get(part[1], "x"), path) for path in paths]
    filled += ["/api/v1/query/suggest?text=adapter:", "/api/v1/dlq?q=zebrawords", "/api/v1/audit?limit=1000"]
    pages = [
        "/",
        "/namespaces",
        "/alerts",
        "/groups",
        "/letters",
        "/runs",
        "/queues",
        "/tasks",
        "/workers",
        "/archive",
        "/audit",
    ]
    pages += [f"/groups/{letter.fingerprint}", "/letters/zebra-1", f"/runs/{run.run_id}", "/queues/zebraqueue"]
    found: list[tuple[str, dict[str, str]]] = [
        (path, {}) for path in filled if not path.endswith("/events") and "/stream" not in path
    ]
    found += [(path, HTML) for path in pages]
    return sorted(found, key=lambda each: "audit" not in each[0])  # before it has what the others ask for here


async def look_at_all_pages(http: httpx.AsyncClient, queue: DeadLetterQueue) -> None:
    """Have somebody who sees all be shown them: what is kept for a few seconds must be given to nobody else."""
    for path, headers in await everything(http, queue):
        if headers:
            assert (await http.get(path, headers=of("olga", **headers))).status_code == 200, path


async def test_everything_shows_the_others_to_who_sees_all(http: httpx.AsyncClient, queue: DeadLetterQueue) -> None:
    """Or else the test below could not fail."""
    shown = ""
    for path, headers in await everything(http, queue):
        answer = await http.get(path, headers=of("olga", **headers))
        assert answer.status_code < 500, path
        shown += answer.text
    assert [word for word in OTHERS if word not in shown] == []


@pytest.mark.parametrize(
    ("name", "before"),
    [("ann", ""), ("nora", ""), ("noel", ""), ("ann", "/ns/default"), ("nora", "/ns/default"), ("noel", "/ns/default")],
)
async def test_nothing_outside_of_the_scope_is_shown(
    http: httpx.AsyncClient, queue: DeadLetterQueue, name: str, before: str
) -> None:
    (run,) = (await queue.runs.list()).items
    letter = await queue.get_task("zebra-1")
    assert letter is not None
    shared = {"zebraqueue", "zebraview"} if name == "ann" else set()  # of the namespace, in which she has letters
    leaks = []
    await look_at_all_pages(http, queue)
    for path, headers in await everything(http, queue):
        answer = await http.get(before + path, headers=of(name, **headers))
        assert answer.status_code < 500, (path, answer.text)
        asked = {word for word in OTHERS if word in path}
        told = re.sub(r"adapter(:|%3A)zebraline", "", answer.text) if name == "ann" else answer.text  # the view's text
        leaks += [(path, word) for word in OTHERS if word in told and word not in asked | shared]
        if run.run_id in answer.text and run.run_id not in path:
            leaks.append((path, "run"))
        if str(letter.fingerprint) in answer.text and str(letter.fingerprint) not in path:
            leaks.append((path, "group"))
    assert not leaks, "\n".join(map(str, leaks))


async def test_alerts_are_told_to_who_sees_all_that_they_are_about(http: httpx.AsyncClient) -> None:
    for name, told in (("olga", 2), ("ann", 0), ("nora", 0), ("noel", 0)):
        for path in ("/api/v1/alerts", "/api/v1/alerts?namespace=*", "/ns/default/api/v1/alerts"):
            assert len((await http.get(path, headers=of(name))).json()) == told, (name, path)
        rules = (await http.get("/api/v1/alerts/rules", headers=of(name))).json()
        assert {each["holding"] for each in rules if each["rule"] == "first_seen"} == {2 if told else None}
        page = (await http.get("/alerts", headers=of(name, **HTML))).text
        assert ("Alerts are told to who sees the whole namespace" in page) is (not told)
        assert "No alert holds" not in page, "that is not known"


async def test_who_may_not_view_acts_on_nothing(http: httpx.AsyncClient, queue: DeadLetterQueue) -> None:
    for path in ("dlq/own-1/redrive", "dlq/own-1/resolve", "dlq/own-1/retry"):
        assert (await http.post(f"/api/v1/{path}", json={}, headers=of("noel"))).status_code in (403, 404), path
    claimed = await http.post("/api/v1/claims", json={"worker": "w"}, headers=of("noel"))
    assert claimed.status_code == 403 and "needs the permission view, and noel has edit, retry" in claimed.text
    letter = await queue.get_task("own-1")
    assert letter is not None and letter.is_open and letter.lease is None


async def test_who_may_not_see_payloads_finds_none_anywhere(http: httpx.AsyncClient, queue: DeadLetterQueue) -> None:
    await queue.enqueue("own-2", {"secret": "okapi"}, [], "boom", adapter="orders", metadata={"also": "okapi"})
    await look_at_all_pages(http, queue)
    for path, headers in await everything(http, queue):
        path = path.replace("zebra-1", "own-2").replace("zebrawords", "okapi")
        answer = await http.get(path, headers=of("bea", **headers))
        assert "okapi" not in answer.text or "okapi" in path, path


async def test_the_same_page_at_the_same_time_is_another_one_for_each(http: httpx.AsyncClient) -> None:
    for path in ("/", "/groups"):
        pages = await asyncio.gather(*(http.get(path, headers=of(name, **HTML)) for name in ("olga", "ann", "nora")))
        assert ["zebrawords" in page.text for page in pages] == [True, False, False]


async def test_what_the_rule_of_the_application_refuses_to_one_is_not_kept_from_another() -> None:
    async def may_act(name: str, act: str) -> bool:
        return name != "bob"

    people = {"olga": PEOPLE["olga"], "bob": "alike-55555"}
    async with DeadLetterQueue(clock=ManualClock(), options=QueueOptions(may_act=may_act)) as made:
        for number in range(4):
            await made.enqueue(f"own-{number}", {"currency": "okapi"}, [], "boom", adapter="orders")
            await made.enqueue(f"other-{number}", {"currency": "rand"}, [], "no such host", adapter="orders")
        letter = await made.get_task("own-1")
        assert letter is not None
        transport = httpx.ASGITransport(create_app(made, access=Access.of({}, {}, people)))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            for name, token in people.items():
                page = await client.get(
                    f"/groups/{letter.fingerprint}", headers={"Authorization": f"Bearer {token}", **HTML}
                )
                assert ("okapi" in page.text) is (name == "olga"), name


async def test_the_navigation_counts_what_is_seen(http: httpx.AsyncClient, queue: DeadLetterQueue) -> None:
    for n in range(7):
        await queue.enqueue(f"more-{n}", {}, [], f"odd flaw {n}", adapter="zebraline")

    async def numbers(name: str) -> str:
        page = (await http.get("/audit", headers=of(name, **HTML))).text
        return page.partition("<nav")[2].partition("</nav>")[0]

    shown = {name: await numbers(name) for name in ("olga", "ann", "nora")}
    assert len({re.sub(r"\s+", " ", each) for each in shown.values()}) == 3


async def test_live_events_are_of_what_is_seen(queue: DeadLetterQueue) -> None:
    part, all_of_it = Scope(adapters=frozenset({"orders"})), Scope(namespaces=frozenset({"default"}))
    for name in ("run", "group"):
        event = LiveEvent("1", name, {"namespace": "default"})
        assert (_is_in(part, event), _is_in(all_of_it, event)) == (False, True)
        assert not _is_in(all_of_it, LiveEvent("1", name, {"namespace": "eu"}))


async def test_who_began_a_run_sees_it(queue: DeadLetterQueue, http: httpx.AsyncClient) -> None:
    begun = await http.post("/api/v1/runs", json={"verb": "archive", "everything": True}, headers=of("ann"))
    assert begun.status_code == 202, begun.text
    runs = (await http.get("/api/v1/runs", headers=of("ann"))).json()
    assert [each["by"] for each in runs] == ["ann"]
    assert len((await http.get("/api/v1/runs", headers=of("olga"))).json()) == 2


async def test_the_audit_of_a_part_has_its_letters_and_ones_own_acts(
    queue: DeadLetterQueue, http: httpx.AsyncClient
) -> None:
    await queue.letters.resolve("own-1", by="eve")
    await http.delete("/api/v1/dlq?everything=true", headers=of("ann"))
    entries = (await http.get("/api/v1/audit", headers=of("ann"))).json()
    assert {(each["actor"], each["action"]) for each in entries} >= {("eve", "resolve")}
    assert {each["actor"] for each in entries if not each["subject"].startswith("letter:")} <= {"ann"}


async def test_what_is_shown_of_a_part_is_kept_from_others_with_the_same_part(
    queue: DeadLetterQueue, http: httpx.AsyncClient
) -> None:
    """Of the audit and of runs, somebody with a part sees their own; two who are alike have pages of their own."""
    started = await http.post("/api/v1/runs", json={"verb": "redrive", "filter": {"q": "own-1"}}, headers=of("ann"))
    assert started.status_code == 202, started.text
    run = started.json()["run_id"]
    for path in ("/", "/runs", "/audit"):
        shown = {name: (await http.get(path, headers=of(name, **HTML))).text for name in ("ann", "amy")}
        assert [name for name, page in shown.items() if run in page] == ["ann"], path


async def test_archived_letters_outside_of_the_scope_are_in_no_number_and_no_export(queue: DeadLetterQueue) -> None:
    for task_id in ("own-1", "zebra-1"):
        await queue.letters.archive(task_id, by="eve")
    letter = await queue.get_task("zebra-1", include_archived=True)
    assert letter is not None and letter.status is DeadLetterStatus.ARCHIVED
    seen = queue.for_actor(Principal.of_role("ann", "admin", Scope(adapters=frozenset({"orders"}))))
    assert [each.task_id for each in (await seen.letters.find(seen.search.query("status:archived"))).items] == ["own-1"]


async def test_who_sees_a_part_changes_no_group_by_looking(queue: DeadLetterQueue) -> None:
    """Of a group whose letters in the scope are all closed, others may be open."""
    await queue.enqueue("both-1", {}, [], "odd flaw", adapter="orders")
    await queue.enqueue("both-2", {}, [], "odd flaw", adapter="zebraline")
    letter = await queue.get_task("both-1")
    assert letter is not None and letter.fingerprint is not None
    before = await queue.groups.update(letter.fingerprint, by="eve", owner="eve")
    await queue.letters.resolve("both-1", by="eve")
    seen = queue.for_actor(Principal.of_role("ann", "admin", Scope(adapters=frozenset({"orders"}))))
    await seen.groups.list(quiet=True)
    shown = await seen.groups.get(letter.fingerprint)
    assert (shown.count, shown.state, shown.owner) == (0, before.state, "eve")
    assert (await queue.groups.get(letter.fingerprint)).version == before.version
    other = await queue.get_task("zebra-1")
    assert other is not None and other.fingerprint is not None
    with pytest.raises(NoSuchGroup):
        await seen.groups.update(other.fingerprint, by="ann", note="mine")
    with pytest.raises(PermissionDenied):
        await seen.groups.release_hold("v1", by="ann")


async def test_what_is_about_the_whole_store_needs_all_of_it(queue: DeadLetterQueue) -> None:
    seen = queue.for_actor(Principal.of_role("ann", "admin", Scope(namespaces=frozenset({"default"}))))
    with pytest.raises(PermissionDenied, match="about the whole store"):
        await seen.integrity.find_unreadable()
    part = queue.for_actor(Principal.of_role("ann", "admin", Scope(adapters=frozenset({"orders"}))))
    with pytest.raises(PermissionDenied, match="about a whole namespace"):
        await part.domain_events.read(consumer="reader")
    names = {family.definition.name for family in await part.telemetry.collect()}
    assert "mahavishnu_dlq_size" in names and "mahavishnu_dlq_circuit_breaker_state" not in names


async def test_who_may_see_another_namespace_finds_it_and_is_shown_and_may_do_nothing_else(
    http: httpx.AsyncClient, queue: DeadLetterQueue
) -> None:
    elsewhere = queue.in_namespace("elsewhere")
    for number in (1, 2):
        await elsewhere.enqueue(f"hers-{number}", {}, [], ValueError("x"), "never", 0)
    listed = (await http.get("/api/v1/query/namespaces", headers=of("nora"))).json()
    assert listed == [{"name": "elsewhere", "open": 2, "for_people": 2}]
    assert "hers-1" in (await http.get("/ns/elsewhere/letters", headers=of("nora", **HTML))).text
    done = await http.post("/ns/elsewhere/api/v1/dlq/hers-1/resolve", headers=of("nora"))
    assert done.status_code == 200, done.text
    refused = await http.post("/ns/default/api/v1/dlq/zebra-1/resolve", headers=of("nora"))
    assert refused.status_code in (403, 404)
    kept = await queue.get_task("zebra-1")
    assert kept is not None and kept.is_open
