"""Alerts: their rules, what a look at the queue finds by them, and which notice is due to which channel."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Literal
from urllib.parse import quote

from msgspec import field
from msgspec.structs import replace

from mahavishnu.groups.rules import Attention, GroupView, attention_of
from mahavishnu.model.clock import instant_text
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.ids import DEFAULT_NAMESPACE
from mahavishnu.model.record import Value, Version, Versioned
from mahavishnu.model.rules import LONGEST_MINUTES, Rules, require_web_url, rule, url_rule

LONGEST_ALERT_TITLE = 200  # characters
CHANNELS = ("webhook", "slack", "pagerduty", "email", "log")


class AlertReason(StrEnum):
    """The rules: the reasons for alerts."""

    FIRST_SEEN = "first_seen"  #: a group is new
    REGRESSION = "regression"  #: a resolved group is back
    GROWTH = "growth"  #: a group grows
    AGE = "age"  #: letters of a group have waited for a person for long, whoever has taken it
    NEEDS_PERSON = "needs_person"  #: letters of a group wait for a person
    MANY_EXHAUSTED = "many_exhausted"  #: many letters are exhausted that no other alert speaks of
    DEGRADED = "degraded"  #: the store does not do all it should
    NO_WORKER = "no_worker"  #: letters are due that no live worker can run
    RUN_HALTED = "run_halted"  #: a bulk run was halted by its stop rule


_RUNBOOKS: Mapping[str, str] = {  # sections of docs/production/runbooks.md
    AlertReason.REGRESSION: "groupisback",
    AlertReason.GROWTH: "dlqsizehigh",
    AlertReason.NEEDS_PERSON: "lettersneedaperson",
    AlertReason.MANY_EXHAUSTED: "lettersneedaperson",
    AlertReason.DEGRADED: "storedegraded",
    AlertReason.NO_WORKER: "noworkerfordueletters",
}
GROUP_REASONS = (
    AlertReason.FIRST_SEEN,
    AlertReason.REGRESSION,
    AlertReason.GROWTH,
    AlertReason.AGE,
    AlertReason.NEEDS_PERSON,
)


def _require_known(names: Iterable[str], known: Sequence[str], what: str, field: str) -> None:
    for name in names:
        if name not in known:
            raise InvalidInput(f"{field}: there is no {what} {name!r:.80} of alerts; there are {', '.join(known)}")


def _require_reasons(names: Iterable[str], field: str) -> None:
    _require_known(names, list(AlertReason), "rule", field)


def _require_routes(routes: Mapping[str, Iterable[str]], field: str) -> None:
    _require_known(routes, CHANNELS, "channel", field)
    _require_reasons((name for names in routes.values() for name in names), field)


def _require_addresses(value: str | Iterable[str], field: str) -> None:
    for each in (value,) if isinstance(value, str) else value:
        if not re.fullmatch(r"[^@\s<>,;]+@[^@\s<>,;]+", each):
            raise InvalidInput(f"{field} must be an address such as ops@example.com, not {each!r:.80}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRules(Rules):
    """The rules that are on, their channels, and how often notices are repeated. Raises InvalidInput for unknown ones.

    `routes` are the rules that a channel is told of, where those are not all. An alert that has ended and begins again
    is told of after `cool_down_minutes`; one that is not taken is repeated after `repeat_minutes`, None: never. More
    than `most_groups` groups that begin at once share one alert.
    """

    rules: tuple[str, ...] = rule(
        tuple(each for each in AlertReason if each is not AlertReason.FIRST_SEEN),
        "What is told of",
        allowed=f"a list of some of {', '.join(map(repr, AlertReason))}",
        check=_require_reasons,
    )
    routes: Mapping[str, tuple[str, ...]] = rule(
        {}, "The rules that a channel is told of, by its name, where those are not all", check=_require_routes
    )
    first_seen_minutes: int = rule(60, "How long a group of failures is new", 1, LONGEST_MINUTES)
    age_hours: int = rule(24, "How long letters may wait for a person", 1, 8760)
    many_exhausted: int = rule(100, "How many exhausted letters are many, besides those of groups", 1, 100000)
    most_groups: int = rule(10, "Of how many new groups at once each has an alert of its own", 1, 1000)
    cool_down_minutes: int = rule(15, "How long nothing is said of what ended and begins again", 0, 1440)
    repeat_minutes: int | None = rule(
        240, "After how long it is said again that something is wrong that nobody has taken; null: never", 1, 10080
    )
    console_url: str | None = url_rule(None, "Where people reach the console, for links in notices")
    log: bool = rule(False, "Write notices into the log")
    webhook_url: str | None = url_rule(
        None, "Where notices are posted to, as JSON. It is a secret: many have a token in them", secret=True
    )
    webhook_secret: str | None = rule(None, "What posted notices are signed with", secret=True)
    slack_url: str | None = rule(
        None, "The incoming webhook of a Slack channel; it is a secret", secret=True, check=require_web_url
    )
    pagerduty_key: str | None = rule(None, "The integration key of a PagerDuty service (Events API v2)", secret=True)
    pagerduty_url: str = url_rule(
        "https://events.pagerduty.com/v2/enqueue", "Where PagerDuty takes events, or what speaks as it does"
    )
    email_to: tuple[str, ...] = rule((), "Addresses that notices are sent to", check=_require_addresses)
    email_from: str = rule("mahavishnu@localhost", "The address that notices come from", 3, check=_require_addresses)
    smtp_host: str = rule("localhost", "The mail server", 1)
    smtp_port: int = rule(25, "The port of the mail server", 1, 65535)
    smtp_security: Literal["none", "starttls", "tls"] = rule(
        "none", "How the mail server is spoken to: in clear, by STARTTLS, or by TLS from the start"
    )
    smtp_user: str | None = rule(None, "User name for the mail server")
    smtp_password: str | None = rule(None, "Password for the mail server", secret=True)

    def check_together(self) -> None:
        """Raise InvalidInput for a password that would be sent in clear."""
        if self.smtp_password is not None and self.smtp_security == "none":
            raise InvalidInput("smtp_password is only sent over TLS: alerts.smtp_security must be starttls or tls")

    @property
    def channels(self) -> tuple[str, ...]:
        """The configured channels."""
        wanted = (self.webhook_url, self.slack_url, self.pagerduty_key, self.email_to, self.log)
        return tuple(name for name, is_wanted in zip(CHANNELS, wanted, strict=True) if is_wanted)


class RuleReport(Value, frozen=True):
    """A rule as it is set: when it holds, whether it is on, its channels, and how many alerts it has now.

    `holding` is None for a reader of a part of the letters. `path` is the page of the console to look at, and `runbook`
    the one with instructions, where there is one.
    """

    rule: str
    about: str
    is_on: bool
    channels: tuple[str, ...]
    holding: int | None
    path: str
    runbook: str | None


def report_rules(rules: AlertRules, holding: Iterable[Sequence[str]] | None) -> tuple[RuleReport, ...]:
    """Report all rules, also those that are switched off; `holding` are the reasons of each alert that holds, if known.

    >>> report = report_rules(AlertRules(log=True), [("growth", "age")])
    >>> [(each.rule, each.holding) for each in report if each.holding], report[0].is_on
    ([('growth', 1), ('age', 1)], False)
    """
    alerts = None if holding is None else [frozenset(reasons) for reasons in holding]
    return tuple(
        RuleReport(
            reason.value,
            about,
            reason in rules.rules and bool(channels := _channels_for(reason, rules)),
            channels if reason in rules.rules else (),
            None if alerts is None else sum(reason.value in reasons for reasons in alerts),
            path,
            runbook_path([reason]),
        )
        for reason, about, path in _rules_in_words(rules)
    )


def runbook_path(reasons: Iterable[str]) -> str | None:
    """Return the console's page with instructions for an alert; None where there is none.

    >>> runbook_path([AlertReason.AGE, AlertReason.DEGRADED])
    '/runbooks#storedegraded'
    """
    return next((f"/runbooks#{_RUNBOOKS[each]}" for each in reasons if each in _RUNBOOKS), None)


def _channels_for(reason: AlertReason, rules: AlertRules) -> tuple[str, ...]:
    return tuple(each for each in rules.channels if each not in rules.routes or reason in rules.routes[each])


def _rules_in_words(rules: AlertRules) -> Sequence[tuple[AlertReason, str, str]]:
    """Return each rule with when it holds, and the page to look at."""
    groups = "/groups"
    new, old = rules.first_seen_minutes, rules.age_hours
    exhausted = f"{_count(rules.many_exhausted, 'letter')} or more are exhausted that no other alert speaks of"
    return (
        (AlertReason.FIRST_SEEN, f"the first letter of a group came in the last {_count(new, 'minute')}", groups),
        (AlertReason.REGRESSION, "a group that was resolved has new letters", groups),
        (AlertReason.GROWTH, "the last hour brought many more letters of a group than usual", groups),
        (AlertReason.AGE, f"letters of a group have waited for a person for {_count(old, 'hour')}", groups),
        (AlertReason.NEEDS_PERSON, "nothing will run letters of a group by itself", groups),
        (AlertReason.MANY_EXHAUSTED, exhausted, "/letters?q=status%3Aexhausted"),
        (AlertReason.DEGRADED, "the store does not do all it should, or is away", "/"),
        (AlertReason.NO_WORKER, "letters are due that no live worker can run", "/workers"),
        (AlertReason.RUN_HALTED, "a bulk run was halted by its stop rule", "/runs?state=halted"),
    )


class Finding(Value, frozen=True):
    """A problem with one thing now, or what would be one if it were not `muted`.

    `exhausted` letters are spoken of. `path` is the page of the console, below its URL.
    """

    name: str
    reasons: tuple[AlertReason, ...]
    title: str
    detail: str = ""
    path: str = "/"
    taken_by: str | None = None
    muted: bool = False
    exhausted: int = 0


def group_finding(view: GroupView, rules: AlertRules, now: datetime) -> Finding | None:
    """Return the problem of a group, by the rules; None: there is none, or no longer."""
    attention = attention_of(view)
    if not view.count or view.group.is_closed:
        return None
    begun = view.group.regressed_at or view.first_seen
    holds = {
        AlertReason.FIRST_SEEN: view.first_seen is not None
        and now - view.first_seen <= timedelta(minutes=rules.first_seen_minutes),
        AlertReason.REGRESSION: view.regression,
        AlertReason.GROWTH: view.growing,
        AlertReason.AGE: bool(view.for_people)
        and begun is not None
        and now - begun >= timedelta(hours=rules.age_hours),
        AlertReason.NEEDS_PERSON: bool(view.for_people),
    }
    reasons = tuple(each for each in GROUP_REASONS if holds[each] and each in rules.rules)
    if not reasons:
        return None
    taken = (view.owner or view.state.value.replace("_", " ")) if attention is Attention.HANDLED else None
    letters = f"{_count(view.count, 'open letter')}, {view.for_people} for people, {view.last_hour} in the last hour"
    return Finding(
        f"group:{view.fingerprint}",
        reasons,
        shorten(view.title or f"group {view.fingerprint}"),
        f"{letters}. mahavishnu group show {view.fingerprint}",
        f"/groups/{quote(view.fingerprint, safe='')}",
        taken,
        view.on_hold,
        view.statuses.get("exhausted", 0),
    )


def fold_groups(findings: Iterable[Finding], own: frozenset[str], most: int) -> list[Finding]:
    """Fold more than `most` new findings into one. Groups named in `own` have an alert of their own already.

    >>> many = [Finding(f"group:{number}", (AlertReason.GROWTH,), "KeyError", exhausted=1) for number in range(9)]
    >>> [each.name for each in fold_groups(many, frozenset({"group:3"}), 2)]
    ['group:3', 'groups']
    """
    kept: list[Finding] = []
    new: list[Finding] = []
    for each in findings:
        (kept if each.name in own or each.muted or each.taken_by else new).append(each)
    if len(new) <= most:
        return [*kept, *new]
    reasons = {reason for each in new for reason in each.reasons}
    examples = "; ".join(each.title for each in new[:3])
    folded = Finding(
        "groups",
        tuple(each for each in GROUP_REASONS if each in reasons),
        f"{len(new)} groups of failures at once",
        f"Among them: {examples}. mahavishnu group list",
        "/groups",
        exhausted=sum(each.exhausted for each in new),
    )
    return [*kept, folded]


def exhausted_finding(exhausted: int, spoken_of: int, rules: AlertRules) -> Finding | None:
    """Report many exhausted letters that no group speaks of: `spoken_of` have an alert, or are in a closed group."""
    left = exhausted - spoken_of
    if left < rules.many_exhausted:
        return None
    detail = "mahavishnu dlq list --status exhausted"
    return _system(AlertReason.MANY_EXHAUSTED, f"{_count(left, 'letter')} exhausted", detail, rules, "/letters")


def worker_finding(due: Mapping[str, int], rules: AlertRules) -> Finding | None:
    """Report due letters that no live worker can run."""
    if not sum(due.values()):
        return None
    adapters = ", ".join(f"{name}: {number}" for name, number in list(due.items())[:5])
    title = f"{_count(sum(due.values()), 'letter')} due that no live worker can run"
    return _system(AlertReason.NO_WORKER, title, f"By adapter: {adapters}. mahavishnu worker list", rules)


def store_finding(status: str, detail: str, rules: AlertRules) -> Finding | None:
    """Report that the store does not do all it should."""
    if status == "ok":
        return None
    return _system(AlertReason.DEGRADED, f"The store is {status}", detail or "mahavishnu doctor", rules)


def run_finding(run_id: str, verb: str, why: str | None, rules: AlertRules) -> Finding | None:
    """Report that a bulk run was halted."""
    title = shorten(f"Bulk run {run_id} ({verb}) was halted: {why or 'no reason is known'}")
    found = _system(AlertReason.RUN_HALTED, title, f"mahavishnu run show {run_id}", rules)
    return found and replace(found, name=f"run:{run_id}")


def _system(reason: AlertReason, title: str, detail: str, rules: AlertRules, path: str = "/") -> Finding | None:
    return Finding(reason.value, (reason,), title, detail, path) if reason in rules.rules else None


def shorten(text: str) -> str:
    """Return one line of a title."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_ALERT_TITLE else line[: LONGEST_ALERT_TITLE - 1] + "…"


def _count(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"


# --- alerts and notices

HELD = timedelta(seconds=60)  # longer than it takes to tell all channels once
KEPT = timedelta(days=30)  # how long an alert is known after its end
_TOLD_FOR = timedelta(days=1)  # what a channel has not taken by then, it never gets
_FIRST_REST, _LONGEST_REST = timedelta(seconds=10), timedelta(minutes=10)


class AlertPhase(StrEnum):
    """The state of an alert."""

    FIRING = "firing"
    TAKEN = "taken"  #: it still holds, and somebody has taken it
    RESOLVED = "resolved"


class NoticeKind(StrEnum):
    """The kind of a notice."""

    TRIGGER = "trigger"  #: it began, or there is one reason more
    REMIND = "remind"  #: it still holds
    ACKNOWLEDGE = "acknowledge"  #: somebody has taken it
    RESOLVE = "resolve"


class Sent(Value, frozen=True):
    """The state of a channel: the last notice that it took, of which incident; or how often that was tried in vain."""

    notice: int = 0
    incident: int = 0
    tries: int = 0
    next_at: datetime | None = None
    problem: str | None = None


_NOTHING_SENT = Sent()


class Alert(Versioned, frozen=True):
    """An alert as it is stored. `since` it holds, for `reasons`; it is its `incident`-th time.

    `notice` counts the notices to channels; the latest is of `notice_kind` and from `noticed_at`. Channels were `told`
    these reasons of this incident. While `holder` tells the channels, until `held_until`, no other process does.
    """

    name: str
    namespace: str = DEFAULT_NAMESPACE
    phase: AlertPhase = AlertPhase.RESOLVED
    reasons: tuple[str, ...] = ()
    title: str = ""
    detail: str = ""
    path: str = "/"
    taken_by: str | None = None
    changed_at: datetime | None = None
    since: datetime | None = None
    resolved_at: datetime | None = None
    incident: int = 0
    told: tuple[str, ...] = ()
    notice: int = 0
    notice_kind: NoticeKind | None = None
    noticed_at: datetime | None = None
    sent: Mapping[str, Sent] = field(default_factory=dict)
    holder: str | None = None
    held_until: datetime | None = None
    version: Version | None = None

    @property
    def key(self) -> str:
        """The key of the record."""
        return f"{self.namespace}/{self.name}"

    @property
    def holds(self) -> bool:
        """True if it is not over."""
        return self.phase is not AlertPhase.RESOLVED

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values for people: channels that were told, and their problems."""
        shown = {
            name: getattr(self, name)
            for name in ("name", "namespace", "phase", "reasons", "title", "detail", "taken_by", "incident", "notice")
        }
        instants = {
            name: None if (at := getattr(self, name)) is None else instant_text(at)
            for name in ("since", "noticed_at", "resolved_at")
        }
        channels = [
            {"channel": channel, "told": sent.notice == self.notice, "tries": sent.tries, "problem": sent.problem}
            for channel, sent in self.sent.items()
        ]
        return {**shown, "reasons": list(self.reasons), **instants, "channels": channels}


# --- what becomes of an alert


def next_alert(alert: Alert, finding: Finding | None, rules: AlertRules, now: datetime) -> Alert:
    """Return the alert after a look with this finding, or without one. The same object where nothing is new."""
    if finding is None or finding.muted:
        return _end(alert, now, muted=finding is not None)
    begins = not alert.holds
    after = replace(
        alert,
        phase=AlertPhase.TAKEN if finding.taken_by else AlertPhase.FIRING,
        reasons=tuple(finding.reasons),
        title=finding.title,
        detail=finding.detail,
        path=finding.path,
        taken_by=finding.taken_by,
        since=now if begins else alert.since,
        resolved_at=None,
        incident=alert.incident + begins,
        told=() if begins else alert.told,
    )
    kind = _due_notice(alert, after, rules, now)
    if kind is not None:
        told = tuple(dict.fromkeys((*after.told, *after.reasons)))
        after = replace(_notify(after, kind, now), told=told)
    return alert if after == alert else replace(after, changed_at=now)


def _due_notice(before: Alert, after: Alert, rules: AlertRules, now: datetime) -> NoticeKind | None:
    news = set(after.reasons) - set(after.told)
    if after.phase is AlertPhase.TAKEN:  # who has it looks at it: only that it takes long is news
        news &= {AlertReason.AGE}
    quiet = None if after.noticed_at is None else now - after.noticed_at
    if news and (after.told or quiet is None or quiet >= timedelta(minutes=rules.cool_down_minutes)):
        return NoticeKind.TRIGGER
    if not after.told:
        return None
    if after.phase is AlertPhase.TAKEN:
        return NoticeKind.ACKNOWLEDGE if before.phase is AlertPhase.FIRING else None
    if before.phase is AlertPhase.TAKEN:
        return NoticeKind.TRIGGER
    if quiet is None or rules.repeat_minutes is None:
        return None
    return NoticeKind.REMIND if quiet >= timedelta(minutes=rules.repeat_minutes) else None


def _end(alert: Alert, now: datetime, *, muted: bool) -> Alert:
    if not alert.holds:
        return alert
    detail = "The group is on hold." if muted else "What it was about is over."
    after = replace(alert, phase=AlertPhase.RESOLVED, resolved_at=now, changed_at=now, detail=detail, taken_by=None)
    return _notify(after, NoticeKind.RESOLVE, now) if alert.told else after


def _notify(alert: Alert, kind: NoticeKind, now: datetime) -> Alert:
    return replace(alert, notice=alert.notice + 1, notice_kind=kind, noticed_at=now)


# --- who is told


def is_owed(alert: Alert, channel: str, rules: AlertRules, now: datetime) -> bool:
    """Return whether this channel is due the latest notice; an untried one hears of no taking or end."""
    sent = alert.sent.get(channel, _NOTHING_SENT)
    if alert.notice_kind is None or alert.noticed_at is None or sent.notice >= alert.notice:
        return False
    if (sent.next_at is not None and now < sent.next_at) or now - alert.noticed_at > _TOLD_FOR:
        return False
    if alert.notice_kind in (NoticeKind.ACKNOWLEDGE, NoticeKind.RESOLVE):
        return sent.incident == alert.incident
    wanted = rules.routes.get(channel)
    return wanted is None or any(reason in wanted for reason in alert.told)


def owed_channels(alert: Alert, rules: AlertRules, now: datetime) -> tuple[str, ...]:
    """Return all channels that are due the latest notice now."""
    return tuple(channel for channel in rules.channels if is_owed(alert, channel, rules, now))


def hold_alert(alert: Alert, holder: str, channels: Iterable[str], now: datetime, skew: timedelta) -> Alert | None:
    """Return the alert reserved for telling these channels, and recorded as told; None while another tells it."""
    others = alert.holder not in (None, holder)
    if others and alert.held_until is not None and now < alert.held_until + skew:
        return None
    sent = {name: replace(alert.sent.get(name, _NOTHING_SENT), incident=alert.incident) for name in channels}
    return replace(alert, sent={**alert.sent, **sent}, holder=holder, held_until=now + HELD)


def note_sent(alert: Alert, told: Alert, problems: Mapping[str, str | None], holder: str, now: datetime) -> Alert:
    """Return the alert after its channels were told of it as it was: `told`. A problem of None: the channel took it."""
    sent = dict(alert.sent)
    for channel, problem in problems.items():
        before = sent.get(channel, _NOTHING_SENT)
        if problem is None:
            sent[channel] = Sent(max(before.notice, told.notice), told.incident)
        else:
            rest = min(_FIRST_REST * 2 ** min(before.tries, 10), _LONGEST_REST)
            sent[channel] = replace(
                before, incident=told.incident, tries=before.tries + 1, next_at=now + rest, problem=problem[:500]
            )
    if alert.holder == holder:
        return replace(alert, sent=sent, holder=None, held_until=None)
    return replace(alert, sent=sent)


def later_alert(theirs: Alert, ours: Alert) -> Alert | None:
    """Return what replaces `theirs`, of two alerts from stores apart from each other: ours, if it changed last."""
    if ours.changed_at is None or (theirs.changed_at is not None and theirs.changed_at >= ours.changed_at):
        return None
    return replace(ours, version=theirs.version)


def notice_id(alert: Alert) -> str:
    """Return an id for receivers: the same notice may come twice, if a process died that had just told it.

    >>> notice_id(Alert("no_worker", notice=3))
    'default/no_worker/3'
    """
    return f"{alert.key}/{alert.notice}"
