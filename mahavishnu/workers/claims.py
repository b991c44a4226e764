"""Letters for workers that are not this process, in whatever language: claim some, renew, say how each run went."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace

from mahavishnu.capture.adapters import Attempt
from mahavishnu.capture.dependencies import blocked_by
from mahavishnu.classify.assess import Assessment, Assessor
from mahavishnu.classify.verdict import category as named_category
from mahavishnu.engine.breaker import CircuitState
from mahavishnu.engine.context import QueueContext
from mahavishnu.engine.queue import LetterQueue
from mahavishnu.model import lifecycle
from mahavishnu.model.backoff import MAX_DELAY
from mahavishnu.model.clock import require_wait
from mahavishnu.model.errors import (
    CannotRestore,
    IllegalMove,
    InvalidInput,
    LostLease,
    NoSuchLetter,
    StoreError,
    StoreUnavailable,
)
from mahavishnu.model.events import EventName
from mahavishnu.model.ids import DEFAULT_QUEUE, new_token
from mahavishnu.model.letter import DeadLetter, evolve
from mahavishnu.model.letter_parts import DeadLetterStatus, ErrorCategory
from mahavishnu.model.lifecycle import MAX_RECOVERIES
from mahavishnu.model.query import (
    ALL_NAMESPACES,
    SOONEST_FIRST,
    Condition,
    Is,
    Not,
    Query,
    Sort,
    adapter_is,
    claim_order,
    letter_query,
)
from mahavishnu.model.record import Value
from mahavishnu.stores.base import Cursor, get_one, update_with_retry
from mahavishnu.values.payload import mask_text
from mahavishnu.values.typed_json import find_lost
from mahavishnu.workers.attempt import apply_outcome
from mahavishnu.workers.background import RemoteWorkers
from mahavishnu.workers.leases import LimitGate
from mahavishnu.workers.processing import processing_of
from mahavishnu.workers.records import WORKERS
from mahavishnu.workers.rules import Turns, run_by

log = logging.getLogger(__name__)
MOST_CLAIMS = 500
LONGEST_LEASE = 86_400.0
OUTCOMES = ("succeeded", "failed", "released")
_FEWEST_FOUND = 50  # due letters looked up at once, so that many claimers need not all want the same one
_ROUNDS = 20  # of looks for adapters that a full page hides
_MOST_OWNER = 200


class Claim(Value, frozen=True):
    """The right to run `letter` until `lease_until`; `token` proves it. Hand on `idempotency_key`, see `Attempt`."""

    letter: DeadLetter
    token: str
    attempt_id: str
    idempotency_key: str
    lease_until: datetime


class Claims:
    """Letters for workers that run them elsewhere and settle them by token.

    They go through the same moves, guards and classifier as letters of this process's own processor.
    """

    @classmethod
    def for_queue(cls, queue: LetterQueue) -> Claims:
        """Return the claims of a queue; a retry that comes free wakes its own processor."""
        at_home = queue.context.is_at_home
        return cls(queue.context, processing_of(queue).wake if at_home else lambda due: None)

    def __init__(self, context: QueueContext, wake: Callable[[datetime], object]) -> None:
        """Call `wake` with the date of a retry that another worker may run."""
        self._context, self._letters, self._clock = context, context.letters, context.clock
        self._wake = wake
        self._signs = RemoteWorkers(context.store.collection(WORKERS), context.clock)
        self._lookups = 0
        self._gates: dict[str, LimitGate] = {}  # by namespace
        self._claiming: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    async def claim(
        self,
        owner: str,
        *,
        limit: int = 1,
        lease_seconds: float | None = None,
        queue: str | None = None,
        namespace: str | None = None,
        adapters: Sequence[str] | None = None,
    ) -> list[Claim]:
        """Take due letters for `owner`: at most `limit` (1 to 500), or none if nothing is due.

        With `adapters`, only letters of these; without, those of all adapters, and of none.

        The most urgent come first; every fourth time the longest due, so that none waits for ever. No other worker gets
        them for `lease_seconds` (1 to 86400; `dlq_claim_lease_seconds` unless given). Letters that wait for others, or
        whose adapter's circuit is open, are passed over. Raises InvalidInput and StoreError.
        """
        if not isinstance(owner, str) or not 0 < len(owner) <= _MOST_OWNER:
            raise InvalidInput(f"a worker is named by a text of 1 to {_MOST_OWNER} characters, not {owner!r:.80}")
        if type(limit) is not int or not 1 <= limit <= MOST_CLAIMS:
            raise InvalidInput(f"limit must be a whole number from 1 to {MOST_CLAIMS}, not {limit!r:.80}")
        lease, names = self._lease(lease_seconds), _adapter_names(adapters)
        await self._context.open()
        await self._context.require("claim", where=namespace)
        await self._signs.note(owner, namespace or self._context.namespace, queue, names)
        self._lookups += 1
        order, most = claim_order(self._lookups), max(limit, _FEWEST_FOUND)
        found = letter_query(due=self._clock.now(), queue=queue, namespace=namespace, sort=order, limit=most)
        runnable = () if names is None else run_by(names)
        query = Query((*found.where, *runnable, *self._closed_circuits()), found.sort, found.limit)
        async with self._one_at_a_time():
            gate = await self._gate_of(namespace)
            claims = await self._claim_pages(query, names, owner, limit, lease, gate)
        if claims:
            facts = {"count": len(claims), "queue": queue, "adapters": names and sorted(names)}
            await self._context.note_read("claim", f"worker:{owner}", namespace, **facts)
        return claims

    async def _claim_pages(
        self, query: Query, adapters: frozenset[str] | None, owner: str, limit: int, lease: timedelta, gate: LimitGate
    ) -> list[Claim]:
        claims: list[Claim] = []
        batch = ClaimBatch()
        after: Cursor | None = None
        while True:
            page = await self._letters.find(query, after)
            found = [*page.items, *(await self._find_others(query, page.items) if page.next and not after else ())]
            for problem in page.corrupt:
                log.error("a due letter cannot be read and is left alone: %s", problem)
            turns = Turns[DeadLetter]()
            for letter in found:
                if adapters is None or letter.adapter in adapters:
                    turns.add(letter.circuit, letter)
            claims += await self._claim_turns(turns, owner, limit - len(claims), lease, batch, query.sort, gate)
            if page.next is None or len(claims) == limit or (claims and batch.lost):
                return claims
            after = page.next

    async def _find_others(self, query: Query, found: Sequence[DeadLetter]) -> list[DeadLetter]:
        """Find the first letters of adapters that a full page hides."""
        others: list[DeadLetter] = []
        for _ in range(_ROUNDS):
            hidden = {letter.circuit for letter in (*found, *others)}
            page = await self._letters.find(replace(query, where=(*query.where, Not(adapter_is(sorted(hidden))))))
            others += page.items
            if page.next is None or not page.items:
                break
        return others

    async def _claim_turns(
        self,
        turns: Turns[DeadLetter],
        owner: str,
        limit: int,
        lease: timedelta,
        batch: ClaimBatch,
        order: Sequence[Sort],
        gate: LimitGate,
    ) -> list[Claim]:
        """Claim letters in turns by adapter, as many as the limits of adapters allow."""
        wanted = {name: min(turns.count(name), limit) for name in turns.names if name in gate.limits}
        allowed = await gate.take_more(owner, wanted, self._clock.now() + lease)
        left, waiting = dict(allowed), list[DeadLetter]()
        while (letter := turns.pop([name for name, number in left.items() if number <= 0])) is not None:
            if (name := letter.circuit) in left:
                left[name] -= 1
            waiting.append(letter)
        claims: list[Claim] = []
        try:
            while waiting and len(claims) < limit:
                some, waiting = waiting[: limit - len(claims)], waiting[limit - len(claims) :]
                claims += await self._claim_some(some, owner, lease, batch)
                if claims and batch.lost:  # others are after the same ones; the leases of these run already
                    break
                batch.spread(waiting, order)
        finally:
            used = Counter(claim.letter.circuit for claim in claims)
            for name, number in allowed.items():
                if number > used[name]:
                    await gate.give_back(owner, name, number - used[name])
        return claims

    async def renew(
        self,
        task_id: str,
        token: str,
        *,
        lease_seconds: float | None = None,
        namespace: str | None = None,
        queue: str = DEFAULT_QUEUE,
    ) -> datetime:
        """Extend the lease of a run to `lease_seconds` from now, and return its end.

        Raises LostLease if the letter is not this claim's any more (then stop the run), NoSuchLetter, InvalidInput and
        StoreError.
        """
        lease, key = self._lease(lease_seconds), self._context.key(task_id, namespace, queue)
        await self._context.open()
        await self._context.require("claim", f"letter:{key}", namespace)

        def change(current: DeadLetter) -> DeadLetter:
            now = self._clock.now()
            return lifecycle.renew(current, token=token, until=now + lease, now=now)

        try:
            renewed = await update_with_retry(self._letters, key, change)
        except LostLease:
            await self._require_whole_view(task_id)
            raise
        if renewed is None:
            raise NoSuchLetter(key)
        self._context.lease_watch.look([renewed.after])
        assert renewed.after.due_at is not None  # a lease ends
        await self._free_place(renewed.after, 0, renewed.after.due_at)
        return renewed.after.due_at

    async def settle(
        self,
        task_id: str,
        token: str,
        outcome: str,
        *,
        error: BaseException | str | None = None,
        error_type: str | None = None,
        category: ErrorCategory | str | None = None,
        retry_in: timedelta | float | None = None,
        namespace: str | None = None,
        queue: str = DEFAULT_QUEUE,
    ) -> DeadLetter:
        """Report the outcome of a run: `succeeded`, `failed` with its `error`, or `released`, unrun at no cost.

        A failure is classified as any other, unless its `category` is given. `retry_in` (seconds or timedelta) is the
        least wait before the next run, at most 7 days. A repeated report with the same token changes nothing and
        returns the letter. Raises LostLease if the letter is not this claim's any more: the outcome does not count, and
        nothing is changed. Raises NoSuchLetter, InvalidInput and StoreError.
        """
        wait = _require_settlement(outcome, error, error_type, category, retry_in)
        key = self._context.key(task_id, namespace, queue)
        await self._context.open()
        await self._context.require("claim", f"letter:{key}", namespace)
        letter = await get_one(self._letters, key)
        if letter is None:
            raise NoSuchLetter(key)
        mark = f"{outcome} {token}"
        if letter.settled == mark:
            return letter
        assessment: Assessment | None = None
        if outcome == "failed":
            assert error is not None
            now, assessor = self._clock.now(), Assessor(self._context.chain)
            encryption = self._context.letter_factory.encryption
            if isinstance(error, str) and encryption.fields:
                error = mask_text(error, encryption.secrets_of(letter))
            assessment = await assessor.assess_reported(error, now, letter, error_type, category, wait)
            if (masked := encryption.mask_in(assessment.failure, letter)) != assessment.failure:
                assessment = assessment.with_masked(masked)

        def change(current: DeadLetter) -> DeadLetter:
            if current.settled == mark:
                return current  # by a call at the same time
            now = self._clock.now()
            if outcome == "released":
                due = now + wait if wait is not None else None
                moved = lifecycle.release(current, token=token, now=now, due_at=due)
            else:
                backoffs, policy_for = self._context.backoffs, self._context.letter_factory.policy_for
                moved = apply_outcome(current, token, now, assessment, backoffs=backoffs, policy_for=policy_for)
            return evolve(moved, settled=mark)

        try:
            settled = await update_with_retry(self._letters, key, change)
        except LostLease:
            await self._require_whole_view(task_id)
            self._context.announce(EventName.STALE_CLAIM, letter)
            raise
        if settled is None:
            raise NoSuchLetter(key)
        if settled.after is not settled.before:
            await self._free_place(settled.before, 1)
            self._announce(settled.after, outcome, assessment)
        return settled.after

    async def _free_place(self, letter: DeadLetter, places: int, until: datetime | None = None) -> None:
        """Say that a worker's run of a limited adapter is over, or goes on until then. The outcome stands anyway."""
        if letter.lease is not None:
            with suppress(StoreError):  # or else the place is free when the lease ends
                gate = await self._gate_of(letter.namespace)
                await gate.give_back(letter.lease.owner, letter.circuit, places, until)

    async def _gate_of(self, namespace: str | None) -> LimitGate:
        """Return the limits of a namespace as they are now. There are none over all namespaces."""
        name = self._context.namespace if namespace is None else namespace
        gate = self._gates.get(name)
        if gate is None:
            gate = self._gates[name] = LimitGate(self._context.in_namespace(name))
        if name != ALL_NAMESPACES:
            await gate.read(self._clock.now())
        return gate

    async def _require_whole_view(self, task_id: str) -> None:
        """Raise StoreUnavailable if a letter that was kept in an outage may hide the claimed one."""
        page = await self._letters.find(Query((Is("task_id", (task_id,)),), limit=1))
        if page.degraded:
            raise StoreUnavailable(f"whose {task_id!r} is cannot be told now: {page.degraded}")

    def _one_at_a_time(self) -> asyncio.Lock:
        """Return a lock for claims of this process: at the same time they would want the same letters."""
        loop = asyncio.get_running_loop()
        if self._claiming is None or self._claiming[0] is not loop:
            self._claiming = loop, asyncio.Lock()
        return self._claiming[1]

    def _lease(self, seconds: float | None) -> timedelta:
        given = self._context.limits.lease_seconds if seconds is None else seconds
        is_number = isinstance(given, int | float) and not isinstance(given, bool)
        if not is_number or not 1 <= given <= LONGEST_LEASE:
            raise InvalidInput(f"lease_seconds must be a number from 1 to {LONGEST_LEASE:g}, not {seconds!r:.80}")
        return timedelta(seconds=given)

    def _closed_circuits(self) -> Sequence[Condition]:
        """Return a filter that leaves out letters of adapters whose circuit is open: there may be many."""
        now = self._clock.monotonic()
        breakers = self._context.breakers
        broken = tuple(name for name in breakers.not_closed if breakers.state(name, now) is CircuitState.OPEN)
        return (Not(adapter_is(broken)),) if broken else ()

    async def _claim_some(
        self, wanted: Sequence[DeadLetter], owner: str, lease: timedelta, batch: ClaimBatch
    ) -> list[Claim]:
        """Claim as many of the letters as possible, in one write."""
        chosen: list[tuple[DeadLetter, str]] = []
        for letter in wanted:
            now, token = self._clock.now(), new_token()
            try:
                circuit = letter.circuit
                position = self._context.breakers.state(circuit, self._clock.monotonic())
                if self._context.may_be_running(letter, now) or not batch.may_go(circuit, position):
                    continue
                if await blocked_by(self._letters, letter):
                    continue
                self._decrypt(letter)
                claim = lifecycle.claim(
                    letter, owner=owner, token=token, until=now + lease, now=now, backoffs=self._context.backoffs
                )
            except IllegalMove:
                continue
            except CannotRestore as problem:
                log.error("letter %r is left alone: %s", letter.task_id, problem)
                continue
            except StoreError:
                raise
            except Exception:  # the others are handed out all the same
                log.exception("letter %r cannot be claimed and is left alone", letter.task_id)
                continue
            if claim.lease is None or batch.is_safe(claim):
                chosen.append((_keep_from_running(claim, token, now), token))
        won: list[Claim] = []
        results = await self._letters.write([claim for claim, _ in chosen]) if chosen else ()
        for (_, token), written in zip(chosen, results, strict=True):
            if written is None:
                batch.lost = True
                continue
            if not isinstance(written, DeadLetter):
                log.warning("a due letter could not be claimed: %s", written)
                continue
            if written.lease is None and written.unfit is not None:  # it waits for an edit
                self._context.announce(EventName.RELEASED, written)
                continue
            if written.lease is None:  # its lease had run out too often: it was not taken, but settled as failed
                self._context.announce(EventName.RECOVERED, written)
                if written.status is DeadLetterStatus.EXHAUSTED:
                    self._context.announce(EventName.EXHAUSTED, written)
                continue
            self._context.lease_watch.look([written])
            self._context.announce(EventName.RETRY_STARTED, written, owner=owner)
            assert written.due_at is not None
            key = Attempt(written, token).idempotency_key
            won.append(Claim(self._decrypt(written), token, token, key, written.due_at))
        return won

    def _decrypt(self, letter: DeadLetter) -> DeadLetter:
        return self._context.letter_factory.encryption.decrypt_letter(letter)

    def _announce(self, letter: DeadLetter, outcome: str, assessment: Assessment | None) -> None:
        """Tell the breaker and the listeners how the run went."""
        circuit = letter.circuit
        if outcome == "released":
            self._context.announce(EventName.RELEASED, letter)
        elif assessment is None:
            self._context.breakers.record_success(circuit)
            self._context.announce(EventName.RETRY_SUCCEEDED, letter)
        else:
            self._context.breakers.record_failure(circuit, assessment.category, self._clock.monotonic())
            self._context.announce(EventName.RETRY_FAILED, letter)
            if letter.status is DeadLetterStatus.EXHAUSTED:
                self._context.announce(EventName.EXHAUSTED, letter)
        if letter.next_retry_at is not None:
            self._wake(letter.next_retry_at)


class ClaimBatch:
    """The memory of one claim between its writes: probed circuits, a suspect letter, and lost races."""

    def __init__(self) -> None:
        self._probes: set[str] = set()
        self._suspect = False
        self.lost = False  # whether somebody else got a letter first
        self._random = random.Random()

    def may_go(self, circuit: str, position: CircuitState) -> bool:
        """Return whether the adapter's circuit lets it through: of a half-open one a single letter probes."""
        if position is CircuitState.HALF_OPEN and circuit not in self._probes:
            self._probes.add(circuit)
            return True
        return position is CircuitState.CLOSED

    def is_safe(self, claim: DeadLetter) -> bool:
        """Return whether a claim is safe: letters that may kill their worker go out one at a time (ADR 0010)."""
        last_chance = claim.recoveries >= MAX_RECOVERIES - 1
        safe = not (last_chance and self._suspect)
        self._suspect |= last_chance
        return safe

    def spread(self, waiting: list[DeadLetter], order: Sequence[Sort]) -> None:
        """Shuffle equally urgent letters if others want the same ones."""
        lost, self.lost = self.lost, False
        if not lost or order != SOONEST_FIRST:  # the longest due are taken one after the other
            return
        self._random.shuffle(waiting)
        waiting.sort(key=lambda letter: -letter.priority)


def _keep_from_running(claim: DeadLetter, token: str, now: datetime) -> DeadLetter:
    """Return the claim, or the letter given back to wait for an edit if a value of its task was lost."""
    if claim.lease is None or (lost := find_lost(claim.payload_types.value)) is None:
        return claim
    return lifecycle.release(claim, token=token, now=now, unfit=str(lost), needs_edit=True)


def _require_settlement(
    outcome: object, error: object, error_type: object, category: object, retry_in: Any
) -> timedelta | None:
    """Return the requested wait. Raises InvalidInput for a report that makes no sense."""
    if outcome not in OUTCOMES:
        raise InvalidInput(f"an outcome is one of {', '.join(OUTCOMES)}, not {outcome!r:.80}")
    if outcome == "failed" and (not isinstance(error, BaseException | str) or not error):
        raise InvalidInput("a run that failed has an error: say what went wrong, in words or as the exception")
    if outcome != "failed" and any(each is not None for each in (error, error_type, category)):
        raise InvalidInput(f"a run that is {outcome} has no error, error_type or category")
    if outcome == "succeeded" and retry_in is not None:
        raise InvalidInput("a run that succeeded is not retried")
    if not isinstance(error_type, str | None):
        raise InvalidInput(f"error_type is the name of a type, not {error_type!r:.80}")
    if category is not None:
        named_category(category)
    return None if retry_in is None else min(require_wait(retry_in), MAX_DELAY)


def _adapter_names(given: object) -> frozenset[str] | None:
    """Return the requested adapters; None for all. Raises InvalidInput for anything but names."""
    if given is None:
        return None
    names = list(given) if isinstance(given, Collection) and not isinstance(given, str) else []
    if not names or not all(isinstance(name, str) and name for name in names):
        raise InvalidInput(f"adapters is a list of names, or left out for letters of all adapters, not {given!r:.80}")
    return frozenset(names)
