"""Verb × role × scope: what somebody may do to which letters, by Python and over HTTP, and that denials are audited."""

from __future__ import annotations

import ast
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

import mahavishnu
from mahavishnu.core.api import Access, create_app
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.engine.context import QueueOptions
from mahavishnu.http.auth import Limit
from mahavishnu.model.errors import InvalidInput, MahavishnuError, NoSuchLetter, NoSuchQueue, PermissionDenied
from mahavishnu.model.permissions import ACT_PERMISSIONS, HIDDEN, ROLE_PERMISSIONS, Permission, Principal, Scope
from mahavishnu.model.query import letter_query
from mahavishnu.testing.letters import make_letter
from tests.support.queues import House

ORDERS = Scope(adapters=frozenset({"orders"}))
Act = Callable[[DeadLetterQueue], Awaitable[Any]]
ACTS: dict[str, tuple[Permission, Act]] = {
    "redrive": (Permission.RETRY, lambda dlq: dlq.letters.redrive("o-1", by="ann")),
    "retry": (Permission.RETRY, lambda dlq: dlq.retry_task("o-1", by="ann")),
    "requeue": (Permission.RETRY, lambda dlq: dlq.requeue_from_dlq("o-1", resolved_by="ann")),
    "claim": (Permission.RETRY, lambda dlq: dlq.claims.claim("w1")),
    "run": (Permission.RETRY, lambda dlq: dlq.runs.start("redrive", everything=True, by="ann")),
    "resolve": (Permission.EDIT, lambda dlq: dlq.letters.resolve("o-1", by="ann")),
    "edit": (Permission.EDIT, lambda dlq: dlq.letters.edit("o-1", priority=3, by="ann")),
    "edit in a run": (
        Permission.EDIT,
        lambda dlq: dlq.runs.start("edit", everything=True, patch={"secret": 1}, by="ann"),
    ),
    "archive many": (Permission.EDIT, lambda dlq: dlq.letters.archive_many(everything=True, by="ann")),
    "enqueue": (Permission.EDIT, lambda dlq: dlq.enqueue("new", {}, [], "boom", adapter="orders")),
    "note": (Permission.EDIT, lambda dlq: _note(dlq)),
    "see the task": (Permission.VIEW_PAYLOAD, lambda dlq: dlq.letters.revisions("o-1")),
    "reveal": (Permission.VIEW_PAYLOAD, lambda dlq: dlq.letters.reveal("o-1", by="ann")),
    "export": (Permission.VIEW_PAYLOAD, lambda dlq: _export(dlq)),
    "delete": (Permission.DELETE, lambda dlq: dlq.deletion.delete_task("o-1", by="ann")),
}


async def _note(dlq: DeadLetterQueue) -> object:
    (group, *_) = (await dlq.groups.list(quiet=True)).items
    return await dlq.groups.update(group.fingerprint, by="ann", note="seen")


async def _export(dlq: DeadLetterQueue) -> list[str]:
    return [line async for line in dlq.transfer.export()]


async def fill(queue: DeadLetterQueue) -> None:
    await queue.enqueue("o-1", {"secret": "s3cret"}, [], "connection refused", adapter="orders")
    await queue.enqueue("b-1", {"secret": "another"}, [], "no such file", adapter="billing")


async def snapshot(queue: DeadLetterQueue) -> list[Any]:
    return sorted((each.key, each.version) for each in await queue.list_tasks(query=letter_query()))


async def denials(queue: DeadLetterQueue) -> list[Any]:
    return [(each.actor, each.why) for each in (await queue.audit.list(action="denied")).items]


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("has", list(Permission))
async def test_an_act_needs_its_permission_and_no_other_one(house: House, act: str, has: Permission) -> None:
    needed, do = ACTS[act]
    queue = house.queue()
    await fill(queue)
    seen = queue.for_actor(Principal("ann", frozenset({Permission.VIEW, has}), role="operator"))
    before = await snapshot(queue)
    if has is needed:
        await do(seen)
        assert await denials(queue) == []
        return
    with pytest.raises(PermissionDenied, match=f"needs the permission .*{needed}"):
        await do(seen)
    assert await snapshot(queue) == before
    ((who, why),) = await denials(queue)
    assert who == "ann" and str(needed) in why


@pytest.mark.parametrize("act", [act for act, (needed, _) in ACTS.items() if needed is not Permission.EDIT])
async def test_a_letter_outside_of_the_scope_is_not_there(any_house: House, act: str) -> None:
    queue = any_house.queue()
    await fill(queue)
    billing = queue.for_actor(Principal.of_role("ann", "admin", Scope(adapters=frozenset({"billing"}))))
    before = [each for each in await snapshot(queue) if each[0] == "o-1"]
    try:
        answer = await ACTS[act][1](billing)
    except MahavishnuError as problem:
        assert isinstance(problem, NoSuchLetter | PermissionDenied)
    else:
        assert "s3cret" not in repr(answer)
        assert not isinstance(answer, dict) or answer["success"] is False
    assert [each for each in await snapshot(queue) if each[0] == "o-1"] == before


async def test_who_sees_one_adapter_sees_its_letters_only(any_house: House) -> None:
    queue = any_house.queue()
    await fill(queue)
    seen = queue.for_actor(Principal.of_role("ann", "viewer", ORDERS))
    assert [each.task_id for each in await seen.list_tasks()] == ["o-1"]
    assert await seen.get_task("b-1") is None
    assert (await seen.get_statistics())["queue_size"] == 1
    assert [each.count for each in (await seen.groups.list(quiet=True)).items] == [1]
    assert [each.task_id for each in (await seen.letters.find(letter_query(text="file"))).items] == []
    assert len(await seen.all_namespaces.list_tasks()) == 1


async def test_a_bulk_run_is_for_what_its_starter_sees(house: House) -> None:
    queue = house.queue()
    await fill(queue)
    seen = queue.for_actor(Principal.of_role("ann", "operator", ORDERS))
    run = await seen.runs.start("archive", everything=True, by="ann")
    while await queue.runs.advance():
        house.clock.advance(60)
    assert (await queue.runs.get(run.run_id)).state == "done"
    assert [each.task_id for each in await queue.list_tasks()] == ["b-1"]


async def test_a_namespace_outside_of_the_scope_is_refused_and_not_shown(any_house: House) -> None:
    queue = any_house.queue()
    await fill(queue)
    await queue.enqueue("e-1", {}, [], "boom", namespace="eu")
    seen = queue.for_actor(Principal.of_role("ann", "operator", Scope(namespaces=frozenset({"eu"}))))
    assert list(await seen.list_tasks()) == []
    assert list(await seen.list_tasks(namespace="default")) == []
    assert [each.task_id for each in await seen.all_namespaces.list_tasks()] == ["e-1"]
    assert [each.task_id for each in await seen.in_namespace("eu").list_tasks()] == ["e-1"]
    with pytest.raises(PermissionDenied, match="outside of the scope of ann"):
        await seen.letters.resolve("o-1", by="ann")
    await seen.letters.resolve("e-1", namespace="eu", by="ann")


async def test_who_may_not_see_payloads_gets_letters_without_them_and_can_retry_them(any_house: House) -> None:
    queue = any_house.queue()
    await fill(queue)
    seen = queue.for_actor(Principal("ann", frozenset({Permission.VIEW, Permission.RETRY})))
    letter = await seen.get_task("o-1")
    assert letter is not None and letter.payload == HIDDEN
    assert list(await seen.list_tasks(text="s3cret")) == [] and len(await queue.list_tasks(text="s3cret")) == 1
    assert len(await seen.list_tasks(text="refused")) == 1
    for text in ("task.secret:s3cret", "-task.secret:s3cret", "(task.secret:s3cret or status:pending)"):
        with pytest.raises(PermissionDenied, match="view-payload"):
            await seen.list_tasks(query=seen.search.query(text))
        assert await queue.list_tasks(query=queue.search.query(text)) is not None
    redriven = await seen.letters.redrive("o-1", by="ann")
    found = (await seen.letters.find(letter_query(adapter="orders"))).items
    for each in (letter, redriven, *await seen.list_tasks(), *found):
        assert "s3cret" not in repr(each)
    kept = await queue.get_task("o-1")
    assert kept is not None and kept.task == {"secret": "s3cret"}


async def test_who_may_not_see_payloads_sees_none_in_tasks_and_in_the_audit(house: House) -> None:
    app = house.app()

    @app.workflow("pay", key="order", track=True)
    async def pay(order: str, secret: str) -> str:
        await app.lifecycle.step("reserve", _reserve, secret)
        raise ConnectionError("connection refused")

    with pytest.raises(ConnectionError):
        await pay("o-1", "s3cret")
    queue = app.dlq
    (letter,) = await queue.list_tasks()
    await queue.letters.edit(letter.task_id, patch={"secret": "s3cret too"}, by="bob")
    access = Access.of({"ann": "t-1"}, {}, {}, {"ann": Limit(frozenset({Permission.VIEW}))})
    async with client(queue, access) as http:
        (task,) = (await http.get("/api/v1/tasks", params={"state": "all"})).json()
        whole = (await http.get(f"/api/v1/tasks/{task['task_id']}")).json()
        audit = (await http.get("/api/v1/audit")).json()
    assert "s3cret" not in repr((task, whole, audit)) and "task/secret" in repr(audit)
    async with client(queue, Access()) as http:
        whole = (await http.get(f"/api/v1/tasks/{task['task_id']}")).json()
    assert "s3cret" in repr(whole["context"]) and "s3cret" in repr(whole["steps"])


async def _reserve(secret: str) -> str:
    return f"reserved with {secret}"


async def test_a_queue_outside_of_the_scope_does_not_exist(house: House) -> None:
    queue = house.queue()
    for name in ("orders", "billing"):
        await queue.queues.create(name)
        await queue.queues.produce(name, {"n": name})
    seen = queue.for_actor(Principal.of_role("ann", "operator", Scope(queues=frozenset({"orders"}))))
    assert [each.name for each in await seen.queues.list()] == ["orders"]
    (lease,) = await seen.queues.lease("orders", "w1")
    assert lease.item.payload == {"n": "orders"}
    with pytest.raises(NoSuchQueue):
        await seen.queues.lease("billing", "w1")
    with pytest.raises(PermissionDenied, match="about a whole namespace"):
        await seen.queues.create("more", by="ann")


async def test_the_rule_of_the_application_is_asked_too_and_refuses_when_it_fails(house: House) -> None:
    asked: list[tuple[str, str]] = []

    async def may_act(name: str, act: str) -> bool:
        asked.append((name, act))
        if act == "resolve":
            raise RuntimeError("the directory is away")
        return act != "redrive"

    queue = house.queue(may_act=may_act)
    await fill(queue)
    seen = queue.for_actor(Principal.of_role("ann", "admin"))
    await seen.letters.edit("o-1", priority=2, by="ann")
    for refused in (seen.letters.redrive, seen.letters.resolve):
        with pytest.raises(PermissionError, match="the application's own rule"):
            await refused("o-1", by="ann")
    assert asked == [("ann", "edit"), ("ann", "redrive"), ("ann", "resolve")]
    await queue.letters.redrive("o-1", by="the application itself")


@pytest.mark.parametrize("wanted", [True, False])
async def test_the_audit_says_who_was_shown_a_payload_if_that_is_wanted(house: House, wanted: bool) -> None:
    queue = house.queue(audit_payload_reads=wanted)
    await fill(queue)
    ann = queue.for_actor(Principal.of_role("ann", "viewer", ORDERS))
    bare = queue.for_actor(Principal("bea", frozenset({Permission.VIEW})))
    assert await ann.get_task("o-1") is not None and await ann.get_task("b-1") is None
    assert await bare.get_task("o-1") is not None and await queue.get_task("o-1") is not None
    assert len(await _export(ann)) == 1
    noted = [(each.actor, each.action, each.subject) for each in (await queue.audit.list()).items]
    assert sorted(noted) == ([("ann", "export", "queue"), ("ann", "read", "letter:o-1")] if wanted else [])


async def test_every_way_to_a_payload_leaves_one_entry(house: House) -> None:
    queue = house.queue(audit_payload_reads=True)
    await fill(queue)
    await queue.letters.edit("o-1", patch={"secret": "new"}, by="bob")
    await queue.queues.create("mail")
    item = await queue.queues.produce("mail", {"n": 1})
    letter = await queue.get_task("o-1")
    assert letter is not None
    ann = queue.for_actor(Principal.of_role("ann", "operator"))
    bea = queue.for_actor(Principal("bea", frozenset({Permission.VIEW, Permission.RETRY})))
    every = ann.all_namespaces
    ways: dict[str, Awaitable[Any]] = {
        "letter:o-1 get": ann.get_task("o-1"),
        "letter:o-1 get of all": every.get_task("o-1"),
        "letter:o-1 revisions": ann.letters.revisions("o-1"),
        "letter:o-1 edit": ann.letters.preview_edit("o-1", patch={"secret": 1}),
        "letters list": ann.list_tasks(),
        "letters list of all": every.list_tasks(),
        "letters find": ann.letters.find(ann.search.query("task.secret:new")),
        "letters run": ann.runs.preview("redrive", everything=True),
        "queue export": _export(ann),
        f"group:{letter.fingerprint} common": ann.groups.commonalities(str(letter.fingerprint)),
        "queue:mail items": ann.queues.items("mail"),
        f"letter:default@mail/mail/{item.id} item": ann.queues.item("mail", item.id),
        "queue:mail lease": ann.queues.lease("mail", "w1"),
    }
    for way, asked in ways.items():
        before = len((await queue.audit.list(actor="ann", limit=1000)).items)
        await asked
        entries = (await queue.audit.list(actor="ann", limit=1000)).items
        assert len(entries) == before + 1, way
        assert entries[0].subject == way.split(" ")[0], way
        house.clock.advance(1)
    entries = (await queue.audit.list(actor="ann", limit=1000)).items
    (found,) = [each for each in entries if "secret=new" in repr(each.changes.value)]
    assert found.changes.value["count"] == {"after": 1} and found.changes.value["query"]
    house.clock.advance(3600)
    claims = await bea.claims.claim("w2", limit=5)  # who works gets payloads, also without the permission to look
    (entry,) = (await queue.audit.list(actor="bea")).items
    assert (entry.action, entry.subject, entry.changes.value["count"]) == ("claim", "worker:w2", {"after": len(claims)})
    nothing = len((await queue.audit.list(limit=1000)).items)
    for quiet in (bea.list_tasks(), bea.get_task("o-1"), bea.runs.preview("redrive", everything=True)):
        assert "s3cret" not in repr(await quiet)
    assert (await ann.letters.find(letter_query(), payloads=False)).items[0].payload == HIDDEN
    assert list(await ann.list_tasks(text="there is none")) == [] and await ann.get_task("none") is None
    assert len((await queue.audit.list(limit=1000)).items) == nothing


async def test_two_readers_of_one_page_are_two_entries(house: House) -> None:
    queue = house.queue(audit_payload_reads=True)
    await fill(queue)
    letter = await queue.get_task("o-1")
    assert letter is not None
    access = Access.of({"ann": "t-1", "bob": "t-2"}, {}, {})
    async with client(queue, access) as http:
        for path in ("/api/v1/dlq", f"/groups/{letter.fingerprint}", "/letters/o-1"):
            for name, token in (("ann", "t-1"), ("bob", "t-2")):
                before = len((await queue.audit.list(actor=name, limit=1000)).items)
                headers = {"Authorization": f"Bearer {token}", "Accept": "*/*" if "api" in path else "text/html"}
                assert (await http.get(path, headers=headers)).status_code == 200
                assert len((await queue.audit.list(actor=name, limit=1000)).items) > before, (path, name)


async def test_who_was_shown_what_a_lifecycle_task_was_given_is_in_the_audit(house: House) -> None:
    app = house.app(server={"audit_payload_reads": True})
    task = await app.lifecycle.create("ship", {"secret": "s3cret"})
    limited = {"bea": Limit(frozenset({Permission.VIEW}))}
    access = Access.of({"ann": "t-1", "bea": "t-2"}, {}, {}, limited)
    async with client(app.dlq, access) as http:
        for path, subject in (
            ("/api/v1/tasks", "tasks"),
            (f"/api/v1/tasks/{task.task_id}", f"task:{task.task_id}"),
            (f"/tasks/{task.task_id}", f"task:{task.task_id}"),
        ):
            for token in ("t-1", "t-2"):
                headers = {"Authorization": f"Bearer {token}", "Accept": "*/*" if "api" in path else "text/html"}
                shown = await http.get(path, headers=headers)
                assert shown.status_code == 200 and ("s3cret" in shown.text) is (token == "t-1"), path
            entry, *former = (await app.dlq.audit.list()).items
            assert (entry.actor, entry.action, entry.subject) == ("ann", "read", subject), path
            assert all(each.actor == "ann" for each in former)
            house.clock.advance(1)
    assert len((await app.dlq.audit.list()).items) == 3


def test_options_have_the_rule() -> None:
    assert QueueOptions().may_act is None


def test_every_act_in_the_code_has_a_permission() -> None:
    """A new act is one that only admins may do until somebody says what it needs."""
    acts = set()
    for path in Path(mahavishnu.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in ("record", "require")
                and "audit" in ast.unparse(node.func)
                and node.args
                and isinstance(node.args[0], ast.Constant)
            ):
                acts.add(node.args[0].value)
    assert len(acts) > 15
    assert acts - ACT_PERMISSIONS.keys() == set()


@pytest.mark.parametrize("role", ROLE_PERMISSIONS)
@pytest.mark.parametrize(
    ("method", "path", "body", "needed"),
    [
        ("POST", "/dlq/o-1/redrive", {}, Permission.RETRY),
        ("PATCH", "/dlq/o-1", {"priority": 2}, Permission.EDIT),
        ("POST", "/dlq/o-1/resolve", {}, Permission.EDIT),
        ("DELETE", "/dlq/o-1", None, Permission.DELETE),
        ("GET", "/dlq/export", None, Permission.VIEW_PAYLOAD),
        ("GET", "/dlq/o-1/revisions", None, Permission.VIEW_PAYLOAD),
    ],
)
@pytest.mark.parametrize("limited_to", [None, "view", "retry", "edit"])
async def test_http_asks_the_same(
    house: House, role: str, method: str, path: str, body: Any, needed: Permission, limited_to: str | None
) -> None:
    queue = house.queue()
    await fill(queue)
    may = ROLE_PERMISSIONS[role]
    limit = Limit() if limited_to is None else Limit(frozenset({Permission.VIEW, Permission(limited_to)}))
    expected = may if limit.permissions is None else may & limit.permissions
    tokens: dict[str, dict[str, str]] = {name: {} for name in ROLE_PERMISSIONS} | {role: {"ann": "t-1"}}
    access = Access.of(tokens["viewer"], tokens["operator"], tokens["admin"], {"ann": limit})
    async with client(queue, access) as http:
        answer = await http.request(method, f"/api/v1{path}", json=body)
    assert (answer.status_code < 300) is (needed in expected), answer.text
    if needed not in expected:
        assert answer.status_code == 403
        assert [who for who, _ in await denials(queue)] == ["ann"]


async def test_http_shows_each_what_they_see_also_at_the_same_time(house: House) -> None:
    queue = house.queue()
    await fill(queue)
    people = {"ann": "t-1", "bob": "t-2", "eve": "t-3"}
    limits = {
        "ann": Limit(scope=ORDERS),
        "bob": Limit(frozenset({Permission.VIEW})),
        "eve": Limit(scope=Scope(namespaces=frozenset({"elsewhere"}))),
    }
    async with client(queue, Access.of(people, {}, {}, limits)) as http:
        shown = {}
        for name, token in people.items():
            headers = {"Authorization": f"Bearer {token}"}
            shown[name] = (await http.get("/api/v1/dlq", headers=headers)).json()
            assert (await http.get("/api/v1/dlq/b-1", headers=headers)).status_code == (200 if name == "bob" else 404)
    assert [each["task_id"] for each in shown["ann"]] == ["o-1"]
    assert sorted(each["task_id"] for each in shown["bob"]) == ["b-1", "o-1"]
    assert "s3cret" in repr(shown["ann"]) and "s3cret" not in repr(shown["bob"])
    assert shown["eve"] == []


def client(queue: DeadLetterQueue, access: Access) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(create_app(queue, access=access))
    return httpx.AsyncClient(transport=transport, base_url="http://localhost", headers={"Authorization": "Bearer t-1"})


async def test_what_is_done_in_another_namespace_is_judged_by_that_one(any_house: House) -> None:
    queue = any_house.queue()
    await queue.enqueue("e-1", {"secret": 1}, [], "boom", namespace="eu", adapter="orders")
    await queue.letters.edit("e-1", patch={"secret": 2}, namespace="eu", by="bob")
    await queue.enqueue("d-1", {"secret": 1}, [], "boom", adapter="orders")
    for each in (queue, queue.in_namespace("eu")):
        await each.queues.create("mail")
        await each.queues.produce("mail", {"n": each.namespace})
    eu = queue.for_actor(Principal.of_role("ann", "operator", Scope(namespaces=frozenset({"eu"}))))
    home = queue.for_actor(Principal.of_role("bea", "operator", Scope(namespaces=frozenset({"default"}))))
    for refused in (eu.claims.claim("w1"), home.claims.claim("w1", namespace="eu")):
        with pytest.raises(PermissionDenied, match="outside of the scope"):
            await refused
    for seen in (home, home.in_namespace("eu")):
        with pytest.raises(PermissionDenied, match="outside of the scope of bea"):
            await seen.letters.revisions("e-1", namespace="eu")
    with pytest.raises(PermissionDenied, match="about namespace 'eu'"):
        await home.in_namespace("eu").queues.lease("mail", "w1")
    assert len(await eu.letters.revisions("e-1", namespace="eu")) == 1
    any_house.clock.advance(3600)
    (claim,) = await eu.claims.claim("w1", namespace="eu")
    assert claim.letter.task_id == "e-1"
    await eu.claims.settle("e-1", claim.token, "succeeded", namespace="eu")
    (lease,) = await eu.in_namespace("eu").queues.lease("mail", "w1")
    assert lease.item.payload == {"n": "eu"}
    denied = (await queue.all_namespaces.audit.list(action="denied")).items
    assert sorted((each.actor, each.namespace or "default") for each in denied) == [
        ("ann", "default"), ("bea", "eu"), ("bea", "eu"), ("bea", "eu"), ("bea", "eu"),
    ]  # fmt: skip


@pytest.mark.parametrize("scope", [ORDERS, Scope(queues=frozenset({"default"}))])
async def test_numbers_that_are_of_all_are_not_told_to_who_sees_a_part(any_house: House, scope: Scope) -> None:
    queue = any_house.queue(max_size=3)
    await fill(queue)
    await queue.letters.resolve("o-1", by="bob")
    await queue.enqueue("o-1", {}, [], "boom", adapter="orders")
    await queue.context.waiting.keep(make_letter(task_id="late", adapter="billing"))
    ann = queue.for_actor(Principal.of_role("ann", "viewer", scope))
    whole, part = await queue.get_statistics(), await ann.get_statistics()
    assert (whole["waiting"], whole["lifetime_stats"]["manually_resolved"], whole["max_size"]) == (1, 1, 3)
    assert whole["storage"]["kept_locally"] == 0
    assert (part["waiting"], part["lifetime_stats"], part["max_size"]) == (None, {}, None)
    assert part["storage"]["kept_locally"] is part["storage"]["oldest"] is None
    assert part["queue_size"] == (1 if scope is ORDERS else 2)
    assert isinstance(await ann.health_warnings(part), list)
    told = {each.definition.name for each in await ann.telemetry.collect()}
    everything = {each.definition.name for each in await queue.telemetry.collect()}
    left_out = {"mahavishnu_dlq_waiting", "mahavishnu_tasks_moved_to_dlq_total", "mahavishnu_dlq_kept_locally"}
    assert told.isdisjoint(left_out) and left_out <= everything
    spaces = queue.for_actor(Principal.of_role("bea", "viewer", Scope(namespaces=frozenset({"default"}))))
    numbers = await spaces.get_statistics()
    assert (numbers["waiting"], numbers["lifetime_stats"]["manually_resolved"]) == (1, 1)


async def test_the_numbers_of_a_queue_are_told_to_who_sees_it(any_house: House) -> None:
    queue = any_house.queue()
    await queue.queues.create("orders")
    await queue.queues.produce("orders", {})
    for scope, size, ever in (
        (Scope(queues=frozenset({"orders"})), 1, 1),
        (Scope(queues=frozenset({"billing"})), 0, None),
        (ORDERS, 0, None),
    ):
        numbers = await queue.for_actor(Principal.of_role("ann", "viewer", scope)).queues.numbers("orders")
        assert (numbers["queue_size"], numbers["lifetime_stats"].get("enqueued_total")) == (size, ever)


async def test_a_misspelled_place_is_told_the_right_one_to_who_sees_payloads(house: House) -> None:
    """Names in a task may be values, too: of customers, of files."""
    queue = house.queue()
    await fill(queue)
    may = {Permission.VIEW, Permission.EDIT, Permission.RETRY}
    blind = queue.for_actor(Principal("bea", frozenset(may)))
    sees = queue.for_actor(Principal("ann", frozenset(may | {Permission.VIEW_PAYLOAD})))
    for who, told in ((blind, False), (sees, True)):
        for patch in ({"secreet": 1}, {"other": 1}):
            for attempt in (
                who.letters.edit("o-1", patch=patch, by="x"),
                who.runs.start("edit", everything=True, patch=patch, by="x"),
            ):
                with pytest.raises(InvalidInput, match="create=True") as refused:
                    await attempt
                assert ("/task/secret" in str(refused.value).replace("/task/secreet", "")) is told
        preview = await who.runs.preview("edit", everything=True, patch={"secreet": 1})
        assert ("did you mean" in str(preview.refused)) is told
