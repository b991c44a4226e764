"""Python, the command line and HTTP give the same answers, on many letters, and they are the right ones.

What is right is worked out from the letters that were written, with loops.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from subprocess import run
from typing import Any

import httpx
import pytest

from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.model import query as queries
from mahavishnu.model.clock import instant, instant_text
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import (
    DeadLetterStatus,
    DlqReason,
    ErrorCategory,
    Resolution,
    ResolutionStatus,
    RetryPolicy,
)
from mahavishnu.stores.base import Cursor
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.urls import open_store
from mahavishnu.testing import make_letter
from tests.support.node import CLOCK
from tests.support.opensearch import Servers
from tests.support.server import Server, environment_for, served

# Items of named queues have the other one while they wait, and are no letters among all namespaces.
REASONS = [each for each in DlqReason if each is not DlqReason.QUEUED]
FEW, MANY, CHUNK = 10_000, 100_000, 5_000
SETTINGS = {"DLQ_MAX_SIZE": "100000"}
GROUPS = 397
_WORDS = ("timeout", "checkout", "refused", "quota", "socket", "ledger", "pänik", "unknown", "host", "schema", "disk")
# What the machine does with a letter, and how its case ended.
_STATES = (
    ("pending", "pending"), ("exhausted", "pending"), ("retrying", "pending"), ("exhausted", "permanently_failed"),
    ("completed", "requeued"), ("completed", "manually_resolved"), ("archived", "cancelled"), ("pending", "pending"),
)  # fmt: skip
_NEWEST, _OLDEST = queries.NEWEST_FIRST, (queries.Sort("created_at"),)


def letter(number: int, now: datetime) -> DeadLetter:
    """Half an hour away from every full one, so that no count by the hour changes while the test looks.

    Those that are closed are so for half an hour: after an hour they are added up, in the midst of which the numbers
    that another process reads in an index may be off for a moment.
    """
    mix = number * 2654435761 % 2**32 // 7  # the same at each run, without a pattern between the fields
    status, ended = _STATES[mix % 8]
    since = timedelta(hours=0.5, milliseconds=mix // 480 % 60_000)
    created, closed = instant(now - timedelta(hours=mix // 8 % 60) - since), instant(now - since)
    error = f"{_WORDS[mix % 11]} {_WORDS[mix // 11 % 11]} at step {mix % 13}"
    changes: dict[str, Any] = {}
    if ended != "pending":
        changes["resolution"] = Resolution(ResolutionStatus(ended), closed, "worker-1", "it is so")
    return make_letter(
        task_id=f"wf-{number:06}",
        status=status,
        error=error,
        last_error=f"{error} again",
        created_at=created,
        updated_at=created + timedelta(minutes=mix % 17),
        namespace=("default", "default", "blue")[mix % 3],
        queue=("default", "mail", "bills", "sweeps")[mix // 3 % 4],
        fingerprint=None if mix % 101 == 0 else f"cause-{mix % (GROUPS if mix % 3 else 11):03}",
        error_category=list(ErrorCategory)[mix // 5 % 6],
        retry_policy=list(RetryPolicy)[mix // 6 % 4],
        reason=REASONS[mix // 9 % len(REASONS)],
        priority=mix // 10 % 40,
        occurrences=1 + mix % 3,
        dlq_retry_count=mix // 4 % 4,
        repos=(f"/srv/{mix % 20}",),
        task={"type": "sweep", "order": number},
        metadata={"team": f"team-{mix // 12 % 9}", "shop": {"id": mix // 13 % 31, "open": mix % 2 == 0}},
        **changes,
    )


@dataclass(frozen=True)
class Hall:
    """A store with the letters, who serves it, and what was written there."""

    url: str
    folder: Path
    server: Server
    letters: list[DeadLetter]

    def queue(self) -> DeadLetterQueue:
        """It sees the letters of all namespaces."""
        return DeadLetterQueue(100_000, store=open_store(self.url, local=None, kinds=KINDS)).all_namespaces

    def say(self, *words: str, there: bool = False) -> Any:
        """What a command prints as JSON: from the store itself, or through the server."""
        where = ["--server", self.server.url] if there else ["--store", self.url]
        command = [sys.executable, "-m", "mahavishnu", words[0], *where, *words[1:], "--json"]
        environment = environment_for(self.url, self.folder, **SETTINGS)
        done = run(command, capture_output=True, env=environment, cwd=self.folder, check=False, timeout=300)
        assert done.returncode == 0, done.stderr.decode()
        return json.loads(done.stdout)

    async def all(self, path: str, params: Mapping[str, Any]) -> list[Any]:
        """A whole list over HTTP, by its links."""
        found: list[Any] = []
        async with httpx.AsyncClient(base_url=self.server.api, timeout=120) as api:
            answer = await api.get(path, params={"namespace": "*", **params})
            while True:
                assert answer.status_code == 200, answer.text
                found += answer.json()
                if "next" not in answer.links:
                    return found
                answer = await api.get(f"{self.server.url}{answer.links['next']['url']}")


@pytest.fixture(
    scope="class",
    params=[
        pytest.param(("sqlite", FEW), id="sqlite"),
        pytest.param(("opensearch", FEW), id="opensearch", marks=[pytest.mark.opensearch, pytest.mark.prove]),
        pytest.param(("sqlite", MANY), id="sqlite-100,000", marks=pytest.mark.prove),
        pytest.param(("opensearch", MANY), id="opensearch-100,000", marks=[pytest.mark.opensearch, pytest.mark.prove]),
    ],
)
def hall(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hall]:
    folder: Path = tmp_path_factory.mktemp("hall")
    kind, count = request.param
    url = f"sqlite:///{folder}/letters.db"
    if kind == "opensearch":
        cluster: Servers = request.getfixturevalue("opensearch")
        prefix: str = request.getfixturevalue("opensearch_class_prefix")  # of one class, which has few and many
        url = f"{cluster.urls[0].replace('http', 'opensearch', 1)}/{prefix}_{count}?timeout=60"
    now = CLOCK.now()
    letters = [letter(number, now) for number in range(count)]

    async def fill() -> None:
        async with open_store(url, local=None, kinds=KINDS) as store:
            for begin in range(0, count, CHUNK):
                written = await store.collection(LETTERS).write(letters[begin : begin + CHUNK])
                assert [each for each in written if not isinstance(each, DeadLetter)][:1] == []

    asyncio.run(fill())
    with served(url, folder, **SETTINGS) as server:
        yield Hall(url, folder, server, letters)
    assert "Traceback" not in server.log.read_text()


@dataclass(frozen=True)
class Case:
    """A filter in the API's words, the order, and which letters are meant."""

    asked: dict[str, Any]
    meant: Callable[[DeadLetter], Any]
    sort: str = "newest"
    options: dict[str, str] = field(default_factory=dict)  # of the command line, where they have other names

    def query(self) -> queries.Query:
        names = {"resolution_status": "resolution"}
        said = {names.get(name, name): value for name, value in self.asked.items()}
        if "metadata" in said:
            pairs = dict(pair.split("=", 1) for pair in said["metadata"])
            said["metadata"] = pairs
        start, end = said.pop("created_from", None), said.pop("created_before", None)
        return queries.letter_query(**said, created=(start, end), sort=SORTS[self.sort][0], limit=1000)

    def params(self) -> dict[str, Any]:
        return {**{name: _plain(value) for name, value in self.asked.items()}, "sort": self.sort}

    def words(self) -> list[str]:
        names = {"resolution_status": "resolution", "created_from": "since", "created_before": "before"}
        found = ["--sort", self.sort]
        for name, value in self.params().items():
            if name != "sort":
                for each in value if isinstance(value, list) else [value]:
                    found += [f"--{names.get(name, name).replace('_', '-')}", each]
        return found


def _plain(value: Any) -> Any:
    return instant_text(value) if isinstance(value, datetime) else value


def _by_due(letter: DeadLetter) -> Any:
    return letter.due_at is None, letter.due_at or 0, letter.key


# What is sorted by, and the same for `sorted`: what has no value is last, and the key decides between equals.
SORTS: dict[str, tuple[tuple[queries.Sort, ...], Callable[[DeadLetter], Any]]] = {
    "newest": (_NEWEST, lambda each: (-each.created_at.timestamp(), each.key)),
    "oldest": (_OLDEST, lambda each: (each.created_at, each.key)),
    "updated": ((queries.Sort("updated_at", descending=True),), lambda each: (-each.updated_at.timestamp(), each.key)),
    "due": ((queries.Sort("due_at"),), _by_due),
    "priority": (queries.SOONEST_FIRST, lambda each: (-each.priority, *_by_due(each))),
}


def cases(letters: list[DeadLetter]) -> dict[str, Case]:
    middle = sorted(each.created_at for each in letters)[len(letters) // 2]
    start, end = middle - timedelta(seconds=90), middle + timedelta(minutes=70)
    cause = Counter(each.fingerprint for each in letters).most_common(9)[-1][0]
    return {
        "some fields": Case(
            {"status": ["exhausted"], "category": ["network"], "queue": ["mail"]},
            lambda each: (each.status, each.error_category, each.queue) == ("exhausted", "network", "mail"),
        ),
        "group": Case(
            {"fingerprint": [cause], "namespace": ["default"]},
            lambda each: (each.fingerprint, each.namespace) == (cause, "default"),
            "oldest",
        ),
        "metadata": Case(
            {"metadata": ["team=team-3", "shop.id=5"]},
            lambda each: each.metadata["team"] == "team-3" and each.metadata["shop"]["id"] == 5,
            "priority",
        ),
        "words": Case(
            {"text": "Timeout PÄNIK, again", "namespace": ["blue"]},
            lambda each: {"timeout", "pänik"} <= set(each.error.split()) and each.namespace == "blue",
            "updated",
        ),
        "dates": Case(
            {"created_from": start, "created_before": end, "policy": ["linear"], "status": ["pending", "retrying"]},
            lambda each: (
                start <= each.created_at < end
                and each.retry_policy == "linear"
                and each.status in ("pending", "retrying")
            ),
            "due",
        ),
        "several of one": Case(
            {"resolution_status": ["cancelled", "permanently_failed"], "repo": ["/srv/3", "/srv/4"]},
            lambda each: (
                each.resolution_status in ("cancelled", "permanently_failed") and each.repos[0] in ("/srv/3", "/srv/4")
            ),
            "priority",
        ),
        "nothing": Case({"task_id": ["nobody"]}, lambda each: False),
    }


_ALL = {"namespace": "*"}


def steady(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What does not change while the server adds up closed letters, each step of which OpenSearch shows late."""
    return [{name: value for name, value in group.items() if name != "total"} for group in groups]


class TestSameAnswers:
    async def test_lists(self, hall: Hall) -> None:
        async with hall.queue() as dlq:
            for place, (name, case) in enumerate(cases(hall.letters).items()):
                right = sorted(filter(case.meant, hall.letters), key=SORTS[case.sort][1])
                assert len(hall.letters) // 2_000 < len(right) < len(hall.letters) // 12 or name == "nothing", (
                    name,
                    len(right),
                )
                keys = [each.key for each in right]
                python = await dlq.list_tasks(query=case.query())
                assert [each.key for each in python] == keys, name
                http = await hall.all("/dlq", {**case.params(), "limit": 777})
                assert [each["entry_id"] for each in http] == [each.entry_id for each in right], name
                assert all(each.to_dict().items() <= shown.items() for each, shown in zip(python, http, strict=True)), (
                    name
                )
                words = ["dlq", "list", "--all", *case.words()]
                if not {"--resolution", "--open"} & {*words}:
                    words.append("--closed")
                if "--namespace" not in words:
                    words.append("--all-namespaces")
                assert await asyncio.to_thread(hall.say, *words, there=place % 2 == 0) == http, name

    async def test_one_letter(self, hall: Hall) -> None:
        wanted = next(each for each in hall.letters if (each.namespace, each.queue) == ("blue", "mail"))
        async with hall.queue() as dlq:
            python = await dlq.get_task(wanted.task_id, namespace="blue", queue="mail", include_archived=True)
        assert python == wanted
        async with httpx.AsyncClient(base_url=hall.server.api, timeout=60) as api:
            answer = await api.get(f"/dlq/{wanted.task_id}", params={"namespace": "blue", "queue": "mail"})
        shown = answer.json()
        assert wanted.to_dict().items() <= shown.items()
        words = ["dlq", "show", wanted.task_id, "--namespace", "blue", "--queue", "mail"]
        assert await asyncio.to_thread(hall.say, *words) == shown

    async def test_deep_in_the_list(self, hall: Hall) -> None:
        deep = len(hall.letters) * 95 // 100
        right = sorted(hall.letters, key=SORTS["oldest"][1])[deep : deep + 20]
        async with hall.queue() as dlq:
            page = await dlq.letters.find(queries.letter_query(sort=_OLDEST, limit=20), offset=deep)
            assert [each.key for each in page.items] == [each.key for each in right]
            assert page.next is not None
            following = await dlq.letters.find(
                queries.letter_query(sort=_OLDEST, limit=20), Cursor.parse(str(page.next))
            )
        async with httpx.AsyncClient(base_url=hall.server.api, timeout=60) as api:
            answer = await api.get("/dlq", params={"namespace": "*", "sort": "oldest", "limit": 20, "offset": deep})
            assert [each["entry_id"] for each in answer.json()] == [each.entry_id for each in right]
            answer = await api.get(f"{hall.server.url}{answer.links['next']['url']}")
            assert [each["entry_id"] for each in answer.json()] == [each.entry_id for each in following.items]
            answer = await api.get(
                "/dlq", params={"namespace": "*", "offset": len(hall.letters), "fingerprint": "cause-005"}
            )
            assert (answer.status_code, answer.json()) == (200, [])

    async def test_the_numbers(self, hall: Hall) -> None:
        async with hall.queue() as dlq:
            python = await dlq.get_statistics()
            by_reason = await dlq.get_statistics_by_reason()
        async with httpx.AsyncClient(base_url=hall.server.api, timeout=60) as api:
            http = (await api.get("/dlq/statistics", params=_ALL)).json()
            http_by_reason = (await api.get("/dlq/stats", params=_ALL)).json()
        here = await asyncio.to_thread(hall.say, "dlq", "stats", "--all-namespaces")
        same = ("queue_size", "max_size", "status_breakdown", "error_categories", "retry_policies", "lifetime_stats")
        assert {name: python[name] for name in same} == {name: http[name] for name in same}
        assert {name: here[name] for name in same} == {name: http[name] for name in same}
        waiting = [each for each in hall.letters if each.is_open]
        assert http["queue_size"] == len(waiting)
        assert Counter(http["status_breakdown"]) == Counter(str(each.status) for each in waiting)
        assert http["error_categories"] == Counter(str(each.error_category) for each in waiting)
        assert http["retry_policies"] == Counter(str(each.retry_policy) for each in waiting)

        assert http_by_reason == [
            {name: _plain(value) if value is not None else None for name, value in line.items()} for line in by_reason
        ]
        assert (
            await asyncio.to_thread(hall.say, "dlq", "stats", "--by-reason", "--all-namespaces", there=True)
            == http_by_reason
        )
        lines = {line["dlq_reason"]: line for line in http_by_reason}
        assert set(lines) == set(REASONS)
        for reason, line in lines.items():
            mine = [each for each in hall.letters if each.reason == reason]
            ended = Counter(str(each.resolution_status) for each in mine)
            assert line == {
                "dlq_reason": reason,
                "total_entries": len(mine),
                "pending": ended["pending"],
                "requeued": ended["requeued"],
                "permanent_failures": ended["permanently_failed"],
                "manually_resolved": ended["manually_resolved"],
                "cancelled": ended["cancelled"],
                "avg_retries": round(sum(each.dlq_retry_count for each in mine) / len(mine), 2),
                "oldest_entry": instant_text(min(each.grouped_at or each.created_at for each in mine)),
                "newest_entry": instant_text(max(each.seen_at for each in mine)),
            }

    async def test_groups(self, hall: Hall) -> None:
        http = await hall.all("/groups", {"quiet": "true", "limit": 150})
        async with hall.queue() as dlq:
            python = await dlq.groups.list(quiet=True, limit=1000)
            latest = await dlq.groups.list(quiet=True, limit=10, sort="last_seen")
        assert steady([view.to_dict() for view in python.items]) == steady(http)
        said = await asyncio.to_thread(hall.say, "group", "list", "--quiet", "--all", "--all-namespaces")
        assert steady(said) == steady(http)
        by_date = await asyncio.to_thread(
            hall.say, "group", "list", "--quiet", "--sort", "last_seen", "--limit", "10", "--all-namespaces", there=True
        )
        assert steady(by_date) == steady([view.to_dict() for view in latest.items])

        members: dict[tuple[str, str], list[DeadLetter]] = {}  # the same cause in two namespaces is two groups
        for each in hall.letters:
            if each.fingerprint is not None:
                members.setdefault((each.fingerprint, each.namespace), []).append(each)
        right = sorted((-sum(each.is_open for each in letters), *group) for group, letters in members.items())
        assert sorted((-group["count"], group["fingerprint"], group["namespace"]) for group in http) == right
        assert python.ungrouped == sum(each.is_open and each.fingerprint is None for each in hall.letters)
        now = CLOCK.now()
        for group in http:
            mine = members[group["fingerprint"], group["namespace"]]
            opened = [each for each in mine if each.is_open]
            ages = [now - each.created_at for each in mine]
            assert group["occurrences"] == sum(each.occurrences for each in opened)
            if len(hall.letters) == FEW:  # more of them are still being added up
                assert group["total"] == len(mine)
            assert group["last_hour"] == sum(age < timedelta(hours=1) for age in ages)
            assert group["last_day"] == sum(age < timedelta(days=1) for age in ages)
            assert group["day_before"] == sum(timedelta(days=1) <= age < timedelta(days=2) for age in ages)
            assert group["first_seen"] == instant_text(min(each.grouped_at or each.created_at for each in mine))
            assert group["last_seen"] == instant_text(max(each.seen_at for each in mine))
            assert group["statuses"] == Counter(str(each.status) for each in opened)
            assert group["categories"] == Counter(str(each.error_category) for each in opened)
            assert group["queues"] == Counter(each.queue for each in opened)

    async def test_pages_have_no_gap_and_no_repeat_while_others_write(self, hall: Hall) -> None:
        """The last test here: it adds letters."""
        right = sorted((each for each in hall.letters if each.status == "exhausted"), key=SORTS["newest"][1])
        assert len(right) > len(hall.letters) // 5
        keys = {each.entry_id for each in right}
        done = asyncio.Event()
        written = 0

        async def others(dlq: DeadLetterQueue) -> None:
            nonlocal written
            while not done.is_set():
                moments = [each.created_at for each in right[written % 900 :: 900]]  # everywhere in the list
                fresh = [
                    make_letter(task_id=f"new-{written + place}", status=DeadLetterStatus.EXHAUSTED, created_at=moment)
                    for place, moment in enumerate([*moments, CLOCK.now()])
                ]
                assert all(isinstance(each, DeadLetter) for each in await dlq.context.letters.write(fresh))
                written += len(fresh)

        async with hall.queue() as dlq:
            writing = asyncio.create_task(others(dlq))
            try:
                http = await hall.all("/dlq", {"status": "exhausted", "limit": 1000})
                seen: list[str] = []
                after: Cursor | None = None
                while True:
                    page = await dlq.letters.find(queries.letter_query(status="exhausted", limit=1000), after)
                    seen += [each.entry_id for each in page.items]
                    if page.next is None:
                        break
                    after = page.next
            finally:
                done.set()
                await writing
        assert written > 10
        assert [each["entry_id"] for each in http if each["entry_id"] in keys] == [each.entry_id for each in right]
        assert [each for each in seen if each in keys] == [each.entry_id for each in right]
        assert len(seen) == len(set(seen))
