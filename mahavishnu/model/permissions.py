"""Permissions for verbs, and a scope of namespaces, queues and adapters: records outside of it do not exist."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from typing import Any

from msgspec.structs import force_setattr, replace

from mahavishnu.model.errors import PermissionDenied
from mahavishnu.model.ids import DEFAULT_NAMESPACE
from mahavishnu.model.json_value import EMPTY, Json
from mahavishnu.model.letter import DeadLetter, evolve
from mahavishnu.model.query import ALL_NAMESPACES, AnyOf, At, Condition, Is, Missing, Not, Query, named_namespaces
from mahavishnu.model.record import Value


class Permission(StrEnum):
    """Permission of a principal."""

    VIEW = "view"  #: see letters, groups, runs and numbers
    VIEW_PAYLOAD = "view-payload"  #: see what was to be done and with what, too
    RETRY = "retry"  #: have work run again, and run it as a worker
    EDIT = "edit"  #: change letters, groups and queues, and close cases
    DELETE = "delete"  #: delete for good
    CONFIGURE = "configure"  #: rearrange the archive, switch strategies and workers


_VIEWER = frozenset({Permission.VIEW, Permission.VIEW_PAYLOAD})
_OPERATOR = _VIEWER | {Permission.RETRY, Permission.EDIT}
ROLE_PERMISSIONS: Mapping[str, frozenset[Permission]] = {
    "viewer": _VIEWER,
    "operator": _OPERATOR,
    "admin": _OPERATOR | {Permission.DELETE, Permission.CONFIGURE},
}
# What an act that the audit records needs. One that is missing here needs all that an admin has.
ACT_PERMISSIONS: Mapping[str, Permission] = {
    **dict.fromkeys(("redrive", "resurrect", "requeue", "retry", "queue.item.retry"), Permission.RETRY),
    **dict.fromkeys(("queue.redrive", "queue.lease", "claim", "task.report"), Permission.RETRY),
    **dict.fromkeys(("run.pause", "run.resume", "run.cancel", "run.halt", "run.done"), Permission.RETRY),
    **dict.fromkeys(("login", "logout", "find unreadable", "list local stores"), Permission.VIEW),
    "run.start": Permission.VIEW,  # what the run does is asked for each of its acts
    **dict.fromkeys(("edit", "resolve", "fail", "cancel", "archive", "reclassify", "regroup"), Permission.EDIT),
    **dict.fromkeys(
        ("enqueue", "import", "group.update", "group.release", "adapter.limit", "task.create", "task.move"),
        Permission.EDIT,
    ),
    **dict.fromkeys(("queue.create", "queue.update", "queue.produce", "events.write"), Permission.EDIT),
    **dict.fromkeys(("archive.run", "archive.restore", "archive.export", "detect stale tasks"), Permission.EDIT),
    **dict.fromkeys(("view.save", "view.delete", "alert.test"), Permission.EDIT),
    **dict.fromkeys(("reveal", "read", "export", "events.read", "archive.read_task"), Permission.VIEW_PAYLOAD),
    **dict.fromkeys(("delete", "clear", "queue.delete", "queue.item.delete"), Permission.DELETE),
    **dict.fromkeys(("archive.detach", "archive.attach", "archive.drop", "work", "encrypt"), Permission.CONFIGURE),
    "forget local store": Permission.CONFIGURE,
}
# What is done to all of a namespace: who has a part of it in their scope may not do it.
_WHOLE_NAMESPACE = frozenset(
    {
        "import",
        "adapter.limit",
        "clear",
        "archive.export",
        "detect stale tasks",
        "archive.run",
        "archive.detach",
        "archive.attach",
    }
    | {"archive.drop", "queue.create", "work", "encrypt", "events.read", "events.write", "archive.read_task"}
    | {"group.release", "alert.test"}
)
# Items have no adapter, so who has some adapters in their scope sees none, and does nothing with their queues.
_WHOLE_QUEUE = frozenset({"queue.produce", "queue.update", "queue.delete"})
_WHOLE_STORE = frozenset({"find unreadable", "list local stores", "forget local store"})
_NOWHERE = ("",)  # no namespace is called so
TAKES_WORK = frozenset({"claim", "queue.lease"})  # who runs work gets its payload, also without view-payload
HIDDEN = Json.of({"hidden": "needs the permission view-payload"})


class Scope(Value, frozen=True):
    """Records that a principal sees: those of these namespaces, queues and adapters; None: of all of them."""

    namespaces: frozenset[str] | None = None
    queues: frozenset[str] | None = None
    adapters: frozenset[str] | None = None

    @property
    def is_everything(self) -> bool:
        """True if nothing is outside of it."""
        return self.namespaces is self.queues is self.adapters is None

    def covers_namespace(self, namespace: str) -> bool:
        """Return True if something in this namespace is inside; `eu` has the items of its queues in `eu@<queue>`."""
        return self.namespaces is None or not self.namespaces.isdisjoint((namespace, namespace.partition("@")[0]))

    def covers_whole(self, namespace: str) -> bool:
        """Return True if all of this namespace is inside; that of a queue's items is inside with that queue."""
        queue = namespace.partition("@")[2]
        in_queues = self.queues is None or queue in self.queues
        return self.covers_namespace(namespace) and in_queues and self.adapters is None

    def covers(self, namespace: str, queue: str | None, adapter: str | None) -> bool:
        """Return True if a record with these is inside."""
        return (
            self.covers_namespace(namespace)
            and (self.queues is None or queue in self.queues)
            and (self.adapters is None or adapter in self.adapters)
        )

    def covers_record(self, record: Any) -> bool:
        """Return True if a record is inside, as far as it says where it belongs."""
        namespace = getattr(record, "namespace", DEFAULT_NAMESPACE) or DEFAULT_NAMESPACE
        return (
            self.covers_namespace(namespace)
            and (self.queues is None or not hasattr(record, "queue") or record.queue in self.queues)
            and (self.adapters is None or not hasattr(record, "adapter") or record.adapter in self.adapters)
        )

    def restrict(self, query: Query, fields: Collection[str], *, default_is_none: bool = False) -> Query:
        """Restrict the query to records inside, as far as they have these searchable fields."""
        more: list[Condition] = []
        if self.namespaces is not None and "namespace" in fields:
            named = named_namespaces(query)
            if named is None:
                more.append(_in_namespaces(self.namespaces, default_is_none))
            elif not all(map(self.covers_namespace, named)):
                more.append(Is("namespace", tuple([each for each in named if self.covers_namespace(each)]) or _NOWHERE))
        if self.queues is not None and "queue" in fields:
            more.append(Is("queue", tuple(sorted(self.queues))))
        if self.adapters is not None and "adapter" in fields:
            more.append(Is("adapter", tuple(sorted(self.adapters))))
        return replace(query, where=(*query.where, *more)) if more else query


class Principal(Value, frozen=True):
    """Person or program that acts: a name, permissions and a scope. `role` is what the audit calls it.

    Without the permission to view it sees nothing, so there is nothing that it could act on.
    """

    name: str
    permissions: frozenset[Permission] = ROLE_PERMISSIONS["viewer"]
    scope: Scope = Scope()
    role: str | None = None

    def __post_init__(self) -> None:
        if Permission.VIEW not in self.permissions:
            force_setattr(self, "scope", Scope(namespaces=frozenset()))

    @classmethod
    def of_role(cls, name: str, role: str, scope: Scope = Scope()) -> Principal:  # noqa: B008 - it is frozen
        """Return a principal with all permissions of `viewer`, `operator` or `admin`."""
        return cls(name, ROLE_PERMISSIONS[role], scope, role)

    @property
    def sees_payloads(self) -> bool:
        """True if tasks and metadata are shown to them."""
        return Permission.VIEW_PAYLOAD in self.permissions

    def place_of(self, namespace: str) -> str:
        """Return the namespace in which the audit writes down an act in this one: of all (`*`), one that is inside."""
        if namespace != ALL_NAMESPACES:
            return namespace
        return min(self.scope.namespaces or (), default=DEFAULT_NAMESPACE)

    def why_not(self, act: str, namespace: str | None = None, makes: Any = None) -> str | None:
        """Return why they may not do an act, or make what it `makes`, in a namespace; None if they may."""
        needed = {ACT_PERMISSIONS[act]} if act in ACT_PERMISSIONS else ROLE_PERMISSIONS["admin"]
        if missing := (needed | {Permission.VIEW}) - self.permissions:
            has = ", ".join(sorted(self.permissions)) or "none"
            return f"needs the permission {', '.join(sorted(missing))}, and {self.name} has {has}"
        if namespace is not None and not self.scope.covers_namespace(namespace):
            return f"is about namespace {namespace!r}, which is outside of the scope of {self.name}"
        if makes is not None and not self.scope.covers_record(makes):
            return f"makes a letter outside of the scope of {self.name}"
        if act in _WHOLE_STORE and not self.scope.is_everything:
            return f"is about the whole store, and {self.name} sees a part of it"
        if act in _WHOLE_NAMESPACE and not (self.scope.queues is self.scope.adapters is None):
            return f"is about a whole namespace, and {self.name} sees a part of one"
        if act in _WHOLE_QUEUE and self.scope.adapters is not None:
            return f"is about a whole queue, and {self.name} sees the letters of some adapters"
        return None


def acts_of_run(verb: str, has_patch: bool) -> Iterable[str]:
    """Return the acts of a bulk run of this verb: its starter may do each of them.

    >>> list(acts_of_run("redrive", True))
    ['redrive', 'edit']
    """
    return (verb, "edit") if has_patch and verb != "edit" else (verb,)


def without_payload_of(letter: DeadLetter) -> DeadLetter:
    """Return the letter as shown to principals who may not see payloads; it must not be written."""
    return evolve(letter, payload=HIDDEN, payload_types=EMPTY, labels=EMPTY, captured_task=None)


def without_payload_search(query: Query) -> Query:
    """Return the query for principals who may not see payloads. Raises PermissionDenied.

    >>> without_payload_search(Query((Is("more_words", ("card",)),))).where
    (Is(field='words', values=('card',)),)
    """
    return replace(query, where=tuple([_without_payload(each) for each in query.where]))


def _without_payload(condition: Condition) -> Condition:
    match condition:
        case AnyOf(conditions):
            return AnyOf(tuple([_without_payload(each) for each in conditions]))
        case Not(inner):
            return Not(_without_payload(inner))
        case Is("more_words"):
            return Is("words", condition.values)  # of errors only
        case At() | Is("task_values" | "task" | "metadata") | Missing("task" | "metadata"):
            raise PermissionDenied("searching in tasks and metadata", f"needs the permission {Permission.VIEW_PAYLOAD}")
    return condition


def _in_namespaces(namespaces: frozenset[str], default_is_none: bool) -> Condition:
    named: Condition = Is("namespace", tuple(sorted(namespaces)))
    if default_is_none and DEFAULT_NAMESPACE in namespaces:
        return AnyOf((Missing("namespace"), named))
    return named
