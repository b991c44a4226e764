"""Keys may be nearly anything."""

from __future__ import annotations

from dataclasses import replace

from mahavishnu.model.ids import MAX_KEY_BYTES, MAX_TASK_ID_BYTES
from mahavishnu.model.query import Sort, letter_query
from mahavishnu.stores.base import Store
from mahavishnu.stores.kind import LONGEST_TERM
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.testing.contract.base import Promises, all_stored, everything, keys, put, put_one
from mahavishnu.testing.contract.kinds import PARCELS, Parcel
from mahavishnu.testing.letters import make_letter

AWKWARD = (
    "a/b", "a/b/c", "/", "//", "a/", "/a", "_leading", "__", "-", ".", "..", "./a", "../a", " ", " a", "a ", "a b",
    "\n", "a\nb", "\t", "\r\n", "\x00", "a\x00b", "\x7f", "%", "%2F", "100%", "?", "a?b=c", "#", "a#b", "&", "+", "=",
    "*", "a*", ",", "a,b", ";", ":", "a:b", "@", "!", "$", "~", "|", "<a>", "(a)", "[a]", "{a}", '"', "'", "`", "\\",
    "\\n", "ü", "u\u0308", "漢字", "😀", "\u202e", "A", "a", "null", "None", "0", "00", "1", "-1", "1.0", "true",
    "_doc", "_id", "_bulk", "sha256:", "sha256:abc", "default/default/x",
)  # fmt: skip


class Naming(Promises):
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
