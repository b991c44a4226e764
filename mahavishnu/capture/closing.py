"""Closes open letters whose work the application has done since: successes are noted at once, and looked up later.

A success waits for none of this. Many are looked up together, one look at a time, and looks take a quarter of the time
at most; what comes faster is let be and counted. A letter that was not closed for any reason stays, and is retried.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import weakref
from collections import deque
from collections.abc import Iterable, Sequence
from contextvars import Context
from datetime import datetime
from typing import TypeAlias

from mahavishnu.engine.context import QueueContext
from mahavishnu.engine.letter_factory import RequestOf
from mahavishnu.engine.sync_loop import current_sync_loop
from mahavishnu.engine.waiting_room import as_letter
from mahavishnu.model import lifecycle
from mahavishnu.model.errors import (
    InvalidInput,
    LetterBusy,
    MahavishnuError,
    StoreError,
    StoreMisconfigured,
    StoreUnavailable,
)
from mahavishnu.model.events import EventName
from mahavishnu.model.ids import DEFAULT_QUEUE, derived_task_id, document_key, new_entry_id, new_task_id
from mahavishnu.model.json_value import texts
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import ResolutionStatus
from mahavishnu.model.query import Is, Query
from mahavishnu.model.work import Success, original_task_id
from mahavishnu.stores.base import Result, finds_are_current, is_home_away, update_many_with_retry
from mahavishnu.values.payload import NOT_JSON

log = logging.getLogger(__name__)
_Noted: TypeAlias = tuple[str, RequestOf, datetime, str, str]
CLOSED, NOT_LOOKED_UP = "closed_by_success", "successes_not_looked_up"  # as they are counted
MOST_NOTED = 10_000  # that wait for a look
MOST_PUT_OFF = 1_000  # that wait for a store that is away
_AT_ONCE = 500  # keys in one read
_WORTH_ASKING = 50  # successes for which it is first asked whether anything is open
_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 1.0  # between two looks
_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 1.0, 60.0  # for a store that is away
_REST = 3  # a look is followed by a rest of so many times its length
_ANY_OPEN = Query((Is("resolution_status", (ResolutionStatus.PENDING,)),), limit=1)
_ANY = Query(limit=1)

_closings: weakref.WeakSet[Closing] = weakref.WeakSet()


def _after_fork() -> None:
    for closing in list(_closings):
        closing.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Closing:
    """Closes letters by successes of the application."""

    NEEDS = "work"

    def __init__(self, context: QueueContext) -> None:
        self._context, self._letters, self._clock = context, context.letters, context.clock
        self.forget()
        _closings.add(self)

    def forget(self) -> None:
        """Forget what was noted: after a fork, the parent process looks it up."""
        self._noted: deque[_Noted] = deque()
        self._put_off: list[_Noted] = []
        self._loop: asyncio.AbstractEventLoop | None = None  # in which looks are taken
        self._looking: asyncio.Task[None] | None = None
        self._is_resting = False
        self._flushes = 0  # that are under way: nobody rests meanwhile
        self._next_look = self._next_try = 0.0  # of what was put off
        self._wait = _FIRST_WAIT_SECONDS

    def note_success(self, task_id: str, request: RequestOf, *, began: datetime, queue: str = DEFAULT_QUEUE) -> None:
        """Note a success, see `DLQIntegration.note_success`. Returns at once, from any thread, and raises nothing."""
        noted = self._noted
        if len(noted) >= MOST_NOTED:
            self._context.counts[NOT_LOOKED_UP] += 1
            return
        noted.append((task_id, request, began, self._context.namespace, queue))
        loop = self._loop
        if loop is None or (loop is not asyncio._get_running_loop() and not loop.is_running()):
            self._start()

    async def flush(self) -> None:
        """Look up all that was noted so far; what the store cannot answer now is tried later. Raises nothing."""
        self._flushes += 1
        try:
            if self._looking is not None and self._loop is asyncio.get_running_loop():
                if self._is_resting:
                    self._looking.cancel()
                await asyncio.wait({self._looking})
            self._next_try = 0.0
            await self._look()
        finally:
            self._flushes -= 1
            if self._noted or self._put_off:
                self._start()

    async def finish(self) -> None:
        """Look up what was noted, because the queue is closed; what the store cannot answer now is let be."""
        if self._noted or self._put_off or self._looking is not None:
            self._flushes += 1  # nothing is to be started again
            try:
                await self.flush()
            finally:
                self._flushes -= 1
        if left := len(self._noted) + len(self._put_off):
            log.warning("%d successes could not be looked up: if they have open letters, those are retried", left)
            self._context.counts[NOT_LOOKED_UP] += left
            self.forget()

    def _start(self) -> None:
        """Take looks in this event loop from now on; where there is none, in the one that uses the store.

        If that is the loop for code without one, or if there is none, then there: at the interpreter's end it waits.
        """
        loop, sync = asyncio._get_running_loop(), current_sync_loop()
        if self._flushes or (loop is None and self._context.session.call_at_home(self._start)):
            return
        if loop is None or loop is sync.loop:
            try:
                sync.begin(self._take_looks(until_away=True))
            except StoreUnavailable as problem:
                log.debug("successes wait for an event loop: %s", problem)
            return
        # In a context of its own: it has nothing to do with the run that succeeded just now.
        self._loop, self._looking = loop, asyncio.Task(self._take_looks(), loop=loop, context=Context())
        self._looking._log_destroy_pending = False  # type: ignore[attr-defined]  # it may end with its loop
        self._looking.add_done_callback(self._note_end)

    def _note_end(self, looking: object) -> None:
        if self._looking is looking:
            self._loop = self._looking = None

    async def _take_looks(self, until_away: bool = False) -> None:
        """Take one look after the other until nothing is left; `until_away`: or until the store is away."""
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        if self._looking is not task:
            if self._looking is not None and self._loop is not None and self._loop.is_running():
                return  # it is done there
            self._loop, self._looking = loop, task
        try:
            while (self._noted or (self._put_off and not until_away)) and not self._flushes:
                await self._rest()
                if not self._flushes:
                    await self._look()
        finally:
            if self._looking is task:
                self._note_end(task)
                if self._noted and not self._flushes and sys.exc_info()[1] is None:
                    self._start()  # a thread noted one at this moment

    async def _rest(self) -> None:
        until = self._next_look if self._noted else max(self._next_look, self._next_try)
        if (seconds := until - self._clock.monotonic()) > 0:
            self._is_resting = True
            try:
                await self._clock.sleep(seconds)
            finally:
                self._is_resting = False

    async def _look(self) -> None:
        """Look up what was noted, and what was put off if its time has come."""
        began = self._clock.monotonic()
        batch = self._take(began)
        left: Sequence[_Noted] = batch
        try:
            if batch:
                left = await self._context.session.run_in_home_loop(lambda: self._close_letters(batch))
        except MahavishnuError as problem:
            log.debug("%d successes cannot be looked up now: %s", len(batch), problem)
        except Exception:
            log.exception("%d successes could not be looked up", len(batch))
            self._context.counts[NOT_LOOKED_UP] += len(batch)
            left = ()
        finally:  # also where it was cancelled
            self._put_back(left)
            now = self._clock.monotonic()
            self._next_look = now + min(max(_PAUSE_SECONDS, _REST * (now - began)), _LONGEST_PAUSE_SECONDS)

    def _take(self, now: float) -> list[_Noted]:
        batch = [self._noted.popleft() for _ in range(len(self._noted))]
        if now >= self._next_try:
            batch, self._put_off = [*self._put_off, *batch], []
        return batch

    def _put_back(self, left: Sequence[_Noted]) -> None:
        if not left:
            if not self._put_off:
                self._wait = _FIRST_WAIT_SECONDS
            return
        waiting = [*self._put_off, *left]
        self._put_off = waiting[-MOST_PUT_OFF:]
        self._context.counts[NOT_LOOKED_UP] += len(waiting) - len(self._put_off)
        self._next_try = self._clock.monotonic() + self._wait
        self._wait = min(2 * self._wait, _LONGEST_WAIT_SECONDS)

    async def _close_letters(self, batch: Sequence[_Noted]) -> list[_Noted]:
        """Close what these successes close. Returns those for which the store could not be asked."""
        await self._context.open()
        own = all(namespace == self._context.namespace for _, _, _, namespace, _ in batch)
        if own and len(batch) >= _WORTH_ASKING and await self._is_nothing_open():
            return []
        left: list[_Noted] = []
        for start in range(0, len(batch), _AT_ONCE):
            try:
                left += await self._close_some(batch[start : start + _AT_ONCE])
            except (StoreUnavailable, StoreMisconfigured) as problem:
                log.debug("successes wait, because letters cannot be looked up now: %s", problem)
                return [*left, *batch[start:]]
        return left

    async def _is_nothing_open(self) -> bool:
        """Return True if certainly no letter is open that was captured before these successes began."""
        waiting = self._context.waiting
        if waiting.keys_outside() or not finds_are_current(self._context.store):
            return False
        if (await waiting.collection.find(_ANY)).items:  # first: what is let in meanwhile is found open
            return False
        return not (await self._letters.find(_ANY_OPEN)).items

    async def _close_some(self, batch: Sequence[_Noted]) -> list[_Noted]:
        """Close the letters of one read. Under a task id that never had a letter there is no other work either."""
        left = list(batch) if is_home_away(self._context.store) else []  # what is in there is looked up later
        names = [_task_id(each) for each in batch]
        keys = [document_key(name, *each[3:]) for name, each in zip(names, batch, strict=True)]
        if outside := self._context.waiting.keys_outside():
            left += [each for key, each in zip(keys, batch, strict=True) if key in outside]
        await self._close_waiting(names, keys, batch, left)  # first: what is let in meanwhile is found below
        found: dict[str, tuple[DeadLetter, list[tuple[_Noted, Success]]]] = {}
        known: list[tuple[str, _Noted, Success]] = []
        for name, noted, letter in zip(names, batch, await self._letters.records.get(keys), strict=True):
            if letter is None:
                continue
            if (success := self._success_of(name, noted)) is not None:
                known.append((name, noted, success))
                self._sort(letter, noted, success, found, left)
        if known:
            others = [
                document_key(derived_task_id(name, each.payload.digest), *noted[3:]) for name, noted, each in known
            ]
            results: Sequence[Result[DeadLetter]]
            try:
                results = await self._letters.get(others)
            except (StoreUnavailable, StoreMisconfigured) as problem:  # what was found can be closed all the same
                results = [problem] * len(others)
            for (name, noted, success), letter in zip(known, results, strict=True):
                if not isinstance(letter, DeadLetter) or original_task_id(letter) == name:
                    self._sort(letter, noted, success, found, left)
        await self._write([*found.values()], left)
        return list({id(each): each for each in left}.values())

    async def _close_waiting(
        self, names: Sequence[str], keys: Sequence[str], batch: Sequence[_Noted], left: list[_Noted]
    ) -> None:
        """Close failures that wait for room: they are let in at once, as closed letters."""
        room = self._context.waiting
        for waiting in await room.find(names):
            letter = as_letter(waiting)
            mine = [(name, noted) for name, key, noted in zip(names, keys, batch, strict=True) if key == letter.key]
            successes = [
                (noted, success) for name, noted in mine if (success := self._success_of(name, noted)) is not None
            ]
            if (closed := self._close(letter, successes)).is_open:
                continue
            try:
                stored = await room.let_in_closed(waiting, closed)
            except (LetterBusy, StoreError) as problem:
                log.debug("letter %r, which waits for room, cannot be closed now: %s", letter.key, problem)
                left += [noted for noted, _ in successes]
            else:
                if stored is not None and not stored.is_open:
                    self._announce(stored)

    def _sort(
        self,
        letter: Result[DeadLetter],
        noted: _Noted,
        success: Success,
        found: dict[str, tuple[DeadLetter, list[tuple[_Noted, Success]]]],
        left: list[_Noted],
    ) -> None:
        if isinstance(letter, DeadLetter):
            if letter.is_open:
                found.setdefault(letter.key, (letter, []))[1].append((noted, success))
        elif isinstance(letter, StoreUnavailable | StoreMisconfigured):
            left.append(noted)
        elif letter is not None:
            log.warning("whether a success closes a letter cannot be looked up: %s", letter)
            self._context.counts[NOT_LOOKED_UP] += 1

    async def _write(
        self, found: Iterable[tuple[DeadLetter, list[tuple[_Noted, Success]]]], left: list[_Noted]
    ) -> None:
        changed = [
            (after, successes) for letter, successes in found if (after := self._close(letter, successes)) is not letter
        ]
        successes_of = {letter.key: successes for letter, successes in changed}

        def close_again(lost: DeadLetter, current: DeadLetter | None) -> DeadLetter | None:
            after = current and self._close(current, successes_of[lost.key])
            return None if after is current else after

        outcomes = await update_many_with_retry(self._letters, [letter for letter, _ in changed], close_again)
        for (letter, successes), outcome in zip(changed, outcomes, strict=True):
            if isinstance(outcome, DeadLetter):
                self._announce(outcome)
            elif outcome is not None:
                log.debug("letter %r cannot be closed now: %s", letter.key, outcome)
                left += [noted for noted, _ in successes]

    def _close(self, letter: DeadLetter, successes: Iterable[tuple[_Noted, Success]]) -> DeadLetter:
        before = letter
        for success in (success for _, success in successes if letter.is_open):
            letter = lifecycle.close_by_success(letter, success, now=self._clock.now())
        only_whole = not self._context.limits.only_failed_repos
        return before if only_whole and letter.is_open else letter

    def _announce(self, letter: DeadLetter) -> None:
        by, notes = lifecycle.BY_APPLICATION, letter.resolution.notes
        if letter.is_open:
            self._context.announce(EventName.EDITED, letter, letter.updated_at, by=by, changed=["repos"])
            return
        self._context.counts[CLOSED] += 1
        log.info("letter %r is closed: %s", letter.key, notes)
        self._context.announce(EventName.RESOLVED, letter, letter.updated_at, by=by, notes=notes, was_open=True)

    def _success_of(self, task_id: str, noted: _Noted) -> Success | None:
        """Return what was done; None where no letter that could be run again can have it."""
        try:
            request = noted[1]()
            written = self._context.letter_factory.write_payload(request)
            if NOT_JSON in written.notes:  # descriptions, which do not say what it was
                return None
            repos, typed = texts(request.repos, "repos"), request.write is not None
            mark, skew = new_entry_id.mark, self._context.limits.skew
            return Success(written.payload, request.adapter, repos, noted[2], written.types, typed, mark, skew)
        except InvalidInput:
            return None
        except Exception:  # it is code of a user
            log.exception("what task %r was run with cannot be told: its letter stays", task_id)
            return None


def _task_id(noted: _Noted) -> str:
    """Return the task id that a failure of this run would have: another one, where no letter can have its own."""
    task_id, where = noted[0], noted[3:]
    try:
        document_key(task_id, *where)
    except InvalidInput:
        return new_task_id(task_id)
    return task_id
