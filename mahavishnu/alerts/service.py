"""Alerts: a process looks at the queue, writes the notices that are due, and tells the channels what is written.

A notice is written before it is sent, and its sender holds the alert for a while: of many processes one tells it. If
that one dies, another one tells it after that time. A channel that fails is tried again on its own; nothing else waits
for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mahavishnu.alerts.channels import CHANNEL_SECONDS, Channel, Refused, make_channels
from mahavishnu.alerts.records import ALERTS
from mahavishnu.alerts.rules import (
    CHANNELS,
    GROUP_REASONS,
    KEPT,
    Alert,
    AlertPhase,
    AlertReason,
    AlertRules,
    Finding,
    NoticeKind,
    RuleReport,
    exhausted_finding,
    fold_groups,
    group_finding,
    hold_alert,
    next_alert,
    note_sent,
    owed_channels,
    report_rules,
    run_finding,
    store_finding,
    worker_finding,
)
from mahavishnu.bulk.run import RunState
from mahavishnu.bulk.service import BulkRuns
from mahavishnu.engine.periodic import PeriodicTask
from mahavishnu.groups.rules import GroupView
from mahavishnu.groups.service import Groups
from mahavishnu.model.errors import InvalidInput, StoreError
from mahavishnu.model.events import log_event
from mahavishnu.model.query import Between, Is, Not, Query, Sort
from mahavishnu.stores.base import get_one, scan, update_with_retry, write_one, write_with_retry
from mahavishnu.stores.scoped import NamespaceRecords

if TYPE_CHECKING:
    from mahavishnu.engine.queue import LetterQueue

log = logging.getLogger("mahavishnu.alerts")
LOOK_SECONDS = 30.0
WATCH = "*watch"  # the record that says when it was looked last: one process looks, whoever it is
_OPEN = (AlertPhase.FIRING, AlertPhase.TAKEN)
_MOST = 1000  # groups and runs that are looked at
_RECENT = timedelta(days=1)


_SECONDS = 10.0  # between looks


class Alerts:
    """The alerts of one namespace; those of `*` are only listed. All methods raise StoreError."""

    @classmethod
    def for_queue(cls, queue: LetterQueue) -> Alerts:
        """Return the alerts of a queue."""
        return cls(queue)

    def __init__(self, dlq: LetterQueue) -> None:
        self._dlq, self._context, self._clock = dlq, dlq.context, dlq.context.clock
        self._records = NamespaceRecords(dlq.context.store.collection(ALERTS), dlq.context.namespace)
        self._unwritten = Alert(AlertReason.DEGRADED, dlq.context.namespace)  # told of while nothing can be written

    @property
    def _rules(self) -> AlertRules:
        return self._context.rules(AlertRules)

    async def list(self, *, resolved: bool = False) -> Sequence[Alert]:
        """Return alerts that hold, latest first, and ended ones if `resolved`; none without channels or in a scope."""
        await self._context.open()
        scope = self._context.scope
        where = () if resolved else (Is("phase", _OPEN),)
        found = [each async for each in scan(self._records, Query(where, (Sort("since", descending=True),)))]
        return [each for each in found if each.name != WATCH and (scope is None or scope.covers_whole(each.namespace))]

    async def rules(self) -> Sequence[RuleReport]:
        """Report all rules: whether they are on, their channels, and how many alerts hold because of each."""
        known = self._context.sees_whole_namespace
        return report_rules(self._rules, [each.reasons for each in await self.list()] if known else None)

    async def test(self, channel: str | None = None) -> Mapping[str, str | None]:
        """Send a test to one channel or all; return each problem, or None. Raises InvalidInput for an unknown one."""
        await self._context.require("alert.test", "alerts")
        channels = make_channels(self._rules, self._clock)
        if channel is not None and channel not in channels:
            known = f"there are {', '.join(channels)}" if channels else "none is"
            known = f"{known}; it could be one of {', '.join(CHANNELS)}"
            raise InvalidInput(f"no channel {channel!r:.80} of alerts is configured: {known}")
        now = self._clock.now()
        alert = Alert(
            f"test:{int(now.timestamp())}",
            self._context.namespace,
            AlertPhase.FIRING,
            title="This is a test of the alerts",
            detail="Nothing is wrong. Somebody ran mahavishnu alert test.",
            since=now,
            notice=1,
            notice_kind=NoticeKind.TRIGGER,
            noticed_at=now,
        )
        wanted = {name: each for name, each in channels.items() if channel in (None, name)}
        problems = await _tell(alert, wanted)
        if problems.get("pagerduty", "") is None:  # leaves no incident behind
            over = replace(alert, phase=AlertPhase.RESOLVED, notice=2, notice_kind=NoticeKind.RESOLVE)
            await _tell(over, {"pagerduty": channels["pagerduty"]})
        return problems

    # --- what a worker does

    async def run(self) -> int:
        """Look, if it is time to, and send due notices; a worker does it. Returns how many notices were taken."""
        await self._context.require("work")
        if not self._rules.channels or not self._context.is_at_home:
            return 0
        try:
            await self._context.open()
            if await self._begin_look():
                await self.look()
            taken = await self.send()
        except StoreError as problem:
            return await self._tell_unwritten(store_finding("down", str(problem), self._rules))
        return taken + await self._tell_unwritten(None)

    async def look(self) -> None:
        """Look at the queue, and update each alert."""
        await self._context.require("work")
        open_ones = {each.name: each for each in await self.list()}
        findings, is_over = await self._find(frozenset(open_ones))
        for name, finding in findings.items():
            await self._advance(name, finding)
        for name in open_ones:
            if name not in findings and is_over(name):
                await self._advance(name, None)
        await self._remove_old()

    async def send(self) -> int:
        """Send due notices to the channels. Returns how many were taken."""
        await self._context.require("work")
        now = self._clock.now()
        recent = Query((Between("noticed_at", at_least=now - _RECENT),))
        due = [each async for each in scan(self._records, recent) if owed_channels(each, self._rules, now)]
        return sum([await self._send_one(each) for each in due])

    async def _send_one(self, alert: Alert) -> int:
        owner, now = self._context.owner, self._clock.now()
        owed = owed_channels(alert, self._rules, now)
        if (claimed := hold_alert(alert, owner, owed, now, self._context.limits.skew)) is None:
            return 0
        if (held := await write_one(self._records, claimed)) is None:  # somebody else was quicker
            return 0
        problems = await self._tell(held, owed)
        after = self._clock.now()
        with suppress(StoreError):  # told again later, rather than not at all
            await update_with_retry(
                self._records, held.key, lambda current: note_sent(current, held, problems, owner, after), what="alert"
            )
        return sum(problem is None for problem in problems.values())

    async def _tell(self, alert: Alert, names: Sequence[str]) -> dict[str, str | None]:
        """Tell these channels, count and log their problems, and return them."""
        channels = make_channels(self._rules, self._clock)
        problems = await _tell(alert, {name: channels[name] for name in names})
        for channel, problem in problems.items():
            if problem is not None:
                self._context.counts["alert_notices_failed"] += 1
                extra = log_event("alert.failed", channel=channel, alert=alert.name)
                log.warning("%s did not take a notice of alert %s, which is tried again: %s",
                            channel, alert.name, problem, extra=extra)  # fmt: skip
        return problems

    async def _begin_look(self) -> bool:
        """Return whether it is this process that looks now."""
        now, skew = self._clock.now(), self._context.limits.skew
        watch = await get_one(self._records, Alert(WATCH, self._context.namespace).key)
        if watch is not None and watch.changed_at is not None:
            since = now - watch.changed_at
            if -skew < since < timedelta(seconds=LOOK_SECONDS):  # one of the future is of a clock that was wrong
                return False
        watch = replace(watch or Alert(WATCH, self._context.namespace), changed_at=now)
        return await write_one(self._records, watch) is not None

    async def _advance(self, name: str, finding: Finding | None) -> None:
        now, rules = self._clock.now(), self._rules

        def change(current: Alert | None) -> Alert | None:
            before = current or Alert(name, self._context.namespace)
            after = next_alert(before, finding, rules, now)
            return None if after is before else after

        await write_with_retry(self._records, Alert(name, self._context.namespace).key, change, what="alert")

    async def _remove_old(self) -> None:
        limit = self._clock.now() - KEPT
        over = Query((Between("resolved_at", below=limit), Not(Is("phase", _OPEN))), limit=_MOST)
        if old := (await self._records.find(over)).items:
            await self._records.remove(old)

    async def _tell_unwritten(self, finding: Finding | None) -> int:
        """Tell that the store is down and cannot be written to: each process for itself, with the same key."""
        now = self._clock.now()
        self._unwritten = next_alert(self._unwritten, finding, self._rules, now)
        wanted = owed_channels(self._unwritten, self._rules, now)
        if not wanted:
            return 0
        problems = await self._tell(self._unwritten, wanted)
        self._unwritten = note_sent(self._unwritten, self._unwritten, problems, "", self._clock.now())
        return sum(problem is None for problem in problems.values())

    # --- what is wrong now

    async def _find(self, own: frozenset[str]) -> tuple[dict[str, Finding], Callable[[str], bool]]:
        """Return problems by alert, and a test whether one is over: only if its kind was looked at completely."""
        rules, now = self._rules, self._clock.now()
        health = await self._dlq.health()
        found: list[Finding | None] = [store_finding(health.status, health.detail, rules)]
        groups: Sequence[GroupView] = ()
        groups_whole = numbers_whole = runs_whole = True
        if any(reason in rules.rules for reason in (*GROUP_REASONS, AlertReason.MANY_EXHAUSTED)):
            page = await self._dlq.service(Groups).list(limit=_MOST)
            groups, groups_whole = page.items, page.degraded is None and page.next is None
        of_groups = [each for view in groups if (each := group_finding(view, rules, now))]
        found += fold_groups(of_groups, own, rules.most_groups)
        if AlertReason.NO_WORKER in rules.rules or AlertReason.MANY_EXHAUSTED in rules.rules:
            stats = await self._dlq.get_statistics()
            numbers_whole = not stats.get("degraded") and stats.get("live_workers") is not None
            found.append(worker_finding(stats.get("due_without_worker") or {}, rules))
            closed = sum(view.statuses.get("exhausted", 0) for view in groups if view.group.is_closed)
            spoken_of = closed + sum(each.exhausted for each in of_groups)
            found.append(exhausted_finding(stats["status_breakdown"]["exhausted"], spoken_of, rules))
        if AlertReason.RUN_HALTED in rules.rules:
            halted = await self._dlq.service(BulkRuns).list(RunState.HALTED, limit=_MOST)
            found += [run_finding(run.run_id, run.verb, run.halted_because, rules) for run in halted.items]
            runs_whole = halted.degraded is None and halted.next is None

        def is_over(name: str) -> bool:
            if name.startswith("group"):
                return groups_whole
            return runs_whole if name.startswith("run:") else name == AlertReason.DEGRADED or numbers_whole

        return {each.name: each for each in found if each is not None}, is_over


async def _tell(alert: Alert, channels: Mapping[str, Channel]) -> dict[str, str | None]:
    """Tell all channels at once, and return each problem; None: it took the notice."""

    async def tell(channel: Channel) -> str | None:
        try:
            async with asyncio.timeout(2 * CHANNEL_SECONDS):
                await channel(alert)
        except TimeoutError:
            return f"no answer within {2 * CHANNEL_SECONDS:.0f} seconds"
        except Refused as problem:
            return str(problem)
        except Exception as problem:  # whatever a library raises: other channels and all else go on
            return f"{type(problem).__name__}: {problem}"
        return None

    answers = await asyncio.gather(*(tell(each) for each in channels.values()))
    return dict(zip(channels, answers, strict=True))


def chores(queue: LetterQueue) -> Iterable[PeriodicTask]:
    """Return the periodic tasks of alerts."""

    async def send_alerts() -> None:
        if queue.context.rules(AlertRules).channels:
            await queue.service(Alerts).run()

    return (PeriodicTask("alerts", send_alerts, lambda: _SECONDS),)
