"""Random records and random queries: every store has to give what the plainest one gives."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from mahavishnu.model.json_value import Json
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import DeadLetterStatus, ErrorCategory, ResolutionStatus
from mahavishnu.model.query import AnyOf, At, Between, Condition, Is, Missing, Not, Query, Sort
from mahavishnu.stores.base import Store
from mahavishnu.stores.kind import FieldType, Kind
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.testing.clock import START
from mahavishnu.testing.contract.base import Promises, everything, keys, pages, put, tallied
from mahavishnu.testing.contract.kinds import PARCELS, Parcel
from mahavishnu.testing.letters import make_letter

WORDS = ("red", "Red", "blue", "ä", "", "x y", "10", "9", "😀")
LABELS = ("a", "a.b", "b", "tenant")
VALUES = ("x", "1", 1, 1.0, 2.5, True, False, "true", -3, "")


def random_parcel(chance: random.Random, shelf: str, number: int) -> Parcel:
    return Parcel(
        key=f"{shelf}:{number:03}",
        shelf=shelf,
        name=f"{number:03}",
        colour=chance.choice((None, *WORDS)),
        tags=tuple(chance.sample(WORDS, chance.choice((0, 1, 2, 4)))),
        sent_at=chance.choice((None, _moment(chance))),
        weight=chance.choice((None, chance.randint(-5, 5), chance.randint(-(10**12), 10**12))),
        labels=Json.of({path: _label(chance) for path in chance.sample(LABELS, chance.randint(0, 3))}),
    )


def random_letter(chance: random.Random, shelf: str, number: int) -> DeadLetter:
    return make_letter(
        task_id=f"{number:03}",
        namespace=shelf,
        queue=chance.choice(("default", "mail")),
        entry_id=f"{shelf}:{number:03}",
        status=chance.choice(list(DeadLetterStatus)),
        created_at=_moment(chance),
        priority=chance.randint(-3, 3),
        error=" ".join(chance.sample(("connection", "reset", "Timeout", "größer", "404"), 3)),
        error_category=chance.choice((None, *ErrorCategory)),
        repos=tuple(chance.sample(("api", "web", "Web"), chance.randint(0, 2))),
        fingerprint=chance.choice((None, "f1", "f2")),
        metadata={path: _label(chance) for path in chance.sample(LABELS, chance.randint(0, 3))},
        occurrences=chance.randint(1, 9),
    )


class Agreeing(Promises):
    """Comparison with `MemoryStore`; the seed is fixed, so a failure can be repeated."""

    async def test_parcels_as_in_memory(self, store: Store, shelf: str) -> None:
        values: dict[str, Callable[[random.Random], Any]] = {
            "colour": lambda chance: chance.choice(WORDS),
            "tags": lambda chance: chance.choice(WORDS),
            "name": lambda chance: f"{chance.randint(0, 150):03}",
            "weight": lambda chance: chance.randint(-5, 5),
            "heavy": lambda chance: chance.randint(0, 1),
            "sent_at": _moment,
        }
        await self._compare(store, PARCELS, random_parcel, shelf, "shelf", values, ("colour", "weight", "heavy"))

    async def test_letters_as_in_memory(self, store: Store, shelf: str) -> None:
        values: dict[str, Callable[[random.Random], Any]] = {
            "status": lambda chance: chance.choice(list(DeadLetterStatus)).value,
            "resolution_status": lambda chance: chance.choice(list(ResolutionStatus)).value,
            "error_category": lambda chance: chance.choice(list(ErrorCategory)).value,
            "words": lambda chance: chance.choice(("connection", "reset", "timeout", "größer", "404")),
            "repos": lambda chance: chance.choice(("api", "web", "Web")),
            "fingerprint": lambda chance: chance.choice(("f1", "f2", "f3")),
            "queue": lambda chance: chance.choice(("default", "mail")),
            "partition": lambda chance: chance.randint(0, 255),
            "priority": lambda chance: chance.randint(-3, 3),
            "created_at": _moment,
            "due_at": _moment,
            "next_retry_at": _moment,
        }
        groups = ("status", "error_category", "fingerprint", "priority", "queue")
        await self._compare(store, LETTERS, random_letter, shelf, "namespace", values, groups)

    async def _compare(
        self,
        store: Store,
        kind: Kind[Any],
        make: Callable[[random.Random, str, int], Any],
        shelf: str,
        shelf_field: str,
        values: dict[str, Callable[[random.Random], Any]],
        groups: tuple[str, ...],
    ) -> None:
        chance = random.Random(20260101)
        ours, reference = store.collection(kind), MemoryStore().collection(kind)
        records = [make(chance, shelf, number) for number in range(150)]
        for collection in (ours, reference):
            stored = await put(collection, records)
            assert await collection.remove(stored[::10]) == [True] * 15
            await put(collection, [make(random.Random(number), shelf, number) for number in range(0, 150, 20)])
        sortable = [name for name in values if kind.by_name[name].type not in (FieldType.KEYWORDS, FieldType.FLAT)]
        numbers = [name for name in values if kind.by_name[name].type is FieldType.INTEGER]
        dates = [name for name in values if kind.by_name[name].type is FieldType.DATE]
        for _ in range(50):
            where = tuple(_condition(chance, kind, values, depth=2) for _ in range(chance.randint(0, 3)))
            sort = tuple(Sort(name, chance.random() < 0.5) for name in chance.sample(sortable, chance.randint(0, 2)))
            query = Query((Is(shelf_field, (shelf,)), *where), sort, limit=chance.choice((23, 60, 500)))
            expected = await everything(reference, query)
            found = await everything(ours, query)
            assert keys(found) == keys(expected), query
            assert found == expected
            by = chance.sample(groups, chance.randint(0, 3))
            asked = {"sums": chance.sample(numbers, 1), "spans": chance.sample(dates, 1)}
            theirs = await tallied(reference, query, by, **asked)
            tally = await tallied(ours, query, by, **asked)
            assert tally.total == theirs.total, query
            assert {values: cell for values, cell in tally.cells.items() if cell.count} == theirs.cells, (query, by)
        assert sum(len(page.items) for page in await pages(ours, Query((Is(shelf_field, (shelf,)),)))) == len(
            await everything(reference, Query())
        )


def _moment(chance: random.Random) -> datetime:
    return START + timedelta(milliseconds=chance.choice((-1, 0, 1, 86_400_000, 10**12)))


def _label(chance: random.Random) -> Any:
    value = chance.choice((*VALUES, None))
    return chance.choice((value, [value, "y"], {"b": value}, []))


def _condition(
    chance: random.Random, kind: Kind[Any], values: dict[str, Callable[[random.Random], Any]], depth: int
) -> Condition:
    pick = chance.random()
    if depth and pick < 0.15:
        return Not(_condition(chance, kind, values, depth - 1))
    if depth and pick < 0.3:
        return AnyOf(tuple(_condition(chance, kind, values, depth - 1) for _ in range(chance.randint(0, 3))))
    if pick < 0.4:
        flat = "labels" if "labels" in kind.by_name else "metadata"
        return At(flat, chance.choice((*LABELS, "a.b.b")), chance.choice(VALUES))
    name = chance.choice(list(values))
    value = values[name]
    if kind.by_name[name].type in (FieldType.DATE, FieldType.INTEGER) and pick < 0.8:
        bounds = {
            bound: value(chance) for bound in chance.sample(("at_least", "below", "at_most"), chance.randint(1, 2))
        }
        return Between(name, **bounds)
    if pick < 0.9:
        return Is(name, tuple(value(chance) for _ in range(chance.randint(0, 3))))
    return Missing(name)
