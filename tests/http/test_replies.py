"""A request with an idempotency key is done once, and answered the same by every process, for a day."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahavishnu.http.replies import KEPT, REPLIES, Replies, Reply
from mahavishnu.model.errors import StoreUnavailable
from mahavishnu.model.query import Query
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.testing import ManualClock
from tests.support.queues import House


async def kept(replies: Replies) -> list[str]:
    return sorted(reply.key for reply in (await replies._replies.find(Query())).items)


@pytest.fixture
async def replies(any_house: House) -> Replies:
    return (await any_house.queue().open()).replies


async def test_the_first_goes_on_and_the_others_get_its_answer(any_house: House) -> None:
    here, there = (await any_house.queue().open()).replies, (await any_house.queue().open()).replies
    assert await here.begin("ann/k", "digest") is None
    begun = await there.begin("ann/k", "digest")
    assert begun is not None and begun.status is None
    await here.finish("ann/k", 201, '{"etag": "1"}', "body ✓")
    again = await there.begin("ann/k", "another digest")  # whoever asks compares it
    assert again is not None
    assert (again.asked, again.status, again.headers, again.body) == ("digest", 201, '{"etag": "1"}', "body ✓")


async def test_of_many_at_once_one_goes_on(any_house: House) -> None:
    queues = [await any_house.queue().open() for _ in range(4)]
    answers = await asyncio.gather(*(queue.replies.begin("k", "digest") for queue in queues for _ in range(5)))
    assert answers.count(None) == 1


async def test_what_had_no_effect_may_be_tried_again(replies: Replies) -> None:
    await replies.begin("k", "digest")
    await replies.forget("k")
    assert await replies.begin("k", "digest") is None
    await replies.finish("k", 200, "{}", "")
    await replies.forget("k")  # what was answered stays answered
    assert await replies.begin("k", "digest") is not None


async def test_the_first_answer_stays(replies: Replies) -> None:
    await replies.begin("k", "digest")
    await replies.finish("k", 200, "{}", "first")
    await replies.finish("k", 500, "{}", "second")
    former = await replies.begin("k", "digest")
    assert former is not None and (former.status, former.body) == (200, "first")
    await replies.finish("never begun", 200, "{}", "")
    assert await replies.begin("never begun", "digest") is None


async def test_after_a_day_it_is_forgotten_and_one_takes_its_place(any_house: House) -> None:
    queues = [await any_house.queue().open() for _ in range(3)]
    await queues[0].replies.begin("k", "digest")
    await queues[0].replies.finish("k", 200, "{}", "old")
    any_house.clock.advance(KEPT.total_seconds() - 1)
    assert await queues[1].replies.begin("k", "digest") is not None
    any_house.clock.advance(1)
    answers = await asyncio.gather(*(queue.replies.begin("k", "new") for queue in queues))
    assert answers.count(None) == 1
    assert {answer.asked for answer in answers if answer is not None} == {"new"}


async def test_old_ones_are_dropped_however_many(any_house: House) -> None:
    replies = (await any_house.queue().open()).replies
    store = replies._replies
    old = [Reply(f"old-{number}", "digest", any_house.clock.now()) for number in range(1200)]
    for start in range(0, len(old), 400):
        await store.write(old[start : start + 400])
    any_house.clock.advance(KEPT.total_seconds() + 1)
    await replies.begin("young", "digest")
    await replies.clean()
    assert await kept(replies) == ["young"]


async def test_a_store_that_is_away_lets_nothing_begin(any_house: House) -> None:
    replies = (await any_house.queue().open()).replies
    with any_house.faults.unavailable("write"), pytest.raises(StoreUnavailable):
        await replies.begin("k", "digest")
    assert await replies.begin("k", "digest") is None


@given(st.text(min_size=1, max_size=200), st.integers(200, 499), st.text())
def test_any_key_and_any_body(key: str, status: int, body: str) -> None:
    async def asked() -> None:
        replies = Replies(MemoryStore().collection(REPLIES), ManualClock())
        assert await replies.begin(key, "digest") is None
        await replies.finish(key, status, "{}", body)
        former = await replies.begin(key, "digest")
        assert former is not None and (former.status, former.body) == (status, body)

    asyncio.run(asked())
