"""What a form sends: fields with one or several values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from urllib.parse import parse_qs

from starlette.requests import Request

from mahavishnu.model.errors import InvalidInput

_MOST_FIELDS = 1000


@dataclass(frozen=True, slots=True)
class Form:
    """The fields of a form."""

    fields: Mapping[str, Sequence[str]]

    def text(self, name: str, default: str = "") -> str:
        """The value of a field; the last one if there are several."""
        return self.fields.get(name, (default,))[-1]

    def texts(self, name: str) -> Sequence[str]:
        """All values of a field."""
        return self.fields.get(name, ())

    def optional(self, name: str) -> str | None:
        """The value of a field; None if nothing was filled in."""
        return self.text(name).strip() or None


async def read_form(request: Request) -> Form:
    """The form that a request sends. Raises InvalidInput for what is none."""
    try:
        fields = parse_qs((await request.body()).decode(), keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise InvalidInput(f"this is no form in UTF-8 with at most {_MOST_FIELDS} fields") from None
    return Form(fields)


def read_day(text: str) -> datetime | None:
    """The beginning of a day that somebody chose; None if nothing was filled in. Raises InvalidInput.

    >>> read_day("2026-01-31").isoformat(), read_day(" ")
    ('2026-01-31T00:00:00+00:00', None)
    """
    if not text.strip():
        return None
    try:
        return datetime.combine(date.fromisoformat(text.strip()), time(), UTC)
    except ValueError:
        raise InvalidInput(f"{text!r:.80} is no day; write it as 2026-01-31") from None
