"""Ranks what letters have in common, and what one lacks that succeeded ones have, from sets of facts. Pure."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Literal

from mahavishnu.engine.context import QueueContext
from mahavishnu.letters import reads
from mahavishnu.letters.reads import SAMPLE
from mahavishnu.model.errors import InvalidInput, InvalidQuery, NoSuchGroup, StoreUnavailable
from mahavishnu.model.json_value import unescape
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import LOST, MASK, NO_ADAPTER, DeadLetterStatus, ResolutionStatus
from mahavishnu.model.query import NEWEST_FIRST, At, Condition, Is, Not, Query, adapter_is
from mahavishnu.model.query_text import TASK_VALUES
from mahavishnu.search.completion import query_text

MOST_FACTS = 500  # of the task of one letter
LARGEST_TASK = 64_000  # characters of a task that is looked into
LONGEST_FACT = 200  # characters of a value that is shown
ENOUGH = 0.5  # the share, at least, of letters that have what they are said to have in common
DIFFERS = 0.25  # by which that share is larger, at least, than that of the others
MOST_USUAL = 3  # values that are named as usual
_FEW_VALUES = 8  # with more of them among those that succeeded, another one is nothing strange
_ENCRYPTED = "$encrypted:"  # how the text of an encrypted value begins
_ORDER = {"value": 0, "missing": 1, "present": 2}
MOST_SAMPLE = 1000  # letters of each side
SAMPLE_BYTES = 8 * 1024 * 1024  # about, of the letters of one side: fewer are looked at where they are large
_SUCCEEDED = (
    Is("status", (DeadLetterStatus.COMPLETED.value,)),
    Is("resolution_status", (ResolutionStatus.REQUEUED.value,)),
)
Kind = Literal["value", "present", "missing"]


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts of one letter that may be shown, as JSON text by name; `is_whole` is false if its task has too many."""

    values: frozenset[tuple[str, str]]
    names: frozenset[str]
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class Commonality:
    """A fact that `letters` of the sample have, and `others` of those beside them.

    `kind`: they have this `value` of the name, any value of it (`present`), or none (`missing`). `query` finds the
    letters with this value, where a query can.
    """

    kind: Kind
    name: str
    value: Any
    letters: int
    others: int
    query: str | None = None


@dataclass(frozen=True, slots=True)
class Contrast:
    """A name of which a letter lacks a value, or has one that none of the succeeded letters has.

    `value` is the letter's own, or None; `succeeded` of the others have any value of the name; `usual` are their most
    frequent values with the number of letters.
    """

    name: str
    is_missing: bool
    value: Any
    succeeded: int
    usual: tuple[tuple[Any, int], ...]


def facts_of(letter: DeadLetter, is_hidden: Callable[[str], bool]) -> Facts:
    """Return the facts of a letter, without masked and lost values, and values under keys that are `is_hidden`."""
    found: dict[tuple[str, str], None] = {}
    for repo in letter.repos:
        found["repo", json.dumps(repo)] = None
    found["queue", json.dumps(letter.queue)] = None
    if letter.failures and letter.failures[-1].processor:
        found["worker", json.dumps(letter.failures[-1].processor)] = None
    found["hour", str(letter.failed_at.hour)] = None
    names = {name for name, _ in found}
    for path, value in _scalars(letter.labels.shared_value, "metadata", is_hidden):
        names.add(path)
        if value is not None:
            found[path, value] = None
    is_whole = len(letter.payload.text) <= LARGEST_TASK
    if is_whole:
        lost = _lost_names(letter.payload_types.shared_value)
        for number, (path, value) in enumerate(_scalars(letter.payload.shared_value, "task", is_hidden)):
            if number >= MOST_FACTS:
                is_whole = False
                break
            names.add(path)  # also of a value that is not shown: it is there
            if value is not None and (not lost or _without_places(path.split(".")) not in lost):
                found[path, value] = None
    shown = frozenset(pair for pair in found if len(pair[1]) <= LONGEST_FACT)
    return Facts(shown, frozenset(names), is_whole)


def find_commonalities(letters: Sequence[Facts], others: Sequence[Facts], limit: int = 10) -> tuple[Commonality, ...]:
    """Return what the letters have in common and the others do not have, the most telling first.

    At least half of the letters have a value that counts, and its share among the others is smaller by at least a
    quarter; shares are lower bounds, so that few letters say little. A single letter, or no others, gives nothing.
    """
    if len(letters) < 2 or not others:
        return ()
    found: list[tuple[float, Commonality]] = []
    mine, theirs = _count(each.values for each in letters), _count(each.values for each in others)
    for (name, value), count in mine.items():
        found += _judge("value", name, value, count, theirs[name, value], len(letters), len(others))
    # Whether there is a value at all is only known of what was looked into as a whole.
    whole, other_whole = [each for each in letters if each.is_whole], [each for each in others if each.is_whole]
    if len(whole) >= 2 and other_whole:
        mine_names, their_names = _count(each.names for each in whole), _count(each.names for each in other_whole)
        for name in mine_names.keys() | their_names.keys():
            here, there = mine_names[name], their_names[name]
            found += _judge("present", name, "null", here, there, len(whole), len(other_whole))
            found += _judge(
                "missing", name, "null", len(whole) - here, len(other_whole) - there, len(whole), len(other_whole)
            )
    said: dict[tuple[str, int], None] = {}  # by name: what is there anyway needs no second line
    kept = []
    for _, each in sorted(found, key=_rank):
        if (each.name, each.letters) not in said:
            said[each.name, each.letters] = None
            kept.append(each)
    return tuple(kept[:limit])


def find_contrasts(letter: Facts, succeeded: Sequence[Facts], limit: int = 10) -> tuple[Contrast, ...]:
    """Return what succeeded letters have and this one lacks, and values that none of them has, the clearest first.

    Only names that most of them have count; a new value of a name with many values is not strange.
    """
    whole = [each for each in succeeded if each.is_whole]
    if not whole or not letter.is_whole:
        return ()
    names = _count(each.names for each in whole)
    by_name: dict[str, Counter[str]] = {}
    for each in whole:
        for name, value in each.values:
            by_name.setdefault(name, Counter())[value] += 1
    own: dict[str, list[str]] = {}
    for name, value in sorted(letter.values):
        own.setdefault(name, []).append(value)
    found = []
    for name, count in names.items():
        if not _is_about_the_work(name) or _least_share(count, len(whole)) < ENOUGH:
            continue
        values = by_name.get(name, Counter())
        usual = tuple((json.loads(value), number) for value, number in _most_common(values)[:MOST_USUAL])
        if name not in letter.names:
            found.append(Contrast(name, True, None, count, usual if len(values) <= _FEW_VALUES else ()))
        elif name in own and len(values) <= min(_FEW_VALUES, len(whole) // 2) and not values.keys() & {*own[name]}:
            found.append(Contrast(name, False, json.loads(own[name][0]), count, usual))
    found.sort(key=lambda each: (-each.succeeded, not each.is_missing, each.name))
    return tuple(found[:limit])


def _judge(
    kind: Kind, name: str, value: str, count: int, others: int, of_letters: int, of_others: int
) -> list[tuple[float, Commonality]]:
    least, most = _least_share(count, of_letters), 1 - _least_share(of_others - others, of_others)
    if least < ENOUGH or least - most < DIFFERS:
        return []
    parsed = json.loads(value)
    query = _query_of(name, parsed) if kind == "value" else None
    return [(least - most, Commonality(kind, name, parsed, count, others, query))]


def _least_share(count: int, of: int) -> float:
    """Return the least share in all letters, given this sample: Wilson's bound for one deviation.

    >>> [round(_least_share(count, of), 2) for count, of in ((2, 2), (50, 50), (25, 50), (0, 5))]
    [0.67, 0.98, 0.43, 0.0]
    """
    if not of:
        return 0.0
    share = count / of
    root: float = (share * (1 - share) / of + 1 / (4 * of * of)) ** 0.5
    return max(0.0, (share + 1 / (2 * of) - root) / (1 + 1 / of))


def _rank(found: tuple[float, Commonality]) -> tuple[float, int, int, str, str]:
    """Return the sort key: the clearest fact first; on a tie, one in the task that names a value."""
    score, each = found
    return -round(score, 6), not _is_about_the_work(each.name), _ORDER[each.kind], each.name, str(each.value)


def _is_about_the_work(name: str) -> bool:
    return name.startswith(("task", "metadata", "repo"))


def _query_of(name: str, value: Any) -> str | None:
    root, _, path = name.partition(".")
    text = value if isinstance(value, str) else json.dumps(value)
    condition: Condition
    match root:
        case "task":
            condition = Is(TASK_VALUES, (f"{path}={text}",))
        case "metadata":
            condition = At("metadata", path, text)
        case "repo":
            condition = Is("repos", (text,))
        case "queue":
            condition = Is("queue", (text,))
        case _:
            return None
    try:
        return query_text(Query((condition,)))
    except InvalidQuery:
        return None


def _count(sets: Iterable[frozenset[Any]]) -> Counter[Any]:
    return Counter(chain.from_iterable(sets))


def _most_common(values: Counter[str]) -> list[tuple[str, int]]:
    return sorted(values.items(), key=lambda pair: (-pair[1], pair[0]))


def _scalars(value: Any, path: str, is_hidden: Callable[[str], bool]) -> Iterator[tuple[str, str | None]]:
    """Yield (dotted path, JSON text) of scalars, in lists too, but not of null, hidden, masked or encrypted ones."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not is_hidden(key):
                yield from _scalars(item, f"{path}.{key}", is_hidden)
    elif isinstance(value, list):
        for item in value:
            yield from _scalars(item, path, is_hidden)
    elif value is not None and "." in path:
        is_secret = isinstance(value, str) and (value == MASK or value.startswith(_ENCRYPTED))
        yield path, None if is_secret else json.dumps(value)


def _lost_names(types: Any) -> frozenset[str]:
    """Return the names of values that were lost or masked when the task was written: a description replaced them."""
    if not isinstance(types, Mapping):
        return frozenset()
    lost = (pointer for pointer, kind in types.items() if isinstance(kind, str) and kind.partition(":")[0] == LOST)
    return frozenset(_without_places(["task", *map(unescape, pointer.split("/")[1:])]) for pointer in lost)


def _without_places(parts: Sequence[str]) -> str:
    """Return the name without places in lists."""
    return ".".join(part for part in parts if part != "-" and not part.isdigit())


# --- samples of stored letters


@dataclass(frozen=True, slots=True)
class GroupCommonalities:
    """The facts that letters of a group share and other letters of their adapters do not, the most telling first.

    Of the `letters` the newest `sampled` were read, and of the `others` the newest `others_sampled`; numbers in `items`
    are of these. Of `too_large` letters not all values were read. `degraded` says in words why some may be missing.
    """

    fingerprint: str
    adapters: tuple[str, ...]
    items: tuple[Commonality, ...]
    letters: int
    sampled: int
    others: int
    others_sampled: int
    too_large: int = 0
    degraded: str | None = None


@dataclass(frozen=True, slots=True)
class LetterContrasts:
    """Facts that succeeded letters of its adapter had and a letter lacks; `items` are of the newest `sampled`."""

    task_id: str
    adapter: str
    items: tuple[Contrast, ...]
    succeeded: int
    sampled: int
    too_large: int = 0
    degraded: str | None = None


@dataclass(frozen=True, slots=True)
class _Sample:
    letters: Sequence[DeadLetter]
    total: int
    degraded: str | None


async def group_commonalities(context: QueueContext, fingerprint: str, sample: int = SAMPLE) -> GroupCommonalities:
    """Return the commonalities of a group, see `Groups.commonalities`."""
    _require_sample(sample)
    await context.open()
    await context.require("read", f"group:{fingerprint}")
    own = Is("fingerprint", (fingerprint,))
    letters = await _sample(context, (own,), sample)
    if not letters.total:
        if letters.degraded:
            raise StoreUnavailable(f"whether there is a group {fingerprint!r} is not known now: {letters.degraded}")
        raise NoSuchGroup(fingerprint)
    adapters = tuple(sorted({letter.adapter or NO_ADAPTER for letter in letters.letters}))
    others = await _sample(context, (adapter_is(adapters), Not(own)), sample)
    await context.note_read("read", f"group:{fingerprint}", count=len(letters.letters) + len(others.letters))
    mine, theirs = await _facts(context, letters.letters), await _facts(context, others.letters)
    return GroupCommonalities(
        fingerprint,
        adapters,
        await asyncio.to_thread(find_commonalities, mine, theirs),
        letters.total,
        len(mine),
        others.total,
        len(theirs),
        sum(not each.is_whole for each in (*mine, *theirs)),
        letters.degraded or others.degraded,
    )


async def letter_contrasts(context: QueueContext, letter: DeadLetter, sample: int = SAMPLE) -> LetterContrasts:
    """Return the contrasts of a letter, see `LetterOperations.contrasts`."""
    _require_sample(sample)
    adapter = letter.adapter or NO_ADAPTER
    here = Is("namespace", (letter.namespace,))
    succeeded = await _sample(context, (here, *_SUCCEEDED, adapter_is([adapter])), sample)
    (own,) = await _facts(context, [letter])
    others = await _facts(context, [each for each in succeeded.letters if each.entry_id != letter.entry_id])
    return LetterContrasts(
        letter.task_id,
        adapter,
        await asyncio.to_thread(find_contrasts, own, others),
        succeeded.total,
        len(others),
        sum(not each.is_whole for each in (own, *others)),
        succeeded.degraded,
    )


async def _sample(context: QueueContext, where: tuple[Condition, ...], most: int) -> _Sample:
    query = Query(where, NEWEST_FIRST, most)
    page = await reads.page(context.letters, query, None, 0, SAMPLE_BYTES)
    if page.next is None:
        return _Sample(page.items, len(page.items) + len(page.corrupt), page.degraded)
    tally = await context.letters.tally(query)
    return _Sample(page.items, tally.total.count, page.degraded or tally.degraded)


async def _facts(context: QueueContext, letters: Sequence[DeadLetter]) -> list[Facts]:
    """Return the facts of each letter, read in a thread: others need not wait for large tasks."""
    from mahavishnu.values.payload import is_secret  # who only lists letters does not wait for it

    is_hidden = partial(is_secret, patterns=context.letter_factory.redact_keys)
    return await asyncio.to_thread(lambda: [facts_of(letter, is_hidden) for letter in letters])


def _require_sample(sample: int) -> None:
    if type(sample) is not int or not 2 <= sample <= MOST_SAMPLE:
        raise InvalidInput(f"a sample has 2 to {MOST_SAMPLE} letters, not {sample!r:.80}")
