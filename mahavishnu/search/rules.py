"""Saved views: queries with a name, shared by all who see the same letters. And the query that a filter means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from mahavishnu.model.clock import instant_text
from mahavishnu.model.errors import InvalidInput, InvalidQuery
from mahavishnu.model.ids import DEFAULT_NAMESPACE
from mahavishnu.model.query import NEWEST_FIRST, Query, Sort, letter_query, named_namespaces
from mahavishnu.model.record import Version, Versioned

LONGEST_VIEW_NAME = 100  # characters
SORTS = ("newest", "oldest", "updated", "due", "priority")  # of the letters that a view shows
_FARTHEST = 1_000_000


class SavedView(Versioned, frozen=True):
    """A named query text: who saved it last and when, and its order of letters. Listed by `place`, then by name."""

    name: str
    text: str
    saved_by: str
    created_at: datetime
    saved_at: datetime
    sort: str = SORTS[0]
    place: int = 0
    namespace: str = DEFAULT_NAMESPACE
    version: Version | None = None

    @property
    def key(self) -> str:
        """The key of the record."""
        return view_key(self.namespace, self.name)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values, without the version."""
        shown = {name: getattr(self, name) for name in ("name", "text", "sort", "place", "saved_by")}
        instants = {"saved_at": instant_text(self.saved_at), "created_at": instant_text(self.created_at)}
        return {**shown, **instants, "namespace": self.namespace}


def view_key(namespace: str, name: str) -> str:
    """Return the key of a view.

    >>> view_key("default", "Mine, today")
    'default/Mine, today'
    """
    return f"{namespace}/{name}"


def require_view(name: Any, text: Any, sort: Any, place: Any, now: datetime) -> None:
    """Raise InvalidInput for an invalid view; InvalidQueryText for a text that means nothing."""
    from mahavishnu.model.query_text import read_conditions  # who only reads views needs none of it

    require_view_name(name)
    if not isinstance(text, str):
        raise InvalidInput(f"a query is text, not {text!r:.80}")
    read_conditions(text, now)
    if sort not in SORTS:
        raise InvalidInput(f"letters cannot be sorted by {sort!r:.80}; by {', '.join(SORTS)} they can")
    if type(place) is not int or abs(place) > _FARTHEST:
        raise InvalidInput(f"a place in the list is a whole number of at most {_FARTHEST}, not {place!r:.80}")


def require_view_name(name: Any) -> str:
    """Return the name, if a view can have it. Raises InvalidInput."""
    if isinstance(name, str) and 0 < len(name) <= LONGEST_VIEW_NAME and name.isprintable() and name.strip() == name:
        return name
    raise InvalidInput(
        f"a view has a name of 1 to {LONGEST_VIEW_NAME} printable characters without blanks around it, "
        f"not {name!r:.120}"
    )


# --- filters of letters in requests, and the queries that they mean

_SAME_NAMES = (
    *("policy", "namespace", "queue", "fingerprint", "task_id", "source_id", "adapter"),
    *("tags", "repo", "run", "text"),
)


def as_query(
    given: Mapping[str, Any], now: datetime, *, limit: int = 500, sort: tuple[Sort, ...] = NEWEST_FIRST
) -> Query:
    """Return the query that the fields of a `Filter` mean; ages in its text count from `now`. Raises InvalidQuery."""
    metadata = {}
    for pair in given.get("metadata") or ():
        path, equals, value = pair.partition("=")
        if not equals or not path:
            raise InvalidQuery(f"{pair!r:.80} is no condition on the metadata: write path=value")
        metadata[path] = value
    named: dict[str, Any] = {name: given.get(name) for name in _SAME_NAMES}
    named |= {name: _texts(given.get(name)) for name in ("status", "category", "reason")}
    named |= {
        name: (given.get(f"{name}_from"), given.get(f"{name}_before")) for name in ("failed", "created", "updated")
    }
    resolution = _texts(given.get("resolution_status"))
    query = letter_query(**named, resolution=resolution, metadata=metadata, sort=sort, limit=limit)
    if not (text := given.get("q")):
        return query
    from mahavishnu.model.query_text import read_conditions  # takes a while to load, and few lists need it

    conditions = read_conditions(text, now)
    if given.get("namespace") and named_namespaces(Query(conditions)) is not None:
        raise InvalidQuery("the namespace is said twice: in the text and beside it")
    return replace(query, where=(*query.where, *conditions))


def _texts(given: Sequence[str] | None) -> list[str] | None:
    return None if given is None else [str(each) for each in given]
