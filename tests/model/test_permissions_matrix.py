"""Each method of an actor's view of the queue asks for its permission, and keeps to the scope; six principals try."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.engine.context import QueueContext
from mahavishnu.groups.service import Groups
from mahavishnu.model.errors import IllegalMove, InvalidOption, NoSuchLetter, PermissionDenied
from mahavishnu.model.permissions import Principal, Scope
from tests.support.permission_matrix import (
    MAKES,
    METHODS,
    PRINCIPALS,
    Row,
    World,
    call,
    expect,
    methods,
    records_of,
    shared_world,
    sides_of,
    table,
)


@pytest.fixture
async def world() -> World:
    """Everything that there is; each call gets a copy."""
    return await shared_world()


def test_every_method_is_declared() -> None:
    """A new method fails here, until METHODS says which permission it needs."""
    assert set(methods()) == set(METHODS)


@pytest.mark.parametrize("method", METHODS)
async def test_a_method_does_what_the_matrix_says(world: World, method: str) -> None:
    wrong = [each for name in PRINCIPALS for each in await try_as(world, name, METHODS[method])]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("act", MAKES)
async def test_what_an_act_makes_is_in_the_scope(world: World, act: str) -> None:
    name, row = MAKES[act]
    assert await try_as(world, name, row) == []


async def try_as(world: World, name: str, row: Row) -> list[str]:
    """Return what is wrong with the calls of a method by a principal, inside and outside of their scope."""
    wrong = []
    for inside in sides_of(PRINCIPALS[name]):
        outcome, problems = await call(world, name, row, inside=inside)
        if outcome not in (expected := expect(row, PRINCIPALS[name], inside=inside)):
            problems.append(f"is {outcome}, not {' or '.join(sorted(expected))}")
        wrong += [f"{name}, {'inside' if inside else 'outside'}: {problem}" for problem in problems]
    return wrong


async def test_a_deletion_is_of_what_is_seen_whole(world: World) -> None:
    """An admin of one adapter deletes nothing of a letter of another one: neither it, nor its copies and the audit."""
    for name in ("zebra", "zebra-old"):
        home = world.copy()
        ann = home.for_actor(Principal.of_role("ann", "admin", Scope(adapters=frozenset({"billing"}))))
        before = _records_but_audit(home)
        with pytest.raises(NoSuchLetter):
            await ann.deletion.delete_task(name, queue="zebra")
        assert _records_but_audit(home) == before
    assert (await ann.deletion.delete_task("billing")).letters == 1
    assert (await ann.deletion.delete_task("billing-old")).copies == 1


async def test_a_dead_queue_of_a_queue_that_is_not_seen_stays(world: World) -> None:
    home = world.copy()
    await home.queues.update("zebra", dead_queue="mail-dead")
    await home.queues.update("mail", dead_queue=None)
    bob = home.for_actor(Principal.of_role("bob", "admin", Scope(queues=frozenset({"mail", "mail-dead"}))))
    for force in (False, True):
        with pytest.raises(InvalidOption, match="outside of your scope"):
            await bob.queues.delete("mail-dead", force=force)
    assert (await home.queues.get("zebra")).dead_queue == "mail-dead"


async def test_an_item_on_its_way_to_a_queue_that_is_not_seen_is_not_done_twice(world: World) -> None:
    """Whether its copy is there already cannot be told to who does not see that queue."""
    home = world.copy()
    await home.queues.update("mail", dead_queue="zebra-dead", max_attempts=1)
    (lease,) = await home.queues.lease("mail", "w")
    home.queues._moves.finish_move = _late  # type: ignore[method-assign]  # as if the process died here
    await home.queues.retry("mail", lease.item.id, lease.token, dead=True)
    bob = home.for_actor(Principal.of_role("bob", "operator", Scope(queues=frozenset({"mail"}))))
    with pytest.raises(IllegalMove, match="on its way"):
        await bob.queues.resurrect("mail", lease.item.id)


async def test_a_document_is_imported_into_a_namespace_that_is_seen() -> None:
    async with DeadLetterQueue() as there:
        await there.enqueue("e-1", {}, [], "boom", namespace="eu")
        await there.enqueue("d-1", {}, [], "boom")
        lines = [line async for line in there.all_namespaces.transfer.export()]
    async with DeadLetterQueue() as home:
        ann = home.for_actor(Principal.of_role("ann", "operator", Scope(namespaces=frozenset({"default"}))))
        result = await ann.transfer.import_letters(lines)
        assert len(result.taken) == 1
        assert [type(each) for each in result.refused.values()] == [PermissionDenied]
        assert [each.task_id for each in await home.all_namespaces.list_tasks()] == ["d-1"]


async def test_a_worker_is_shown_with_what_it_runs_of_the_scope(world: World) -> None:
    home = world.copy()
    await home.claims.claim("both", adapters=["billing", "zebra"])
    await home.claims.claim("other", adapters=["zebra"])
    ann = home.for_actor(Principal.of_role("ann", "viewer", Scope(adapters=frozenset({"billing"}))))
    shown = {each.name: each.worker and each.worker.adapters for each in await ann.workers.list()}
    assert shown["both"] == ("billing",) and "other" not in shown


@pytest.mark.parametrize(
    ("method", "act"),
    [
        ("letters.redrive", "redrive"),
        ("dlq.run_due", "work"),
        ("dlq.enqueue", "enqueue"),
        ("alerts.test", "alert.test"),
    ],
)
async def test_a_missing_check_is_noticed(world: World, monkeypatch: pytest.MonkeyPatch, method: str, act: str) -> None:
    why_not = Principal.why_not

    def forget(who: Principal, asked: str, *where: Any) -> str | None:
        return None if asked == act else why_not(who, asked, *where)

    assert await try_as(world, "viewer", METHODS[method]) == []
    monkeypatch.setattr(Principal, "why_not", forget)
    assert await try_as(world, "viewer", METHODS[method]) != []


async def test_a_payload_that_is_shown_is_noticed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await try_as(world, "worker", METHODS["letters.find"]) == []
    monkeypatch.setattr(QueueContext, "show", lambda context, letter: letter)
    assert "worker, inside: tells a payload" in await try_as(world, "worker", METHODS["letters.find"])


async def test_a_missing_scope_is_noticed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await try_as(world, "billing", METHODS["letters.redrive"]) == []
    monkeypatch.setattr(Scope, "covers_record", lambda scope, record: True)
    wrong = await try_as(world, "billing", METHODS["letters.redrive"])
    assert wrong == ["billing, outside: is done, not absent or denied"]


def test_the_reference_has_the_matrix() -> None:
    """If this fails, run `python -m tests.support.permission_matrix`."""
    page = Path(__file__).parents[2] / "docs" / "reference-permissions.md"
    assert page.read_text(encoding="utf-8").endswith(f"{table()}\n")


async def test_a_new_method_has_to_be_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Groups, "forget_all", lambda groups: None, raising=False)
    assert set(methods()) - set(METHODS) == {"groups.forget_all"}


def _records_but_audit(home: DeadLetterQueue) -> Any:
    return {key: each for key, each in records_of(home).items() if key[0] != "audit"}


async def _late(letter: object) -> bool:
    return False
