"""What letters have in common, and what one lacks, as people read it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mahavishnu.cli.client import Connection
from mahavishnu.cli.output import print_line, print_notice, print_table
from mahavishnu.model.errors import MahavishnuError

_WORDS = {"present": "any value", "missing": "none"}


async def ask_for(api: Connection, path: str, place: Mapping[str, str | None] | None = None) -> Any:
    """The answer, or None where there is none now, which is said: the rest was shown."""
    try:
        return await api.get(path, place)
    except MahavishnuError as problem:
        print_notice(f"what it has in common with others is not known: {problem}")
        return None


def print_commonalities(found: Mapping[str, Any] | None) -> None:
    """What letters of a group have in common, if anything is known."""
    if not found or not found["items"]:
        return
    mine, others = found["sampled"], found["others_sampled"]
    rows = [
        (
            each["name"],
            _WORDS.get(each["kind"]) or json.dumps(each["value"], ensure_ascii=False),
            f"{each['letters']} of {mine}",
            f"{100 * each['others'] / others:.0f} %",
        )
        for each in found["items"]
    ]
    print_line("")
    print_table(("in common", "value", "here", "others"), rows, empty="", texts=("in common", "value"))
    adapters = ", ".join(found["adapters"])
    here, there = _part(mine, found["letters"]), _part(others, found["others"])
    print_line(f"looked at: {here} of the group, {there} others of {adapters}")


def print_contrasts(found: Mapping[str, Any] | None) -> None:
    """What a letter lacks, if anything is known."""
    if not found or not found["items"]:
        return
    rows = [
        (
            each["name"],
            "none" if each["is_missing"] else json.dumps(each["value"], ensure_ascii=False),
            ", ".join(f"{json.dumps(value, ensure_ascii=False)} ({count})" for value, count in each["usual"]) or "any",
            f"{each['succeeded']} of {found['sampled']}",
        )
        for each in found["items"]
    ]
    print_line("")
    columns = ("unlike those that succeeded", "here", "there", "have it")
    print_table(columns, rows, empty="", texts=columns[:3])
    print_line(f"looked at: {_part(found['sampled'], found['succeeded'])} letters of {found['adapter']} that succeeded")


def _part(sampled: int, total: int) -> str:
    return f"all {total}" if sampled >= total else f"the newest {sampled} of {total}"
