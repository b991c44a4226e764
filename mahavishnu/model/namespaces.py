"""Namespaces: the letters of each app, where several apps share a store.

A queue sees its own namespace. A query that names another one means that; one that names `*` means all of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.ids import DEFAULT_NAMESPACE
from mahavishnu.model.letter_parts import DlqReason
from mahavishnu.model.query import Condition, Is, Missing, Not, Query

ALL_NAMESPACES = "*"
LONGEST_NAMESPACE = 200  # characters: keys that begin with it have to fit into every store
_NAMING_ITEMS = ("reason", "task_id", "entry_id")
_FAILED = Not(Is("reason", (DlqReason.QUEUED,)))


def require_namespace(name: Any) -> str:
    """The name, if a namespace can have it. Raises InvalidInput."""
    if not isinstance(name, str):
        raise InvalidInput(f"namespace must be text, not {name!r:.80}")
    if not 0 < len(name) <= LONGEST_NAMESPACE or "/" in name:
        raise InvalidInput(f"namespace {name!r:.80} must have 1 to {LONGEST_NAMESPACE} characters, and no '/' in it")
    if name == ALL_NAMESPACES:
        raise InvalidInput(f"{ALL_NAMESPACES!r} means all namespaces, but this is about one: name it")
    return name


def require_namespace_or_all(name: Any) -> str:
    """The name of a namespace, or `*`. Raises InvalidInput."""
    return ALL_NAMESPACES if name == ALL_NAMESPACES else require_namespace(name)


def named_namespaces(query: Query) -> tuple[Any, ...] | None:
    """The namespaces that the query names itself; None if it names none.

    >>> named_namespaces(Query((Is("namespace", ("eu",)),))), named_namespaces(Query())
    (('eu',), None)
    """
    for condition in query.where:
        if isinstance(condition, Is) and condition.field == "namespace":
            return condition.values
    return None


def within_namespace(query: Query, own: str) -> Query:
    """The query for letters as a queue of the namespace `own` means it.

    >>> within_namespace(Query(), "eu").where
    (Is(field='namespace', values=('eu',)),)
    >>> within_namespace(Query((Is("namespace", ("*",)),)), "eu").where
    ()
    """
    named = named_namespaces(query)
    if named is None:
        return query if own == ALL_NAMESPACES else replace(query, where=(Is("namespace", (own,)), *query.where))
    if ALL_NAMESPACES not in named:
        return query
    everywhere = tuple(each for each in query.where if not (isinstance(each, Is) and each.field == "namespace"))
    return replace(query, where=everywhere)


def without_waiting_items(query: Query, own: str) -> Query:
    """Return the query as a view of letters means it: over all namespaces, without waiting or finished items of queues.

    Items are letters of namespaces of their own. A dead one needs attention, as letters do; any other one has not
    failed. A query by reason, task or entry means items, too.

    >>> without_waiting_items(Query(), "eu").where, len(without_waiting_items(Query(), "*").where)
    ((), 1)
    """
    named = named_namespaces(query)
    is_everywhere = own == ALL_NAMESPACES if named is None else ALL_NAMESPACES in named
    if not is_everywhere or any(isinstance(each, Is) and each.field in _NAMING_ITEMS for each in query.where):
        return query
    return replace(query, where=(*query.where, _FAILED))


def own_records(query: Query, own: str) -> Query:
    """The query for records that write the namespace `default` as none, such as groups and bulk runs."""
    if own == ALL_NAMESPACES:
        return query
    here: Condition = Missing("namespace") if own == DEFAULT_NAMESPACE else Is("namespace", (own,))
    return replace(query, where=(here, *query.where))


def written_namespace(own: str) -> str | None:
    """The namespace as those records have it: versions that knew none wrote none.

    >>> written_namespace("default"), written_namespace("eu")
    (None, 'eu')
    """
    return None if own == DEFAULT_NAMESPACE else own


def acting_namespace(query: Query, own: str) -> str:
    """The one namespace in which something is done to what the query means. Raises InvalidInput for several.

    >>> acting_namespace(Query(), "eu"), acting_namespace(Query((Is("namespace", ("us",)),)), "eu")
    ('eu', 'us')
    """
    named = named_namespaces(query)
    if named is not None and len(set(named)) != 1:
        raise InvalidInput(f"letters are changed in one namespace at a time, not in {', '.join(map(str, named))}")
    return require_namespace(own if named is None else named[0])


OF_QUEUE = "@"  # between a namespace and the queue whose items have a namespace of their own


def items_namespace(namespace: str, queue: str) -> str:
    """The namespace that the items of a queue have: they are letters, and no failures of the app.

    >>> items_namespace("default", "orders")
    'default@orders'
    """
    return f"{namespace}{OF_QUEUE}{queue}"


def has_items(namespace: str, queue: str) -> bool:
    """Whether what is in this queue of this namespace are items of a named queue. Without a `queue`: in all of it.

    >>> has_items("default@orders", "orders"), has_items("default", "orders")
    (True, False)
    """
    own, mark, name = namespace.rpartition(OF_QUEUE)
    return bool(own and mark) and queue in (name, "")


def queue_of_items(inside: str, namespace: str) -> str | None:
    """The queue of the namespace whose items are `inside` that one; None if they are of another namespace, or none.

    >>> queue_of_items("default@orders", "default"), queue_of_items("default@x@orders", "default")
    ('orders', None)
    """
    own, mark, name = inside.rpartition(OF_QUEUE)
    return name if mark and own == namespace else None
