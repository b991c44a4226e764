"""What letters have in common, saved views and numbers by hour, on real stores."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue, QueueOptions
from mahavishnu.engine.letter_factory import LetterFactory
from mahavishnu.model.errors import ChangedMeanwhile, InvalidInput, NoSuchGroup, NoSuchLetter
from mahavishnu.stores.base import Store
from mahavishnu.stores.opensearch import OpenSearchStore
from mahavishnu.stores.sqlite import SQLiteStore
from mahavishnu.testing import ManualClock, make_letter


@pytest.fixture(params=["sqlite", pytest.param("opensearch", marks=pytest.mark.opensearch)])
async def dlq(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[DeadLetterQueue]:
    store: Store
    if request.param == "sqlite":
        store = SQLiteStore(tmp_path / "letters.db", kinds=KINDS)
    else:
        url, prefix = request.getfixturevalue("opensearch_url"), request.getfixturevalue("opensearch_prefix")
        store = OpenSearchStore([url], prefix=prefix, timeout=30, kinds=KINDS)
    options = QueueOptions(letter_factory=LetterFactory(redact_keys=("*token*",)))
    async with DeadLetterQueue(store=store, clock=ManualClock(), options=options) as opened:
        yield opened


async def fill(dlq: DeadLetterQueue) -> None:
    letters = [
        make_letter(
            task_id=f"bad-{number}", fingerprint="v1:bad", adapter="orders",
            task={"id": number, "currency": "EURO", "country": "DE", "api_token": "s3cret"},
        )
        for number in range(12)
    ]  # fmt: skip
    letters += [
        make_letter(
            task_id=f"good-{number}", fingerprint="v1:other", adapter="orders", status="completed",
            task={"id": 100 + number, "currency": "EUR", "country": "DE", "address": f"street {number}"},
        )
        for number in range(12)
    ]  # fmt: skip
    letters += [
        make_letter(task_id=f"mail-{number}", adapter="mails", task={"currency": "EURO"}) for number in range(5)
    ]
    await dlq.context.letters.write(letters)


async def test_of_a_group_and_of_a_letter(dlq: DeadLetterQueue) -> None:
    await fill(dlq)
    found = await dlq.groups.commonalities("v1:bad")
    assert (found.adapters, found.letters, found.sampled, found.others, found.others_sampled) == (
        ("orders",), 12, 12, 12, 12,
    )  # fmt: skip
    assert found.degraded is None
    said = {(each.kind, each.name): (each.value, each.letters, each.others, each.query) for each in found.items}
    assert said["value", "task.currency"] == ("EURO", 12, 0, "task.currency:EURO")
    assert said["missing", "task.address"] == (None, 12, 0, None)
    assert "s3cret" not in repr(found)
    assert not any("token" in each.name for each in found.items)
    query = dlq.search.query(f"adapter:orders {said['value', 'task.currency'][3]}")
    assert len((await dlq.letters.find(query)).items) == 12

    sample = await dlq.groups.commonalities("v1:bad", sample=3)
    assert (sample.letters, sample.sampled, sample.others_sampled) == (12, 3, 3)

    lacks = await dlq.letters.contrasts("bad-3")
    assert (lacks.adapter, lacks.succeeded, lacks.sampled) == ("orders", 12, 12)
    assert [(each.name, each.is_missing, each.value) for each in lacks.items] == [
        ("task.address", True, None), ("task.currency", False, "EURO"),
    ]  # fmt: skip
    assert lacks.items[1].usual == (("EUR", 12),)
    assert (await dlq.letters.contrasts("mail-1")).items == ()


async def test_what_is_not_there_is_refused(dlq: DeadLetterQueue) -> None:
    with pytest.raises(NoSuchGroup):
        await dlq.groups.commonalities("v1:none")
    with pytest.raises(NoSuchLetter):
        await dlq.letters.contrasts("none")
    with pytest.raises(InvalidInput, match="2 to 1000"):
        await dlq.groups.commonalities("v1:none", sample=1)


async def test_views_and_numbers_by_hour(dlq: DeadLetterQueue) -> None:
    now = dlq.clock.now()
    await dlq.context.letters.write(
        [
            make_letter(task_id="a", created_at=now, failed_at=now, updated_at=now),
            make_letter(task_id="b", created_at=now - timedelta(hours=2), status="exhausted", exhausted_at=now),
            make_letter(task_id="c", created_at=now - timedelta(hours=2), status="completed", completed_at=now),
        ]
    )
    trend = await dlq.trends.by_hour(3)
    assert [(each.arrived, each.completed, each.exhausted) for each in trend.hours] == [(2, 0, 0), (0, 0, 0), (1, 1, 1)]

    seen = await dlq.views.save("Old", "age>1h is:open", by="ann")
    await dlq.views.save("All", "is:open", by="ann", place=2)
    newer = await dlq.views.save("Old", "age>1h", by="bo", base=seen)
    with pytest.raises(ChangedMeanwhile):
        await dlq.views.save("Old", "is:closed", by="ann", base=seen)
    assert [(view.name, view.text) for view in await dlq.views.list()] == [("Old", "age>1h"), ("All", "is:open")]
    found = await dlq.letters.find(dlq.search.query(newer.text))
    assert sorted(letter.task_id for letter in found.items) == ["b", "c"]
    await dlq.views.delete("Old", by="bo", base=newer)
    assert [view.name for view in await dlq.views.list()] == ["All"]
