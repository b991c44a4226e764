"""What has become of the items of named queues, compared with what those were told who put them in and did them.

An item that moved lives on as another letter, whose task id names the one that it came from. So each item is a chain of
letters, or several if it was doubled; what its last letter is, the item is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.model import lifecycle
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import DeadLetterStatus, ResolutionStatus
from mahavishnu.model.query import Query, items_namespace
from mahavishnu.stores.base import scan
from mahavishnu.stores.kinds import HISTORY, LEDGER, LETTERS
from tests.support.bookkeeping import Diary, RecordCount, archived_letters, compare_numbers, is_deleted, is_retired


@dataclass(slots=True)
class ItemFindings:
    """What is wrong with items; all lists are empty if nothing is."""

    kept: int = 0
    moves: int = 0  #: from one queue to another
    ends: Counter[str] = field(default_factory=Counter)  #: what has become of all items
    lost: list[str] = field(default_factory=list)  #: somebody was told that it is kept, and it is nowhere
    doubled: list[str] = field(default_factory=list)  #: it is in two places, or was done twice
    undone: list[str] = field(default_factory=list)  #: somebody was told that it is done, and it is not
    unfinished: list[str] = field(default_factory=list)  #: it is leased, or on its way, though all is at rest
    unsound: list[str] = field(default_factory=list)
    differing: dict[str, Any] = field(default_factory=dict)  #: numbers of a queue that are not what was recounted

    @property
    def problems(self) -> dict[str, Any]:
        """What is wrong, by name."""
        names = ("lost", "doubled", "undone", "unfinished", "unsound", "differing")
        return {f"items {name}": found for name in names if (found := getattr(self, name))}


async def check_items(dlq: DeadLetterQueue, diary: Diary, queues: Sequence[str]) -> ItemFindings:
    """Look at every item of these queues, which nobody changes any more."""
    found = ItemFindings(kept=len(diary.kept))
    letters: list[tuple[str, DeadLetter]] = []  # each with its queue; of an archived one what the archive has
    for queue in queues:
        letters += [(queue, each) for each in await _letters_of(dlq, queue, found)]
    ids = {(queue, each): letter for queue, letter in letters for each in _entries(letter)}
    last: dict[str, list[DeadLetter]] = {name: [] for name in (*diary.kept.values(), *diary.offered)}
    for queue, letter in letters:
        if letter.resolution.status is ResolutionStatus.MOVED:
            found.moves += 1
        else:
            last.setdefault(_name(queue, letter, ids, diary, found), []).append(letter)
    for name, ends in last.items():
        words = [_end(each) for each in ends]
        found.ends.update(words or ["not kept"])
        if len(ends) > 1:
            found.doubled.append(f"{name}: {[(each.key, word) for each, word in zip(ends, words, strict=True)]}")
        if not ends and name in diary.kept.values():
            found.lost.append(name)
        if name in diary.done and not {"done", "deleted"} & {*words}:
            found.undone.append(f"{name}: {words}")
        found.unfinished += [f"{name}: {each.key} {each.bound_for}" for each in ends if each.lease or each.bound_for]
    return found


def _entries(letter: DeadLetter) -> set[str]:
    return {letter.entry_id, *letter.absorbed, *letter.merged}


async def _letters_of(dlq: DeadLetterQueue, queue: str, found: ItemFindings) -> list[DeadLetter]:
    inside = dlq.in_namespace(items_namespace(dlq.context.namespace, queue))
    archived, count, letters = await archived_letters(inside), RecordCount(), []
    async for letter in scan(dlq.store.collection(LETTERS), Query()):
        if letter.namespace != inside.context.namespace:
            continue
        count.add_letter(letter)
        found.unsound += [f"{letter.key}: {broken}" for broken in lifecycle.violations(letter)]
        copies = archived.pop(letter.entry_id, [])
        if is_retired(letter) != (len(copies) == 1):
            found.doubled.append(f"{letter.key} is {letter.status} and has {len(copies)} copies in the archive")
        letters += copies if is_retired(letter) else [letter]
        if letter.generation + (letter.counted.letters if letter.counted else 0) > 1:
            found.doubled.append(f"{letter.key} is in its generation {letter.generation}")
    found.doubled += [f"{queue}: {entry} is in the archive, and no letter" for entry in archived]
    async for former in scan(dlq.store.collection(HISTORY), Query()):
        if former.namespace == inside.context.namespace:
            found.doubled.append(f"{former.task_id} has a former life in queue {queue}")
    async for entry in scan(dlq.store.collection(LEDGER), Query()):
        if entry.namespace == inside.context.namespace:
            count.add_entry(entry)
    balance, differing = await compare_numbers(inside, count.numbers)
    if balance or differing:
        found.differing[queue] = {"balance": balance, **differing}
    return letters


def _name(
    queue: str, letter: DeadLetter, ids: dict[tuple[str, str], DeadLetter], diary: Diary, found: ItemFindings
) -> str:
    """The name that the item has had since it came in; a deleted one is known by its id only."""
    while "/" in letter.task_id:
        source, _, entry_id = letter.task_id.partition("/")
        if (former := ids.get((source, entry_id))) is None:
            found.lost.append(f"{letter.key}: where it came from is gone")
            break
        queue, letter = source, former
    if not is_deleted(letter):
        return str(letter.task["name"])
    names = {diary.kept[each] for each in _entries(letter) if each in diary.kept}
    return names.pop() if names else f"{queue}/{letter.entry_id}"


def _end(letter: DeadLetter) -> str:
    if letter.is_open:
        return "dead" if letter.status is DeadLetterStatus.EXHAUSTED else "open"
    return "deleted" if is_deleted(letter) else "done" if letter.status is DeadLetterStatus.COMPLETED else "closed"
