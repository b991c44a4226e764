"""Live workers: what each can run, which partitions it looks after, and which letters none of them can run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from mahavishnu.model.errors import NoAdapterNamed, NoSuchAdapter
from mahavishnu.model.ids import DEFAULT_NAMESPACE, PARTITIONS
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import Version
from mahavishnu.model.permissions import Scope
from mahavishnu.model.query import ALL_NAMESPACES, Condition, Is, has_items

LIVES_SECONDS = 16.0  # after three missed beats a worker counts as gone
REMOTE_LIVES_SECONDS = 300.0
ONCE_SECONDS = 3600.0  # how long the next run of `worker --once` is waited for, before it is known how often they come


@dataclass(frozen=True, slots=True)
class Worker:
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
    version: Version | None = field(default=None, compare=False)

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


@dataclass(frozen=True, slots=True)
class Share:
    """Letters that a worker looks after: of these adapters, or of all if that is None, and of these partitions.

    Its own partitions come first, then those of the others in turn: a helper begins with the next worker.
    """

    adapters: tuple[str, ...] | None = None
    partitions: tuple[range, ...] = (range(PARTITIONS),)


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


@dataclass(frozen=True, slots=True)
class WaitingLetters:
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
    counts: dict[str, int] = {}
    for each in waiting:
        name = each.adapter or none
        counts[name] = counts.get(name, 0) + each.count
    return counts


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
