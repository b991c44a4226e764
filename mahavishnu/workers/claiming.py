"""Finding due letters of one worker's share, and claiming them: many by one write."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from mahavishnu.engine.breaker import circuit_name
from mahavishnu.engine.context import QueueContext
from mahavishnu.model import lifecycle
from mahavishnu.model.errors import IllegalMove
from mahavishnu.model.events import EventName
from mahavishnu.model.ids import new_token
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import DeadLetterStatus
from mahavishnu.model.lifecycle import MAX_RECOVERIES
from mahavishnu.model.query import AnyOf, Between, Missing, Not, Query, Sort, claim_order, letter_query
from mahavishnu.stores.base import Collection, Cursor
from mahavishnu.workers.leases import LeasedLetter, LeaseTable
from mahavishnu.workers.misfits import Misfits
from mahavishnu.workers.rules import Share, run_by

log = logging.getLogger(__name__)
_AT_ONCE = 2000  # due letters looked up at once
_OVERDUE_SECONDS = 10.0  # after which letters of other workers' shares are anybody's
_OVERDUE_AT_ONCE = 100  # of which so many are taken at once: their worker may live, and has found them too


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """The result of one claim of several letters."""

    leased: Sequence[LeasedLetter] = ()
    recovered: Sequence[DeadLetter] = ()  # settled as failed, not taken: their leases had run out too often
    lost: int = 0  # letters that somebody else has taken or changed

    @property
    def taken(self) -> int:
        return len(self.leased) + len(self.recovered)


class _Claim(NamedTuple):
    """A letter as it is to be written, with the token of its lease."""

    letter: DeadLetter
    token: str
    circuit: str


class Claimer:
    """Claims due letters for one worker: of its `shares`, and of these `queues`, or of all."""

    def __init__(
        self,
        context: QueueContext,
        leases: LeaseTable,
        counts: Counter[str],
        shares: Callable[[], Sequence[Share]],
        queues: Sequence[str] = (),
    ) -> None:
        self.due = DueLetters(context.letters, shares, queues, context.part(Misfits))
        self._context, self._leases, self._counts = context, leases, counts

    async def claim(self, most: int, now: datetime, started: set[str]) -> ClaimResult:
        """Claim up to `most` letters that are due now, but none of `started`, to which their keys are added.

        Raises StoreError.
        """
        await self.due.fetch(now)
        claims = self._choose(most, now, started)
        while not claims and await self.due.fetch_further():
            claims = self._choose(most, now, started)
        if not claims:
            return ClaimResult()
        leased: list[LeasedLetter] = []
        recovered: list[DeadLetter] = []
        lost = 0
        results = await self._context.letters.write([claim.letter for claim in claims.values()])
        for (key, claim), result in zip(claims.items(), results, strict=True):
            if isinstance(result, DeadLetter):
                started.add(key)
                if result.lease is None:
                    recovered.append(result)
                    self._context.announce(EventName.RECOVERED, result)
                    if result.status is DeadLetterStatus.EXHAUSTED:
                        self._context.announce(EventName.EXHAUSTED, result)
                else:
                    leased.append(self._leases.add(result, claim.token, key, claim.circuit))
            elif result is None:
                lost += 1
            else:
                log.warning("a due letter could not be claimed: %s", result)
        self._counts["claimed"] += len(leased)
        if lost:  # somebody else is at it: the rest of what was found may be theirs by now
            self._counts["conflicts"] += lost
            self.due.clear()
        return ClaimResult(leased, recovered, lost)

    def _choose(self, most: int, now: datetime, started: set[str]) -> dict[str, _Claim]:
        """Return letters as they are once claimed, by key."""
        context, limits = self._context, self._context.limits
        owner, backoffs = context.owner, context.backoffs
        claims: dict[str, _Claim] = {}
        while len(claims) < most and (letter := self.due.pop()) is not None:
            try:
                key, circuit = letter.key, circuit_name(letter.adapter)
                if key in self._leases or key in claims or key in started or context.may_be_run(letter, now):
                    continue
                token, until = new_token(), limits.lease_end(context.clock.now())
                letter = lifecycle.claim(letter, owner=owner, token=token, until=until, now=now, backoffs=backoffs)
                if self._is_safe(letter, claims):
                    claims[key] = _Claim(letter, token, circuit)
                else:
                    self.due.expect_more()  # until there is a place for it
            except IllegalMove:
                continue
            except Exception:  # the others are run all the same
                log.exception("letter %r cannot be claimed and is left alone", letter.task_id)
        return claims

    def _is_safe(self, claim: DeadLetter, claims: dict[str, _Claim]) -> bool:
        """Return whether a letter whose last owner died may be taken now.

        It may have killed its owner, or only have been waiting there. So it is not claimed before it can run, and at
        its last chance it runs with no other like it: only the one that kills is counted as failed.
        """
        if not claim.recoveries or claim.lease is None:
            return True
        held = [each.letter for each in (*claims.values(), *self._leases)]
        if claim.recoveries >= MAX_RECOVERIES - 1 and any(each.recoveries >= MAX_RECOVERIES - 1 for each in held):
            return False
        return len(held) < self._context.limits.concurrency


class DueLetters:
    """Finds due letters, many at a time, and hands them out one by one."""

    def __init__(
        self,
        collection: Collection[DeadLetter],
        shares: Callable[[], Sequence[Share]],
        queues: Sequence[str] = (),
        misfits: Container[DeadLetter] = (),
    ) -> None:
        self._letters, self._misfits = collection, misfits
        self._shares = shares
        self._queues = queues or None
        self._found: deque[DeadLetter] = deque()
        self._was_all = False
        self._lookups = 0
        self._further: deque[_Look] = deque()  # where the last look goes on

    @property
    def has_more(self) -> bool:
        """True if the last look at the queue found more than was handed out since."""
        return bool(self._found) or not self._was_all

    async def fetch(self, now: datetime) -> None:
        """Look at the queue, unless something is left of the last look. Raises StoreError."""
        if not self._found:
            self._found.extend(await self._due(now))

    async def fetch_further(self) -> bool:
        """Go on with the last look, because nothing that it found can be claimed now. False at its end.

        Raises StoreError.
        """
        while not self._found and self._further:
            look = self._further.popleft()
            self._was_all = not self._further
            self._found.extend(await self._find(look))
        return bool(self._found)

    def pop(self) -> DeadLetter | None:
        """Return one of the letters that were found; None when they are used up."""
        return self._found.popleft() if self._found else None

    def expect_more(self) -> None:
        """Note that a letter that was handed out is still due: the next look will find it."""
        self._was_all = False

    def clear(self) -> None:
        """Forget what was found, because it is no longer true: the next look begins anew."""
        self._found.clear()
        self._was_all = False
        self._further.clear()

    async def _due(self, now: datetime) -> Sequence[DeadLetter]:
        self._lookups += 1
        self._further.clear()
        self._was_all = True
        sort = claim_order(self._lookups)
        shares = self._shares()
        found: list[DeadLetter] = []
        for share in shares:
            mine = share.partitions[0] if len(share.partitions) > 1 else None
            found += await self._find(self._look(share, now, sort, _AT_ONCE, mine))
        if len(shares) > 1:
            found.sort(key=lambda letter: (-letter.priority if len(sort) > 1 else 0, letter.due_at))
        others = [(share, partitions) for share in shares for partitions in share.partitions[1:]]
        if not others:
            return found
        # A worker that has nothing to do helps with what others have left lying: they may be gone.
        overdue = now - timedelta(seconds=_OVERDUE_SECONDS)
        while not found and others:
            share, partitions = others.pop(0)
            found += await self._find(self._look(share, overdue, sort, _OVERDUE_AT_ONCE, partitions))
        self._was_all = not found  # otherwise there may be more in other shares
        return found

    def _look(self, share: Share, due: datetime, sort: tuple[Sort, ...], limit: int, partitions: range | None) -> _Look:
        query = letter_query(due=due, queue=self._queues, sort=sort, limit=limit)
        if partitions is not None:  # what did not fit its worker is for all of them
            mine = Between("partition", at_least=partitions.start, below=partitions.stop)
            query = replace(query, where=(*query.where, AnyOf((mine, Not(Missing("unfit"))))))
        if share.adapters is not None:
            query = replace(query, where=(*query.where, *run_by(share.adapters)))
        return _Look(share, query)

    async def _find(self, look: _Look) -> Sequence[DeadLetter]:
        page = await self._letters.find(look.query, look.after)
        if page.next is not None:
            self._further.append(look._replace(after=page.next))
        if len(page.items) >= look.query.limit:
            self._was_all = False
        for problem in page.corrupt:
            log.error("a due letter cannot be read and is left alone: %s", problem)
        adapters = look.share.adapters
        return [  # misfits neither: who finds nothing else has time to help others
            each for each in page.items if (adapters is None or each.adapter in adapters) and each not in self._misfits
        ]


class _Look(NamedTuple):
    """A page of due letters that is to be read."""

    share: Share
    query: Query
    after: Cursor | None = None
