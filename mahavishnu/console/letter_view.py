"""How letters are shown to people."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mahavishnu.console.output import block, line, moment, short, shown, table
from mahavishnu.model.letter import DeadLetterStatus, ResolutionStatus

Letter = Mapping[str, Any]
_SHOWN_FAILURES = 3
_TRACE_LINES = 12
_OPEN = "redrive, edit, resolve, fail, cancel or archive it"
_NEXT = {
    DeadLetterStatus.PENDING: f"it is retried by itself when it is due; or {_OPEN}",
    DeadLetterStatus.EXHAUSTED: f"it waits for a person: {_OPEN}",
    DeadLetterStatus.RETRYING: "it is being run; wait for what comes of it",
    DeadLetterStatus.COMPLETED: "nothing; archive puts it away",
    DeadLetterStatus.ARCHIVED: "nothing; redrive takes it out again",
}


def letters_table(letters: Sequence[Letter]) -> None:
    """One row for each."""
    far = any((each["namespace"], each["queue"]) != ("default", "default") for each in letters)
    columns = ["task", *(["queue"] if far else []), "status", "category", "retries", "failed", "next retry", "error"]
    rows = [
        [
            each["task_id"],
            *([f"{each['namespace']}/{each['queue']}"] if far else []),
            state_of(each),
            each["error_category"],
            f"{each['retry_count']}/{each['max_retries']}",
            moment(each["failed_at"]),
            moment(each["next_retry_at"]),
            short(each["last_error"]),
        ]
        for each in letters
    ]
    table(columns, rows, empty="no letters")


def error_of(letter: Letter) -> str:
    """The last error, led by its type.

    >>> error_of({"last_error": "'EURO'", "failures": [{"type": "KeyError"}]})
    "KeyError: 'EURO'"
    """
    failures = letter.get("failures") or [{}]
    return error_text(failures[-1].get("type"), letter["last_error"])


def error_text(kind: str | None, message: str) -> str:
    """A failure, led by its type unless it says that itself."""
    return message if not kind or message.startswith(kind) else f"{kind}: {message}"


def state_of(letter: Letter) -> str:
    """Status, and how the case ended."""
    ended = letter["resolution_status"]
    return letter["status"] if ended == ResolutionStatus.PENDING else f"{letter['status']} ({ended})"


def letter_block(letter: Letter, group: Mapping[str, Any] | None) -> None:
    """All that a person wants to know of one."""
    failures = letter.get("failures") or []
    last = failures[-1] if failures else {}
    fields = {
        "task": letter["task_id"],
        "where": None
        if (letter["namespace"], letter["queue"]) == ("default", "default")
        else f"{letter['namespace']}/{letter['queue']}",
        "status": state_of(letter),
        "cause": f"{last['type']}: {short(letter['last_error'], 300)}"
        if last.get("type")
        else short(letter["last_error"], 300),
        "category": letter["error_category"],
        "because": f"{letter['verdict_reason']} ({letter['verdict_author']})" if letter.get("verdict_reason") else None,
        "failed": f"{moment(letter['failed_at'])}, {_times(letter['total_attempts'] + 1, 'run')}"
        + (f", {letter['occurrences']} failures in one" if letter["occurrences"] > 1 else ""),
        "retries": f"{letter['retry_count']} of {letter['max_retries']} ({letter['retry_policy']})",
        "next retry": moment(letter["next_retry_at"]) if letter["next_retry_at"] else None,
        "run by": letter.get("claim_owner"),
        "priority": letter["priority"] or None,
        "waits for": ", ".join(letter["depends_on"]),
        "group": _group(letter, group),
        "bulk runs": ", ".join(letter["runs"]),
        "requeued": f"{letter['dlq_retry_count']} times, {letter['requeue_outcome']}"
        if letter["requeue_outcome"]
        else None,
        "edited": _times(letter["revision"], "time") if letter["revision"] else None,
        "ended": f"{letter['resolution_status']} by {letter['resolved_by']}"
        if letter["resolution_status"] != ResolutionStatus.PENDING and letter["resolved_by"]
        else None,
        "notes": letter["resolution_notes"],
        "repos": ", ".join(letter["repos"]),
        "metadata": letter["metadata"] or None,
        "task data": letter["task"],
        "entry": letter["entry_id"],
        "next": _next(letter),
    }
    block({name: value for name, value in fields.items() if value not in (None, "")})
    if failures:
        line("")
        table(
            ("failed", "category", "after", "by", "failure"),
            [
                (
                    moment(each["at"]),
                    each["category"],
                    f"{each['duration_seconds']:.1f} s" if each.get("duration_seconds") is not None else None,
                    each.get("processor"),
                    f"{each['type']}: {short(each['message'])}" if each.get("type") else short(each["message"]),
                )
                for each in failures[-_SHOWN_FAILURES:]
            ],
            empty="",
        )
    if last.get("traceback"):
        line("")
        lines = str(last["traceback"]).rstrip().splitlines()
        if len(lines) > _TRACE_LINES:
            line(f"… {len(lines) - _TRACE_LINES} lines above; --json has all of them")
        for each in lines[-_TRACE_LINES:]:
            line(shown(each))


def _next(letter: Letter) -> str:
    if letter["status"] == DeadLetterStatus.EXHAUSTED and letter["resolution_status"] != ResolutionStatus.PENDING:
        return "nothing; redrive opens the case again"
    if letter["status"] == DeadLetterStatus.PENDING and letter["next_retry_at"] is None:
        return f"no retry can help, so none is planned: {_OPEN}"
    return _NEXT[DeadLetterStatus(letter["status"])]


def _group(letter: Letter, group: Mapping[str, Any] | None) -> str:
    if group is None:
        return str(letter["fingerprint"] or "")
    owner = f", owner {group['owner']}" if group["owner"] else ""
    return f"{letter['fingerprint']} ({group['state']}, {_times(group['count'], 'open letter')}{owner})"


def _times(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def difference(changes: Sequence[Mapping[str, Any]]) -> None:
    """What an edit changes."""
    table(
        ("path", "before", "after"),
        [(each["path"], _side(each, "before"), _side(each, "after")) for each in changes],
        empty="nothing would change",
        texts=("before", "after"),
    )


def _side(change: Mapping[str, Any], side: str) -> Any:
    """As JSON, so that a text and a number are told apart; a dash where there is nothing."""
    return json.dumps(change[side], ensure_ascii=False) if side in change else None
