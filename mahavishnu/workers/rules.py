"""Live workers: what each can run, which partitions it looks after, and which letters none of them can run."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from typing import Any, Generic, NamedTuple, TypeVar

from msgspec.structs import replace

from mahavishnu.model.clock import instant_text
from mahavishnu.model.errors import InvalidInput, NoAdapterNamed, NoSuchAdapter
from mahavishnu.model.ids import DEFAULT_NAMESPACE, PARTITIONS
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.permissions import Scope
from mahavishnu.model.query import ALL_NAMESPACES, Condition, Is, has_items
from mahavishnu.model.record import Value, Version, Versioned

I = TypeVar("I")  # noqa: E741
LIVES_SECONDS = 16.0  # after three missed beats a worker counts as gone
REMOTE_LIVES_SECONDS = 300.0
ONCE_SECONDS = 3600.0  # how long the next run of `worker --once` is waited for, before it is known how often they come


class Worker(Versioned, frozen=True):
    """A process that takes letters, of these `queues` or of all; it renews `seen_at` as long as it lives.

    It runs letters of its `adapters`, or any if it `takes_all`, because it has a callback of its own. A `remote` one
    claims letters of a queue that it does not share with others by partitions. All its letters are of one namespace;
    None is the one called `default`.

    `seen_at` is dated by the clock with this `mark`. One that `ended` ran all due letters, once; the run before it was
    `every` seconds earlier.
    """

    name: str
    started_at: datetime
    seen_at: datetime
    queues: tuple[str, ...] | None = None
    adapters: tuple[str, ...] | None = None
    takes_all: bool | None = None
    remote: bool | None = None
    host: str | None = None
    pid: int | None = None
    namespace: str | None = None
    mark: str | None = None
    ended: bool | None = None
    every: float | None = None
    version: Version | None = None

    @property
    def key(self) -> str:
        return self.name

    @property
    def lives_seconds(self) -> float:
        """Seconds for which it counts as living after a sign of life. A remote one signs when it claims letters."""
        return REMOTE_LIVES_SECONDS if self.remote else LIVES_SECONDS

    def comes_again(self, now: datetime, skew: timedelta) -> bool:
        """Return whether it ended in order, and another such run is expected: at most one was left out since.

        After the first one, within an hour.
        """
        seconds = ONCE_SECONDS if self.every is None else max(2 * self.every, REMOTE_LIVES_SECONDS)
        return bool(self.ended) and now - self.seen_at <= timedelta(seconds=seconds) + skew

    def takes_from(self, namespace: str) -> bool:
        """Return whether it takes letters of this namespace. A remote one may claim those of all."""
        return ALL_NAMESPACES in (self.namespace, namespace) or (self.namespace or DEFAULT_NAMESPACE) == namespace

    def within(self, scope: Scope) -> Worker | None:
        """Return the worker with the names of this scope only; None if it runs nothing of that."""
        queues, adapters = (
            names if seen is None or not names else tuple(name for name in names if name in seen)
            for names, seen in ((self.queues, scope.queues), (self.adapters, scope.adapters))
        )
        if (self.queues and not queues) or (self.adapters and not adapters):
            return None
        return replace(self, queues=queues, adapters=adapters)

    def may_run(self, letters: WaitingLetters) -> bool:
        """Return whether it may take such letters. One that does not say what it can run may."""
        if not self.takes_from(letters.namespace) or (self.queues and letters.queue not in self.queues):
            return False
        return bool(self.takes_all) or self.adapters is None or letters.adapter in self.adapters


class Share(Value, frozen=True):
    """Letters that a worker looks after: of these adapters, or of all if that is None, and of these partitions.

    Its own partitions come first, then those of the others in turn: a helper begins with the next worker.
    """

    adapters: tuple[str, ...] | None = None
    partitions: tuple[range, ...] = (range(PARTITIONS),)

    @property
    def own(self) -> range | None:
        """The partitions that it looks after; None if it shares them with no other worker."""
        return self.partitions[0] if len(self.partitions) > 1 else None


def shares_of(me: Worker, live: Iterable[Worker]) -> list[Share]:
    """Return the shares of one of the `live` workers, which divide each adapter's letters among its runners.

    So no letter is left to a worker that cannot run it. A worker with a callback of its own divides with its like.

    >>> now = datetime(2030, 1, 1)
    >>> one, two = (Worker(name, now, now, adapters=("sweep", name)) for name in "ab")
    >>> for share in shares_of(one, [one, two]): print(share.adapters, share.partitions)
    ('a',) (range(0, 256),)
    ('sweep',) (range(0, 128), range(128, 256))
    """
    fellows = [each for each in live if each.name != me.name and not each.remote and each.queues == me.queues]
    if me.takes_all or me.adapters is None:
        return [Share(None, partitions_of(me.name, [each.name for each in fellows if each.takes_all]))]
    by_holders: dict[tuple[str, ...], list[str]] = {}
    for adapter in sorted(me.adapters):
        holders = tuple(each.name for each in fellows if not each.takes_all and adapter in (each.adapters or ()))
        by_holders.setdefault(holders, []).append(adapter)
    return [Share(tuple(adapters), partitions_of(me.name, holders)) for holders, adapters in by_holders.items()]


def partitions_of(me: str, others: Iterable[str]) -> tuple[range, ...]:
    """Return the partitions of a worker, then those of the others in turn."""
    names = sorted({me, *others})
    place, workers = names.index(me), len(names)
    every = [range(PARTITIONS * each // workers, PARTITIONS * (each + 1) // workers) for each in range(workers)]
    return tuple(every[place:] + every[:place])


class Turns(Generic[I]):
    """Items by adapter, handed out in turns: one of each adapter, then the next of each.

    >>> turns = Turns[int]()
    >>> for number, name in enumerate("aaab"): turns.add(name, number)
    >>> [turns.pop() for _ in range(5)]
    [0, 3, 1, 2, None]
    """

    def __init__(self) -> None:
        self._lanes: dict[str, deque[I]] = {}

    def __bool__(self) -> bool:
        return bool(self._lanes)

    @property
    def names(self) -> AbstractSet[str]:
        """The adapters that have items."""
        return self._lanes.keys()

    def count(self, name: str) -> int:
        """Return how many items this adapter has."""
        return len(self._lanes.get(name, ()))

    def add(self, name: str, item: I) -> None:
        """Add an item behind the others of its adapter; a new adapter comes last."""
        if (lane := self._lanes.get(name)) is None:
            lane = self._lanes[name] = deque()
        lane.append(item)

    def pop(self, without: Container[str] = ()) -> I | None:
        """Take the next item of the adapter whose turn it is, but of none `without`; None if there is none."""
        for name in self._lanes:
            if name not in without:
                break
        else:
            return None
        lane = self._lanes[name]
        item = lane.popleft()
        if not lane:
            del self._lanes[name]
        elif len(self._lanes) > 1:
            self._lanes[name] = self._lanes.pop(name)  # behind the others
        return item

    def take_all(self) -> list[I]:
        """Take all items."""
        items = [item for lane in self._lanes.values() for item in lane]
        self._lanes.clear()
        return items


def reserved_places(concurrency: int, adapters: int) -> int:
    """Return how many places of a worker are kept for adapters with nothing running.

    None if it knows one adapter only, or has one place.

    >>> reserved_places(50, 2), reserved_places(5, 2), reserved_places(1, 2), reserved_places(50, 1)
    (5, 1, 0, 0)
    """
    return max(concurrency // 10, 1) if adapters > 1 and concurrency > 1 else 0


def run_by(adapters: Collection[str]) -> tuple[Condition, ...]:
    """Return the condition that one of these adapters runs a letter."""
    return (Is("adapter", tuple(sorted(adapters))),)


def require_adapter(letter: DeadLetter, adapters: Collection[str]) -> None:
    """Raise NoAdapterNamed or NoSuchAdapter unless one of these adapters runs the letter."""
    if letter.adapter is None:
        raise NoAdapterNamed(f"letter {letter.key!r}")
    if letter.adapter not in adapters:
        here = f"this process has {', '.join(sorted(adapters))}" if adapters else "this process has none"
        raise NoSuchAdapter(letter.adapter, f"{here}; a worker that has it runs the letter when it is due")


class WaitingLetters(Value, frozen=True):
    """Letters of one queue and adapter that are to be run again; from `since` to `until` they become due."""

    queue: str
    adapter: str | None
    count: int
    since: datetime | None = None
    namespace: str = DEFAULT_NAMESPACE
    until: datetime | None = None


def without_worker(waiting: Iterable[WaitingLetters], workers: Collection[Worker]) -> list[WaitingLetters]:
    """Return waiting letters that no live worker can run, most letters first, without items, which are leased."""
    letters = [each for each in waiting if not has_items(each.namespace, each.queue)]
    left = [each for each in letters if not any(worker.may_run(each) for worker in workers)]
    return sorted(left, key=lambda each: (-each.count, each.adapter or "", each.queue))


def count_by_adapter(waiting: Sequence[WaitingLetters], none: str) -> Mapping[str, int]:
    """Count the letters of each adapter; `none` stands for letters that name none."""
    counts = Counter[str]()
    for each in waiting:
        counts[each.adapter or none] += each.count
    return dict(counts)


def what_is_missing(adapter: str | None) -> str:
    """Describe what letters of this adapter wait for.

    >>> what_is_missing("invoice")
    "waiting for a worker that has 'invoice'"
    """
    if adapter:
        return f"waiting for a worker that has {adapter!r}"
    return (
        "waiting for somebody to say what runs it: name an adapter (mahavishnu dlq edit TASK --adapter NAME), "
        "or start a worker with a callback of its own"
    )


def what_fits(adapter: str | None, unfit: str, *, needs_edit: bool = False) -> str:
    """Describe what a letter waits for that a worker took and could not give to its workflow.

    >>> what_fits("invoice", "currency is no parameter of invoice(amount)").partition(". ")[0]
    "waiting for a worker whose 'invoice' takes its task: currency is no parameter of invoice(amount)"
    """
    if needs_edit:
        return f"waiting for an edit, nothing was run: {unfit}"
    whose = f"whose {adapter!r}" if adapter else "whose callback"
    return f"waiting for a worker {whose} takes its task: {unfit}. Start a version that fits, or edit the task"


# --- limits of adapters

BY_APPLICATION = "application"  # who has set a limit that is declared in code or settings
MOST_AT_ONCE, LONGEST_ADAPTER = 1000, 500
_UNITS = {"s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60, "h": 3600, "hour": 3600}
_SHORT_UNITS = {1: "s", 60: "min", 3600: "h"}
_RATE = re.compile(r"\s*([1-9][0-9]{0,5})\s*/\s*([a-z]+)\s*", re.IGNORECASE)
_TOGETHER_SECONDS = 0.05  # runs of a quick rate that may start together
_PATIENCE = timedelta(seconds=2)  # after which a worker that waits for a place goes first
_WAITS = timedelta(seconds=5)  # for which a worker that asked for a place counts as waiting


class Rate(NamedTuple):
    """So many runs in so many seconds."""

    runs: int
    seconds: int

    @classmethod
    def read(cls, text: object) -> Rate:
        """Return the rate of a text such as `100/min`. Raises InvalidInput.

        >>> Rate.read("100 / minute"), str(Rate.read("5/hour"))
        (Rate(runs=100, seconds=60), '5/h')
        """
        match = _RATE.fullmatch(text) if isinstance(text, str) else None
        if match is None or match[2].lower() not in _UNITS:
            raise InvalidInput(f"rate must be a number per s, min or h, such as 100/min, not {text!r:.80}")
        return cls(int(match[1]), _UNITS[match[2].lower()])

    def __str__(self) -> str:
        return f"{self.runs}/{_SHORT_UNITS[self.seconds]}"

    @property
    def together(self) -> int:
        """Number of runs that may start at once."""
        return max(1, int(self.runs / self.seconds * _TOGETHER_SECONDS))

    def time_of(self, some: int) -> timedelta:
        """Return the time that so many runs take up, so that no span of the unit has more than the rate allows."""
        return timedelta(milliseconds=-(-1000 * some * self.seconds // (self.runs - self.together + 1)))


class Holder(Value, frozen=True):
    """A worker's part of a limit: letters that it holds until `until`, and more that it has wanted since `since`."""

    owner: str
    held: int
    wanted: int
    since: datetime
    until: datetime


class AdapterLimit(Versioned, frozen=True):
    """The limits of an adapter's runs in all workers, and how far they are used; None: no limit.

    The rate allows the next runs at `next_at`. Without `set_by`, what the application declares is to be set again.
    """

    adapter: str
    concurrency: int | None = None
    rate: str | None = None
    set_by: str | None = None
    set_at: datetime | None = None
    next_at: datetime | None = None
    holders: tuple[Holder, ...] = ()
    namespace: str | None = None
    version: Version | None = None

    @property
    def key(self) -> str:
        return f"{self.namespace or DEFAULT_NAMESPACE}/{self.adapter}"

    @property
    def is_set(self) -> bool:
        """True if it limits anything."""
        return self.concurrency is not None or self.rate is not None

    @property
    def values(self) -> dict[str, Any]:
        """The limit itself, without who has set it and how far it is used."""
        return {"concurrency": self.concurrency, "rate": self.rate}

    def places_of(self, owner: str) -> int:
        """Return how many letters a worker holds, as far as it has said."""
        return sum(each.held for each in self.holders if each.owner == owner)

    def end_of(self, owner: str) -> datetime | None:
        """Return when the last lease of a worker ends, as far as it has said."""
        return next((each.until for each in self.holders if each.owner == owner), None)

    def must_renew(self, owner: str, held: int, now: datetime, until: datetime) -> bool:
        """Return whether a worker that holds so many letters, until then, has to say so again."""
        mine = next((each for each in self.holders if each.owner == owner), None)
        if mine is None:
            return self.concurrency is not None and held > 0
        return mine.held != held or mine.wanted > 0 or (held > 0 and mine.until - now < (until - now) / 2)

    def to_dict(self, now: datetime) -> dict[str, Any]:
        """Return the limit as JSON values; `held` are letters that workers hold now."""
        return {
            "adapter": self.adapter,
            **self.values,
            "set_by": self.set_by,
            "set_at": None if self.set_at is None else instant_text(self.set_at),
            "held": sum(each.held for each in self.holders if each.until > now),
        }


def check_limit(concurrency: object = None, rate: object = None) -> tuple[int | None, str | None]:
    """Return a limit as records have it. Raises InvalidInput.

    >>> check_limit(5, "100/minute")
    (5, '100/min')
    """
    if concurrency is not None and (type(concurrency) is not int or not 1 <= concurrency <= MOST_AT_ONCE):
        raise InvalidInput(f"concurrency must be a whole number from 1 to {MOST_AT_ONCE}, not {concurrency!r:.80}")
    return concurrency, None if rate is None else str(Rate.read(rate))


def check_declared_limits(given: object) -> Mapping[str, Mapping[str, Any]]:
    """Return the limits of settings, by adapter. Raises InvalidInput.

    >>> check_declared_limits({"charge": {"rate": "2/s"}})
    {'charge': {'rate': '2/s'}}
    """
    if not isinstance(given, Mapping):
        raise InvalidInput(f"a map of names, each with concurrency and rate, not {given!r:.80}")
    for name, limit in given.items():
        if not isinstance(limit, Mapping) or not limit.keys() <= {"concurrency", "rate"}:
            raise InvalidInput(f"{name} has concurrency and rate, and nothing else, not {limit!r:.80}")
        try:
            check_limit(**limit)
        except InvalidInput as problem:
            raise InvalidInput(f"{name}: {problem}") from None
    return given


def declared_limits(
    by_settings: Mapping[str, Mapping[str, Any]], by_code: Mapping[str, tuple[int | None, str | None]]
) -> Mapping[str, tuple[int | None, str | None]]:
    """Return the limits that an application declares, by adapter; what code says of one replaces its settings.

    >>> declared_limits({"a": {"rate": "2/s"}}, {"a": (None, None), "b": (5, None)})
    {'a': (None, '2/s'), 'b': (5, None)}
    """
    found = {name: check_limit(**limit) for name, limit in by_settings.items()}
    return {
        name: by_code[name] if any(by_code.get(name, ())) else found.get(name, (None, None))
        for name in {**found, **by_code}
    }


def grant(
    limit: AdapterLimit, owner: str, held: int, wanted: int, now: datetime, until: datetime
) -> tuple[int, AdapterLimit]:
    """Return how many of the `wanted` letters a worker may claim now, and the limit with its part of it.

    It holds `held` letters already, all of them until `until`.

    >>> at = datetime(2030, 1, 1)
    >>> got, limit = grant(AdapterLimit("charge", concurrency=3, rate="1/s"), "a", 0, 5, at, at + _WAITS)
    >>> got, limit.next_at - at, limit.places_of("a")
    (1, datetime.timedelta(seconds=1), 1)
    """
    others = [each for each in limit.holders if each.owner != owner and each.until > now]
    mine = next((each for each in limit.holders if each.owner == owner), None)
    since = mine.since if mine is not None and mine.wanted else now
    granted, next_at = wanted, limit.next_at
    if limit.concurrency is not None:
        longer = sum(each.wanted for each in others if each.wanted and each.since < min(since, now - _PATIENCE))
        free = limit.concurrency - held - sum(each.held for each in others)
        granted = min(granted, max(free - longer, 0))
    if limit.rate is not None and granted:
        rate = Rate.read(limit.rate)
        # A date further ahead than any grant sets it is of a clock that was wrong.
        waits = next_at is not None and now < next_at <= now + rate.time_of(rate.together) + _WAITS
        granted = 0 if waits else min(granted, rate.together)
        next_at = now + rate.time_of(granted) if granted else next_at
    if limit.concurrency is None:
        return granted, replace(limit, next_at=next_at, holders=())
    if held + granted or wanted:
        ends = until if held + granted else now + _WAITS
        others.append(Holder(owner, held + granted, wanted - granted, now if granted else since, ends))
    return granted, replace(limit, next_at=next_at, holders=tuple(others))
