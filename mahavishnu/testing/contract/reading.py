"""Finding records by a query, and keys of any kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from mahavishnu.model.ids import MAX_KEY_BYTES, MAX_TASK_ID_BYTES
from mahavishnu.model.json_value import Json
from mahavishnu.model.query import AnyOf, At, Between, HasKey, Is, Missing, Not, Query, Sort, letter_query
from mahavishnu.stores.base import Buckets, Store
from mahavishnu.stores.kind import LONGEST_TERM
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.testing.clock import START
from mahavishnu.testing.contract.base import (
    PARCELS,
    ContractTests,
    Parcel,
    all_stored,
    everything,
    keys,
    names_of,
    put,
    put_one,
)
from mahavishnu.testing.letters import make_failure, make_letter

DAY = timedelta(days=1)


def day(number: int) -> Any:
    return START + timedelta(days=number)


def varied_parcels(shelf: str) -> list[Parcel]:
    """Named by letters; `e` has nothing but its name."""
    given = {
        "a": {"colour": "red", "tags": ("fast", "cold"), "sent_at": day(1), "weight": 10},
        "b": {"colour": "blue", "tags": ("cold",), "sent_at": day(2), "weight": 5},
        "c": {"colour": "red", "tags": (), "sent_at": day(3), "weight": 10},
        "d": {"colour": "Red", "tags": ("fast cold", "cold,fast"), "sent_at": day(2), "weight": -7},
        "e": {},
        "f": {"colour": "", "tags": ("",), "sent_at": day(2) + timedelta(milliseconds=1), "weight": 0},
        "g": {"colour": "dark red", "tags": ("FAST", "ä😀"), "sent_at": day(-400 * 365), "weight": 2**40},
    }
    return [Parcel(key=f"{shelf}:{name}", shelf=shelf, name=name, **values) for name, values in given.items()]


class SearchContract(ContractTests):
    """Conditions."""

    async def test_is(self, store: Store, shelf: str) -> None:
        await put(store.collection(PARCELS), varied_parcels(shelf))
        await self._check(
            store,
            shelf,
            [
                ("abcdefg",),
                ("ac", Is("colour", ("red",))),
                ("abc", Is("colour", ("red", "blue", "no such colour"))),
                ("", Is("colour", ())),
                ("f", Is("colour", ("",))),
                ("abc", Is("colour", ("red", "blue", *(f"colour {number}" for number in range(2000))))),
                ("ac", Is("weight", (10,))),
                ("bdf", Is("weight", (5, -7, 0, 11))),
                ("g", Is("weight", (2**40,))),
                ("bd", Is("sent_at", (day(2),))),
                ("abd", Is("sent_at", (day(1), day(2), day(4)))),
                ("a", Is("colour", ("red",)), Is("name", ("a", "b"))),
                ("", Is("colour", ("red",)), Is("colour", ("blue",))),
                ("g", Is("heavy", (1,))),
            ],
        )

    async def test_is_one_of_several_texts(self, store: Store, shelf: str) -> None:
        await put(store.collection(PARCELS), varied_parcels(shelf))
        await self._check(
            store,
            shelf,
            [
                ("ab", Is("tags", ("cold",))),
                ("a", Is("tags", ("fast",))),
                ("ab", Is("tags", ("fast", "cold"))),
                ("a", Is("tags", ("fast",)), Is("tags", ("cold",))),
                ("d", Is("tags", ("fast cold",))),
                ("d", Is("tags", ("cold,fast",))),
                ("f", Is("tags", ("",))),
                ("g", Is("tags", ("ä😀",))),
                ("", Is("tags", ())),
            ],
        )

    async def test_missing(self, store: Store, shelf: str) -> None:
        await put(store.collection(PARCELS), varied_parcels(shelf))
        await put_one(
            store.collection(PARCELS), Parcel(key=shelf + "h", shelf=shelf, name="h", labels=Json.of({"a": 1}))
        )
        await put_one(
            store.collection(PARCELS),
            Parcel(key=shelf + "i", shelf=shelf, name="i", labels=Json.of({"a": None, "b": [], "c": [{}, None]})),
        )
        await self._check(
            store,
            shelf,
            [
                ("ehi", Missing("colour")),
                ("cehi", Missing("tags")),
                ("ehi", Missing("weight")),
                ("ehi", Missing("sent_at")),
                ("abcdefgi", Missing("labels")),
                ("h", Not(Missing("labels"))),
                ("", Missing("shelf")),
            ],
        )

    async def test_between(self, store: Store, shelf: str) -> None:
        await put(store.collection(PARCELS), varied_parcels(shelf))
        await self._check(
            store,
            shelf,
            [
                ("abcfg", Between("weight", at_least=0)),
                ("df", Between("weight", below=5)),
                ("bdf", Between("weight", at_most=5)),
                ("bf", Between("weight", at_least=0, below=10)),
                ("abcf", Between("weight", at_least=0, at_most=10)),
                ("abc", Between("weight", at_least=5, below=11, at_most=10)),
                ("bf", Between("weight", at_least=0, below=20, at_most=5)),
                ("df", Between("weight", below=5, at_most=20)),
                ("abcdfg", Between("weight")),
                ("", Between("weight", at_least=6, below=6)),
                ("b", Between("weight", at_least=5, at_most=5)),
                ("", Between("weight", at_least=6, at_most=5)),
                ("abcdf", Between("sent_at", at_least=day(0))),
                ("ag", Between("sent_at", below=day(2))),
                ("abdg", Between("sent_at", at_most=day(2))),
                ("bdf", Between("sent_at", at_least=day(2), below=day(3))),
                ("bd", Between("sent_at", at_least=day(2), below=day(2) + timedelta(milliseconds=1))),
                ("f", Between("sent_at", at_least=day(2) + timedelta(milliseconds=1), below=day(3))),
                ("abcdfg", Between("sent_at")),
            ],
        )

    async def test_keys(self, store: Store, shelf: str) -> None:
        """Also very many, awkward and unknown ones, in lists and in sums alike."""
        parcels = await put(store.collection(PARCELS), varied_parcels(shelf))
        some = tuple(each.key for each in parcels if each.name in "ace")
        many = (*some, *AWKWARD, "x" * 600, *(f"{shelf}{number}" for number in range(10_000)))
        await self._check(
            store,
            shelf,
            [
                ("ace", HasKey(some)),
                ("bdfg", Not(HasKey(some))),
                ("ace", HasKey(many)),
                ("bdfg", Not(HasKey(many))),
                ("", HasKey(())),
                ("abcdefg", Not(HasKey(()))),
                ("c", HasKey(some), Is("colour", ("red",)), Not(Is("tags", ("cold",)))),
                ("abce", AnyOf((HasKey(some), Is("colour", ("blue",))))),
            ],
        )
        left = Query((Is("shelf", (shelf,)), Not(HasKey(many))))
        assert (await store.collection(PARCELS).tally(left)).total.count == 4
        assert sum((await store.collection(PARCELS).histogram(left, Buckets("sent_at", day(0), DAY, 9))).counts) == 3

    async def test_not_and_any_of(self, store: Store, shelf: str) -> None:
        await put(store.collection(PARCELS), varied_parcels(shelf))
        red, cold = Is("colour", ("red",)), Is("tags", ("cold",))
        await self._check(
            store,
            shelf,
            [
                ("bdefg", Not(red)),
                ("cdefg", Not(cold)),
                ("abcdfg", Not(Missing("colour"))),
                ("abdfg", Not(Missing("tags"))),
                ("de", Not(Between("weight", at_least=0))),
                ("e", Not(Between("sent_at"))),
                ("abc", AnyOf((red, cold))),
                ("defg", Not(AnyOf((red, cold)))),
                ("ac", Not(Not(red))),
                ("c", red, Not(cold)),
                ("", AnyOf(())),
                ("abcdefg", Not(AnyOf(()))),
                ("abcdefg", Not(Is("colour", ()))),
                ("ace", AnyOf((red, Missing("weight")))),
                ("acdf", AnyOf((red, AnyOf((Between("weight", below=5),))))),
                ("dfg", Not(AnyOf((red, Missing("weight"), Not(Not(cold)))))),
                ("bdefg", AnyOf((Not(red), Not(Is("name", ("a", "c")))))),
                ("b", AnyOf((red, cold)), Not(red)),
            ],
        )

    async def test_at(self, store: Store, shelf: str) -> None:
        labels: dict[str, Any] = {
            "a": {"tenant": "acme", "size": 1, "on": True, "deep": {"er": {"still": "x"}}},
            "b": {"tenant": ["acme", "other"], "size": 1.0, "on": "true", "deep.er": {"still": "x"}},
            "c": {"tenant": "Acme", "size": "1", "on": False, "deep": [{"er": [{"still": "y"}, {"still": "x"}]}]},
            "d": {"tenant": "acme corp", "size": 1.5, "on": 1, "deep": {"er": "x"}},
            "e": {"tenant": None, "size": [], "on": {}, "x": "acme", "empty": ""},
            "f": {"tenant": {"name": "acme"}, "size": [[1], 2], "on": [None, True], "big": 10**30, "expo": 1e22},
            "g": {"ключ": "значение", "a=b": "c", "with space": "v", "quo\"te's": "%", "t": "acme=x", "t=acme": "x"},
        }
        given = [
            Parcel(key=shelf + name, shelf=shelf, name=name, labels=Json.of(value)) for name, value in labels.items()
        ]
        await put(store.collection(PARCELS), given)
        expected: list[tuple[str, str, Any]] = [
            ("ab", "tenant", "acme"),
            ("b", "tenant", "other"),
            ("b", "size", 1.0),
            ("acf", "size", 1),
            ("acf", "size", "1"),
            ("d", "size", 1.5),
            ("d", "tenant", "acme corp"),
            ("d", "deep.er", "x"),
            ("d", "on", 1),
            ("abf", "on", True),
            ("abf", "on", "true"),
            ("c", "on", False),
            ("c", "deep.er.still", "y"),
            ("abc", "deep.er.still", "x"),
            ("f", "tenant.name", "acme"),
            ("f", "size", 2),
            ("f", "big", 10**30),
            ("f", "expo", 1e22),
            ("e", "x", "acme"),
            ("e", "empty", ""),
            ("g", "ключ", "значение"),
            ("g", "a=b", "c"),
            ("g", "with space", "v"),
            ("g", "quo\"te's", "%"),
            ("g", "t", "acme=x"),
            *(
                ("", path, value)
                for path, value in (
                    ("tenant", "ac"), ("tenant", "acm*"), ("nowhere", "acme"), ("deep", "x"), ("still", "x"), ("on", 0),
                    ("tenant", "null"), ("tenant", ""), ("deep.er.still.", "x"), ("size", 0), ("size", 3), ("", "acme"),
                    ("a", "b=c"), ("t=acme=x", ""),
                )
            ),
        ]  # fmt: skip
        await self._check(store, shelf, [(names, At("labels", path, value)) for names, path, value in expected])
        acme = At("labels", "tenant", "acme")
        await self._check(
            store,
            shelf,
            [
                ("cdefg", Not(acme)),
                ("a", acme, At("labels", "on", True), Not(At("labels", "size", 1.0))),
                ("abe", AnyOf((acme, At("labels", "x", "acme")))),
                ("b", acme, At("labels", "tenant", "other")),
            ],
        )

    async def test_labels_too_long_to_be_found(self, store: Store, shelf: str) -> None:
        collection = store.collection(PARCELS)
        labels = {"long": "x" * 40_000, "short": "y", "k" * 40_000: "z", "list": ["x" * 40_000, "w"]}
        (stored,) = await put(collection, [Parcel(key=shelf, shelf=shelf, name="a", labels=Json.of(labels))])
        assert stored.labels.value == labels
        await self._check(
            store,
            shelf,
            [
                ("a", At("labels", "short", "y")),
                ("a", At("labels", "list", "w")),
                ("", At("labels", "long", "x" * 40_000)),
                ("", At("labels", "long", "x" * 100)),
                ("a", Not(Missing("labels"))),
            ],
        )

    async def test_words(self, store: Store, shelf: str) -> None:
        collection = store.collection(LETTERS)
        await put(
            collection,
            [
                make_letter(namespace=shelf, task_id="a", error="Connection reset by api.example:443"),
                make_letter(namespace=shelf, task_id="b", error="RESET", last_error="lost connection, größer 漢字 x_y"),
                make_letter(namespace=shelf, task_id="c", error="connections resets"),
                make_letter(namespace=shelf, task_id="d", error="w" * 150 + " \ud800 " + "end"),
                make_letter(namespace=shelf, task_id="e", error=" ".join(f"w{n}" for n in range(3000))),
                make_letter(
                    namespace=shelf,
                    task_id="order-4711/eu",
                    task={"customer": {"name": 'Jürgen "Jo" \u6f22\u5b57', "lines": [12.5, True]}, "path": "C:\\new"},
                    failures=(make_failure("no", type="shop.errors.CardDeclined"),),
                ),
            ],
        )
        wanted = {
            "connection reset": "ab", "reset connection": "ab", "Connection RESET!": "ab", "connect": "",
            "connections": "c", "api example 443": "a", "api.example": "a", "GRÖSSER": "", "Größer": "b",
            "漢字": "border-4711/eu",
            "x_y": "b", "end": "d", "w" * 150: "d", "w1999": "e", "w2999": "",
            # Not only errors: task ids, types of errors, keys and values of the payload.
            "order-4711/eu": "order-4711/eu", "4711": "order-4711/eu", "CardDeclined": "order-4711/eu",
            "shop.errors carddeclined 4711": "order-4711/eu", "customer jürgen": "order-4711/eu", "jo": "order-4711/eu",
            "12.5": "order-4711/eu", "new": "order-4711/eu", "nnew": "", "u00fc": "", "declined": "",
        }  # fmt: skip
        found = {
            text: "".join(
                sorted(each.task_id for each in await everything(collection, letter_query(namespace=shelf, text=text)))
            )
            for text in wanted
        }
        assert found == wanted

    async def test_values_inside_of_tasks(self, store: Store, shelf: str) -> None:
        collection = store.collection(LETTERS)
        payloads: dict[str, Any] = {
            "a": {"currency": "EURO", "order": {"lines": [{"sku": "x-1"}, {"sku": "x 2"}], "paid": True}},
            "b": {"currency": "euro", "order": {"lines": [], "paid": False}, "amount": 12.5, "count": 10**20},
            "c": {"a=b": "c", "currency": None, "é": 'say "ü"\n', "amount": 1e16},
            "d": {"long": "y" * 400, "last": "z"},
            "e": {"much": "y" * 70_000, "last": "z"},
            "f": {},
        }
        await collection.write(
            [make_letter(task_id=name, task=task, namespace=shelf) for name, task in payloads.items()]
        )
        wanted = {
            "currency=EURO": "a", "currency=euro": "b", "currency=EUR": "", "currency": "", "EURO": "",
            "order.lines.sku=x-1": "a", "order.lines.sku=x 2": "a", "order.paid=true": "a", "order.paid=false": "b",
            "amount=12.5": "b", "amount=1e+16": "c", "count=100000000000000000000": "b", "a=b=c": "c",
            'é=say "ü"\n': "c", "currency=null": "", "last=z": "d", f"long={'y' * 400}": "",
        }  # fmt: skip
        for text, names in wanted.items():
            here = (Is("namespace", (shelf,)), Is("task_values", (text,)))
            found = await everything(collection, Query(here, (Sort("task_id"),)))
            assert "".join(each.task_id for each in found) == names, text
        several = (Is("namespace", (shelf,)), Not(Is("task_values", ("currency=EURO", "last=z", "a=b=c"))))
        assert [each.task_id for each in await everything(collection, Query(several, (Sort("task_id"),)))] == [*"bef"]
        none = (Is("namespace", (shelf,)), Missing("task_values"))
        assert [each.task_id for each in await everything(collection, Query(none, (Sort("task_id"),)))] == [*"ef"]

    async def _check(self, store: Store, shelf: str, expected: Sequence[tuple[Any, ...]]) -> None:
        """Each entry is the names of what has to be found, and the conditions."""
        found = [(await names_of(store, shelf, *where), *where) for _, *where in expected]
        assert found == expected


AWKWARD = (
    "a/b", "a/b/c", "/", "//", "a/", "/a", "_leading", "__", "-", ".", "..", "./a", "../a", " ", " a", "a ", "a b",
    "\n", "a\nb", "\t", "\r\n", "\x00", "a\x00b", "\x7f", "%", "%2F", "100%", "?", "a?b=c", "#", "a#b", "&", "+", "=",
    "*", "a*", ",", "a,b", ";", ":", "a:b", "@", "!", "$", "~", "|", "<a>", "(a)", "[a]", "{a}", '"', "'", "`", "\\",
    "\\n", "ü", "u\u0308", "漢字", "😀", "\u202e", "A", "a", "null", "None", "0", "00", "1", "-1", "1.0", "true",
    "_doc", "_id", "_bulk", "sha256:", "sha256:abc", "default/default/x",
)  # fmt: skip


class KeyContract(ContractTests):
    """Whatever a task is called, its letter is its own."""

    async def test_awkward_task_ids(self, store: Store, shelf: str) -> None:
        await self._check_distinct(store, [name + shelf for name in AWKWARD] + [shelf + name for name in AWKWARD])

    async def test_task_ids_around_the_longest_key(self, store: Store, shelf: str) -> None:
        sizes = [size - len(shelf) for size in (MAX_KEY_BYTES, MAX_KEY_BYTES + 1, 1000, MAX_TASK_ID_BYTES)]
        shorter = [sizes[0] - 1, *sizes]
        names = {shelf + char * (size // len(char.encode())) for char in "xü😀" for size in shorter}
        await self._check_distinct(store, sorted(names))

    async def test_one_task_id_in_many_places(self, store: Store, shelf: str) -> None:
        """A task id is one letter's in each namespace and queue, also where it looks like a path."""
        collection = store.collection(LETTERS)
        given = [
            make_letter(task_id=task_id, namespace=namespace, queue=queue, priority=number)
            for number, task_id in enumerate((shelf, f"{shelf}/a", f"{shelf}/a/{shelf}", f"default/default/{shelf}"))
            for namespace in ("default", shelf, "a")
            for queue in ("default", "a")
        ]
        assert len(set(keys(given))) == len(given)
        stored = await put(collection, given)
        assert await collection.get(keys(given)) == given
        for letter in given:
            query = letter_query(task_id=letter.task_id, namespace=letter.namespace, queue=letter.queue)
            assert await everything(collection, query) == [letter]
        changed = await put_one(collection, replace(stored[0], priority=99))
        assert await collection.get(keys(given)) == [changed, *given[1:]]
        assert await collection.remove([stored[1], *stored[1:]]) == [True, False, *[True] * (len(given) - 2)]

    async def test_awkward_keys_of_other_kinds(self, store: Store, shelf: str) -> None:
        parcels = store.collection(PARCELS)
        given = [Parcel(key=name + shelf, shelf=shelf, name=name) for name in AWKWARD]
        given += [Parcel(key=shelf + "/" * (MAX_KEY_BYTES - len(shelf)), shelf=shelf, name="longest")]
        await put(parcels, given)
        assert await parcels.get(keys(given)) == given

    async def _check_distinct(self, store: Store, names: list[str]) -> None:
        assert len(set(names)) == len(names)
        collection = store.collection(LETTERS)
        given = [make_letter(task_id=name, priority=number) for number, name in enumerate(names)]
        stored = await put(collection, given)
        assert await collection.get(keys(given)) == given
        assert await collection.write(given) == [None] * len(given)
        findable = [letter for letter in given if len(letter.task_id) <= LONGEST_TERM]
        named = letter_query(task_id=names, sort=(Sort("priority"),))
        assert await everything(collection, named) == findable
        replaced = await put(collection, [replace(letter, priority=letter.priority + 1) for letter in stored])
        assert all_stored(await collection.get(keys(given))) == replaced
        assert await collection.remove(replaced) == [True] * len(names)
        assert await collection.get(keys(given)) == [None] * len(names)
