"""Stores that an earlier version wrote open, read, work and drain as if this one had written them.

The files are what commit 2050105 left behind, see `tests/fixtures/stores_2050105/make.py`: `sqlite.db` and
`opensearch.jsonl` hold every kind of record in every state, `primary.db` and `local.db` are a pair in the middle of an
outage. The JSON files beside them are what that version read in them.
"""

from __future__ import annotations

import gzip
import json
import re
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.engine.breaker import Breakers
from mahavishnu.engine.context import QueueOptions
from mahavishnu.engine.waiting_room import WAITING
from mahavishnu.model.group import GroupView
from mahavishnu.model.query import Query
from mahavishnu.stores.base import Store, scan
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.kinds import KINDS as KINDS_BEFORE
from mahavishnu.stores.letter_document import SCHEMA
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.stores.opensearch import OpenSearchStore
from mahavishnu.stores.sqlite import SQLiteStore
from mahavishnu.testing import FaultyStore, ManualClock
from tests.fixtures.stores_2050105.plain import plain
from tests.opensearch import Servers

BEFORE = (*KINDS_BEFORE, WAITING)  # the kinds that there were then
FOLDER = Path(__file__).parents[1] / "fixtures" / "stores_2050105"
PREFIX = "mahavishnu"
# Columns that came later, in a layout that is written as JSON.
_LATER = "tally_cleared|tally_moved|adapter|unfit|tags|expires_at|bound_for|counted_group|by_group"
LATER_COLUMN = rf"""\[?\\+"({_LATER})\\+"(, \\+"\w+\\+"\])?, """
LAST_COLUMN = r', \[?\\+"namespace\\+"(, \\+"keyword\\+"\])?'  # of records that are no letters
LATER_PARTS = (
    "more_words",
    "task_values",
    "policy_by_verdict",
    "former_fingerprints",
    "captured_task",
    "unfit",
    "typed",
)
LATER_OF_ITEMS = (
    "tally_moved",
    "expires_at",
    "bound_for",
    "source_created_at",
    "counted",
    "counted_group",
    "groups",
    "by_group",
)
SEARCHES: dict[str, dict[str, Any]] = {
    "open": {},
    **{status: {"status": status} for status in ("pending", "retrying", "exhausted", "completed", "archived")},
    "network": {"category": "network", "limit": 20},
    "metadata": {"metadata": {"team": "billing"}},
    "metadata, a number inside": {"metadata": {"deep.er": 7}},
    "a word of the error": {"text": "Überlauf"},
    "a repo": {"repo": "api"},
    "another queue": {"queue": "nightly", "namespace": "tenant-ü"},
    "custom policy": {"policy": "custom:tides"},
    "closed by a person": {"resolution": ["manually_resolved", "cancelled", "permanently_failed"]},
    "reasons": {"reason": ["expired", "queue_item_dead", "manual"]},
}
DEPENDENT = {"dependent", "edited_twice"}  # they wait for other letters
EDITED: Any = (("third_time", {}), ("edited_twice", {}), ("edit_cut_off", {}), ("edited_1", {"queue": "edited"}))


def unpacked(name: str) -> bytes:
    return gzip.decompress((FOLDER / f"{name}.gz").read_bytes())


def file_of(name: str, folder: Path) -> Path:
    """The SQLite file, where it may be changed."""
    path = folder / name
    path.write_bytes(unpacked(name))
    return path


def exact(value: Any) -> str:
    """As text, in which 1, 1.0 and true are three things."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, indent=1)


# --- OpenSearch: the indices as they were


@dataclass(frozen=True)
class OldIndex:
    name: str
    aliases: list[str]
    settings: dict[str, Any]
    mappings: dict[str, Any]
    documents: dict[str, dict[str, Any]]


def old_indices(prefix: str) -> Iterator[OldIndex]:
    """What `opensearch.jsonl` holds, with another prefix."""
    index: OldIndex | None = None
    for line in map(json.loads, unpacked("opensearch.jsonl").decode().splitlines()):
        if "index" in line:
            if index is not None:
                yield index
            names = [name.replace(PREFIX, prefix, 1) for name in (line["index"], *line["aliases"])]
            index = OldIndex(names[0], names[1:], line["settings"], line["mappings"], {})
        else:
            assert index is not None
            index.documents[line["_id"]] = line["_source"]
    assert index is not None
    yield index


def load(cluster: Servers, prefix: str) -> None:
    """Make the indices again, with the same documents under the same ids."""
    for index in old_indices(prefix):
        body = {"settings": index.settings, "mappings": index.mappings, "aliases": {name: {} for name in index.aliases}}
        status, answer = cluster.request("PUT", f"/{index.name}", body)
        assert status == 200, answer
        lines = [part for id_, source in index.documents.items() for part in ({"create": {"_id": id_}}, source)]
        if lines:
            status, answer = cluster.request("POST", f"/{index.name}/_bulk?refresh=true", *lines)
            assert status == 200, answer
            assert not answer["errors"], answer


# --- a store of the version before, whichever it is


@dataclass(frozen=True)
class Old:
    """A store that was written before, what was read in it then, and how to see what is kept without our code."""

    make: Callable[[], Store]
    expected: dict[str, Any]
    rows: Callable[[], dict[str, dict[str, Any]]]
    change: Callable[[str, dict[str, Any]], None]

    @property
    def clock(self) -> ManualClock:
        """At the moment of the last write."""
        return ManualClock(datetime.fromisoformat(self.expected["now"]))

    def queue(self, callback: Any = None) -> DeadLetterQueue:
        options = QueueOptions(callback=callback, breakers=Breakers(threshold=1_000), owner="worker-a")
        dlq = DeadLetterQueue(10_000, store=self.make(), clock=self.clock, options=options)
        dlq.register_backoff("tides", lambda failed: timedelta(hours=6, minutes=12))
        return dlq


def sqlite_rows(path: Path) -> dict[str, dict[str, Any]]:
    """By kind and key: the columns and the body; not the version, which counts up."""
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        known = {kind.name for kind in BEFORE}
        kinds = [name for (name,) in connection.execute("SELECT kind FROM _kinds") if name in known]
        found: dict[str, dict[str, Any]] = {}
        for kind in kinds:
            rows = [dict(row) for row in connection.execute(f'SELECT * FROM "{kind}"')]
            for row in rows:
                no_letter = kind not in ("letters", "history", "waiting")
                for later in (
                    "tally_cleared",
                    "tally_moved",
                    "tags",
                    "unfit",
                    "expires_at",
                    "bound_for",
                    "counted_group",
                    "by_group",
                    *(["namespace"] if no_letter else []),
                ):
                    assert not row.pop(later, None), "there was no such column yet"
                adapter, body = row.pop("adapter", None), json.loads(row["_body"])
                assert adapter in (None, named_adapter(body)), "it was derived"
                assert body.pop("adapter", adapter) == adapter
                for part in (row, body):  # what is written now, earlier code leaves alone
                    if part.get("schema") == SCHEMA:
                        part["schema"] = 1
                row["_body"] = body
            found[kind] = {row.pop("_key"): {**row, "_version": 0} for row in rows}
    return found


def named_adapter(document: dict[str, Any]) -> str:
    """What a document of the version before says about its adapter, without saying so: empty for nothing."""
    if document.get("source_kind", "workflow") == "workflow" and document.get("source_queue"):
        return str(document["source_queue"])
    task = document.get("task")
    name = task.get("adapter") if isinstance(task, dict) else None
    return name if isinstance(name, str) else ""


def opensearch_rows(cluster: Servers, prefix: str) -> dict[str, dict[str, Any]]:
    """By index and id: the document; not the stamp, which is another one for each write."""
    cluster.request("POST", f"/{prefix}_*/_refresh")
    found: dict[str, dict[str, Any]] = {}
    for index in old_indices(prefix):
        status, answer = cluster.request("GET", f"/{index.name}/_search?size=10000")
        assert status == 200, answer
        hits = answer["hits"]["hits"]
        found[index.name] = {hit["_id"]: {**hit["_source"], "store_stamp": None} for hit in hits}
        for document in found[index.name].values():
            words = document.pop("more_words", None)
            document.pop("task_values", None)
            if (adapter := document.pop("adapter", None)) is not None:  # written since
                assert words, "what a text search finds it by, besides its errors"
                assert adapter == named_adapter(document)
                assert document["schema"] == SCHEMA  # which earlier code leaves alone
                document["schema"] = 1
    return found


@pytest.fixture(params=["sqlite", pytest.param("opensearch", marks=pytest.mark.opensearch)])
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Old:
    expected = json.loads(unpacked(f"{request.param}.json"))
    if request.param == "sqlite":
        path = file_of("sqlite.db", tmp_path)

        def change_row(key: str, fields: dict[str, Any]) -> None:
            with closing(sqlite3.connect(path)) as connection, connection:
                row = "UPDATE letters SET _body = json_patch(_body, ?) WHERE _key = ?"
                assert connection.execute(row, (json.dumps(fields), key)).rowcount == 1

        return Old(lambda: SQLiteStore(path, kinds=KINDS), expected, lambda: sqlite_rows(path), change_row)
    cluster: Servers = request.getfixturevalue("opensearch")
    prefix: str = request.getfixturevalue("opensearch_prefix")
    load(cluster, prefix)

    def opened() -> Store:
        return OpenSearchStore(cluster.urls, prefix=prefix, timeout=60, kinds=KINDS)

    def change_document(key: str, fields: dict[str, Any]) -> None:
        path = f"/{prefix}_dlq/_update_by_query?refresh=true"
        body = {
            "query": {"ids": {"values": [key]}},
            "script": {"source": "ctx._source.putAll(params)", "params": fields},
        }
        status, answer = cluster.request("POST", path, body)
        assert (status, answer["updated"]) == (200, 1), answer

    return Old(opened, expected, lambda: opensearch_rows(cluster, prefix), change_document)


async def records(store: Store) -> dict[str, dict[str, Any]]:
    """Every record, by kind and key."""
    return {
        kind.name: {record.key: plain(record) async for record in scan(store.collection(kind), Query(limit=500))}
        for kind in BEFORE
    }


def assert_same_records(found: dict[str, dict[str, Any]], expected: dict[str, dict[str, Any]]) -> None:
    assert {name: sorted(found[name]) for name in found} == {name: sorted(expected[name]) for name in expected}
    for name, kept in expected.items():
        for key, record in kept.items():
            assert exact(found[name][key]) == exact(record), f"{name} {key}"


async def test_every_record_reads_as_it_did(old: Old) -> None:
    before = old.rows()
    async with old.make() as store:
        found = await records(store)
    assert len(found["letters"]) == 315, "else this test would show little"
    assert all(found.values()), "there is something of every kind"
    assert_same_records(found, old.expected["records"])
    assert exact(old.rows()) == exact(before), "nothing was written"


async def test_every_record_is_written_as_it_was(old: Old) -> None:
    before = old.rows()
    async with old.make() as store:
        for kind in BEFORE:
            collection = store.collection(kind)
            kept = [record async for record in scan(collection, Query(limit=500))]
            written = await collection.write(kept)
            assert [record.version for record in kept] != [getattr(record, "version", None) for record in written]
            assert written == kept, kind.name
    assert exact(old.rows()) == exact(before)


async def answers(dlq: DeadLetterQueue) -> dict[str, Any]:
    """What the queue says when it is asked for all namespaces: the version before asked for these."""
    own, limit, dlq = dlq, dlq.max_size, dlq.all_namespaces
    statistics = await dlq.get_statistics()
    assert statistics.pop("namespace") == "*"
    assert statistics["max_size"] is statistics["utilization_percent"] is None
    statistics |= {"max_size": limit, "utilization_percent": round(100 * statistics["queue_size"] / limit, 2)}
    live = [each.name for each in await dlq.workers.list() if each.live]
    assert (statistics.pop("live_workers"), "waiting_for_worker" in statistics) == (len(live), True)
    del (
        statistics["waiting_for_worker"],
        statistics["due_without_worker"],
        statistics["due_in_doubt"],
        statistics["due_unfit"],
    )  # this version says it
    del statistics["storage"]["detail"]  # where the file is, and how many nodes there are
    page = await own.groups.list(quiet=True, limit=100)
    runs = [await dlq.runs.get(run.run_id) for run in (await dlq.runs.list()).items]
    chosen: dict[str, Any] = {"queue": ["odd", "nightly"], "namespace": ["default", "tenant-ü"]}
    letter = await dlq.get_task("edited_twice")
    assert letter is not None
    return {
        "statistics": plain(statistics),
        "statistics_by_reason": plain(await dlq.get_statistics_by_reason()),
        "requeue_outcomes": plain(await dlq.requeues.outcomes()),
        "warnings": [each for each in await dlq.health_warnings() if " due and waiting for " not in each],
        "searches": {name: [each.key for each in await dlq.list_tasks(**where)] for name, where in SEARCHES.items()},
        "letter": without_adapter(letter.to_dict(), None),
        "export": [without_adapter(json.loads(line)) async for line in dlq.transfer.export(**chosen)],
        "groups": {"items": [without_namespace(view) for view in page.items]},
        "group": without_namespace(await own.groups.get(page.items[0].fingerprint)),
        "runs": [plain(run) for run in runs],
        "run_items": {run.run_id: plain((await dlq.runs.items(run.run_id, limit=1000)).items) for run in runs},
        "audit": plain((await dlq.audit.list(limit=1000)).items),
        "audit_of_letter": plain((await dlq.audit.list(subject="letter:urgent")).items),
        "revisions": [
            [without_adapter(each.content(), None) for each in await own.letters.revisions(name, **where)]
            for name, where in EDITED
        ],
        "workers": [name for name in live if name != dlq.context.owner],
        "reply": plain(await dlq.replies.begin("key-1", "digest-1")),
    }


def without_namespace(view: GroupView) -> dict[str, Any]:
    """What was shown of a group before."""
    return {name: value for name, value in view.to_dict().items() if name not in ("namespace", "for_people")}


def without_adapter(shown: dict[str, Any], none: Any = "") -> dict[str, Any]:
    """What was shown before: no adapter, which these do not name, and no tags."""
    assert shown.pop("adapter") == (named_adapter(shown) or none)
    assert shown.pop("tags", []) == []
    if shown.get("schema") == SCHEMA:
        shown["schema"] = 1
    return shown


async def test_the_queue_says_what_it_said(old: Old) -> None:
    async with old.queue() as dlq:
        found = await answers(dlq)
        everywhere = await dlq.all_namespaces.groups.list(quiet=True, limit=100)
    # What was one group is one in each namespace now, and what was said of it stays where it was said.
    apart = {view.fingerprint for view in everywhere.items if view.namespace != "default"}
    assert len(apart) == 2
    lifetime = found["statistics"]["lifetime_stats"]
    for name in lifetime.keys() - old.expected["answers"]["statistics"]["lifetime_stats"].keys():
        assert lifetime.pop(name) == 0, name  # it was not counted yet
    expected = old.expected["answers"]
    assert found.keys() == expected.keys()
    for said in (found, expected):
        said["groups"] = [view for view in said["groups"]["items"] if view["fingerprint"] not in apart]
        said["audit"] = [each for each in said["audit"] if each["subject"].removeprefix("group:") not in apart]
    for name in expected:
        assert exact(found[name]) == exact(expected[name]), name


async def test_the_adapter_of_old_letters_is_known_and_searched_for(old: Old) -> None:
    """They have no field for it: that of a failed workflow is its source's queue, else the task may name one."""
    old.change("came_back", {"source_queue": "sweep"})
    old.change("by_rule", {"task": {"adapter": "mail"}})
    old.change("third_time", {"source_kind": "task", "source_queue": "sweep"})
    async with old.queue() as dlq:
        found = {name: await dlq.get_task(name) for name in ("came_back", "by_rule", "third_time")}
        assert {name: letter and letter.adapter for name, letter in found.items()} == {
            "came_back": "sweep", "by_rule": "mail", "third_time": None,
        }  # fmt: skip
        assert [each.key for each in await dlq.list_tasks(adapter="sweep")] == ["came_back"]
        assert not await dlq.list_tasks(adapter="another")
        edited = await dlq.letters.edit("came_back", adapter="another", redrive=True)
        assert (edited.adapter, edited.source.queue) == ("another", "another"), "which the version before reads"
        assert [each.key for each in await dlq.list_tasks(adapter="another")] == ["came_back"]
        assert not await dlq.list_tasks(adapter="sweep")
        await dlq.letters.edit("by_rule", priority=1)
        assert [each.key for each in await dlq.list_tasks(adapter="mail")] == ["by_rule"]


async def test_old_letters_are_claimed_by_who_can_run_them(old: Old) -> None:
    """They have no field for their adapter, and are found all the same, by those that have it and by no others."""
    old.change("urgent", {"source_queue": "sweep"})
    old.change("not_urgent", {"task": {"adapter": "mail"}})
    async with old.queue() as dlq:
        for adapters, names in ((["other"], []), (["sweep"], ["urgent"]), (["mail", "other"], ["not_urgent"])):
            claims = await dlq.claims.claim("new-worker", limit=500, adapters=adapters)
            assert [claim.letter.task_id for claim in claims] == names
        assert len(await dlq.claims.claim("new-worker", limit=500)) > 3, "there were others"


async def test_work_goes_on_where_it_stopped(old: Old) -> None:
    letters = old.expected["records"]["letters"]
    runs = {run["reason"]: run["run_id"] for run in old.expected["records"]["runs"].values()}
    where: dict[str, Any] = {"queue": "leased"}
    async with old.queue() as dlq:
        # Leases that the version before has given out are settled and answered again by their tokens.
        held = letters["default/leased/leased_3"]["lease"]["token"]
        settled = await dlq.claims.settle("leased_3", held, "succeeded", **where)
        assert (settled.status, settled.resolution.status) == ("completed", "requeued")
        outcome, token = letters["default/leased/leased_1"]["settled"].split()
        again = await dlq.claims.settle("leased_1", token, outcome, error="disk is full", **where)
        assert exact(plain(again)) == exact(letters["default/leased/leased_1"])

        # What is due is handed out, the most urgent first, and what waits for others is not.
        claims = await dlq.claims.claim("new-worker", limit=500, namespace="*")
        names = [claim.letter.task_id for claim in claims]
        assert (names[0], names[-1]) == ("sent", "not_urgent")
        due = {
            letter["task_id"]
            for letter in letters.values()
            if letter["status"] == "pending" and letter["due_at"] and letter["due_at"] <= old.expected["now"]
        }
        assert set(names) == due - DEPENDENT
        assert isinstance(dlq.clock, ManualClock)
        dlq.clock.advance(minutes=30)
        left = {claim.letter.task_id for claim in await dlq.claims.claim("new-worker", limit=500, **where)}
        assert left >= {"leased_4", "leased_5"}, "whose owners were seen to be dead"
        tokens = {claim.letter.task_id: claim.token for claim in claims}
        done = await dlq.claims.settle("urgent", tokens["urgent"], "succeeded")
        failed = await dlq.claims.settle("not_urgent", tokens["not_urgent"], "failed", error="no route to host")
        back = await dlq.claims.settle("sent", tokens["sent"], "released")
        assert (done.status, failed.status, back.status) == ("completed", "pending", "pending")
        assert failed.retry_count == letters["not_urgent"]["retry_count"] + 1
        assert plain(back.due_at) == letters["sent"]["due_at"], "as if nobody had taken it"

        # The run that nobody had begun is planned and moves its letters.
        await dlq.runs.advance()
        run = await dlq.runs.get(runs["nobody has begun with it"])
        assert (run.state, run.counts.members, run.counts.moved) == ("running", 3, 3)

        # A task that fails again starts its next generation, and what was learned of the former ones stays.
        await dlq.letters.resolve("third_time", by="ann")
        error, task = "KeyError: 'id'", {"does": "breaks", "n": 3}
        fourth = await dlq.enqueue("third_time", task, ["web"], error, "never")
        assert (fourth.generation, fourth.previous_entry_id) == (4, letters["third_time"]["entry_id"])

        # What waited for room comes in; and all that is open can be deleted without losing count of anything.
        assert await dlq.intake.admit_waiting() == 2
        before = (await dlq.get_statistics())["lifetime_stats"]
        opened = (await dlq.get_statistics())["queue_size"]
        assert await dlq.clear_all(by="ann") == opened
        after = (await dlq.get_statistics())["lifetime_stats"]
        assert after == {**before, "cleared": before["cleared"] + opened}


async def test_letters_of_the_version_before_are_run(old: Old) -> None:
    ran: list[Any] = []

    async def callback(task: Any, repos: list[str]) -> None:
        ran.append(task)
        if isinstance(task, dict) and task.get("does") == "fails":
            raise ConnectionError("connection refused")

    async with old.queue(callback) as dlq:
        answer = await dlq.retry_task("odd dots", queue="odd", by="ann")
        assert (answer["success"], answer["status"]) == (True, "completed")
        assert exact(ran) == exact([old.expected["records"]["letters"]["default/odd/odd dots"]["payload"]["json"]])
        tides = await dlq.get_task("tides")
        assert tides is not None
        assert tides.due_at == tides.created_at + timedelta(hours=6, minutes=12)
        assert await dlq.run_due() >= 5
        assert not await dlq.list_tasks("pending", due=dlq.clock.now()), "what waits for others was put off"
        urgent, dependent = await dlq.get_task("urgent"), await dlq.get_task("dependent")
        assert urgent is not None
        assert dependent is not None
        assert (urgent.status, dependent.status) == ("completed", "pending")


# --- a new store is like an old one, so that the version before can open it too


async def test_a_new_file_has_the_same_tables(tmp_path: Path) -> None:
    before = file_of("sqlite.db", tmp_path)
    async with SQLiteStore(tmp_path / "new.db", kinds=BEFORE) as store:
        await records(store)  # tables are made when they are first needed

    def layout(path: Path) -> tuple[Any, ...]:
        with closing(sqlite3.connect(path)) as connection:
            names = ("application_id", "user_version", "page_size", "journal_mode")
            numbers = [connection.execute(f"PRAGMA {name}").fetchone() for name in names]
            kinds = connection.execute("SELECT kind, format FROM _kinds ORDER BY kind").fetchall()
            tables = connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY type, name").fetchall()
        # Each version makes the indexes that it needs, and drops others; those of letters begin with the namespace now.
        tables = [
            row for row in tables if not (row[0] == "index" and row[1].startswith(("letters.", "history.", "waiting.")))
        ]
        same = re.sub(LATER_COLUMN, "", json.dumps([kinds, tables]))
        return numbers, json.loads(re.sub(LAST_COLUMN, "", same))

    assert layout(tmp_path / "new.db") == layout(before)


@pytest.mark.opensearch
async def test_new_indices_have_the_same_mappings(opensearch: Servers, opensearch_prefix: str) -> None:
    async with OpenSearchStore(opensearch.urls, prefix=opensearch_prefix, timeout=60, kinds=KINDS) as store:
        for kind in BEFORE:  # an index is made with its first document
            old_documents = json.loads(unpacked("opensearch.json"))["records"][kind.name]
            assert old_documents, kind.name
            await store.collection(kind).index.ensure()
    status, found = opensearch.request("GET", f"/{opensearch_prefix}_*")
    assert status == 200, found
    for index in old_indices(opensearch_prefix):
        now = found[index.name]
        for later in (
            "tally_cleared",
            "captured_digest",
            "merged",
            "queues",
            "folding",
            "adapter",
            "tags",
            "payload_types",
            *("adapters", "takes_all", "remote", "host", "pid", "mark", "ended", "every"),
            *(() if "queue" in index.mappings["properties"] else ["namespace"]),  # letters had one
            *LATER_PARTS,
            *LATER_OF_ITEMS,
        ):
            now["mappings"]["properties"].pop(later, None)  # there was none yet
        assert now["mappings"] == index.mappings, index.name
        assert {name: now["settings"]["index"][name] for name in index.settings} == index.settings
        exact_name = re.compile(re.escape(index.name.removesuffix("-1")) + r"\.[0-9a-f]{12}")
        for aliases in (list(now["aliases"]), index.aliases):
            assert index.name.removesuffix("-1") in aliases
            assert sum(bool(exact_name.fullmatch(alias)) for alias in aliases) == 1
            assert len(aliases) == 2


# --- a pair of stores in the middle of an outage


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[tuple[FallbackStore, FaultyStore]]:
    """The pair as its process left it; the primary store is still away."""
    primary = FaultyStore(SQLiteStore(file_of("primary.db", tmp_path), kinds=KINDS))
    primary.faults.unavailable()
    clock = ManualClock(datetime.fromisoformat(json.loads(unpacked("fallback.json"))["now"]))
    local = SQLiteStore(file_of("local.db", tmp_path), kinds=KINDS)
    async with FallbackStore(primary, local, kinds=KINDS, clock=clock) as store:
        yield store, primary


async def test_what_was_kept_during_an_outage_is_there(pair: tuple[FallbackStore, FaultyStore], tmp_path: Path) -> None:
    store, _ = pair
    expected = json.loads(unpacked("fallback.json"))
    for kind in BEFORE:
        found = [plain(record) for record in (await store.collection(kind).find(Query(limit=500))).items]
        assert exact(found) == exact(expected["away"][kind.name]), kind.name
    marked = {
        key for key, row in sqlite_rows(tmp_path / "local.db")["letters"].items() if "held_uncertain" in row["_body"]
    }
    assert marked == {"landed", "not_landed", "landed_and_done"}, "else this test would show little"
    health = plain(await store.health())
    assert (health["status"], health["waiting"], health["oldest"]) == (
        "degraded",
        expected["health"]["waiting"],
        expected["health"]["oldest"],
    )


async def test_what_was_kept_during_an_outage_goes_home(
    pair: tuple[FallbackStore, FaultyStore], tmp_path: Path
) -> None:
    store, primary = pair
    expected = json.loads(unpacked("fallback.json"))
    primary.faults.clear()
    for drained in expected["drained"]:
        result = await store.drain()
        assert {"moved": result.moved, "waiting": result.waiting} == drained
    await store.close()
    for name in ("primary", "local"):
        async with SQLiteStore(tmp_path / f"{name}.db", kinds=KINDS) as opened:
            found = await records(opened)
            for key, record in found["letters"].items():
                then = expected[f"{name}_after"]["letters"][key]
                if former := record.pop(
                    "former_fingerprints", None
                ):  # since then a letter goes with its latest failure
                    assert former == [then["fingerprint"]]
                    record |= {each: then[each] for each in ("fingerprint", "verdict")}
            assert_same_records(found, expected[f"{name}_after"])


@pytest.mark.parametrize("home", ["memory", pytest.param("opensearch", marks=pytest.mark.opensearch)])
async def test_a_file_of_the_version_before_is_drained(
    home: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    expected = json.loads(unpacked("sqlite.json"))
    primary: Store = MemoryStore()
    if home == "opensearch":
        prefix = request.getfixturevalue("opensearch_prefix")
        primary = OpenSearchStore(request.getfixturevalue("opensearch_url"), prefix=prefix, timeout=60, kinds=KINDS)
    local = SQLiteStore(file_of("sqlite.db", tmp_path), kinds=KINDS)
    clock = ManualClock(datetime.fromisoformat(expected["now"]))
    async with FallbackStore(primary, local, kinds=KINDS, clock=clock) as store:
        while (await store.drain()).waiting:
            pass
        assert_same_records(await records(primary), expected["records"])
    assert not any(sqlite_rows(tmp_path / "sqlite.db").values())
