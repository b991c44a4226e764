"""Letters on the command line: tables, one letter, and comparisons with others."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from mahavishnu.cli.client import Connection
from mahavishnu.cli.output import (
    TEXT,
    Columns,
    NotFound,
    brief,
    count_of,
    escape_controls,
    for_people,
    instant_and_distance,
    is_past,
    moment,
    print_block,
    print_line,
    print_notice,
    print_records,
    when,
)
from mahavishnu.model.errors import MahavishnuError
from mahavishnu.model.letter_parts import NO_ADAPTER, DeadLetterStatus, ResolutionStatus, RetryPolicy
from mahavishnu.model.query import has_items

Letter = Mapping[str, Any]
_SHOWN_FAILURES = 3
_STATE_WIDTH = 10  # of a table, at least: "needs you:", "retries in"
RERAN, RERUN = ResolutionStatus.REQUEUED, "succeeded on a rerun"
_TRACE_LINES = 12
_FRAME = re.compile(
    r'^ +File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>.+)$(?:\n {4,}(?P<code>(?!File ")\S.*)$)?',
    re.MULTILINE,
)
_OPEN = "retry, redrive, edit, resolve, fail, cancel or archive it"
_NEXT = {
    DeadLetterStatus.PENDING: f"it is retried by itself when it is due; or {_OPEN}",
    DeadLetterStatus.EXHAUSTED: f"it waits for a person: {_OPEN}",
    DeadLetterStatus.RETRYING: "it is being run; wait for what comes of it",
    DeadLetterStatus.COMPLETED: "nothing; archive puts it away",
    DeadLetterStatus.ARCHIVED: "nothing; redrive takes it out again",
}
_WORDS = {"present": "any value", "missing": "none"}
_LOOKED_AT = 2000  # of the newest letters
_NAMED = 3


def letters_table(letters: Sequence[Letter], empty: str = "no letters", *, everywhere: bool = False) -> None:
    """Print one row for each letter; `everywhere` means that they may be of any namespace."""
    several = everywhere or len({each["namespace"] for each in letters}) > 1
    far = several or any(each["queue"] != "default" for each in letters)  # what one app has is in its own namespace
    again = any(_last_failed(each) for each in letters)
    ended = any(_end_of(each) for each in letters)
    columns: Columns = {
        "task": "task_id",
        **({"queue": lambda each: f"{each['namespace']}/{each['queue']}"} if far else {}),
        "state": state_of,
        "category": "error_category",
        "retries": _retries_in_short,
        **({"first failed": "failed_at"} if again else {}),
        "failed": lambda each: when(_last_failed(each) or each["failed_at"]),
        **({"ended": lambda each: when(_end_of(each))} if ended else {}),
        "error": lambda each: brief(error_of(each)),
    }
    spare = ("failed", "category", "retries", "ended", "first failed")
    print_records(letters, columns, empty=empty, texts={"state": _STATE_WIDTH, "error": TEXT}, spare=spare)


def error_of(letter: Letter) -> str:
    """Return the last error, led by its type.

    >>> error_of({"last_error": "'EURO'", "failures": [{"type": "KeyError"}]})
    "KeyError: 'EURO'"
    """
    failures = letter.get("failures") or [{}]
    return error_text(failures[-1].get("type"), letter["last_error"])


def error_text(kind: str | None, message: str) -> str:
    """Return a failure, led by its type unless it says that itself."""
    return message if not kind or message.startswith(kind) else f"{kind}: {message}"


def state_of(letter: Letter) -> str:
    """Return the next event of an open letter, such as a retry or a person's turn, or how the case ended."""
    status, ended = letter["status"], letter["resolution_status"]
    if ended == ResolutionStatus.PENDING:
        return _state_of_open(letter)
    return RERUN if status == DeadLetterStatus.COMPLETED and ended == RERAN else f"{status} ({_resolution(letter)})"


def _state_of_open(letter: Letter) -> str:
    due = letter["next_retry_at"]
    if letter["status"] == DeadLetterStatus.RETRYING:
        return "being run"
    if letter["status"] == DeadLetterStatus.EXHAUSTED:
        return "needs you: retries used up" if letter["max_retries"] else "needs you: no retries allowed"
    if due is None:
        return "needs you: no retry can help"
    if letter.get("waiting_for"):
        return str(letter["waiting_for"]) if letter.get("adapter") else "needs you: it names no adapter"
    if has_items(letter.get("namespace") or "", letter.get("queue") or "-") and is_past(due):
        return "waits to be leased"
    if not for_people():
        return f"retries at {moment(due)}"
    return f"retry due {when(due)}" if is_past(due) else f"retries {when(due)}"


def _retries_in_short(letter: Letter) -> str:
    return (
        "never" if letter["retry_policy"] == RetryPolicy.NEVER else f"{letter['retry_count']}/{letter['max_retries']}"
    )


def _resolution(letter: Letter) -> str:
    """Return how the case ended, in words."""
    return RERUN if letter["resolution_status"] == RERAN else str(letter["resolution_status"])


def _end_of(letter: Letter) -> str | None:
    """Return when the case ended, as far as that is on record."""
    if letter["resolution_status"] == ResolutionStatus.PENDING:
        return None
    found = letter["completed_at"] or letter["archived_at"]
    return str(found) if found else None


def _last_failed(letter: Letter) -> str | None:
    """Return when it failed last, if that was not the first time."""
    failures = letter.get("failures") or ()
    return str(failures[-1]["at"]) if failures and failures[-1]["at"] != letter["failed_at"] else None


def open_circuits(numbers: Mapping[str, Any]) -> dict[str, str]:
    """Return the state of each adapter's circuit that is not closed, from the queue's numbers."""
    return {
        name: f"{str(circuit['state']).replace('_', ' ')} after {count_of(circuit['failures'], 'failure')} in a row"
        for name, circuit in numbers["circuit_breakers"].items()
        if circuit["state"] != "closed"
    }


def letter_block(letter: Letter, group: Mapping[str, Any] | None, circuits: Mapping[str, str] | None = None) -> None:
    """Print all that a person wants to know of one letter."""
    failures = letter.get("failures") or []
    last = failures[-1] if failures else {}
    fields = {
        "task": letter["task_id"],
        "where": None
        if (letter["namespace"], letter["queue"]) == ("default", "default")
        else f"{letter['namespace']}/{letter['queue']}",
        "adapter": letter["adapter"],
        "state": state_of(letter),
        "status": letter["status"],
        "cause": brief(error_of(letter), 300),
        "category": letter["error_category"],
        "tags": ", ".join(letter["tags"]) or None,
        "because": f"{letter['verdict_reason']} ({letter['verdict_author']})" if letter.get("verdict_reason") else None,
        "first failed": f"{instant_and_distance(letter['failed_at'])}, {count_of(letter['total_attempts'] + 1, 'run')}"
        + (f", {letter['occurrences']} failures in one" if letter["occurrences"] > 1 else ""),
        "last failed": instant_and_distance(again) if (again := _last_failed(letter)) else None,
        "retries": _retries(letter),
        "next retry": instant_and_distance(letter["next_retry_at"]) if letter["next_retry_at"] else None,
        "circuit": _circuit(letter, circuits or {}),
        "waits": letter.get("waiting_for"),
        "run by": _run_by(letter),
        "priority": letter["priority"] or None,
        "waits for": ", ".join(letter["depends_on"]),
        "group": _group(letter, group),
        "bulk runs": ", ".join(letter["runs"]),
        "requeued": f"{letter['dlq_retry_count']} times, {letter['requeue_outcome']}"
        if letter["requeue_outcome"]
        else None,
        "edited": count_of(letter["revision"], "time") if letter["revision"] else None,
        "ended": _how_it_ended(letter),
        "notes": letter["resolution_notes"],
        "repos": ", ".join(letter["repos"]),
        "metadata": letter["metadata"] or None,
        "task data": letter["task"],
        "entry": letter["entry_id"],
        "next": _next(letter),
    }
    print_block({name: value for name, value in fields.items() if value not in (None, "")})
    if failures:
        print_line("")
        columns: Columns = {
            "failed": lambda each: moment(each["at"]),
            "category": "category",
            "ran": lambda each: None if (ran := each.get("duration_seconds")) is None else f"{ran:.1f} s",
            "by": lambda each: each.get("processor"),
            "failure": lambda each: brief(error_text(each.get("type"), each["message"])),
        }
        print_records(failures[-_SHOWN_FAILURES:], columns, empty="", spare=("ran", "by"))
    if last.get("traceback"):
        print_line("")
        lines = str(last["traceback"]).rstrip().splitlines()
        if len(lines) > _TRACE_LINES:
            print_line(f"… {len(lines) - _TRACE_LINES} lines above; --json has all of them")
        for each in lines[-_TRACE_LINES:]:
            print_line(escape_controls(each))


def _retries(letter: Letter) -> str:
    """Return how many automatic retries there were, and will be."""
    count, most, policy = letter["retry_count"], letter["max_retries"], letter["retry_policy"]
    if policy == RetryPolicy.NEVER:
        return f"none by itself (policy {policy})" if not count else f"{count}, and no more by itself (policy {policy})"
    return f"{count} of {most} ({policy})" if most else "none by itself (at most 0)"


def _circuit(letter: Letter, circuits: Mapping[str, str]) -> str | None:
    """Return that its adapter is not called now, and until when."""
    adapter = letter["adapter"] or NO_ADAPTER
    if letter["status"] not in (DeadLetterStatus.PENDING, DeadLetterStatus.EXHAUSTED) or adapter not in circuits:
        return None
    due = f", not before {moment(letter['due_at'])}" if letter.get("due_at") else ""
    return f"of adapter {adapter}: {circuits[adapter]}; its letters are run when it is closed{due}"


def _how_it_ended(letter: Letter) -> str | None:
    if letter["resolution_status"] == ResolutionStatus.PENDING:
        return None
    when, by = _end_of(letter), letter["resolved_by"]
    return _resolution(letter) + (f", {moment(when)}" if when else "") + (f", by {by}" if by else "")


def place_of(trace: str | None) -> str | None:
    """Return the last frame of a traceback in the user's own code, with its source line.

    >>> place_of('Traceback …\\n  File "/srv/app/rates.py", line 7, in euro\\n    return RATES["EURO"]\\nKeyError')
    '/srv/app/rates.py:7 in euro: return RATES["EURO"]'
    """
    from mahavishnu.classify.fingerprint import is_own_code  # slow to load, and lists do not need it

    own = [frame for frame in _FRAME.finditer(trace or "") if is_own_code(frame["file"], frame["function"])]
    if not own:
        return None
    frame = own[-1]
    code = f": {frame['code'].strip()}" if frame["code"] else ""
    return f"{frame['file']}:{frame['line']} in {frame['function']}{code}"


def _run_by(letter: Letter) -> str | None:
    """Return the worker that runs it, since when, and until when the lease lasts."""
    owner = letter.get("claim_owner")
    if not owner:
        return None
    since = f", since {instant_and_distance(letter['last_retry_at'])}" if letter.get("last_retry_at") else ""
    until = f"; its lease lasts until {instant_and_distance(letter['due_at'])}" if letter.get("due_at") else ""
    return f"{owner}{since}{until}"


def _next(letter: Letter) -> str:
    if letter.get("waiting_for"):
        return f"it is retried when there is such a worker and it is due; or {_OPEN}"
    if letter["status"] == DeadLetterStatus.EXHAUSTED and letter["resolution_status"] != ResolutionStatus.PENDING:
        return "nothing; redrive opens the case again"
    if letter["status"] == DeadLetterStatus.PENDING and letter["next_retry_at"] is None:
        return f"no retry can help, so none is planned: {_OPEN}"
    return _NEXT[DeadLetterStatus(letter["status"])]


def _group(letter: Letter, group: Mapping[str, Any] | None) -> str:
    if group is None:
        return str(letter["fingerprint"] or "")
    owner = f", owner {group['owner']}" if group["owner"] else ""
    return f"{letter['fingerprint']} ({group['state']}, {count_of(group['count'], 'open letter')}{owner})"


def difference(changes: Sequence[Mapping[str, Any]]) -> None:
    """Print the changes of an edit."""
    sides: Columns = {side: partial(_side, side=side) for side in ("before", "after")}
    print_records(changes, {"path": "path", **sides}, empty="nothing would change", texts=("before", "after"))


def _side(change: Mapping[str, Any], side: str) -> Any:
    """Return a value as JSON, so that a text and a number are told apart; None where there is nothing."""
    return json.dumps(change[side], ensure_ascii=False) if side in change else None


# --- comparisons with other letters


async def ask_for(api: Connection, path: str, place: Mapping[str, str | None] | None = None) -> Any:
    """Return the answer, or print a notice and return None if there is none now."""
    try:
        return await api.get(path, place)
    except MahavishnuError as problem:
        print_notice(f"what it has in common with others is not known: {problem}")
        return None


def print_commonalities(found: Mapping[str, Any] | None) -> None:
    """Print what letters of a group have in common, if anything is known."""
    if not found or not found["items"]:
        return
    mine, others = found["sampled"], found["others_sampled"]
    columns: Columns = {
        "in common": "name",
        "value": lambda each: _WORDS.get(each["kind"]) or json.dumps(each["value"], ensure_ascii=False),
        "here": lambda each: f"{each['letters']} of {mine}",
        "others": lambda each: f"{100 * each['others'] / others:.0f} %",
    }
    print_line("")
    print_records(found["items"], columns, empty="", texts=("in common", "value"))
    adapters = ", ".join(found["adapters"])
    here, there = _part(mine, found["letters"]), _part(others, found["others"])
    print_line(f"looked at: {here} of the group, {there} others of {adapters}")


def print_contrasts(found: Mapping[str, Any] | None) -> None:
    """Print what a letter lacks, if anything is known."""
    if not found or not found["items"]:
        return
    columns: Columns = {
        "unlike those that succeeded": "name",
        "here": lambda each: "none" if each["is_missing"] else json.dumps(each["value"], ensure_ascii=False),
        "there": lambda each: ", ".join(map(_usual, each["usual"])) or "any",
        "have it": lambda each: f"{each['succeeded']} of {found['sampled']}",
    }
    print_line("")
    print_records(found["items"], columns, empty="", texts=[*columns][:3])
    print_line(f"looked at: {_part(found['sampled'], found['succeeded'])} letters of {found['adapter']} that succeeded")


def _usual(counted: tuple[Any, int]) -> str:
    return f"{json.dumps(counted[0], ensure_ascii=False)} ({counted[1]})"


def _part(sampled: int, total: int) -> str:
    return f"all {total}" if sampled >= total else f"the newest {sampled} of {total}"


# --- letters with ids near a missing one


class NearLetters:
    """Looks for letters whose ids are near to those that were asked for."""

    def __init__(self, api: Connection) -> None:
        self._api = api
        self._newest: list[str] | None = None

    async def explain(self, missing: NotFound, task: str, place: Mapping[str, Any]) -> NotFound:
        """Return the error with a hint: the task elsewhere, or similar names."""
        hint = ""
        with suppress(MahavishnuError):  # it is said that there is none, whatever becomes of this
            hint = await self._elsewhere(task, place) or await self._near(task)
        return NotFound(f"{missing}; {hint}") if hint else missing

    async def _elsewhere(self, task: str, place: Mapping[str, Any]) -> str:
        """Return a hint at the task's letters elsewhere."""
        seen: set[str] = set()
        for where in ({}, {"namespace": "*"}):  # first in the namespace that was asked for
            found: list[str] = []
            for letter in await self._api.list("/dlq", {"task_id": [task], **where}, _NAMED):
                if letter["entry_id"] in seen:
                    continue
                seen.add(letter["entry_id"])
                words = [f"--namespace {letter['namespace']}"] if where else []
                words += [f"--queue {letter['queue']}"] if letter["queue"] != (place.get("queue") or "default") else []
                found += [" ".join(words)] if words else []
            if found:
                return f"there is one with {' or '.join(dict.fromkeys(found))}"
        return ""

    async def _near(self, task: str) -> str:
        if self._newest is None:
            found = await self._api.list("/dlq", {}, _LOOKED_AT)
            self._newest = list(dict.fromkeys(str(each["task_id"]) for each in found))
        near = [] if task in self._newest else near_names(task, self._newest)  # it may be there, and not open
        return f"did you mean {' or '.join(near)}?" if near else ""


def near_names(given: str, known: list[str]) -> list[str]:
    """Return the names that begin so or contain it, else those with a similar spelling.

    >>> near_names("order_1", ["order_10", "order_11", "mail"]), near_names("oder_10", ["order_10", "mail"])
    (['order_10', 'order_11'], ['order_10'])
    """
    inside = [name for name in known if given and given in name]
    inside.sort(key=lambda name: not name.startswith(given))
    return inside[:_NAMED] or difflib.get_close_matches(given, known, _NAMED, cutoff=0.75)
