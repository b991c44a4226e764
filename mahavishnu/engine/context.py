"""What every service of a queue is built from: the store and its collections, the clock, the classifier, the limits."""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from mahavishnu.engine.audit import AuditLog, MayAct
from mahavishnu.engine.breaker import Breakers
from mahavishnu.engine.event_bus import EventBus
from mahavishnu.engine.letter_factory import LetterFactory
from mahavishnu.engine.recorder import Capacities, Capacity, LetterRecorder
from mahavishnu.engine.store_session import StoreSession
from mahavishnu.engine.telemetry import EventMeters, Meters, Tracing
from mahavishnu.engine.waiting_room import WAITING, WaitingFiles, WaitingRoom
from mahavishnu.model import backoff
from mahavishnu.model.backoff import BackoffRegistry
from mahavishnu.model.clock import Clock
from mahavishnu.model.events import Event, EventName
from mahavishnu.model.ids import DEFAULT_NAMESPACE, DEFAULT_QUEUE, document_key, new_token
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import ResolutionStatus
from mahavishnu.model.permissions import TAKES_WORK, Principal, Scope, without_payload_of
from mahavishnu.model.query import (
    Query,
    letter_query,
    query_to_json,
    require_namespace,
    require_namespace_or_all,
    written_namespace,
)
from mahavishnu.model.record import Value
from mahavishnu.model.rules import Rules
from mahavishnu.stores.base import Store, home_of, is_home_away
from mahavishnu.stores.kind import Kind, T
from mahavishnu.stores.kinds import HISTORY, LEDGER, LETTERS, REVISIONS
from mahavishnu.stores.lease_watch import LeaseWatch
from mahavishnu.stores.scoped import SCOPED_FIELDS, NamespaceRecords, VisibleLetters

if TYPE_CHECKING:
    from mahavishnu.classify.chain import Chain
    from mahavishnu.values.kinds import ValueKind

R = TypeVar("R", bound=Rules)
P = TypeVar("P")
DEFAULT_ACTOR = "api_user"  # who acts, where the caller names nobody
OPEN_LETTERS = letter_query(resolution=ResolutionStatus.PENDING)
_MAKES_ROOM = frozenset({EventName.RESOLVED, EventName.ARCHIVED, EventName.REDRIVEN, EventName.CLEARED})


class Limits(Value, frozen=True):
    """How much a processor does at once, for how long, and how often."""

    concurrency: int = 50
    run_seconds: float | None = 3600.0
    lease_seconds: float = 300.0
    interval_seconds: float = 60.0
    grace_seconds: float = 30.0
    skew_seconds: float = 30.0  # a lease's end is waited out by so much: the owner's clock may be behind
    tombstone_days: int = 30  # how long a deleted letter is known by name
    only_failed_repos: bool = True  # a retry of a run that failed for some repos is for those only
    close_on_success: bool = True  # a run of the application that succeeds closes the open letter of its work
    polls: bool = True
    wakes: bool = True

    @property
    def skew(self) -> timedelta:
        """How far the clocks of machines may differ."""
        return timedelta(seconds=self.skew_seconds)


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """How a queue works, apart from where it keeps letters. What is None is as usual.

    `callback` runs letters; `owner` is the name under which this process holds leases; `namespace` is the app's own
    name where several apps share a store.
    """

    chain: Chain | Callable[[], Chain] | None = None  #: a function makes it for the first failure
    letter_factory: LetterFactory | None = None
    limits: Limits | None = None
    breakers: Breakers | None = None
    rules: Sequence[Rules] = ()  #: rule sets, at most one of each class
    backoffs: BackoffRegistry = backoff.DEFAULT
    owner: str | None = None
    callback: Workflow | None = None
    namespace: str = DEFAULT_NAMESPACE
    tracing: Tracing | None = None
    may_act: MayAct | None = None  #: asked besides the permissions of who acts
    audit_payload_reads: bool = False  #: the audit says who has read which payload
    requeues: InitVar[Rules | None] = None  #: one of the `rules`
    events: InitVar[Rules | None] = None  #: one of the `rules`

    def __post_init__(self, requeues: Rules | None, events: Rules | None) -> None:
        given = tuple(each for each in (requeues, events) if each is not None)
        object.__setattr__(self, "rules", (*self.rules, *given))


class Taker(Protocol):
    """Takes new letters as they are stored: written as claimed, they cost no claim of their own, and no search."""

    def claim_new(self, letters: Sequence[DeadLetter]) -> Mapping[str, DeadLetter]:
        """Return letters to be run at once, as they are once claimed, by entry id. `take_new` has to follow."""

    def take_new(self, claimed: Mapping[str, DeadLetter], results: Sequence[object]) -> None:
        """Run those of them that were stored, as these results of their write say."""


class QueueContext:
    """The parts that the services of one queue share. Some can be replaced at any time, so services read them here."""

    principal: Principal | None = None  #: who acts; None: the application itself, which may do everything

    def __init__(
        self, store: Store, clock: Clock, max_size: int = 10_000, options: QueueOptions = QueueOptions()
    ) -> None:
        self.store, self.clock, self.options = store, clock, options
        self.namespace = require_namespace(options.namespace)
        self.letter_factory = options.letter_factory or LetterFactory()  # another one may be set
        self.limits = options.limits or Limits()  # how letters are run: see `set_limits`
        self.on_new_limits: set[Callable[[], object]] = set()  # called when there are others: who sleeps by them wakes
        self.breakers = options.breakers or Breakers()
        self._rules: dict[type[Rules], Any] = {}
        self.set_rules(*options.rules)
        self.backoffs = options.backoffs
        self.owner = options.owner or f"{socket.gethostname()}-{os.getpid()}-{new_token()[:6]}"
        self.lease_watch = LeaseWatch(clock)
        self._parts: dict[type[Any], Any] = {}
        self.revisions = store.collection(REVISIONS)
        self.meters = Meters()
        self.tracing = options.tracing or Tracing()
        self.counts: Counter[str] = Counter(
            skipped_by_strategy=0,
            rejected_full=0,
            capture_failed=0,
            events_dropped=0,
            closed_by_success=0,
            cancelled_ignored=0,
            successes_not_looked_up=0,
            archive_failures=0,
            stale_tasks_detected=0,
            stale_tasks_transitioned=0,
            staleness_errors=0,
            stuck_tasks_reset=0,
            durable_events_dropped=0,
            events_refused=0,
            alert_notices_failed=0,
        )
        self.capacities = Capacities(self.namespace, max_size, self._count_open, clock)
        self.recorder = LetterRecorder(
            store.collection(LETTERS),
            store.collection(HISTORY),
            self.capacities,
            clock,
            self.lease_watch,
            lambda: self.backoffs,
        )
        self.waiting = self._waiting_room()
        self.admits_waiting = True  # whether letters that wait for room are let in
        self.session = StoreSession(store, self.waiting)
        self.session.on_new_loop(self.capacities.reset)
        self.session.on_written_down = lambda: self.on_room_made()
        self.open = self.session.open  # await it before the store is used
        self._enter_namespace()
        self.events = EventBus(self.counts)
        self.events.subscribe(self._update_capacity, {EventName.RETRY_SUCCEEDED, *_MAKES_ROOM})
        self.events.subscribe(EventMeters(self.meters), EventMeters.names)
        self.events.subscribe(lambda event: self.tracing.note_event(event), Tracing.names)
        # What a letter's run is given, and why it cannot be: set by an app, which knows what its adapters take.
        self.restore_task: Callable[[DeadLetter], Any] | None = None
        self.why_unrestorable: Callable[[DeadLetter], str | None] = lambda letter: None
        # The queues that the settings declare, as they are now: set by an app.
        self.declared_queues: Callable[[], Mapping[str, Mapping[str, Any]]] = dict
        # Concurrency and rate of each adapter, as the application declares them: set by an app.
        self.declared_limits: Callable[[], Mapping[str, tuple[int | None, str | None]]] = dict
        # Called with how many moves a task had before, and the task, after it was written; None: nobody wants to know.
        self.on_task_written: Callable[[int, Any], object] | None = None
        # Makes another store like this one, for a thread of its own: set by an app that has made the store.
        self.open_beside: Callable[[], Store] | None = None
        self.config_error: str | None = None  # why the settings were not read again: set by an app
        self.taker: Taker | None = None  # the processor of this process
        self.on_room_made: Callable[[], object] = lambda: None  # called when letters that wait may be let in

    def _enter_namespace(self) -> None:
        """Everything that is another one in each namespace."""
        self.letters = VisibleLetters(self.store.collection(LETTERS), self.namespace, self.scope, self.sees_payloads)
        self.history = self.records(HISTORY)
        self.ledger = self.own_records(LEDGER)
        self.audit = AuditLog(
            self.store,
            self.clock,
            self.open,
            lambda: self.letter_factory.secret_keys,
            self.namespace,
            self.principal,
            self.options.may_act,
        )

    def in_namespace(self, namespace: str) -> QueueContext:
        """The context of another namespace of the same store, or of all (`*`), for reading."""
        if namespace == self.namespace:
            return self
        return _DerivedContext(self, require_namespace_or_all(namespace), self.principal)

    def for_actor(self, principal: Principal) -> QueueContext:
        """The context as somebody sees it: without what is outside of their scope; with what they may do."""
        return _DerivedContext(self, self.namespace, principal)

    @property
    def whole(self) -> QueueContext:
        """The context as the application sees it: for what an act must respect, though who acts does not see it."""
        return self if self.principal is None else _DerivedContext(self, self.namespace, None)

    @property
    def scope(self) -> Scope | None:
        """What is seen; None: everything."""
        return None if self.principal is None or self.principal.scope.is_everything else self.principal.scope

    @property
    def sees_whole_namespace(self) -> bool:
        """Whether sums over the namespace are of what who acts sees."""
        return self.scope is None or self.scope.covers_whole(self.namespace)

    def restrict(self, query: Query) -> Query:
        """A query of letters that others will use, such as a bulk run's, for what who acts sees."""
        return query if self.scope is None else self.scope.restrict(query, SCOPED_FIELDS)

    async def require(self, act: str, subject: str = "queue", where: str | None = None, *, makes: Any = None) -> None:
        """Raise PermissionDenied if who acts may not do this, or what it `makes`, without an entry in the audit."""
        await self.audit.require(act, subject, where, makes=makes)

    async def note_read(self, act: str, subject: str, where: str | None = None, **facts: Any) -> None:
        """Write down that who acts is shown payloads, where that is wanted. Raises StoreError: then they are not.

        They are of the namespace `where`, if not of the queue's own; `facts` say how many, and by which query.
        """
        who = self.principal
        if self.options.audit_payload_reads and who is not None and (who.sees_payloads or act in TAKES_WORK):
            async with self.audit.record(
                act, subject, by=who.name, where=where or who.place_of(self.namespace)
            ) as record:
                record.add(**facts)

    async def hand_out(self, letter: DeadLetter) -> DeadLetter:
        """The same as `show`, for one who asked for this letter: that is written down where it is wanted."""
        await self.note_read("read", f"letter:{letter.key}", letter.namespace)
        return self.show(letter)

    async def hand_out_list(self, letters: Sequence[DeadLetter], query: Query) -> list[DeadLetter]:
        """The same for what a query has found: one entry for all of them, and none where there are none."""
        if letters:
            await self.note_read("read", "letters", count=len(letters), query=query_to_json(query)["where"])
        return [self.show(letter) for letter in letters]

    def show(self, letter: DeadLetter) -> DeadLetter:
        """The letter as its reader may see it; it must not be written."""
        return letter if self.sees_payloads else without_payload_of(letter)

    def show_event(self, event: Event) -> Event | None:
        """The event as who acts may see it; None if it is about others' letters, or about more than theirs."""
        if event.letter is None:
            return event if self.scope is None else None
        seen = self.scope is None or self.scope.covers_record(event.letter)
        return replace(event, letter=self.show(event.letter)) if seen else None

    @property
    def sees_payloads(self) -> bool:
        """Whether tasks and metadata are shown to who acts."""
        return self.principal is None or self.principal.sees_payloads

    @property
    def is_at_home(self) -> bool:
        """Whether the letters are those that this process captures and runs: not those of another namespace."""
        return self.namespace == self.options.namespace

    def own_records(self, kind: Kind[T]) -> NamespaceRecords[T]:
        """The namespace's records of a kind that is about letters without being some, such as groups."""
        return self.records(kind, default_is_none=True)

    def records(self, kind: Kind[T], *, default_is_none: bool = False) -> NamespaceRecords[T]:
        """The namespace's records of a kind, as far as the reader sees them."""
        fields = frozenset(each.name for each in kind.fields)
        return NamespaceRecords(self.store.collection(kind), self.namespace, default_is_none, self.scope, fields)

    def key(self, task_id: str, namespace: str | None = None, queue: str = DEFAULT_QUEUE) -> str:
        """The key of the letter of a task, in this namespace unless another one is named. Raises InvalidInput."""
        return document_key(task_id, require_namespace(self.namespace if namespace is None else namespace), queue)

    @property
    def is_itself(self) -> bool:
        """Whether the process itself acts on its own letters, and not somebody who may see only some of them."""
        return self.is_at_home and self.principal is None

    @property
    def written_namespace(self) -> str | None:
        """The namespace as records that are no letters have it. Raises InvalidInput where it is all of them."""
        return written_namespace(require_namespace(self.namespace))

    def part(self, kind: type[P]) -> P:
        """Return the queue's one object of this class, which `kind.for_context(context)` makes at first use."""
        found: P | None = self._parts.get(kind)
        if found is None:
            make: Callable[[QueueContext], P] = kind.for_context  # type: ignore[attr-defined]
            found = self._parts[kind] = make(self)
        return found

    def rules(self, kind: type[R]) -> R:
        """Return the rule set of this class as it is now, which is its defaults where none was set."""
        found: R | None = self._rules.get(kind)
        if found is None:
            found = self._rules[kind] = kind()
        return found

    def set_rules(self, *rules: Rules) -> None:
        """Go on with these rule sets, each instead of the one of its class."""
        self._rules.update((type(each), each) for each in rules)

    @property
    def capacity(self) -> Capacity:
        """How many open letters there may be in this namespace, and are."""
        return self.capacities.of(self.namespace)

    def _waiting_room(self) -> WaitingRoom:
        """It lets letters in where all processes meet: see `WaitingRoom`."""
        home = home_of(self.store)
        recorder = LetterRecorder(
            home.collection(LETTERS),
            home.collection(HISTORY),
            self.capacities,
            self.clock,
            self.lease_watch,
            lambda: self.backoffs,
        )
        return WaitingRoom(
            self.store.collection(WAITING),
            home.collection(WAITING),
            recorder,
            WaitingFiles.beside(self.store, WAITING),
            lambda: is_home_away(self.store),
            self.namespace,
        )

    @property
    def value_kinds(self) -> tuple[ValueKind, ...]:
        """The kinds of values that are kept besides the built-in ones."""
        return self.letter_factory.value_kinds

    @cached_property
    def chain(self) -> Chain:
        """The classifier. Another one may be set."""
        given = self.options.chain
        if given is None:
            from mahavishnu.classify.chain import Chain  # with the rules: not for a program that only reads letters

            return Chain()
        return given() if callable(given) else given

    def set_limits(self, limits: Limits) -> None:
        """Run letters by other limits from now on."""
        self.limits = limits
        for wake in list(self.on_new_limits):
            wake()

    def may_be_running(self, letter: DeadLetter, now: datetime) -> bool:
        """Whether a run somewhere may still own the letter, even if its lease has ended by this machine's clock."""
        if letter.lease is None:
            return False
        return self.lease_watch.may_be_running(letter, now, self.limits.skew)

    def announce(self, name: EventName, letter: DeadLetter, at: datetime | None = None, /, **detail: Any) -> None:
        """Publish an event about a letter that was written just now, or `at` an instant that the caller knows."""
        self.events.publish(Event(name=name, at=at or self.clock.now(), letter=letter, detail=detail))

    def _update_capacity(self, event: Event) -> None:
        if event.name is EventName.RETRY_SUCCEEDED and event.letter is not None and not event.letter.is_open:
            self.capacities.of(event.letter.namespace).decrement()
            self.on_room_made()
        elif event.name in _MAKES_ROOM:
            self.capacities.invalidate()
            self.on_room_made()

    async def _count_open(self, namespace: str) -> int:
        letters = VisibleLetters(self.store.collection(LETTERS), namespace)
        return (await letters.tally(OPEN_LETTERS)).total.count


class _DerivedContext(QueueContext):
    """The context of another namespace, or as somebody sees it: of what is shared it has what its `home` has now."""

    def __init__(self, home: QueueContext, namespace: str, principal: Principal | None) -> None:
        self._home, self.namespace, self.principal = home, namespace, principal
        self.waiting = replace(home.waiting, namespace=namespace)
        self.recorder = replace(home.recorder, scope=self.scope)
        self._enter_namespace()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._home, name)  # what is not set here

    @cached_property
    def chain(self) -> Chain:
        return self._home.chain


Workflow: TypeAlias = Callable[[Any, list[str]], Any]
