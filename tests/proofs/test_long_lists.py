"""More letters than one answer of OpenSearch can hold, listed while others write."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from mahavishnu.model import lifecycle
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.query import Query, Sort, letter_query
from mahavishnu.stores.base import Cursor
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.opensearch import OpenSearchStore
from mahavishnu.testing import make_letter
from mahavishnu.testing.clock import START

pytestmark = [pytest.mark.opensearch, pytest.mark.prove]
MANY = 25_000


async def test_pages_of_25000_letters_have_no_gap_and_no_repeat_under_writes(
    opensearch_url: str, opensearch_prefix: str
) -> None:
    async with OpenSearchStore([opensearch_url], prefix=opensearch_prefix, timeout=30) as store:
        collection = store.collection(LETTERS)
        stored: list[DeadLetter] = []
        for begin in range(0, MANY, 5_000):
            batch = [
                make_letter(task_id=f"old-{number}", created_at=START + timedelta(milliseconds=number // 3))
                for number in range(begin, begin + 5_000)
            ]
            results = await collection.write(batch)
            stored += [result for result in results if isinstance(result, DeadLetter)]
        assert len(stored) == MANY

        done = asyncio.Event()
        written = 0

        async def others() -> None:
            nonlocal written
            while not done.is_set():
                chosen = [stored[(written * 37 + step) % MANY] for step in range(50)]
                fresh = [make_letter(task_id=f"new-{written}-{step}") for step in range(50)]
                edits = [lifecycle.edit(letter, now=START, priority=written) for letter in chosen]
                for result in await collection.write([*fresh, *edits]):
                    if isinstance(result, DeadLetter) and result.key.startswith("old-"):
                        stored[int(result.key.removeprefix("old-"))] = result
                written += 1

        writing = asyncio.create_task(others())
        seen: list[str] = []
        after: Cursor | None = None
        query = letter_query(sort=(Sort("created_at"),), limit=1_000)
        while True:
            page = await collection.find(query, after)
            assert len(page.items) <= 1_000
            seen += [letter.key for letter in page.items if letter.key.startswith("old-")]
            if page.next is None:
                break
            after = Cursor.parse(str(page.next))
        done.set()
        await writing
        assert written > 5
        assert len(seen) == len(set(seen)) == MANY
        assert (await collection.tally(replace(Query(), limit=1))).total.count == MANY + 50 * written
