"""Stores that were written before there were the archive, named queues, lifecycle tasks and domain events.

They are what commit c7b0d03 left behind, see `tests/fixtures/stores_c7b0d03/make.py`: a SQLite file, and the documents
of OpenSearch's indices, with what that version read in them. Nothing of it is lost, and all of the new works on it.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.core.dead_letter_queue import KINDS
from mahavishnu.core.queue.ledger import Ledger
from mahavishnu.engine.waiting_room import WAITING
from mahavishnu.model.errors import NoSuchLetter
from mahavishnu.model.json_value import Json
from mahavishnu.model.letter_parts import ResolutionStatus
from mahavishnu.model.query import Query
from mahavishnu.stores.base import Store, scan
from mahavishnu.stores.kinds import KINDS as KINDS_BEFORE
from mahavishnu.stores.opensearch import OpenSearchStore
from mahavishnu.stores.sqlite import SQLiteStore
from mahavishnu.testing import ManualClock
from tests.opensearch import Servers
from tests.unit.queues import Runs, sound

FOLDER = Path(__file__).parents[1] / "fixtures" / "stores_c7b0d03"
PREFIX = "mahavishnu"
EMPTY: tuple[Any, ...] = (None, 0, False, "", [], {}, "null")


def unpacked(name: str) -> bytes:
    return gzip.decompress((FOLDER / f"{name}.gz").read_bytes())


@dataclass(frozen=True)
class Old:
    """A store that was written before, and what was read in it then."""

    make: Callable[[], Store]
    expected: dict[str, Any]

    def app(self) -> MahavishnuApp:
        """At the moment of the last write."""
        clock = ManualClock(datetime.fromisoformat(self.expected["now"]))
        return MahavishnuApp(MahavishnuSettings(dlq_store_url="memory:"), store=self.make(), clock=clock)


def load(cluster: Servers, indices: list[dict[str, Any]], prefix: str) -> None:
    """Make the indices again under another prefix, with the same documents under the same ids."""
    for index in indices:
        name, *aliases = (each.replace(PREFIX, prefix, 1) for each in (index["name"], *index["aliases"]))
        body = {
            "settings": index["settings"],
            "mappings": index["mappings"],
            "aliases": {each: {} for each in aliases},
        }
        status, answer = cluster.request("PUT", f"/{name}", body)
        assert status == 200, answer
        if index["documents"]:
            lines = [part for id_, source in index["documents"].items() for part in ({"create": {"_id": id_}}, source)]
            status, answer = cluster.request("POST", f"/{name}/_bulk?refresh=true", *lines)
            assert (status, answer["errors"]) == (200, False), answer


@pytest.fixture(params=["sqlite", pytest.param("opensearch", marks=pytest.mark.opensearch)])
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Old:
    expected = json.loads(unpacked(f"{request.param}.json"))
    if request.param == "sqlite":
        path = tmp_path / "letters.db"
        path.write_bytes(unpacked("sqlite.db"))
        return Old(lambda: SQLiteStore(path, kinds=KINDS), expected)
    cluster: Servers = request.getfixturevalue("opensearch")
    prefix: str = request.getfixturevalue("opensearch_prefix")
    load(cluster, expected.pop("indices"), prefix)
    return Old(lambda: OpenSearchStore(cluster.urls, prefix=prefix, timeout=60, kinds=KINDS), expected)


def plain(value: Any) -> Any:
    """A record as JSON, field by field."""
    if isinstance(value, Json):
        return {"json": value.value}
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value) if each.name != "version"}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(each) for each in value]
    return value


def assert_kept(found: Any, kept: Any, where: str) -> None:
    """What was there is there as it was; what came later is empty."""
    if isinstance(found, dict) and isinstance(kept, dict):
        assert kept.keys() <= found.keys(), where
        for name, value in found.items():
            if name in kept:
                assert_kept(value, kept[name], f"{where}.{name}")
            else:
                assert value in EMPTY, f"{where}.{name} is {value!r}"
    elif isinstance(found, list) and isinstance(kept, list) and len(found) == len(kept):
        for number, (one, other) in enumerate(zip(found, kept, strict=True)):
            assert_kept(one, other, f"{where}[{number}]")
    else:
        assert (type(found), found) == (type(kept), kept), where


async def test_every_record_reads_as_it_did(old: Old) -> None:
    async with old.app() as app:
        dlq = app.dlq
        for kind in (*KINDS_BEFORE, WAITING):
            if (kept := old.expected["records"].get(kind.name)) is None:
                continue
            found = {record.key: plain(record) async for record in scan(dlq.store.collection(kind), Query(limit=500))}
            assert found.keys() == kept.keys(), kind.name
            for key, record in kept.items():
                assert_kept(found[key], record, f"{kind.name} {key}")
        stats = await dlq.all_namespaces.get_statistics()
        assert_kept({name: stats[name] for name in old.expected["statistics"]}, old.expected["statistics"], "numbers")
        lines = plain(list(await dlq.all_namespaces.dashboard.dlq()))
        assert lines == old.expected["by_reason"]
        assert len(old.expected["records"]["letters"]) > 30, "else this test would show little"


async def test_a_new_store_of_each_kind_is_empty(old: Old) -> None:
    async with old.app() as app:
        dlq = app.dlq.all_namespaces
        assert await dlq.dashboard.staleness() == []
        assert await dlq.dashboard.archive() == []
        assert list((await dlq.archive.list()).items) == []
        assert list((await app.lifecycle.list("all")).items) == []
        assert list(await app.dlq.queues.list()) == []
        assert list((await app.events.read()).events) == []


async def test_old_letters_are_archived_restored_and_deleted(old: Old) -> None:
    async with old.app() as app:
        dlq, clock = app.dlq, app.dlq.clock
        assert isinstance(clock, ManualClock)
        before = (await sound(dlq))["lifetime_stats"]
        letters = {letter.task_id: letter async for letter in scan(dlq.context.letters, Query())}
        leaving = {
            name
            for name, letter in letters.items()
            if letter.resolution.status in (ResolutionStatus.MANUALLY_RESOLVED, ResolutionStatus.REQUEUED)
        }
        assert len(leaving) > 10
        await Ledger(dlq.context).fold_closed()
        clock.advance(timedelta(days=400))
        result = await dlq.archive.archive_completed_tasks(dry_run=False)
        assert (result.tasks_archived, result.steps_archived, result.failed) == (len(leaving), 2, {})
        assert (await sound(dlq))["lifetime_stats"] == before
        case = await dlq.archive.show("again")
        assert (case.letter, len(case.former), len(case.revisions)) == (letters["again"], 2, 3)
        restored = await dlq.archive.restore("again", by="ann")
        assert (restored.task_id, restored.generation, restored.payload) == ("again", 3, letters["again"].payload)
        assert (await sound(dlq))["lifetime_stats"] == before
        for name in ("again", "closed_00", "closed_01", "open_0"):  # restored, archived, closed, open
            await dlq.deletion.delete_task(name, by="ann")
            with pytest.raises(NoSuchLetter):
                await dlq.archive.show(name)
        after = (await sound(dlq))["lifetime_stats"]
        assert after["enqueued_total"] == before["enqueued_total"]
        (month, *_) = [line for line in await dlq.dashboard.archive() if line["tasks_archived"]]
        assert month["archive_size"] > 0


async def test_old_letters_are_run_with_their_values(old: Old) -> None:
    called: list[Any] = []
    async with old.app() as app:

        @app.workflow(name="charge", key="order")
        async def charge(order: int, amount: Decimal, due: date) -> None:
            called.append((order, amount, due))

        assert (await app.dlq.retry_task("charge:1"))["success"]
        assert called == [(1, Decimal("12.50"), date(2026, 3, 2))]
        assert isinstance(app.dlq.clock, ManualClock)
        app.dlq.clock.advance(timedelta(minutes=1))  # the letter's clock is another machine's, and may differ by less
        await charge(2, Decimal("12.50"), due=date(2026, 3, 3))
        await app.dlq.closing.finish()
        closed = await app.dlq.get_task("charge:2")
        assert closed is not None
        assert closed.resolution.status is ResolutionStatus.MANUALLY_RESOLVED, "the app has done it since"


async def test_queues_tasks_and_events_work_on_it(old: Old) -> None:
    async with old.app() as app:
        dlq, clock = app.dlq, app.dlq.clock
        assert isinstance(clock, ManualClock)
        await dlq.queues.create("dead")
        await dlq.queues.create("orders", dead_queue="dead", retry={"attempts": 1})
        await dlq.queues.produce("orders", {"n": 1})
        await dlq.queues.produce("orders", {"n": 2})
        first, second = await dlq.queues.lease("orders", "me", limit=2)
        await dlq.queues.complete("orders", first.item.id, first.token)
        await dlq.queues.retry("orders", second.item.id, second.token, error="boom")
        assert [item.payload for item in (await dlq.queues.items("dead")).items] == [{"n": 2}]

        @app.workflow(name="import", track=True)
        async def load_rows() -> None:
            raise ConnectionError("connection refused")

        with pytest.raises(ConnectionError):
            await load_rows()
        (failed,) = (await app.lifecycle.list("error")).items
        assert failed.work_id is not None
        letter = await dlq.get_task(failed.work_id)
        assert letter is not None
        assert letter.is_open
        await app.lifecycle.create("hangs")
        clock.advance(timedelta(days=30))
        (row,) = await app.lifecycle.detect_and_transition_stale_tasks(dry_run=False)
        assert (row["task_name"], row["moved_to_dlq"]) == ("hangs", True)
        assert "worker_unavailable" in {line["dlq_reason"] for line in await dlq.dashboard.dlq()}

        stored = await app.events.publish("order.packed", {"n": 1}, mode="durable")
        assert stored is not None
        (event,) = (await app.events.read()).events
        assert event.name == "order.packed"
        await sound(dlq)


async def test_work_under_way_goes_on(old: Old) -> None:
    lease = old.expected["records"]["letters"]["default/leased/leased"]["lease"]
    async with old.app() as app:
        dlq = app.dlq
        settled = await dlq.claims.settle("leased", lease["token"], "succeeded", queue="leased")
        assert settled.resolution.status is ResolutionStatus.REQUEUED
        await dlq.runs.advance()
        (run,) = (await dlq.runs.list()).items
        assert run.counts.moved == 1
        await dlq.start_retry_processor(runs := Runs())
        await dlq.stop_retry_processor()
        assert (await dlq.retry_task("exhausted"))["success"]
        assert [task for task, _ in runs.calls] == [{"does": "fails"}]
        (group,) = [each for each in (await dlq.groups.list(quiet=True)).items if each.owner == "ann"]
        assert [note["text"] for note in group.to_dict()["notes"]] == ["known"]
        await sound(dlq)
