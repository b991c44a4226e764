"""Log lines as JSON, one object each, with an event's name that stays the same.

Nothing here runs by itself: a program that writes logs calls `configure_logging`, and a library that is imported does
not.
"""

from __future__ import annotations

import json
import logging
import traceback
from datetime import UTC, datetime
from typing import Any, Final, Literal

LogFormat = Literal["text", "json"]
ROOT: Final = "mahavishnu"
_TEXT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class JsonLines(logging.Formatter):
    """Writes a record as a line of JSON: `time`, `level`, `event`, `message`, `logger`, and what the event has."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": getattr(record, "event", None) or _module_event(record.name),
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields = getattr(record, "fields", None)
        if isinstance(fields, dict):
            line = {**fields, **line}
        if record.exc_info and record.exc_info[0] is not None:
            line["error_type"] = record.exc_info[0].__qualname__
            line["traceback"] = "".join(traceback.format_exception(*record.exc_info))
        try:
            return json.dumps(line, ensure_ascii=True, default=str)
        except Exception:  # what is logged may have a `__str__` that raises
            plain = {name: value for name, value in line.items() if isinstance(value, str)}
            return json.dumps(plain, ensure_ascii=True)


def _module_event(logger: str) -> str:
    """The name of an event that has none of its own: the module's, below the package."""
    return logger.removeprefix(f"{ROOT}.")


def configure_logging(form: LogFormat = "text", *, verbose: bool = False) -> None:
    """Have the package log to stderr from now on. For programs: a library leaves that to the one that imports it.

    As JSON also what happens to each letter is told, which as text is only told if it is `verbose`.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if form == "json" else logging.Formatter(_TEXT))
    logger = logging.getLogger(ROOT)
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if verbose else logging.INFO)
    if form == "json":
        logger.propagate = False
        logging.getLogger(f"{ROOT}.dlq").setLevel(logging.DEBUG)
