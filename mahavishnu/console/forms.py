"""Forms: their fields, and edits as people write them, as paths with values in JSON or as a whole task."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time
from typing import Annotated, Any, ClassVar
from urllib.parse import parse_qs

from starlette.requests import Request

from mahavishnu.http.auth import Actor, acting_name
from mahavishnu.http.routing import Depends
from mahavishnu.http.schemas import NamespacePageQuery
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.record import Value

_MOST_FIELDS = 1000


def patch_of(rows: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The merge patch that lines of a path and a value mean; empty if nothing is written.

    Raises InvalidInput for a value that is no JSON, and for paths that contradict each other.

    >>> patch_of([("customer.country", '"DE"'), ("express", "true"), ("", "")])
    {'customer': {'country': 'DE'}, 'express': True}
    """
    patch: dict[str, Any] = {}
    for path, value in rows:
        if not path.strip():
            if value.strip():
                raise InvalidInput(f"there is a value without a path: {value:.80}")
            continue
        names, place = path.strip().split("."), patch
        for name in names[:-1]:
            place = place.setdefault(name, {})
            if not isinstance(place, dict):
                raise InvalidInput(f"{path} lies inside of what another line sets")
        if names[-1] in place:
            raise InvalidInput(f"{path} is set twice")
        place[names[-1]] = read_json(value, path)
    return patch


def changes_of(patch: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the changes of a merge patch: each path with its value; None takes the path away.

    >>> list(changes_of({"customer": {"country": "DE"}, "express": None}))
    [('customer.country', 'DE'), ('express', None)]
    """
    for name, value in patch.items():
        path = f"{above}.{name}" if above else name
        if isinstance(value, dict) and value:
            yield from changes_of(value, path)
        else:
            yield path, value


def read_json(text: str, what: str) -> Any:
    """Read a value that a person wrote. Raises InvalidInput."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as wrong:
        raise InvalidInput(f'{what}: {text:.80} is no JSON ({wrong}); a text has quotes: "EUR"') from None


class Form(Value, frozen=True):
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

    def act(self, actor: Actor) -> dict[str, Any]:
        """The arguments that name who acts, and the reason that they gave."""
        return {"by": acting_name(actor, None), "notes": self.optional("reason")}


async def read_form(request: Request) -> Form:
    """The form that a request sends. Raises InvalidInput for what is none."""
    try:
        fields = parse_qs((await request.body()).decode(), keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise InvalidInput(f"this is no form in UTF-8 with at most {_MOST_FIELDS} fields") from None
    return Form(fields)


FormFields = Annotated[Form, Depends(read_form)]


class FilterQuery(NamespacePageQuery):
    """The filters of a list; an empty one counts as absent, because a form sends all its fields."""

    filters: ClassVar[tuple[str, ...]]

    @property
    def given(self) -> dict[str, str]:
        """The filters that are set."""
        return {name: value for name in self.filters if (value := getattr(self, name).strip())}

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of a search. Raise InvalidInput for a text that is no day."""
        read = {name: read_day(value) if name in ("since", "until") else value for name, value in self.given.items()}
        return {**read, "limit": self.limit, "after": self.cursor}


def read_day(text: str) -> datetime | None:
    """Return the beginning of a chosen day; None if nothing was filled in. Raises InvalidInput.

    >>> read_day("2026-01-31").isoformat(), read_day(" ")
    ('2026-01-31T00:00:00+00:00', None)
    """
    if not text.strip():
        return None
    try:
        return datetime.combine(date.fromisoformat(text.strip()), time(), UTC)
    except ValueError:
        raise InvalidInput(f"{text!r:.80} is no day; write it as 2026-01-31") from None
