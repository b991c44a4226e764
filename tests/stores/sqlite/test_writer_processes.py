"""Several processes on one file, and processes that are killed while they write."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest

from mahavishnu.model.query import Query
from mahavishnu.stores.base import get_one, scan, write_one
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.sqlite import SQLiteStore
from mahavishnu.testing import make_letter

IMPORTS = """
import asyncio, os, sys
from dataclasses import replace
from mahavishnu.model.errors import StoreUnavailable
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.sqlite import SQLiteStore
from mahavishnu.testing import make_letter
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "letters.db"


@contextmanager
def process(code: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Another Python that runs `code`, and is gone afterwards."""
    command = [sys.executable, "-c", IMPORTS + dedent(code), *map(str, arguments)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        try:
            yield child
        finally:
            child.kill()


def line(child: subprocess.Popen[str]) -> str:
    """What the child says next; empty once it has ended."""
    assert child.stdout is not None
    return child.stdout.readline().rstrip("\n")


def answers(child: subprocess.Popen[str]) -> list[str]:
    """Let the child go on, and hear everything it has to say."""
    said, _ = child.communicate("go\n", timeout=60)
    assert child.returncode == 0
    return said.split()


RIVAL = """
async def main(path, me, versions):
    async with SQLiteStore(path) as store:
        letters = store.collection(LETTERS)
        known = await letters.get([f"wf_{n}" for n in range(100)])
        old = [make_letter(task_id=f"old_{n}", version=(version,)) for n, version in enumerate(versions)]
        print("ready", flush=True)
        sys.stdin.readline()
        calls = [letters.write([replace(letter, priority=me)]) for letter in known[:: 1 if me == 1 else -1]]
        results = [result for (result,) in await asyncio.gather(*calls)]
        results += await letters.write([make_letter(task_id=f"new_{n}", priority=me) for n in range(100)])
        removed = await letters.remove(old)
    print(*(result.key for result in results if result is not None))
    print(*(letter.key for letter, gone in zip(old, removed) if gone))

asyncio.run(main(sys.argv[1], int(sys.argv[2]), [int(version) for version in sys.argv[3].split(",")]))
"""


async def test_rivals_win_each_key_exactly_once(path: Path) -> None:
    async with SQLiteStore(path) as store:
        letters = store.collection(LETTERS)
        await letters.write([make_letter(task_id=f"wf_{number}") for number in range(100)])
        old = [await write_one(letters, make_letter(task_id=f"old_{number}")) for number in range(50)]
        versions = ",".join(str(letter.version[0]) for letter in old if letter is not None and letter.version)
        with process(RIVAL, path, 1, versions) as one, process(RIVAL, path, 2, versions) as two:
            assert [line(one), line(two)] == ["ready", "ready"]
            won = await asyncio.gather(asyncio.to_thread(answers, one), asyncio.to_thread(answers, two))
        assert sorted(won[0] + won[1]) == sorted(
            [f"wf_{n}" for n in range(100)] + [f"new_{n}" for n in range(100)] + [f"old_{n}" for n in range(50)]
        )
        for owner, keys in enumerate(won, 1):
            for letter in await letters.get([key for key in keys if not key.startswith("old")]):
                assert letter is not None and not isinstance(letter, Exception) and letter.priority == owner
        assert (await letters.tally(Query())).total.count == 200


COUNTER = """
async def main():
    async with SQLiteStore(sys.argv[1]) as store:
        letters = store.collection(LETTERS)
        print("ready", flush=True)
        sys.stdin.readline()
        for _ in range(int(sys.argv[2])):
            while True:
                (letter,) = await letters.get(["counter"])
                (won,) = await letters.write([replace(letter, occurrences=letter.occurrences + 1)])
                if won is not None:
                    break
asyncio.run(main())
"""


async def test_nothing_is_counted_twice_or_lost(path: Path) -> None:
    async with SQLiteStore(path) as store:
        letters = store.collection(LETTERS)
        await letters.write([make_letter(task_id="counter", occurrences=0)])
        with process(COUNTER, path, 40) as one, process(COUNTER, path, 40) as two:
            assert [line(one), line(two)] == ["ready", "ready"]
            counted = asyncio.gather(asyncio.to_thread(answers, one), asyncio.to_thread(answers, two))
            for _ in range(20):
                won = None
                while won is None:
                    letter = await get_one(letters, "counter")
                    assert letter is not None
                    won = await write_one(letters, replace(letter, occurrences=letter.occurrences + 1))
            await counted
        letter = await get_one(letters, "counter")
        assert letter is not None and letter.occurrences == 100
        assert (await letters.tally(Query(), sums=["occurrences"])).total.sums == {"occurrences": 100}
        assert await store.main_collection(LETTERS).repair_counters() == 0


async def test_what_another_process_has_written_is_seen_at_once(path: Path) -> None:
    code = """
    async def main():
        async with SQLiteStore(sys.argv[1]) as store:
            for number in range(5):
                await store.collection(LETTERS).write([make_letter(task_id=f"{number}")])
                print(number, flush=True)
                sys.stdin.readline()
    asyncio.run(main())
    """
    async with SQLiteStore(path) as store:
        with process(code, path) as other:
            assert other.stdin is not None
            for number in range(5):
                assert await asyncio.to_thread(line, other) == f"{number}"
                assert await get_one(store.collection(LETTERS), f"{number}") is not None
                other.stdin.write("go\n")
                other.stdin.flush()


WRITER = """
async def main():
    async with SQLiteStore(sys.argv[1]) as store:
        letters = store.collection(LETTERS)
        async def work(worker):
            number = 0
            while True:
                names = [f"{sys.argv[2]}_{worker}_{number}_{n}" for n in range(3)]
                results = await letters.write([make_letter(task_id=n, task={"note": "x" * 3000}) for n in names])
                await letters.write([replace(results[0], priority=1)])
                await letters.remove([results[1]])
                os.write(1, f"{names[0]} {names[1]} {names[2]}\\n".encode())
                number += 1
        await asyncio.gather(*(work(worker) for worker in range(8)))
asyncio.run(main())
"""


@pytest.mark.faults
async def test_killed_at_any_moment_nothing_acknowledged_is_lost(path: Path) -> None:
    chance = random.Random(177)
    known: list[list[str]] = []
    for round_ in range(20):
        with process(WRITER, path, round_) as child:
            known += [line(child).split() for _ in range(chance.randrange(1, 80))]
            child.kill()
            assert child.stdout is not None
            # What it could still say before it died was acknowledged too; its last line may be cut off.
            known += [said.split() for said in child.stdout.read().split("\n")[:-1]]
        async with SQLiteStore(path) as store:
            letters = {letter.key: letter async for letter in scan(store.collection(LETTERS), Query())}
            assert await store.main_collection(LETTERS).repair_counters() == 0
        for replaced, removed, created in known:
            assert letters[replaced].priority == 1
            assert removed not in letters
            assert letters[created].priority == 0


async def test_a_killed_process_holds_up_nobody(path: Path) -> None:
    code = """
    async def main():
        store = SQLiteStore(sys.argv[1])
        await store.open()
        await store.collection(LETTERS).write([make_letter(task_id="theirs")])
        store.open_file()._connections.writing.execute("BEGIN IMMEDIATE")
        print("in a transaction", flush=True)
        sys.stdin.readline()
    asyncio.run(main())
    """
    async with SQLiteStore(path) as store:
        with process(code, path) as other:
            assert await asyncio.to_thread(line, other) == "in a transaction"
            waiting = asyncio.create_task(store.collection(LETTERS).write([make_letter(task_id="ours")]))
            assert await get_one(store.collection(LETTERS), "theirs") is not None
            other.kill()
            await waiting
        assert (await store.collection(LETTERS).tally(Query())).total.count == 2


async def test_after_a_fork(path: Path) -> None:
    code = """
    async def main():
        store = SQLiteStore(sys.argv[1])
        await store.open()
        await store.collection(LETTERS).write([make_letter(task_id="before")])
        child = os.fork()
        if child == 0:
            try:
                asyncio.get_event_loop_policy().set_event_loop(None)
                coroutine = store.collection(LETTERS).write([make_letter()])
                try:
                    coroutine.send(None)
                except StoreUnavailable as problem:
                    print(problem, flush=True)
                try:
                    store.close().send(None)
                except StopIteration:
                    print("closed", flush=True)
                try:
                    SQLiteStore(sys.argv[1])._open()
                except StoreUnavailable as problem:
                    print(problem, flush=True)
                SQLiteStore(sys.argv[1] + ".own")._open()
                print("opened its own", flush=True)
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        await store.collection(LETTERS).write([make_letter(task_id="after")])
        await store.close()
        async with store:
            print(*[letter.key for letter in await store.collection(LETTERS).get(["before", "after"])])
    import warnings
    warnings.simplefilter("ignore", DeprecationWarning)  # a fork beside threads: that is the point here
    asyncio.run(main())
    """
    with process(code, path) as child:
        assert "was opened by process" in await asyncio.to_thread(line, child)
        assert await asyncio.to_thread(line, child) == "closed"
        assert "was open when this process was forked" in await asyncio.to_thread(line, child)
        assert await asyncio.to_thread(line, child) == "opened its own"
        assert await asyncio.to_thread(line, child) == "before after"
        assert child.wait(10) == 0


async def test_a_program_that_forgets_to_close_can_end(path: Path) -> None:
    code = """
    async def main():
        store = SQLiteStore(sys.argv[1])
        await store.open()
        await store.collection(LETTERS).write([make_letter(task_id="kept")])
        await store.collection(LETTERS).get(["kept"])
    asyncio.run(main())
    """
    with process(code, path) as child:
        assert await asyncio.to_thread(child.wait, 30) == 0
    async with SQLiteStore(path) as store:
        assert await get_one(store.collection(LETTERS), "kept") is not None
