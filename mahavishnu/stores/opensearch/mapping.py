"""The mapping of a kind: what a new index gets, what an older one lacks, and where one contradicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mahavishnu.model.errors import StoreMisconfigured
from mahavishnu.stores import schema
from mahavishnu.stores.kind import LONGEST_TERM, Field, FieldType, Kind
from mahavishnu.stores.schema import Upgrade

KEY, STAMP, ORIGINALS = "store_key", "store_stamp", "store_originals"
MOST_HITS = 10_000  # of one answer
# Also the server's own values: said aloud, they win over the index templates of the server's users.
REQUIRED_SETTINGS = {
    "max_result_window": MOST_HITS,
    "default_pipeline": "_none",
    "final_pipeline": "_none",
    "translog.durability": "request",
}
_WHOLE_DOCUMENT: dict[str, dict[str, Any]] = {
    "_source": {"enabled": True, "includes": [], "excludes": []},
    "_routing": {"required": False},
}
_META = "mahavishnu"
_DOCUMENTED_INTEGERS = {"retry_count", "max_retries", "total_attempts"}  # users were told `integer`; others get `long`
_UNSEARCHED = {"type": "keyword", "index": False, "doc_values": False}
_STORE_FIELDS: dict[str, dict[str, Any]] = {
    KEY: {"type": "keyword", "index": False},  # breaks ties in sorting, which `_id` cannot
    STAMP: _UNSEARCHED,  # tells our own write from another's when the answer was lost
    ORIGINALS: _UNSEARCHED,  # JSON text of the values that could not be kept under their own name
}


@dataclass(frozen=True, slots=True)
class Layout:
    """How documents of a kind are put into one particular index."""

    moved: frozenset[str] = frozenset()  # fields that are always kept among the originals
    flat: Mapping[str, str] = field(default_factory=dict)  # FLAT fields that are searched under another name

    def searched_name(self, name: str) -> str:
        return self.flat.get(name, name)


@dataclass(frozen=True, slots=True)
class Plan:
    """What an existing index needs before it can be used, and how it is used then."""

    layout: Layout
    extension: dict[str, Any] | None = None  # of its mapping
    settings: dict[str, Any] | None = None
    upgrades: Sequence[Upgrade] = ()  # before that


def mapping(kind: Kind[Any]) -> dict[str, Any]:
    """For a new index. Strict, so that no payload can ever make it grow."""
    properties = {f.name: _property(f) for f in kind.fields} | _STORE_FIELDS
    return {
        "dynamic": "strict",
        **_WHOLE_DOCUMENT,
        "_meta": {_META: {"schema": schema.SCHEMA}},
        "properties": properties,
    }


def plan(kind: Kind[Any], index: str, found: Mapping[str, Any], settings: Mapping[str, Any]) -> Plan:
    """For the mapping and settings of an existing index.

    Raises StoreMisconfigured naming what contradicts, and IncompatibleStore for an index of another version.
    """
    number = _number(found)
    upgrades = schema.upgrades_from(schema.SCHEMA if number is None else number, f"index {index}")
    existing: Mapping[str, Any] = found.get("properties", {})
    missing: dict[str, Any] = {}
    problems = _incomplete(found)
    moved: set[str] = set()
    flat: dict[str, str] = {}
    for f in kind.fields:
        wanted = _property(f)
        if f.name not in existing:
            missing[f.name] = wanted
            continue
        here = existing[f.name]
        if _is_open_object(here) and f.type in (FieldType.JSON, FieldType.BLOB, FieldType.FLAT):
            # Made by hand from the documentation: payloads would make it grow, so they are kept beside it.
            moved.add(f.name)
            if f.type is FieldType.FLAT:
                flat[f.name] = f"{f.name}_flat"
                if flat[f.name] not in existing:
                    missing[flat[f.name]] = wanted
        elif problem := _contradiction(wanted, here):
            problems.append(f"{f.name} {problem}")
        elif wanted["type"] == "keyword" and (better := _extend(wanted, here)) != here:
            missing[f.name] = better
    for name, wanted in _STORE_FIELDS.items():
        if name not in existing:
            missing[name] = wanted
        elif problem := _contradiction(wanted, existing[name]):
            problems.append(f"{name} {problem}")
    if problems:
        raise StoreMisconfigured(
            f"the mapping of index {index} contradicts, nothing was changed: {'; '.join(problems)}. "
            "Reindex it into one without that (a template may have brought it about), or choose another prefix"
        )
    extension: dict[str, Any] = {"properties": missing} if missing else {}
    if found.get("dynamic") != "strict":
        extension["dynamic"] = "strict"
    if number != schema.SCHEMA:
        extension["_meta"] = {**found.get("_meta", {}), _META: {"schema": schema.SCHEMA}}
    window = None if _window(settings) >= MOST_HITS else {"index.max_result_window": MOST_HITS}
    return Plan(Layout(frozenset(moved), flat), extension or None, window, upgrades)


def _number(found: Mapping[str, Any]) -> int | None:
    """The schema number of an index; None for one that was made by hand: it gets the number with what it lacks."""
    ours = found.get("_meta", {}).get(_META)
    return None if ours is None else ours.get("schema", schema.UNNUMBERED)


def setting_problems(settings: Mapping[str, Any]) -> list[str]:
    """What in the settings of an index keeps records from being stored as they are, or found; and what to do."""
    problems = []
    if blocks := sorted(name for name, value in settings.get("blocks", {}).items() if value == "true"):
        problems.append(f"is read-only ({', '.join(blocks)}); is the disk full?")
    problems += [
        f"has the {name} {pipeline!r}, which may change or refuse records: set it to '_none'"
        for name in ("default_pipeline", "final_pipeline")
        if (pipeline := settings.get(name, "_none")) != "_none"
    ]
    if (window := _window(settings)) < MOST_HITS:
        problems.append(f"has a max_result_window of {window}, which lists do not work with: set it to {MOST_HITS}")
    return problems


def integer_bits(kind: Kind[Any], name: str) -> int:
    """Numbers of more bits than that, without their sign, are in no index."""
    return 31 if name in _DOCUMENTED_INTEGERS else 63


def _property(f: Field[Any]) -> dict[str, Any]:
    match f.type:
        case FieldType.KEYWORD | FieldType.KEYWORDS:
            # Counted in UTF-16 units here. What is too long by our own count is never sent as a term.
            keyword = {"type": "keyword", "ignore_above": 2 * LONGEST_TERM}
            return keyword if f.derived else {**keyword, "fields": {"keyword": keyword}}
        case FieldType.DATE:
            return {"type": "date"}
        case FieldType.INTEGER:
            # Kept, but not found: better than losing the record for a number that is out of range.
            return {"type": "integer" if f.name in _DOCUMENTED_INTEGERS else "long", "ignore_malformed": True}
        case FieldType.TEXT:
            return {"type": "text"}
        case FieldType.FLAT:
            return {"type": "flat_object"}
        case FieldType.JSON | FieldType.BLOB:
            return {"type": "object", "enabled": False}


def _window(settings: Mapping[str, Any]) -> int:
    return int(settings.get("max_result_window", MOST_HITS))


def _incomplete(found: Mapping[str, Any]) -> list[str]:
    """Why documents would not come back as they were sent, or be refused, whatever is in them."""
    problems = []
    source = found.get("_source", {})
    if source.get("enabled", True) in (False, "false") or source.get("includes") or source.get("excludes"):
        problems.append("_source does not keep the whole document")
    if found.get("_routing", {}).get("required", False) not in (False, "false"):
        problems.append("_routing is required")
    return problems


def _is_open_object(here: Mapping[str, Any]) -> bool:
    return here.get("type", "object") == "object" and here.get("enabled", True) not in (False, "false")


def _contradiction(wanted: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """Why documents and queries for the one do not work on the other; empty if they do."""
    type_, theirs = wanted["type"], here.get("type", "object")
    if theirs != type_ and not {theirs, type_} <= {"integer", "long"}:
        return f"is {theirs}, not {type_}"
    for option in ("index", "doc_values"):
        if wanted.get(option, True) and here.get(option, True) in (False, "false"):
            return f"has {option}: false"
    if here.get("normalizer"):
        return f"has the normalizer {here['normalizer']}"
    if type_ == "date" and "date_optional_time" not in here.get("format", "date_optional_time"):
        return f"has the format {here['format']}, which does not take ISO 8601"
    return ""


def _extend(wanted: Mapping[str, Any], here: Mapping[str, Any]) -> dict[str, Any]:
    """`here` with the sub-field and the room that are wanted; the rest has to stay as it is."""
    better = dict(here)
    if "ignore_above" in wanted and here.get("ignore_above", wanted["ignore_above"]) < wanted["ignore_above"]:
        better["ignore_above"] = wanted["ignore_above"]
    if fields := {**wanted.get("fields", {}), **here.get("fields", {})}:
        better["fields"] = fields
    return better
