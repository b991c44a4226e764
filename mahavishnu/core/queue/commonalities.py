"""What the letters of a group have in common, and what a letter lacks that others had that succeeded: by samples."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from mahavishnu.core.queue import reads
from mahavishnu.core.queue.reads import SAMPLE
from mahavishnu.engine.context import QueueContext
from mahavishnu.model.commonalities import (
    Commonality,
    Contrast,
    Facts,
    facts_of,
    find_commonalities,
    find_contrasts,
)
from mahavishnu.model.errors import InvalidInput, NoSuchGroup, StoreUnavailable
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import NO_ADAPTER, DeadLetterStatus, ResolutionStatus
from mahavishnu.model.query import NEWEST_FIRST, Condition, Is, Not, Query, adapter_is

MOST_SAMPLE = 1000  # letters of each side
SAMPLE_BYTES = 8 * 1024 * 1024  # about, of the letters of one side: fewer are looked at where they are large
_SUCCEEDED = (
    Is("status", (DeadLetterStatus.COMPLETED.value,)),
    Is("resolution_status", (ResolutionStatus.REQUEUED.value,)),
)


@dataclass(frozen=True, slots=True)
class GroupCommonalities:
    """What letters of a group have in common and other letters of their adapters do not have, the most telling first.

    Of the `letters` the newest `sampled` were looked at, and of the `others` the newest `others_sampled`; numbers in
    `items` are of these. Of `too_large` of them not all values of the task were looked at. `degraded` says, in words,
    why some may be missing.
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
    """What a letter lacks that letters of its adapter had whose work succeeded, the clearest first.

    Of the `succeeded` the newest `sampled` were looked at; numbers in `items` are of these.
    """

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
    """See `Groups.commonalities`."""
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
    """See `LetterOperations.contrasts`."""
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
    """The facts of each, read in a thread: others need not wait for large tasks."""
    from mahavishnu.values.payload import is_secret  # who only lists letters does not wait for it

    is_hidden = partial(is_secret, patterns=context.letter_factory.redact_keys)
    return await asyncio.to_thread(lambda: [facts_of(letter, is_hidden) for letter in letters])


def _require_sample(sample: int) -> None:
    if type(sample) is not int or not 2 <= sample <= MOST_SAMPLE:
        raise InvalidInput(f"a sample has 2 to {MOST_SAMPLE} letters, not {sample!r:.80}")
