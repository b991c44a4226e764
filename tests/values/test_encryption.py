"""Values that are stored encrypted: no store and no file has them in clear, and a retry gets them as they were."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.model.errors import CannotRestore, InvalidInput
from mahavishnu.model.json_value import EMPTY, Json
from mahavishnu.model.letter import DeadLetter, evolve
from mahavishnu.model.permissions import Permission, Principal, Scope
from mahavishnu.values.encryption import (
    ENCRYPTED,
    TASK,
    Binding,
    EncryptedText,
    Encryption,
    encryption_of,
    new_key,
    parse_key,
)
from mahavishnu.values.typed_json import read, write_json
from tests.support.queues import NETWORK, House, letter_of, queue_of
from tests.support.store_strategies import awkward_texts, objects

CANARY = "4111-canary-7f3a"
KEYS = {"k1": new_key(), "k2": new_key()}


def settings(*keys: str, fields: tuple[str, ...] = ("*card*", "pin")) -> dict[str, Any]:
    return {"encryption": {"fields": list(fields), "keys": {name: KEYS[name] for name in keys}}}


@dataclass(frozen=True)
class Card:
    number: str
    expires: date


class Shop:
    """Charges cards, and fails until it is repaired; notes what it was called with."""

    def __init__(self, app: MahavishnuApp) -> None:
        self.broken, self.calls = True, list[Any]()

        @app.workflow("charge", key="order")
        async def charge(order: str, card: Card, pin: Decimal | None = None) -> str:
            self.calls.append((order, card, pin))
            if self.broken:
                raise NETWORK
            return "charged"

        self.charge = charge

    async def fail(self, order: str = "A-1", number: str = CANARY) -> None:
        with pytest.raises(ConnectionError):
            await self.charge(order, Card(number, date(2027, 1, 31)), Decimal("12.50"))


async def open_letters(app: MahavishnuApp) -> list[DeadLetter]:
    assert app.dlq_integration is not None
    await app.dlq_integration.finish()
    return list(await queue_of(app).list_tasks("pending"))


class TestALetter:
    async def test_has_no_encrypted_value_in_clear_and_a_retry_gets_it_with_its_type(self, any_house: House) -> None:
        app = any_house.app(**settings("k1"))
        shop = Shop(app)
        await shop.fail()
        (letter,) = await open_letters(app)
        assert CANARY not in repr(letter.to_dict())
        assert set(letter.payload_types.value.values()) == {ENCRYPTED}
        assert letter.task["order"] == "A-1"
        shop.broken = False
        assert (await queue_of(app).retry_task(letter.task_id))["success"]
        assert shop.calls[1] == shop.calls[0] == ("A-1", Card(CANARY, date(2027, 1, 31)), Decimal("12.50"))

    async def test_of_the_same_work_is_one_letter_also_after_a_rotation(self, any_house: House) -> None:
        before = any_house.app(**settings("k1"))
        await Shop(before).fail()
        await open_letters(before)
        after = any_house.app(**settings("k1", "k2"))
        shop = Shop(after)
        await shop.fail()
        (letter,) = await open_letters(after)
        assert letter.occurrences == 2
        text = EncryptedText.parse(letter.task["card"])
        assert text is not None and text.key == "k1"
        await shop.fail("B-2")
        other = await letter_of(queue_of(after), "charge:B-2")
        text = EncryptedText.parse(other.task["card"])
        assert text is not None and text.key == "k2"
        shop.broken = False
        for each in (letter, other):
            assert (await queue_of(after).retry_task(each.task_id))["success"]

    async def test_with_another_secret_is_other_work(self, any_house: House) -> None:
        app = any_house.app(**settings("k1"))
        shop = Shop(app)
        await shop.fail()
        await shop.fail(number="another")
        assert len(await open_letters(app)) == 2

    @pytest.mark.parametrize(
        "edit", [{"patch": {"pin": "1.5"}}, {"task": {"order": "A-1", "card": None, "pin": "1.5"}}]
    )
    async def test_whose_key_is_gone_takes_its_values_by_an_edit(self, any_house: House, edit: dict[str, Any]) -> None:
        await Shop(before := any_house.app(**settings("k1", fields=("pin",)))).fail()
        await open_letters(before)
        shop = Shop(app := any_house.app(**settings("k2", fields=("pin",))))
        await queue_of(app).letters.edit("charge:A-1", **edit, by="ann")
        shop.broken = False
        assert (await queue_of(app).retry_task("charge:A-1"))["success"]
        assert str(shop.calls[0][2]) == "1.5"
        assert '"1.5"' not in repr((await queue_of(app).list_tasks("completed"))[0].to_dict())

    async def test_whose_key_is_gone_stays_says_why_and_uses_up_no_attempt(self, any_house: House) -> None:
        before = any_house.app(**settings("k1"))
        await Shop(before).fail()
        await open_letters(before)
        after = any_house.app(**settings("k2"))
        shop = Shop(after)
        shop.broken = False
        answer = await queue_of(after).retry_task("charge:A-1")
        assert not answer["success"] and not shop.calls
        letter = await letter_of(queue_of(after), "charge:A-1")
        assert letter.status == "pending" and letter.retry_count == 0
        assert letter.unfit is not None and "key 'k1'" in letter.unfit and "add that key" in letter.unfit
        again = any_house.app(**settings("k1", "k2"))
        shop = Shop(again)
        shop.broken = False
        assert (await queue_of(again).retry_task("charge:A-1"))["success"]

    async def test_that_was_changed_in_the_store_is_not_run(self, house: House) -> None:
        app = house.app(**settings("k1"))
        shop = Shop(app)
        await shop.fail()
        (letter,) = await open_letters(app)
        text = EncryptedText.parse(letter.task["pin"])
        assert text is not None
        forged = str(text._replace(ciphertext=text.ciphertext[:-4] + "AAAA"))
        changed = evolve(letter, payload=Json.of({**letter.task, "pin": forged}))
        await queue_of(app).context.letters.write([changed])
        shop.broken = False
        await queue_of(app).retry_task(letter.task_id)
        assert len(shop.calls) == 1
        unfit = (await letter_of(queue_of(app), letter.task_id)).unfit
        assert unfit is not None and "pin is not what key 'k1' has encrypted" in unfit

    async def test_is_edited_without_showing_or_losing_what_is_encrypted(self, any_house: House) -> None:
        app = any_house.app(**settings("k1"))
        shop = Shop(app)
        await shop.fail()
        (letter,) = await open_letters(app)
        letters = queue_of(app).letters
        edited = await letters.edit(letter.task_id, patch={"pin": "13.75"}, by="ann")
        assert "13.75" not in repr(edited.to_dict())
        assert edited.task["card"] == letter.task["card"]
        whole = {**edited.task, "order": "A-9"}
        edited = await letters.edit(letter.task_id, task=whole, by="ann")
        shop.broken = False
        assert (await queue_of(app).retry_task(letter.task_id))["success"]
        assert shop.calls[-1] == ("A-9", Card(CANARY, date(2027, 1, 31)), Decimal("13.75"))
        revisions = await letters.revisions(letter.task_id)
        entries = (await queue_of(app).audit.list(subject=f"letter:{letter.key}")).items
        for kept in (*revisions, *entries):
            assert CANARY not in repr(kept) and "13.75" not in repr(kept)

    async def test_that_was_edited_is_still_known_by_what_it_was_captured_with(self, any_house: House) -> None:
        app = any_house.app(**settings("k1"))
        shop = Shop(app)
        await shop.fail()
        (letter,) = await open_letters(app)
        await queue_of(app).letters.edit(letter.task_id, patch={"pin": "13.75"}, by="ann")
        await shop.fail()
        (letter,) = await open_letters(app)
        assert letter.occurrences == 2
        assert CANARY not in repr(letter.task_snapshot)

    async def test_is_closed_by_a_success_of_the_application(self, any_house: House) -> None:
        app = any_house.app(**settings("k1"))
        shop = Shop(app)
        await shop.fail()
        await open_letters(app)
        shop.broken = False
        any_house.clock.advance(1)
        await shop.charge("A-1", Card(CANARY, date(2027, 1, 31)), Decimal("12.50"))
        await queue_of(app).closing.flush()
        assert (await letter_of(queue_of(app), "charge:A-1")).status == "completed"

    async def test_is_revealed_and_the_audit_says_to_whom(self, house: House) -> None:
        app = house.app(**settings("k1"))
        await Shop(app).fail()
        await open_letters(app)
        revealed = await queue_of(app).letters.reveal("charge:A-1", by="ann", notes="asked by the bank")
        assert revealed["task"]["card"]["number"] == CANARY
        (entry,) = (await queue_of(app).audit.list(action="reveal")).items
        assert (entry.actor, entry.reason) == ("ann", "asked by the bank")
        assert CANARY not in repr(entry)

    async def test_a_bulk_patch_of_an_encrypted_value_is_refused(self, house: House) -> None:
        app = house.app(**settings("k1"))
        await Shop(app).fail()
        await open_letters(app)
        with pytest.raises(InvalidInput, match=r"task.pin is encrypted .* one by one"):
            await queue_of(app).runs.start("edit", everything=True, patch={"pin": "1"}, by="ann")

    async def test_a_worker_elsewhere_gets_it_in_clear_or_not_at_all(self, any_house: House) -> None:
        app = any_house.app(**settings("k1"))
        await Shop(app).fail()
        await open_letters(app)
        any_house.clock.advance(3600)
        without = any_house.app(**settings("k2"))
        assert await queue_of(without).claims.claim("elsewhere") == []
        (claim,) = await queue_of(app).claims.claim("elsewhere")
        assert claim.letter.task["card"]["number"] == CANARY
        await queue_of(app).claims.settle(claim.letter.task_id, claim.token, "failed", error="no")
        assert CANARY not in repr((await letter_of(queue_of(app), "charge:A-1")).to_dict())

    async def test_an_item_of_a_named_queue_is_encrypted_until_it_is_leased(self, any_house: House) -> None:
        queue = queue_of(any_house.app(**settings("k1")))
        await queue.queues.create("cards")
        await queue.queues.produce("cards", {"card": CANARY, "order": 7})
        (item,) = [each async for each in _items(queue)]
        assert CANARY not in repr(item)
        (lease,) = await queue.queues.lease("cards", "w1")
        assert lease.item.payload == {"card": CANARY, "order": 7}

    async def test_an_item_that_cannot_be_read_here_keeps_no_other_from_being_leased(
        self, any_house: House, caplog: pytest.LogCaptureFixture
    ) -> None:
        queue, stranger = queue_of(any_house.app(**settings("k1"))), queue_of(any_house.app())
        await queue.queues.create("cards")
        first = await queue.queues.produce("cards", {"card": CANARY})
        await queue.queues.produce("cards", {"order": 7})
        (lease,) = await stranger.queues.lease("cards", "w1")
        assert lease.item.payload == {"order": 7}
        assert await stranger.queues.lease("cards", "w1") == []
        assert caplog.text.count(f"item '{first.id}' is left alone") == 2  # once for each that asked
        (theirs,) = await queue.queues.lease("cards", "w2")
        assert theirs.item.payload == {"card": CANARY}


async def _items(queue: Any) -> Any:
    for item in (await queue.queues.items("cards")).items:
        yield item


async def test_nothing_of_a_secret_is_in_any_file_log_export_or_event(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The whole folder of a SQLite store, after failures, edits, a retry, an export, the archive and a full store."""
    caplog.set_level(logging.DEBUG)
    told: list[Any] = []
    house = House("sqlite", tmp_path)
    app = house.app(**settings("k1"))
    queue = queue_of(app)
    queue.listen(told.append)
    shop = Shop(app)

    @app.workflow("quote", key="order", max_retries=5)
    async def quote(order: str, card: Card) -> None:
        raise ConnectionError(f"the bank refused {card!r}")

    with pytest.raises(ConnectionError, match=CANARY):
        await quote("Q-1", Card(CANARY, date(2027, 1, 31)))
    await open_letters(app)
    assert not (await queue.retry_task("quote:Q-1"))["success"]
    await queue.letters.resolve("quote:Q-1", by="ann")
    await shop.fail()
    (letter,) = await open_letters(app)
    await queue.letters.edit(letter.task_id, patch={"pin": f"{77.125}"}, by="ann")
    await shop.fail("B-2")
    house.faults.unavailable()
    await shop.fail("C-3")
    house.faults.clear()
    await open_letters(app)
    lines = [line async for line in queue.transfer.export()]
    shop.broken = False
    await queue.retry_task(letter.task_id)
    house.clock.advance(40 * 86400)
    await queue.archive.archive_completed_tasks(dry_run=False)
    await queue.letters.fail("charge:B-2", by="ann")
    await house.close()
    assert shop.calls
    for secret in (CANARY, "77.125"):
        assert files_with(secret.encode(), tmp_path) == []
        assert secret not in repr(lines) and secret not in caplog.text and secret not in repr(told)


def files_with(secret: bytes, folder: Path) -> list[str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert any(b"A-1" in path.read_bytes() for path in files)  # what is not secret is there
    return [path.name for path in files if secret in path.read_bytes()]


SECRETS = Encryption(("*secret*",), {"k1": b"1" * 32})
HERE = Binding("default/e-1", TASK)


@given(
    st.none() | st.booleans() | st.integers(-9, 9) | awkward_texts | objects(awkward_texts).map(lambda each: each.value)
)
def test_what_is_encrypted_comes_back(value: Any) -> None:
    payload, types = SECRETS.encrypt(Json.of({"a secret": value, "x": [value]}), EMPTY, HERE)
    plain, kinds = SECRETS.decrypt(payload, types, HERE)
    assert plain.value == {"a secret": Json.of(value).value, "x": [Json.of(value).value]} and kinds.value == {}
    again, _ = SECRETS.encrypt(Json.of({"a secret": value, "x": [value]}), EMPTY, HERE)
    assert again.digest == payload.digest
    kept, _ = SECRETS.encrypt(Json.of({"a secret": value, "x": [value]}), EMPTY, HERE, payload)
    assert kept.text == payload.text


def test_types_inside_an_encrypted_value_are_encrypted_too() -> None:
    payload, types = write_json({"secrets": [Decimal("1.5"), timedelta(1)], "day": date(2026, 1, 2)})
    hidden, kinds = SECRETS.encrypt(payload, types, HERE)
    assert kinds.value == {"/secrets": ENCRYPTED, "/day": "date"}
    plain, kinds = SECRETS.decrypt(hidden, kinds, HERE)
    assert read(plain.value, kinds.value) == {"secrets": [Decimal("1.5"), timedelta(1)], "day": date(2026, 1, 2)}


WIDER = Encryption(("*secret*", "payment"), {"k1": b"1" * 32, "k2": b"2" * 32})


def test_a_whole_that_is_secret_later_has_its_encrypted_values_inside_in_clear() -> None:
    """So it reads back with its types, is what new work of it would be, and needs the old key no more."""
    payload, types = write_json({"payment": {"secret": Decimal("1.5"), "to": "ann"}})
    hidden, kinds = SECRETS.encrypt(payload, types, HERE)
    for encrypt in (WIDER.encrypt, WIDER.renew):
        wider, whole = encrypt(hidden, kinds, HERE)
        assert whole.value == {"/payment": ENCRYPTED} and "$encrypted:1:k1" not in wider.text
        assert wider.digest == WIDER.encrypt(payload, types, HERE)[0].digest
        without_old = Encryption(WIDER.fields, {"k2": b"2" * 32})
        plain, back = without_old.decrypt(wider, whole, HERE)
        assert read(plain.value, back.value) == {"payment": {"secret": Decimal("1.5"), "to": "ann"}}


def test_a_whole_with_an_unknown_key_inside_is_encrypted_value_by_value() -> None:
    payload, types = SECRETS.encrypt(*write_json({"payment": {"secret": 7, "to": ["ann"]}}), HERE)
    stranger = Encryption(WIDER.fields, {"k2": b"2" * 32})
    hidden, kinds = stranger.encrypt(payload, types, HERE)
    assert "ann" not in hidden.text
    assert stranger.encrypt(hidden, kinds, HERE) == (hidden, kinds)
    plain, back = WIDER.decrypt(hidden, kinds, HERE)
    assert (plain.value, back.value) == ({"payment": {"secret": 7, "to": ["ann"]}}, {})


def test_a_text_that_only_looks_encrypted_is_encrypted_like_any_other() -> None:
    forged = str(EncryptedText("k1", "0" * 32, "AAAA"))
    payload, types = SECRETS.encrypt(Json.of({"secret": forged}), EMPTY, HERE)
    assert forged not in payload.text
    assert SECRETS.decrypt(payload, types, HERE)[0].value == {"secret": forged}


def test_equal_values_of_two_keys_have_the_same_mark_and_others_have_not() -> None:
    newer = Encryption(("*secret*",), {"k1": b"1" * 32, "k2": b"2" * 32})
    value = Json.of({"secret": "x"})
    one, other = SECRETS.encrypt(value, EMPTY, HERE)[0], newer.encrypt(value, EMPTY, HERE)[0]
    assert one.text != other.text and one.digest == other.digest
    assert SECRETS.encrypt(Json.of({"secret": "y"}), EMPTY, HERE)[0].digest != one.digest


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"fields": ["pin"]}, "encryption.keys has no key"),
        ({"keys": {"k1": "abc"}}, "'k1' is not 32 bytes in Base64"),
        ({"keys": {"a:b": KEYS["k1"]}}, "a key is named by"),
        ({"keys": {"k1": KEYS["k1"]}, "active": "k9"}, "encryption.active is 'k9'"),
    ],
)
def test_settings_that_cannot_be_are_refused_without_showing_a_key(given: Mapping[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said) as problem:
        MahavishnuSettings(dlq_store_url="memory:", encryption=given)
    assert KEYS["k1"] not in str(problem.value)


def test_a_key_is_not_shown() -> None:
    made = encryption_of(["pin"], KEYS)
    assert KEYS["k1"] not in repr(made) and repr(parse_key("k1", KEYS["k1"])) not in repr(made)
    shown = MahavishnuSettings(dlq_store_url="memory:", **settings("k1")).describe()
    assert KEYS["k1"] not in repr(shown)


def test_what_no_key_here_has_encrypted_says_which_one() -> None:
    payload, types = SECRETS.encrypt(Json.of({"secret": "x"}), EMPTY, HERE)
    with pytest.raises(CannotRestore, match=r"secret is encrypted with key 'k1', and there are no encryption.keys"):
        Encryption().decrypt(payload, types, HERE)


async def test_what_is_imported_in_clear_is_stored_encrypted(house: House) -> None:
    """Also what it was captured with before a person changed it; and a failure of either work is its own."""
    plain, dlq = house.app(dlq_namespace="plain").dlq, house.app(**settings("k1")).dlq
    captured, edited = {"card": CANARY, "n": 1}, {"card": f"{CANARY}-2", "n": 2}
    await plain.enqueue("wf_1", captured, [], "connection reset", metadata={"pin": CANARY})
    await plain.letters.edit("wf_1", task=edited)
    lines = [line async for line in plain.transfer.export()]
    assert CANARY in lines[0]
    imported = await dlq.transfer.import_letters(lines, namespace="default")

    (letter,) = await dlq.list_tasks()
    assert list(imported.taken.values()) == ["new"]
    assert CANARY not in str(letter.to_dict()) and letter.captured_task is not None
    assert (await dlq.letters.reveal("wf_1", by="ann"))["task"] == edited
    for task in (captured, edited):
        await dlq.enqueue("wf_1", task, [], "connection reset")
    assert [each.occurrences for each in await dlq.list_tasks()] == [3]


async def test_an_encrypted_value_is_of_no_use_anywhere_else(house: House) -> None:
    """In another letter, under another name, in metadata, swapped in the store, in an edit; in its own it is."""
    app, ran = house.app(**settings("k1")), list[Any]()
    dlq = app.dlq
    app.register_adapter("echo", lambda task, repos: ran.append(task))
    for name in ("ann", "eve"):
        await dlq.enqueue(name, {"card": f"{CANARY}-{name}", "pin": "1", "note": "x"}, [], "boom", adapter="echo")
    ann, eve = [await letter_of(dlq, name) for name in ("ann", "eve")]
    with pytest.raises(InvalidInput, match="a ciphertext belongs to the letter"):
        await dlq.enqueue("new", {"note": ann.task["card"]}, [], "boom", payload_types={"/note": ENCRYPTED})
    await dlq.enqueue("label", {}, [], "boom", metadata={"card": ann.task["card"], "note": ann.task["card"]})
    assert CANARY not in str(await dlq.letters.reveal("label", by="eve"))
    for task in ({**eve.task, "card": ann.task["card"]}, {**eve.task, "pin": eve.task["card"]}):
        with pytest.raises(InvalidInput, match=r"task\.(card|pin) is not what key 'k1' has encrypted for this place"):
            await dlq.letters.edit("eve", task=task, payload_types=eve.payload_types.value, by="eve")
    swapped = evolve(eve, payload=Json.of({**eve.task, "card": eve.task["pin"], "pin": eve.task["card"]}))
    for forged in (evolve(eve, payload=ann.payload), swapped):
        current = await letter_of(dlq, "eve")
        await dlq.context.letters.write([evolve(current, payload=forged.payload)])
        assert not (await dlq.retry_task("eve"))["success"] and not ran
        with pytest.raises(CannotRestore, match="comes from another letter"):
            await dlq.letters.reveal("eve", by="eve")
    assert (await dlq.retry_task("ann"))["success"] and ran[0]["card"] == f"{CANARY}-ann"


async def test_what_moves_is_encrypted_for_its_new_place(any_house: House) -> None:
    """Between queues, to another namespace, back to a revision, and into the archive and back."""
    app = any_house.app(**settings("k1"))
    dlq, other = app.dlq, any_house.app(dlq_namespace="other", **settings("k1")).dlq
    await dlq.queues.create("morgue")
    await dlq.queues.create("mail", dead_queue="morgue")
    await dlq.queues.produce("mail", {"card": CANARY}, metadata={"pin": CANARY})
    (lease,) = await dlq.queues.lease("mail", "w1")
    await dlq.queues.retry("mail", lease.item.id, lease.token, dead=True)
    (lease,) = await dlq.queues.lease("morgue", "w1")
    assert lease.item.payload == {"card": CANARY}

    await dlq.enqueue("wf_1", {"card": CANARY, "n": 1}, [], "boom", metadata={"pin": CANARY})
    await dlq.letters.edit("wf_1", patch={"card": "second"}, by="ann")
    await dlq.letters.restore("wf_1", 0, by="ann")
    assert (await dlq.letters.reveal("wf_1", by="ann"))["task"]["card"] == CANARY
    lines = [line async for line in dlq.transfer.export() if '"wf_1"' in line]
    stranger = Principal("eve", frozenset(Permission), Scope(namespaces=frozenset({"other"})))
    refused = (await other.for_actor(stranger).transfer.import_letters(lines, namespace="other")).refused
    assert "outside of the scope of eve" in str([*refused.values()])
    await other.transfer.import_letters(lines, namespace="other")
    assert await other.letters.reveal("wf_1", by="ann") == await dlq.letters.reveal("wf_1", by="ann")

    await dlq.letters.resolve("wf_1", by="ann")
    any_house.clock.advance(100 * 86400)
    await dlq.archive.archive_completed_tasks(dry_run=False)
    await dlq.archive.restore("wf_1", by="ann")
    assert (await dlq.letters.reveal("wf_1", by="ann"))["metadata"] == {"pin": CANARY}


async def test_an_item_whose_key_is_unknown_stays_in_its_queue(house: House, caplog: pytest.LogCaptureFixture) -> None:
    dlq, stranger = house.app(**settings("k1")).dlq, house.app(**settings("k2")).dlq
    await dlq.queues.create("morgue")
    await dlq.queues.create("mail", dead_queue="morgue")
    await dlq.queues.produce("mail", {"card": CANARY})
    (lease,) = await dlq.queues.lease("mail", "w1")
    await stranger.queues.retry("mail", lease.item.id, lease.token, dead=True)
    assert "stays in its queue" in caplog.text and not (await dlq.queues.items("morgue")).items
    await dlq.queues.maintain()
    (lease,) = await dlq.queues.lease("morgue", "w1")
    assert lease.item.payload == {"card": CANARY}
