"""What is stored already is encrypted by the newest key, lot by lot; and errors quote nothing that is encrypted."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahavishnu.api import Access
from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.engine.encryption import Encryption
from mahavishnu.engine.error_masks import mask_failure
from mahavishnu.model.errors import InvalidInput, PermissionDenied
from mahavishnu.model.json_value import Json
from mahavishnu.model.letter_parts import Failure
from mahavishnu.model.permissions import Permission, Principal
from mahavishnu.model.query import Query
from mahavishnu.stores.archived import ARCHIVED_LETTERS, archive_kind
from tests.strategies import awkward_texts, objects
from tests.unit.core.test_encryption import CANARY, Shop, open_letters, settings
from tests.unit.core.test_permissions import client
from tests.unit.letters import NOON
from tests.unit.queues import House, letter_of, queue_of

SECRET_VALUES = st.none() | st.integers(-9, 9) | awkward_texts | objects(awkward_texts).map(lambda each: each.value)


async def kept(queue: DeadLetterQueue) -> str:
    """All that the store has, as text."""
    store = queue.context.store
    kinds = [
        *KINDS,
        *(archive_kind(ARCHIVED_LETTERS, each.partition.name) for each in await queue.archive.partitions()),
    ]
    return repr([(await store.collection(kind).find(Query(limit=1000))).items for kind in kinds])


async def fill_in_clear(house: House) -> None:
    """An edited letter, an archived one with a former one, and an item; none encrypted."""
    app = house.app(encryption={"fields": [], "keys": {}})
    queue = queue_of(app)
    shop = Shop(app)
    for order in ("A-1", "B-2"):
        await shop.fail(order)
    await open_letters(app)
    await queue.letters.edit("charge:A-1", patch={"order": "A-1 too"}, by="ann")
    await queue.letters.resolve("charge:B-2", by="ann")
    await shop.fail("B-2")
    await open_letters(app)
    await queue.letters.resolve("charge:B-2", by="ann")
    house.clock.advance(40 * 86400)
    await queue.archive.archive_completed_tasks(dry_run=False)
    await queue.queues.create("mail")
    await queue.queues.produce("mail", {"card": CANARY})
    await queue.enqueue("foreign", {"card": CANARY}, [], "boom", namespace="eu")


async def test_what_was_kept_in_clear_is_encrypted_and_the_old_key_can_go(any_house: House) -> None:
    await fill_in_clear(any_house)
    first = queue_of(any_house.app(**settings("k1")))
    before = await kept(first)
    looked = await first.encryption.renew_all()
    assert looked.changed == 4 and not looked.failed and await kept(first) == before, "it is only told"
    done = await first.encryption.renew_all(dry_run=False, by="ann")
    assert done.changed == looked.changed
    assert (await kept(first)).count(CANARY) == 1, "that of another namespace is its own app's"
    assert (await first.encryption.renew_all()).changed == 0
    both = settings("k2", "k1")
    both["encryption"]["active"] = "k2"
    second = queue_of(any_house.app(**both))
    again = await second.encryption.renew_all(dry_run=False, by="ann")
    assert again.changed == done.changed and not again.failed
    app = any_house.app(**settings("k2"))
    only, shop = queue_of(app), Shop(app)
    text = await kept(only)
    assert "$encrypted:1:k2:" in text and "$encrypted:1:k1:" not in text
    for revision in await only.letters.revisions("charge:A-1"):
        assert only.context.letter_factory.encryption.decrypt(revision.task, Json.of(revision.payload_types))
    (lease,) = await only.queues.lease("mail", "w1")
    assert lease.item.payload == {"card": CANARY}
    restored = await only.archive.restore("charge:B-2", by="ann")
    assert CANARY in repr(only.context.letter_factory.encryption.decrypt_letter(restored).task)
    shop.broken = False
    assert (await only.retry_task("charge:A-1"))["success"]
    assert [call[1].number for call in shop.calls] == [CANARY]
    entries = (await only.audit.list(action="encrypt", limit=100)).items
    assert sum(each.changes.value["changed"]["after"] for each in entries) == done.changed + again.changed


async def test_the_same_work_meets_its_letter_after_it_was_encrypted(any_house: House) -> None:
    app = any_house.app(encryption={"fields": [], "keys": {}})
    await Shop(app).fail()
    await open_letters(app)
    app = any_house.app(**settings("k1"))
    await queue_of(app).encryption.renew_all(dry_run=False)
    await Shop(app).fail()
    (letter,) = await open_letters(app)
    assert letter.occurrences == 2


async def test_it_goes_on_where_it_stopped_and_names_what_it_cannot_read(house: House) -> None:
    app = house.app(**settings("k1"))
    shop = Shop(app)
    for number in range(7):
        await shop.fail(f"A-{number}")
    await open_letters(app)
    other = settings("k2", "k1")
    other["encryption"]["active"] = "k2"
    queue = queue_of(house.app(**other))
    lot = await queue.encryption.renew(dry_run=False, limit=3)
    while not lot.looked_at:
        lot = await queue.encryption.renew(dry_run=False, limit=3, after=lot.next)
    assert (lot.looked_at, lot.changed) == (3, 3) and lot.next is not None
    assert (await queue.encryption.renew_all(dry_run=False)).changed == 4, "begun again, as after a crash"
    without = queue_of(house.app(**settings("k1")))
    failed = (await without.encryption.renew_all()).failed
    assert len(failed) == 7 and "is encrypted with key 'k2'" in next(iter(failed.values()))
    with pytest.raises(InvalidInput, match="nothing is encrypted here"):
        await queue_of(house.app(encryption={"fields": [], "keys": {}})).encryption.renew()
    for wrong in ({"limit": 0}, {"after": "nowhere 1"}):
        with pytest.raises(InvalidInput):
            await queue.encryption.renew(**wrong)
    operator = queue.for_actor(Principal("ann", frozenset({Permission.VIEW, Permission.EDIT})))
    with pytest.raises(PermissionDenied, match="configure"):
        await operator.encryption.renew()


async def test_it_is_asked_for_over_http(house: House) -> None:
    app = house.app(encryption={"fields": [], "keys": {}})
    await Shop(app).fail()
    await open_letters(app)
    queue = queue_of(house.app(**settings("k1")))
    async with client(queue, Access()) as http:
        after, changed = None, 0
        while True:
            lot = (await http.post("/api/v1/dlq/encrypt", json={"dry_run": False, "after": after})).json()
            changed, after = changed + lot["changed"], lot["next"]
            if after is None:
                break
    assert changed == 1
    letter = await letter_of(queue, "charge:A-1")
    assert CANARY not in repr(letter.task)


@given(SECRET_VALUES, SECRET_VALUES)
def test_renewing_keeps_every_value_and_changes_nothing_twice(secret: Any, other: Any) -> None:
    keys = {"k1": b"1" * 32, "k2": b"2" * 32}
    old, new = Encryption(("*secret*",), {"k1": keys["k1"]}), Encryption(("*secret*",), keys)
    payload, types = old.encrypt(Json.of({"secret": secret, "other": other}), Json.of({}))
    fresh, kinds = new.renew(payload, types)
    assert new.renew(fresh, kinds)[0] is fresh
    last = Encryption((), {"k2": keys["k2"]})
    assert last.decrypt(fresh, kinds)[0].value == {"secret": secret, "other": other}


async def test_an_error_that_quotes_an_encrypted_value_is_kept_without_it(any_house: House) -> None:
    app = any_house.app(**settings("k1"), redact_keys=["password"])
    queue = queue_of(app)

    @app.workflow("pay", key="order")
    async def pay(order: str, card: dict[str, Any], password: str) -> str:
        raise ValueError(f"card {card['number']} of {order} ({password}) was declined, repr {card!r}")

    for _ in range(2):
        with pytest.raises(ValueError, match="4111"):  # the caller gets it as it was raised
            await pay("A-1", {"number": CANARY, "until": date(2027, 1, 31), "limit": Decimal("7731.25")}, "hunter22")
    (letter,) = await open_letters(app)
    assert letter.error.startswith("card *** of A-1 (***) was declined") and letter.fingerprint is not None
    await queue.letters.redrive(letter.task_id, by="ann")
    assert not (await queue.retry_task(letter.task_id))["success"]
    any_house.clock.advance(3600)
    await queue.letters.redrive(letter.task_id, by="ann")
    (claim,) = await queue.claims.claim("w1")
    await queue.claims.settle(letter.task_id, claim.token, "failed", error=f"no {CANARY} here")
    after = await letter_of(queue, letter.task_id)
    assert len(after.failures) == 4 and after.last_error == "no *** here"
    text = await kept(queue)
    assert CANARY not in text and "hunter22" not in text and "7731.25" not in text


@pytest.mark.parametrize(
    ("message", "secrets", "left"),
    [
        ("card 4111 1111 1111 1111 declined", ["4111 1111 1111 1111"], "card *** declined"),
        ("card 4111111111111111 declined", ["4111 1111 1111 1111"], "card *** declined"),
        ("pin 1234 of 123456", ["1234"], "pin *** of 123456"),
        ("it was no", ["no", "it"], "it was no"),
        ('{"name": "J\\u00f6rg \\"X\\""}', ['Jörg "X"'], '{"name": "***"}'),
        ("nothing secret", [], "nothing secret"),
        ("a.c abc", ["a.c "], "a.c abc"),
        ("longer-secret and longer", ["longer", "longer-secret"], "*** and ***"),
    ],
)
def test_texts_are_masked_as_they_are_written(message: str, secrets: list[str], left: str) -> None:
    failure = mask_failure(Failure(NOON, message, traceback=f"Traceback\n{message}"), secrets)
    assert (failure.message, failure.traceback) == (left, f"Traceback\n{left}")


@given(st.text(min_size=4).filter(str.strip), st.text(), st.text())
def test_no_value_is_left_in_a_text(secret: str, before: str, after: str) -> None:
    shown = mask_failure(Failure(NOON, f"{before} {json.dumps(secret)} {secret} {after}"), [secret]).message
    assert secret.strip() not in shown.replace("***", "") or len(secret.strip()) < 8
