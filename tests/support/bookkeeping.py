"""What is in a store at the end, compared with what those were told who wrote into it.

Each failure that somebody was told to be captured is in a letter, or in the tombstone of a letter that was deleted in
that state or a later one. The numbers are added up from the records themselves: the statistics have to say the same.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from types import MappingProxyType
from typing import Any

from mahavishnu.archive.partitions import ArchivedCase, read_case
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.engine.waiting_room import WAITING
from mahavishnu.model import lifecycle
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import Tallies
from mahavishnu.model.query import Query
from mahavishnu.stores.base import scan
from mahavishnu.stores.kinds import HISTORY, LEDGER, LETTERS
from mahavishnu.stores.retained import LedgerEntry
from mahavishnu.tasks.records import TASKS

_WAITING = re.compile(r"\(entry ([\w-]+)\)")
_ANY = "9"  # later than every state: a tombstone does not say up to which state it knew those that it took in
TALLIES = tuple(each.name for each in fields(Tallies))
ENDS = (
    "retry_success",
    "requeued",
    "permanently_failed",
    "manually_resolved",
    "cancelled",
    "archived",
    "cleared",
    "moved",
)


@dataclass(slots=True)
class Diary:
    """What was tried, and what became of it as far as was told, by task."""

    tried: Counter[str] = field(default_factory=Counter)
    unsure: Counter[str] = field(default_factory=Counter)
    told: list[tuple[str, str, str]] = field(default_factory=list)  #: task, entry id, state of the letter
    clears: Counter[str] = field(default_factory=Counter)  #: that came to their end, and that did not
    hung: set[str] = field(default_factory=set)  #: lifecycle tasks that nobody goes on with
    kept: dict[str, str] = field(default_factory=dict)  #: queue items that somebody was told to be kept: name by id
    offered: set[str] = field(default_factory=set)  #: the names of all items that somebody tried to have kept
    done: set[str] = field(default_factory=set)  #: the names of items that somebody was told to be done

    def tell(self, task: str, letter: DeadLetter) -> None:
        """Note the state of the letter that somebody was told of."""
        self.told.append((task, letter.entry_id, state_text(letter)))

    def tell_waiting(self, task: str, problem: str) -> None:
        """Note a failure that is no letter yet: it may have been written, and wait besides."""
        self.unsure[task] += 1
        if (waiting := waiting_entry(problem)) is not None:
            self.told.append((task, waiting, "0"))

    @classmethod
    def read(cls, text: str) -> Diary:
        """What processes wrote down, a line each. One that a killed process has not finished is left out."""
        diary = cls()
        for line in text.splitlines():
            match line.split():
                case ["try", task]:
                    diary.tried[task] += 1
                case ["unsure", task]:
                    diary.unsure[task] += 1
                case ["told", task, entry_id, state]:
                    diary.told.append((task, entry_id, state))
                case ["hung", task]:
                    diary.hung.add(task)
                case ["offered", name]:
                    diary.offered.add(name)
                case ["kept", name, item_id]:
                    diary.kept[item_id] = name
                case ["done", name]:
                    diary.done.add(name)
                case ["cleared", _]:
                    diary.clears["whole"] += 1
                case ["interrupted", *_]:
                    diary.clears["interrupted"] += 1
        return diary


@dataclass(slots=True)
class Findings:
    """What is wrong; all of it is empty if nothing is."""

    acknowledged: int = 0
    deleted: int = 0
    archived: int = 0
    missing: list[str] = field(default_factory=list)  #: acknowledged, and no record knows it
    dropped: list[str] = field(default_factory=list)  #: more were acknowledged than are counted, or were deleted
    duplicates: list[str] = field(default_factory=list)  #: more are counted than ever were tried
    unsound: list[str] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)
    balance: int = 0  #: what came in, without what is open and what has ended
    differing: dict[str, tuple[int, int]] = field(default_factory=dict)  #: statistics that are not what was recounted

    @property
    def problems(self) -> dict[str, Any]:
        """What is wrong, by name."""
        found = {name: getattr(self, name) for name in ("missing", "dropped", "duplicates", "unsound", "differing")}
        found |= {"balance": self.balance, "retrying": self.statuses["retrying"]}
        return {name: value for name, value in found.items() if value}


@dataclass(slots=True)
class RecordCount:
    """The numbers of all records of a namespace, recounted."""

    numbers: Counter[str] = field(default_factory=Counter)
    captured: Counter[str] = field(default_factory=Counter)  #: failures, by task
    summed: set[str] = field(default_factory=set)  #: tasks with failures that are in nothing but a sum

    def add_letter(self, letter: DeadLetter) -> None:
        self.numbers["open"] += letter.is_open
        self.add(letter.task_id, letter.generation, letter.tallies)
        if letter.counted is not None:
            self.captured[_task_of(letter.task_id)] += letter.counted.letters
            self.summed.add(_task_of(letter.task_id))

    def add_entry(self, entry: LedgerEntry) -> None:
        self.add("", entry.letters, entry.tallies)

    def add(self, task_id: str, generation: int, tallies: Tallies) -> None:
        self.numbers["letters"] += generation
        self.numbers.update({name: getattr(tallies, name) for name in TALLIES})
        if task_id:  # a day's sum names none
            self.captured[_task_of(task_id)] += generation + tallies.deduplicated


async def check(
    dlq: DeadLetterQueue,
    diary: Diary,
    deleted_before: Mapping[str, datetime] = MappingProxyType({}),
    folded: Mapping[str, int] = MappingProxyType({}),
) -> Findings:
    """Look at every record of the store, which nobody changes any more.

    `deleted_before` are entries that were deleted, with their states, though nothing may know them any more; `folded`
    are failures, by task, that are in nothing but a day's sum.
    """
    found, count, alive = Findings(acknowledged=len(diary.told)), RecordCount(), set[str]()
    deleted = {entry_id: _text(state) for entry_id, state in deleted_before.items()}
    count.captured.update(folded)
    archived = await archived_letters(dlq)
    for entry_id, letters in archived.items():
        found.archived += 1
        if len(letters) > 1:
            where = await archived_places(dlq, entry_id)
            found.duplicates.append(f"{entry_id} is in the archive {len(letters)} times: {'; '.join(where)}")
        for each in letters:
            alive |= {each.entry_id, *each.absorbed, *each.merged}
    for kind in (LETTERS, HISTORY, WAITING):
        async for letter in scan(dlq.store.collection(kind), Query()):
            if letter.namespace != dlq.context.namespace:
                continue
            entries = {letter.entry_id, *letter.absorbed, *letter.merged}
            found.unsound += [f"{letter.key}: {broken}" for broken in lifecycle.violations(letter)]
            if letter.entry_id in archived and not is_retired(letter):
                found.duplicates.append(f"{letter.entry_id} is in the archive and {letter.status} in the queue")
            if is_retired(letter):
                deleted |= dict.fromkeys((*letter.absorbed, *letter.merged), _ANY)  # what it took in since it left
                if letter.entry_id not in archived:
                    found.missing.append(f"{letter.task_id} {letter.entry_id} left for the archive")
            elif is_deleted(letter):
                found.deleted += 1
                deleted = {
                    **dict.fromkeys((*letter.absorbed, *letter.merged), _ANY),
                    letter.entry_id: state_text(letter),
                    **deleted,
                }
            else:
                alive |= entries
            if kind is LETTERS:
                found.statuses[letter.status] += not is_deleted(letter)
                count.add_letter(letter)
            elif kind is WAITING:
                count.captured[letter.task_id] += letter.generation + letter.tallies.deduplicated
    async for entry in scan(dlq.store.collection(LEDGER), Query()):
        if entry.namespace != dlq.context.written_namespace:
            continue
        found.deleted += entry.letters
        count.add_entry(entry)
    for task, entry_id, state in diary.told:
        if entry_id not in alive and entry_id not in deleted:
            found.missing.append(f"{task} {entry_id} {state}")
        elif entry_id not in alive and state > deleted[entry_id]:  # merged after it was deleted
            found.dropped.append(f"{task} {entry_id} {state}, deleted up to {deleted[entry_id]}")
    told, tried = Counter(task for task, _, _ in diary.told), diary.tried + diary.unsure
    async for hung in scan(dlq.store.collection(TASKS), Query()):
        tried[hung.task_id] += 1  # one that hangs fails once
        if hung.task_id in diary.hung and not count.captured[hung.task_id]:
            found.missing.append(f"{hung.task_id} hung, is {hung.state}, and has no letter")
    found.missing += [f"{task} hung, and is no task" for task in diary.hung if not tried[task]]
    for task in told | count.captured:
        if told[task] > count.captured[task] and task not in count.summed:
            found.dropped.append(f"{task}: {told[task]} acknowledged, {count.captured[task]} counted")
        if count.captured[task] > (most := tried[task]):
            found.duplicates.append(f"{task}: {count.captured[task]} counted, {most} tried")
    found.balance, found.differing = await compare_numbers(dlq, count.numbers)
    return found


async def archived_letters(dlq: DeadLetterQueue) -> dict[str, list[DeadLetter]]:
    """The letters that the archive has, former ones too, by their entry ids.

    A former letter may be there by itself too: in a later state, which a local store brought home when its successor
    had left; or because who archived it was killed just after another process had archived it with its successor. Such
    a copy has what that letter succeeded, as the successor's copy has it.
    """
    cases, after = list[ArchivedCase](), None
    while True:
        page = await dlq.archive.list(1000, after)
        cases += map(read_case, page.items)
        if (after := page.next) is None:
            break
    succeeded = {each.entry_id for case in cases for each in case.former}
    letters, former = dict[str, list[DeadLetter]](), dict[str, list[DeadLetter]]()
    for case in cases:
        letters.setdefault(case.letter.entry_id, []).append(case.letter)
        for each in () if case.letter.entry_id in succeeded else case.former:
            former.setdefault(each.entry_id, []).append(each)
    return former | letters


async def archived_places(dlq: DeadLetterQueue, entry_id: str) -> list[str]:
    """The copies in the archive that have this letter, or have it as a former one: whose they are, and its state."""
    found, after = list[str](), None
    while True:
        page = await dlq.archive.list(1000, after)
        for line in page.items:
            case = read_case(line)
            for each, what in ((case.letter, "letter"), *((former, "former") for former in case.former)):
                if each.entry_id == entry_id:
                    own = f"{line.partition} {case.letter.key} {case.letter.entry_id} of {case.letter.generation}"
                    state = f"{each.status} {each.generation} {state_text(each)}"
                    found.append(f"{what} {state} in the copy of {own}, moved at {case.line.copy.archived_at}")
        if (after := page.next) is None:
            return found


def is_retired(letter: DeadLetter) -> bool:
    """Whether this is what is left of a letter whose place is taken by the archive."""
    return is_deleted(letter) and letter.archived_at is not None


def is_deleted(letter: DeadLetter) -> bool:
    """Whether this is a tombstone."""
    return str(letter.resolution.status) == "deleted"


def state_text(letter: DeadLetter) -> str:
    """The state that a letter is in, as a text: a later one of the same letter is greater."""
    return _text(letter.updated_at)


def waiting_entry(problem: str) -> str | None:
    """The entry under which a failure waits in a store, by what its caller was told; None if it waits in memory."""
    found = _WAITING.search(problem)
    return None if found is None or "in this process's memory" in problem else found[1]


def _text(state: datetime) -> str:
    return state.isoformat(timespec="milliseconds")


def _task_of(task_id: str) -> str:
    """Another payload under the same id is a letter of its own, named after it."""
    return task_id.partition("@")[0]


async def compare_numbers(dlq: DeadLetterQueue, numbers: Counter[str]) -> tuple[int, dict[str, tuple[int, int]]]:
    """Compare the statistics with the recount; what came in has to be open, or to have ended somehow.

    Returns how many are too many or too few, and the statistics that are not what was recounted.
    """
    statistics = await dlq.get_statistics()
    life = statistics["lifetime_stats"]
    balance = life["enqueued_total"] - statistics["queue_size"] - sum(life[end] for end in ENDS)
    recounted = {name: numbers[name] for name in (*TALLIES, "cleared")}
    recounted["enqueued_total"] = numbers["letters"] + numbers["reopened"]
    said = {**{name: life[name] for name in recounted}, "open": statistics["queue_size"]}
    recounted["open"] = numbers["open"]
    return balance, {name: (said[name], number) for name, number in recounted.items() if said[name] != number}
