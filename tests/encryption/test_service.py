"""What is stored already is encrypted by the newest key, lot by lot; and errors quote nothing that is encrypted."""

from __future__ import annotations

import asyncio
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahavishnu.archive.records import ARCHIVED_LETTERS, ARCHIVED_TASKS, archive_kind
from mahavishnu.core.api import Access
from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.engine.waiting_room import WAITING
from mahavishnu.model.errors import InvalidInput, PermissionDenied, StoreUnavailable
from mahavishnu.model.json_value import Json
from mahavishnu.model.permissions import Permission, Principal
from mahavishnu.model.query import Query
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.kinds import LETTERS, stored_kinds
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.tasks.letters import binding_of
from mahavishnu.tasks.records import TASKS
from mahavishnu.tasks.service import Lifecycle
from mahavishnu.testing import Faults, FaultyStore, turn
from mahavishnu.values.encryption import Binding, Encryption, new_key
from tests.settings.test_wiring_access import client
from tests.support.queues import House, letter_of, queue_of
from tests.support.store_strategies import awkward_texts, objects
from tests.values.test_encryption import CANARY, HERE, Shop, open_letters, settings

SECRET_VALUES = st.none() | st.integers(-9, 9) | awkward_texts | objects(awkward_texts).map(lambda each: each.value)


async def kept(queue: DeadLetterQueue) -> str:
    """All that the store has, as it is written there."""
    kinds = [
        *stored_kinds(),
        WAITING,
        *(
            archive_kind(kind, each.partition.name)
            for each in await queue.archive.partitions()
            for kind in (ARCHIVED_LETTERS, ARCHIVED_TASKS)
        ),
    ]
    found = [(kind, await queue.context.store.collection(kind).find(Query(limit=1000))) for kind in kinds]
    return "\n".join(f"{kind.name}: {kind.document(record)}" for kind, page in found for record in page.items)


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
        here, types = Binding.of(await letter_of(only, "charge:A-1")), Json.of(revision.payload_types)
        assert CANARY in only.context.letter_factory.encryption.decrypt(revision.task, types, here)[0].text
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


class Till:
    """Charges cards in two steps, of which the second one fails until it is repaired; notes the runs of both."""

    def __init__(self, app: MahavishnuApp) -> None:
        self.app, self.broken, self.ran = app, True, list[Any]()

        @app.workflow("pay", key="order", track=True)
        async def pay(order: str, card: str) -> str:
            found = await app.lifecycle.step("look up", self.look_up, card)
            return await app.lifecycle.step("charge", self.charge, found)

        self.pay = pay

    async def look_up(self, card: str) -> dict[str, Any]:
        self.ran.append("look up")
        return {"card": card, "limit": Decimal("7.50")}

    async def charge(self, found: dict[str, Any]) -> str:
        self.ran.append(found)
        if self.broken:
            raise ConnectionError("connection refused")
        return "charged"

    async def fail(self, order: str, card: str = CANARY) -> None:
        with pytest.raises(ConnectionError):
            await self.pay(order, card)
        await open_letters(self.app)


def faults_of(queue: DeadLetterQueue) -> Faults:
    assert isinstance(queue.store, FaultyStore)
    return queue.store.faults


def newest(*keys: str, **more: Any) -> dict[str, Any]:
    """Settings with these keys, of which the first one encrypts."""
    given = settings(*keys)
    given["encryption"]["active"] = keys[0]
    return {**given, **more}


@pytest.mark.parametrize("first", ["k1", None])
async def test_tracked_tasks_and_archived_ones_need_the_old_key_no_more(any_house: House, first: str | None) -> None:
    """Whether they were encrypted by it, or kept in clear before anything was."""
    app = any_house.app(**(settings(first) if first else {"encryption": {"fields": [], "keys": {}}}))
    till = Till(app)
    await till.fail("old")
    await queue_of(app).letters.resolve("pay:old", by="ann")
    any_house.clock.advance(100 * 86400)
    assert (await queue_of(app).archive.archive_completed_tasks(dry_run=False)).lifecycle_tasks_archived == 1
    await till.fail("A-1")
    queue = queue_of(any_house.app(**newest("k2", "k1")))
    before = await kept(queue)
    assert (await queue.encryption.renew_all()).changed == 4 and await kept(queue) == before
    done = await queue.encryption.renew_all(dry_run=False)
    assert done.changed == 4 and not done.failed
    assert (await queue.encryption.renew_all()).changed == 0
    text = await kept(queue)
    assert "$encrypted:1:k2:" in text and "$encrypted:1:k1:" not in text and CANARY not in text

    app = any_house.app(**settings("k2"))  # the old key is gone
    till = Till(app)
    till.broken = False
    assert (await queue_of(app).retry_task("pay:A-1"))["success"]
    assert till.ran == [{"card": CANARY, "limit": Decimal("7.50")}], "the first step is not run again"
    (line,) = (await queue_of(app).archive.search_tasks()).items
    case = await queue_of(app).archive.show_task(line.copy.task_id)
    encryption = queue_of(app).context.letter_factory.encryption
    assert (
        encryption.decrypt(case.task.context, case.task.context_types, binding_of(case.task))[0].member("card")
        == CANARY
    )
    assert case.letter is not None and case.letter.task_id == "pay:old"


async def test_a_task_whose_letter_is_called_by_what_it_was_given_finds_it_under_new_marks(any_house: House) -> None:
    app = any_house.app(**settings("k1"))
    till = Till(app)
    await till.fail("A-1")
    await till.fail("A-1", "another card")  # other work: the id of its letter is made of what it was given
    other = next(each for each in await open_letters(app) if each.task_id != "pay:A-1")
    app = any_house.app(**newest("k2", "k1"))  # the first key makes the marks
    await queue_of(app).encryption.renew_all(dry_run=False)
    (page, handover) = await app.lifecycle.list("all"), app.lifecycle.handover
    found = [await handover.find_letter(task) for task in page.items]
    assert {each.task_id for each in found if each is not None} == {"pay:A-1", other.task_id}
    till = Till(app)
    till.broken = False
    assert (await queue_of(app).retry_task(other.task_id))["success"]
    assert till.ran == [{"card": "another card", "limit": Decimal("7.50")}]


async def test_a_task_that_the_application_runs_is_encrypted_and_read_by_the_code_that_does_its_work(
    house: House,
) -> None:
    before, app = house.app(encryption={"fields": [], "keys": {}}), house.app(**settings("k1"))
    old = await before.lifecycle.create("old", {"card": CANARY})
    await before.lifecycle.transition(old.task_id, "initializing", metadata={"pin": CANARY}, reason=f"for {CANARY}")
    new = await app.lifecycle.create("new", {"card": CANARY, "pin": None})
    await app.lifecycle.transition(new.task_id, "initializing")
    await app.lifecycle.transition(new.task_id, "steps_in_process")
    await app.lifecycle.begin_step(new.task_id, "one")
    await app.lifecycle.complete_step(new.task_id, "one", {"card": CANARY})
    assert (await queue_of(app).encryption.renew_all(dry_run=False)).changed == 1
    assert CANARY not in await kept(queue_of(app))
    for each in (old, new):
        task = await app.lifecycle.get_in_clear(each.task_id)
        assert task.context.member("card") == CANARY
    assert task.steps[0].result == Json.of({"card": CANARY})
    again = await app.lifecycle.create("new", {"card": CANARY, "pin": None})
    other = await app.lifecycle.create("new", {"card": f"{CANARY}-2", "pin": None})
    assert again.task_id == new.task_id != other.task_id
    viewer = queue_of(app).for_actor(Principal("ann", frozenset({Permission.VIEW})))
    with pytest.raises(PermissionDenied):
        await Lifecycle(viewer.context).get_in_clear(new.task_id)


async def test_errors_that_were_kept_before_quote_nothing_that_is_encrypted_now(any_house: House) -> None:
    """Of open letters with former values, of former and archived letters, and of tasks with their steps."""
    before = any_house.app(encryption={"fields": [], "keys": {}})
    queue = queue_of(before)

    @before.workflow("quote", key="order", track=True)
    async def quote(order: str, card: str) -> None:
        await before.lifecycle.step("ask", refuse, card)

    async def refuse(card: str) -> None:
        problem = ConnectionError(f"the bank refused {card}")
        problem.add_note(f"its number is {card}")
        raise problem

    for order in ("A-1", "B-2", "B-2"):
        with pytest.raises(ConnectionError):
            await quote(order, CANARY)
        await open_letters(before)
        if order == "B-2":
            await queue.letters.resolve("quote:B-2", by="ann")
    any_house.clock.advance(100 * 86400)
    await queue.archive.archive_completed_tasks(dry_run=False)
    await queue.letters.edit("quote:A-1", patch={"card": f"second-{CANARY}"}, by="ann")
    await queue.retry_task("quote:A-1")
    await queue.letters.edit("quote:A-1", patch={"card": "third-value"}, by="ann")
    assert (await kept(queue)).count(CANARY) > 9
    after = queue_of(any_house.app(**settings("k1")))
    done = await after.encryption.renew_all(dry_run=False)
    assert not done.failed and "the audit and published events" in done.out_of_reach[0]
    left = [line for line in (await kept(after)).splitlines() if CANARY in line]
    assert left and all(line.startswith("audit: ") for line in left), "it was said"
    done = await after.encryption.renew_all(dry_run=False, scrub=True)
    assert not done.failed and "audit" not in str(done.out_of_reach)
    text = await kept(after)
    assert CANARY not in text and "the bank refused ***" in text
    assert (await after.encryption.renew_all(scrub=True)).changed == 0


async def test_a_letter_that_is_being_run_meanwhile_is_renewed_and_its_run_counts(any_house: House) -> None:
    app = any_house.app(**settings("k1"))
    await Shop(app).fail()
    await open_letters(app)
    any_house.clock.advance(3600)
    (claim,) = await queue_of(app).claims.claim("w1")
    other = queue_of(any_house.app(**newest("k2", "k1")))
    assert (await other.encryption.renew_all(dry_run=False)).changed == 1
    await queue_of(app).claims.settle(claim.letter.task_id, claim.token, "failed", error="no")
    after = await letter_of(other, "charge:A-1")
    assert after.total_attempts == 1 and after.last_error == "no" and "$encrypted:1:k2:" in repr(after.task)


async def test_what_is_changed_between_the_look_and_the_write_is_renewed_as_it_is_then(any_house: House) -> None:
    app = any_house.app(**settings("k1"))
    shop = Shop(app)
    for order in ("A-1", "B-2"):
        await shop.fail(order)
    await open_letters(app)
    queue = queue_of(any_house.app(**newest("k2", "k1")))

    async def edit(call: Any) -> None:
        await queue_of(app).letters.edit("charge:A-1", patch={"pin": "77.25"}, by="ann")

    faults_of(queue).before("write", edit, kind=LETTERS, times=1)
    done = await queue.encryption.renew_all(dry_run=False)
    assert done.changed == 3 and not done.failed, "and its revision"
    revealed = await queue_of(any_house.app(**settings("k2"))).letters.reveal("charge:A-1", by="ann")
    assert revealed["task"]["pin"] == "77.25" and revealed["task"]["card"]["number"] == CANARY


async def test_what_cannot_be_renewed_is_named_and_its_neighbours_are_renewed(house: House) -> None:
    for key, order in (("k1", "A-1"), ("k2", "B-2"), ("k1", "C-3")):
        app = house.app(**settings(key))
        await Shop(app).fail(order)
        await open_letters(app)
    encryption = {"fields": ["*card*", "pin"], "keys": {**settings("k1")["encryption"]["keys"], "k9": new_key()}}
    queue = queue_of(house.app(encryption=encryption))
    with faults_of(queue).item_failed("write", kind=LETTERS, keys={"charge:C-3"}):
        done = await queue.encryption.renew_all(dry_run=False)
    assert done.changed == 1 and [*done.failed] == ["charge:B-2", "charge:C-3"]
    assert "is encrypted with key 'k2'" in done.failed["charge:B-2"]
    assert "was refused" in done.failed["charge:C-3"]
    assert (await queue.encryption.renew_all(dry_run=False)).changed == 1


async def test_others_have_their_turn_while_a_lot_is_renewed(house: House) -> None:
    app = house.app(**settings("k1"))
    shop = Shop(app)
    for order in range(20):
        await shop.fail(f"A-{order}")
    await open_letters(app)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await turn()
            turns += 1

    other = asyncio.create_task(others())
    lot = await queue_of(app).encryption.renew(after="letters ")
    other.cancel()
    assert lot.looked_at == 20 and turns >= 5


async def test_what_no_lot_reaches_is_named_also_where_a_month_is_detached_in_between(any_house: House) -> None:
    await fill_in_clear(any_house)
    queue = queue_of(any_house.app(**settings("k1")))
    lot = await queue.encryption.renew()
    assert not any("month" in each for each in lot.out_of_reach) and "exports" in lot.out_of_reach[-1]
    while not str(lot.next).startswith("archive:"):
        lot = await queue.encryption.renew(after=lot.next)
    (month,) = await queue.archive.partitions()
    await queue.archive.detach(month.partition.name, by="ann")
    last = await queue.encryption.renew(after=lot.next)
    while last.next is not None:
        last = await queue.encryption.renew(after=last.next)
    assert f"month {month.partition.name} of the archive, which is detached" in last.out_of_reach[0]


async def test_while_the_store_is_away_nothing_is_said_to_be_done(house: House, tmp_path: Path) -> None:
    """What is kept locally alone would be looked at, and «nothing to do» be taken for the whole."""
    primary, local = house.store(), MemoryStore()
    app = MahavishnuApp(
        MahavishnuSettings(dlq_store_url="memory:", **settings("k1")),
        store=FallbackStore(primary, local, clock=house.clock),
        clock=house.clock,
    )
    house.look_after(app.dlq)
    await Shop(app).fail()
    await open_letters(app)
    with primary.faults.unavailable("find", kind=TASKS), pytest.raises(StoreUnavailable, match="is not complete"):
        await app.dlq.encryption.renew()
    with primary.faults.unavailable(), pytest.raises(StoreUnavailable):
        await app.dlq.encryption.renew()


async def test_it_is_asked_for_over_http(house: House) -> None:
    app = house.app(encryption={"fields": [], "keys": {}})
    await Shop(app).fail()
    await open_letters(app)
    queue = queue_of(house.app(**settings("k1")))
    async with client(queue, Access()) as http:
        refused = await http.post("/api/v1/dlq/encrypt", json={"dry_run": "no"})
        assert refused.status_code == 422 and CANARY in repr((await letter_of(queue, "charge:A-1")).task)
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
    payload, types = old.encrypt(Json.of({"secret": secret, "other": other}), Json.of({}), HERE)
    fresh, kinds = new.renew(payload, types, HERE)
    assert new.renew(fresh, kinds, HERE)[0] is fresh
    last = Encryption((), {"k2": keys["k2"]})
    assert last.decrypt(fresh, kinds, HERE)[0].value == {"secret": secret, "other": other}


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


@pytest.mark.parametrize("how", ["captured", "retried", "settled", "a tracked step"])
async def test_errors_that_quote_different_hidden_values_are_one_group(house: House, how: str) -> None:
    """Its fingerprint is that of the masked text, so that it is no hint at the value, and a regroup changes nothing."""
    app = house.app(**settings("k1"), redact_keys=["password"])
    queue = queue_of(app)

    @app.workflow("pay", key="order", track=how == "a tracked step")
    async def pay(order: str, card: str, password: str) -> str:
        raise ValueError(f"owner {card} was declined, says {password}")

    for order, (card, password) in enumerate((("hopeful", "swordfish"), ("gardener", "trustno"), ("walnut", "sesame"))):
        with pytest.raises(ValueError, match=card):
            await pay(str(order), card, password)
    letters = await open_letters(app)
    if how != "captured":
        for letter in letters:
            await queue.letters.edit(letter.task_id, patch={"password": ""}, redrive=True, by="ann")
            if how == "settled":
                (claim,) = await queue.claims.claim("w")
                card = (await queue.letters.reveal(letter.task_id, by="ann"))["task"]["card"]
                error = f"owner {card} was declined by the other one"
                await queue.claims.settle(claim.letter.task_id, claim.token, "failed", error=error)
            else:
                assert not (await queue.retry_task(letter.task_id))["success"]
        letters = await queue.list_tasks()
    assert len(letters) == 3 and len({letter.fingerprint for letter in letters}) == 1
    assert all("owner ***" in (letter.last_error or "") for letter in letters)
    assert not (await queue.groups.regroup(dry_run=True)).done


async def test_a_letter_that_a_process_without_the_key_has_made_of_a_task_is_encrypted_for_itself_later(
    any_house: House,
) -> None:
    """Such as by a server that finds a stale task. Until then its runs are given back."""
    app, server = any_house.app(**settings("k1")), any_house.app(encryption={"fields": [], "keys": {}})
    await app.dlq.open()
    till, never = Till(app), asyncio.Event()
    till.charge = lambda found: never.wait()  # type: ignore[assignment, return-value, method-assign]
    running = asyncio.create_task(till.pay("A-1", CANARY))
    while not (page := await server.lifecycle.list()).items or len(page.items[0].steps) < 2:
        await turn()
    any_house.kill(queue_of(app))
    any_house.clock.advance(4000)
    (row,) = await server.lifecycle.detect_and_transition_stale_tasks(dry_run=False)
    assert row["moved_to_dlq"]
    any_house.clock.advance(60)
    await server.lifecycle.handover.finish()

    again = any_house.app(**settings("k1"))
    till = Till(again)
    till.broken = False
    refused = await queue_of(again).retry_task("pay:A-1")
    assert "for this place" in refused["error"]
    await again.lifecycle.handover.finish()
    (task,) = (await again.lifecycle.list("all")).items
    assert task.owes is None
    assert (await queue_of(again).retry_task("pay:A-1"))["success"]
    assert till.ran == [{"card": CANARY, "limit": Decimal("7.50")}], "the first step is not run again"
    assert CANARY not in await kept(queue_of(again))
    running.cancel()
