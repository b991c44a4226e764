"""`mahavishnu classify`: what kind of failure an error would count as, who says so, and what would follow from it."""

from __future__ import annotations

import builtins
import importlib
import re
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mahavishnu.cli.output import AsJson, print_block, print_json, print_line, print_table
from mahavishnu.cli.session import session_of
from mahavishnu.model.errors import InvalidInput

if TYPE_CHECKING:
    from mahavishnu.classify.verdict import Verdict
    from mahavishnu.core.config import MahavishnuSettings

_DOTTED = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*")
STDIN = "-"


def classify(
    context: typer.Context,
    error: Annotated[
        str,
        typer.Argument(
            metavar="ERROR",
            help="An error text, an exception such as builtins.ConnectionResetError, or - to read standard input.",
        ),
    ],
    explain: Annotated[bool, typer.Option("--explain", help="Show what every plugin says.")] = False,
    json: AsJson = False,
) -> None:
    """Say what kind of failure an error is, and how it would be retried."""
    from mahavishnu.core.wiring import chain_from

    settings = session_of(context).settings
    given = sys.stdin.read() if error == STDIN else error
    if not given.strip():
        raise InvalidInput("give an error text or the name of an exception")
    taken = exception_by_name(given) or given
    explanation = chain_from(settings).explain(taken)
    verdict = explanation.verdict
    policy, budget = _consequence(verdict, settings)
    trail = [
        {
            "plugin": said.plugin,
            "outcome": said.outcome,
            "counts": said.counts,
            "fault": said.fault,
            "seconds": round(said.seconds, 6),
        }
        for said in explanation.trail
    ]
    if json:
        print_json(
            {
                "taken_as": "text" if isinstance(taken, str) else "exception",
                "category": verdict.category.value,
                "reason": verdict.reason,
                "author": verdict.author,
                "policy": policy,
                "max_retries": budget,
                "retry_in_seconds": verdict.retry_in.total_seconds() if verdict.retry_in is not None else None,
                "tags": list(verdict.tags),
                **({"trail": trail} if explain else {}),
            }
        )
        return
    fields: dict[str, Any] = {
        "category": verdict.category.value,
        "reason": verdict.reason,
        "author": verdict.author,
        "retried": _retried(policy, budget, verdict.retry_in),
    }
    if verdict.tags:
        fields["tags"] = ", ".join(verdict.tags)
    print_block(fields)
    if explain:
        print_line("")
        rows = ((_mark(each), each["plugin"], each["outcome"]) for each in trail)
        print_table(("", "asked", "said"), rows, empty="nobody was asked")


def exception_by_name(text: str) -> BaseException | None:
    """An exception of the type that `text` names, or None if it names none that can be imported.

    >>> exception_by_name("builtins.ConnectionResetError")
    ConnectionResetError()
    >>> exception_by_name("the connection was reset")
    """
    if not _DOTTED.fullmatch(text):
        return None
    module, _, name = text.rpartition(".")
    kind = getattr(_imported(module) if module else builtins, name, None)
    if not isinstance(kind, type) or not issubclass(kind, BaseException):
        return None
    for arguments in ((), ("",)):
        try:
            return kind(*arguments)
        except Exception:  # it wants to be told more than we know
            continue
    return kind.__new__(kind)


def _imported(name: str) -> Any:
    """A module, or a class in one; None if there is none. Raises InvalidInput for one that cannot be imported."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as missing:
        if missing.name is None or not (name == missing.name or name.startswith(f"{missing.name}.")):
            raise InvalidInput(f"{name} cannot be imported: {missing}") from missing
        outer, _, inner = name.rpartition(".")
        return getattr(_imported(outer), inner, None) if outer else None
    except Exception as problem:
        raise InvalidInput(f"{name} cannot be imported: {type(problem).__name__}: {problem}") from problem


def _consequence(verdict: Verdict, settings: MahavishnuSettings) -> tuple[str, int]:
    """The policy and the number of retries that a captured failure with this verdict gets."""
    from mahavishnu.classify.verdict import POLICY_OF

    by_category = settings.dlq_automatic_policy == "category"
    usual = POLICY_OF[verdict.category].value if by_category else settings.dlq_default_retry_policy
    policy = verdict.policy or usual
    if verdict.max_retries is not None:
        return str(policy), verdict.max_retries
    return str(policy), settings.dlq_category_max_retries.get(verdict.category, settings.dlq_default_max_retries)


def _retried(policy: str, budget: int, retry_in: timedelta | None) -> str:
    if policy == "never" or not budget:
        return "never"
    first = f", first in {retry_in.total_seconds():g} s" if retry_in is not None else ""
    return f"{policy}, at most {budget} {'time' if budget == 1 else 'times'}{first}"


def _mark(said: dict[str, Any]) -> str:
    return "*" if said["counts"] else "!" if said["fault"] else " "
