"""Requests that nobody sends by mistake alone: they are refused with a reason, and do no harm."""

from __future__ import annotations

import base64
import json
from datetime import timedelta
from typing import Any

import httpx
import pytest
from pydantic import ValidationError

from mahavishnu.api import create_app
from mahavishnu.api.schemas import Filter
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.core.queue.transfer import exported
from mahavishnu.model.clock import instant_text
from mahavishnu.model.errors import ItemFailed, StoreUnavailable
from mahavishnu.model.query import Query
from mahavishnu.stores.base import Health, Page, Result
from mahavishnu.stores.kinds import AUDIT, REPLIES, RUNS
from mahavishnu.testing.letters import make_letter
from tests.unit.api.conftest import URL, Desk, bearer

NEW = {"task_id": "wf", "error": "connection reset"}
KEY = {"Idempotency-Key": "k"}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/v1/dlq/healthz"),
        ("POST", "/api/v1/dlq/x/readyz"),
        ("POST", "/nothing/healthz"),
        ("POST", "/healthz"),
        ("GET", "//healthz"),
        ("GET", "/api/v1/openapi.json"),
    ],
)
async def test_whoever_has_no_token_writes_nothing(guarded: Desk, method: str, path: str) -> None:
    answer = await guarded.client.request(method, path, headers=KEY)
    assert answer.status_code == 401
    assert not (await guarded.dlq.audit.list()).items
    assert not (await guarded.dlq.store.collection(REPLIES).find(Query())).items


async def test_without_tokens_other_machines_do_not_get_in_whatever_host_they_name() -> None:
    for client, status in (("203.0.113.9", 403), ("127.0.0.1", 200), ("::1", 200)):
        transport = httpx.ASGITransport(create_app(DeadLetterQueue()), client=(client, 4711))
        async with httpx.AsyncClient(transport=transport, base_url=URL) as asker:
            assert (await asker.get("/api/v1/dlq")).status_code == status


async def test_task_ids_with_slashes_and_with_what_stands_for_them_are_told_apart(desk: Desk) -> None:
    names = ["a/b", "a\ue000b", "a\ue000sb", "a\ue000mb", "a\ue000/b"]
    for name in names:
        await desk.keep(name)
    for name in names:
        path = name.replace("/", "%2F").replace("\ue000", "%EE%80%80")
        assert (await desk.post(f"/dlq/{path}/archive")).json()["task_id"] == name


async def test_an_answer_that_cannot_be_remembered_is_given_all_the_same(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> None:
        raise StoreUnavailable("away")

    monkeypatch.setattr(desk.dlq.replies, "finish", away)
    answer = await desk.post("/dlq", NEW, headers=KEY)
    assert (answer.status_code, answer.json()["task_id"]) == (201, "wf")
    began = desk.clock.now()
    desk.clock.advance(hours=23)  # nobody answers any more, and it was done: to begin it anew would do it twice
    again = await desk.post("/dlq", NEW, headers=KEY)
    assert (again.status_code, again.json()["type"].rpartition(":")[2]) == (409, "idempotency-unfinished")
    assert (again.json()["began_at"], "new key" in again.json()["detail"]) == (instant_text(began), True)
    assert (await desk.get("/dlq/wf")).json()["occurrences"] == 1


async def test_replies_that_cannot_be_removed_are_left_for_the_next_time(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await desk.post("/dlq", NEW, headers=KEY)
    desk.clock.advance(hours=48)
    asked = 0

    async def refused(records: Any) -> list[Result[Any]]:
        nonlocal asked
        asked += 1
        assert asked < 3, "it asks for ever"
        return [StoreUnavailable("read only") for _ in records]

    monkeypatch.setattr(desk.dlq.replies._replies, "remove", refused)
    await desk.dlq.replies.clean()
    assert asked == 1


async def test_an_old_key_whose_reply_is_forgotten_meanwhile_is_free(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = desk.dlq.replies
    assert await replies.begin("k", "first") is None
    desk.clock.advance(hours=48)
    real, writes = replies._replies.write, 0

    async def slow(records: Any) -> Any:
        nonlocal writes
        writes += 1
        assert writes < 9, "it asks for ever"
        if records[0].version is not None:
            await replies.clean()  # by another process, between a look and a write
        return await real(records)

    monkeypatch.setattr(replies._replies, "write", slow)
    assert await replies.begin("k", "again") is None


@pytest.mark.parametrize("path", ["/dlq", "/runs", "/groups", "/audit"])
async def test_a_cursor_that_is_nested_without_end_is_none(desk: Desk, path: str) -> None:
    deep = base64.urlsafe_b64encode(b"[" * 7000).decode().rstrip("=")
    assert (await desk.get(path, params={"cursor": deep})).status_code == 422


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
async def test_instants_that_are_none_in_utc_are_refused(desk: Desk, moment: str) -> None:
    await desk.post("/dlq", NEW)
    group = (await desk.get("/dlq/wf")).json()["fingerprint"]
    for answer in (
        await desk.get("/dlq", params={"failed_from": moment}),
        await desk.get("/audit", params={"since": moment}),
        await desk.patch("/dlq/wf", {"next_retry_at": moment}),
        await desk.post("/dlq/wf/preview", {"next_retry_at": moment}),
        await desk.post("/runs/preview", {"verb": "archive", "filter": {"failed_from": moment}}),
        await desk.patch(f"/groups/{group}", {"hold_until": moment}),
    ):
        assert answer.status_code == 422 or "9999" in answer.json()["refused"], answer.text


async def test_lists_that_no_store_can_look_for_are_refused(desk: Desk) -> None:
    Filter(repo=["a"] * 10_000)
    with pytest.raises(ValidationError, match="10000 items"):
        Filter(repo=["a"] * 10_001)
    asked = {"verb": "archive", "filter": {"metadata": ["a=1"] * 101}}
    assert (await desk.post("/runs/preview", asked)).status_code == 422


async def test_what_can_be_claimed_can_be_settled_however_long_its_name(desk: Desk) -> None:
    name = "t" * 3000
    await desk.dlq.enqueue(name, {}, [], "connection reset")
    await desk.dlq.letters.redrive(name)
    (claim,) = (await desk.post("/claims", {"worker": "w"})).json()
    assert (await desk.post("/claims/renew", {"task_id": name, "token": claim["token"]})).status_code == 200
    settled = await desk.post("/claims/settle", {"task_id": name, "token": claim["token"], "outcome": "succeeded"})
    assert (settled.status_code, settled.json()["status"]) == (200, "completed")
    assert len((await desk.get("/dlq", params={"task_id": name})).json()) == 1


async def test_an_edit_of_a_task_as_deep_as_can_be_is_done_and_said_to_be_done(desk: Desk) -> None:
    for depth in (100, 199, 200):
        deep: Any = 1
        for _ in range(depth):
            deep = [deep]
        await desk.post("/dlq", {**NEW, "task_id": f"deep{depth}", "task": deep})
        edited = await desk.patch(f"/dlq/deep{depth}", {"task": {"flat": 1}})
        assert (edited.status_code, edited.json()["task"]) == (200, {"flat": 1})
        (entry,) = (await desk.dlq.audit.list(subject=f"letter:deep{depth}")).items
        assert (entry.outcome, entry.changes.value["task"]["after"]) == ("done", {"flat": 1})


async def test_a_repetition_of_what_may_have_been_done_is_not_done_again(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    letters = type(desk.dlq.context.letters)
    real, lost = letters.write, [True, False]

    async def write(self: Any, records: Any) -> Any:
        if records[0].key != "wf":
            return await real(self, records)
        if lost[0]:
            await real(self, records)
        raise StoreUnavailable("the answer was lost", maybe_written=lost[0])

    monkeypatch.setattr(letters, "write", write)
    assert (await desk.post("/dlq", NEW, headers=KEY)).status_code == 503
    lost.pop(0)
    assert (await desk.post("/dlq", NEW, headers={"Idempotency-Key": "sure"})).status_code == 503
    monkeypatch.setattr(letters, "write", real)
    again = await desk.post("/dlq", NEW, headers=KEY)
    assert (again.status_code, again.json()["type"].rpartition(":")[2]) == (409, "idempotency-unfinished")
    letter = await desk.dlq.get_task("wf")
    assert letter is not None and letter.occurrences == 1
    assert (await desk.post("/dlq", NEW, headers={"Idempotency-Key": "sure"})).status_code == 201  # nothing was done


async def test_a_header_is_one_line_whatever_the_store_says(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    async def find(*_: object) -> Page[Any]:
        return Page((), degraded="away:\r\nX-Evil: 1 \x00 µ")

    monkeypatch.setattr(type(desk.dlq.context.letters), "find", find)
    answer = await desk.get("/dlq")
    assert (answer.headers["x-degraded"], "x-evil" in answer.headers) == ("away:  X-Evil: 1   ?", False)


@pytest.mark.parametrize(("path", "kind"), [("/runs", RUNS), ("/audit", AUDIT)])
async def test_a_list_that_may_not_be_whole_says_so(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, path: str, kind: Any
) -> None:
    async def find(*_: object) -> Page[Any]:
        return Page((), degraded="the primary store is away")

    monkeypatch.setattr(type(desk.dlq.store.collection(kind)), "find", find)
    assert (await desk.get(path)).headers["x-degraded"] == "the primary store is away"


async def test_where_the_store_is_is_told_to_those_who_may_look(guarded: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    async def health() -> Health:
        return Health("down", "no route to 10.1.2.3:9200")

    monkeypatch.setattr(guarded.dlq.store, "health", health)
    for path in ("/healthz", "/readyz"):
        stranger, viewer = await guarded.client.get(path), await guarded.client.get(path, headers=bearer("viewer"))
        assert (stranger.json()["status"], "10.1.2.3" in stranger.text) == ("down", False)
        assert "10.1.2.3" in viewer.json()["detail"]


async def test_a_letter_that_the_store_does_not_take_does_not_keep_others_from_being_imported(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [json.loads(exported(make_letter(task_id=name, entry_id=name))) for name in ("good", "bad", "fine")]
    letters = type(desk.dlq.context.letters)
    real = letters.write

    async def write(self: Any, records: Any) -> Any:
        if records[0].key == "bad":
            return [ItemFailed("bad", "mapper [x] of 10.1.2.3 cannot")]
        return await real(self, records)

    monkeypatch.setattr(letters, "write", write)
    told = (await desk.post("/dlq/import", lines)).json()
    assert (told["taken"], list(told["refused"])) == ({"good": "new", "fine": "new"}, ["bad"])
    assert "10.1.2.3" not in str(told)


async def test_a_category_that_is_half_a_character_leaves_the_metrics_readable(desk: Desk) -> None:
    line = json.loads(exported(make_letter(task_id="odd")))
    text = json.dumps([{**line, "error_category": "x\ud800"}])
    taken = await desk.client.post("/api/v1/dlq/import", content=text, headers={"Content-Type": "application/json"})
    assert taken.json()["refused"] == {}
    answer = await desk.client.get("/metrics")
    assert (answer.status_code, 'category="x?"' in answer.text) == (200, True)


@pytest.mark.parametrize("name", ["stats", "statistics", "export", "clear", "import", "letter"])
async def test_a_task_that_is_called_like_a_route_can_be_read_and_worked_on(desk: Desk, name: str) -> None:
    await desk.keep(name)
    read = await desk.get(f"/dlq/{name}/letter")
    assert (read.json()["task_id"], bool(read.headers["etag"])) == (name, True)
    edited = await desk.patch(f"/dlq/{name}", {"priority": 3}, headers={"If-Match": read.headers["etag"]})
    assert (edited.status_code, edited.json()["priority"]) == (200, 3)
    again = await desk.get(f"/dlq/{name}/letter", headers={"If-None-Match": edited.headers["etag"]})
    assert again.status_code == 304
    assert (await desk.post(f"/dlq/{name}/resolve")).json()["task_id"] == name


async def test_a_weak_mark_is_enough_to_know_a_letter_and_not_to_change_it(desk: Desk) -> None:
    await desk.keep("wf")
    mark = (await desk.get("/dlq/wf")).headers["etag"]
    for known in (mark, f"W/{mark}", f'"else", W/{mark}', "*"):
        assert (await desk.get("/dlq/wf", headers={"If-None-Match": known})).status_code == 304, known
    for other in ('"else"', 'W/"else"', f"w/{mark}", mark.strip('"')):
        assert (await desk.get("/dlq/wf", headers={"If-None-Match": other})).status_code == 200, other
    group = (await desk.post("/dlq", {"task_id": "x", "error": "connection reset"})).json()["fingerprint"]
    said = await desk.patch(f"/groups/{group}", {"note": "seen"})
    for path, change, current in (
        ("/dlq/wf", {"priority": 1}, mark),
        (f"/groups/{group}", {"note": "again"}, said.headers["etag"]),
    ):
        weak = await desk.patch(path, change, headers={"If-Match": f'"else", W/{current}'})
        assert (weak.status_code, weak.json()["type"].rpartition(":")[2]) == (412, "changed-meanwhile")
        assert "weak" in weak.json()["detail"]
        late = await desk.patch(path, change, headers={"If-Match": '"else"'})
        assert (late.status_code, "has changed since" in late.json()["detail"]) == (412, True)
        assert (await desk.patch(path, change, headers={"If-Match": f'"else", {current}'})).status_code == 200


async def test_an_instant_without_a_zone_is_utc_wherever_it_is_sent(desk: Desk) -> None:
    group = (await desk.post("/dlq", NEW)).json()["fingerprint"]
    now = desk.clock.now()
    early, late = (str((now + delta).replace(tzinfo=None)) for delta in (-timedelta(hours=1), timedelta(hours=1)))
    for bounds, count in (((early, late), 1), ((late, None), 0)):
        between = {name: at for name, at in zip(("created_from", "created_before"), bounds, strict=True) if at}
        assert len((await desk.get("/dlq", params=between)).json()) == count
        told = await desk.post("/runs/preview", {"verb": "archive", "filter": between})
        assert told.json()["matched"] == count
    assert len((await desk.get("/audit", params={"since": early, "until": late})).json()) == 0
    for change in ({"next_retry_at": late}, {"hold_until": late}):
        path = "/dlq/wf" if "next_retry_at" in change else f"/groups/{group}"
        answer = await desk.patch(path, change)
        assert answer.status_code == 200, answer.text
        assert answer.json()[next(iter(change))] == instant_text(now + timedelta(hours=1))
    assert len((await desk.get("/audit", params={"since": early, "until": late})).json()) == 2


@pytest.mark.parametrize("moment", ["20261332", "1798761600", 1798761600, 1.5, "yesterday", ""])
async def test_a_number_is_no_instant_and_no_letter_is_meant_by_it(desk: Desk, moment: Any) -> None:
    await desk.keep("wf")
    for answer in (
        await desk.get("/dlq", params={"created_from": moment}),
        await desk.post("/runs", {"verb": "archive", "filter": {"created_from": moment}}),
        await desk.patch("/dlq/wf", {"next_retry_at": moment}),
    ):
        assert answer.status_code == 422
        assert "write an instant as 2026-01-31T12:00:00Z" in answer.json()["detail"]
    assert not (await desk.dlq.runs.list()).items


async def test_a_day_is_its_first_moment_however_iso_8601_writes_it(desk: Desk) -> None:
    await desk.keep("wf")  # on the first of January
    for day in ("20260102", "2026-01-02", "2026-01-02T00:00Z", "2026-01-02t00:00:00z"):
        told = await desk.post("/runs/preview", {"verb": "archive", "filter": {"created_from": day}})
        assert told.json()["matched"] == 0
        assert len((await desk.get("/dlq", params={"created_before": day})).json()) == 1


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b'{"task_id": "\xff"}', "not UTF-8"),
        (b'{"task": ' + b"[" * 9_000 + b"]" * 9_000 + b"}", "nested too deeply"),
        (b'{"task": ' + b"9" * 5_000 + b"}", "digits"),
    ],
    ids=["encoding", "depth", "number"],
)
async def test_a_body_that_cannot_be_read_is_refused_with_the_reason(desk: Desk, body: bytes, why: str) -> None:
    answer = await desk.client.post("/api/v1/dlq", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["type"].rpartition(":")[2]) == (400, "bad-request")
    assert why in answer.json()["detail"]


async def test_what_can_be_asked_of_a_path_is_said_where_something_else_was(desk: Desk) -> None:
    for method, path, allowed in (
        ("DELETE", "/dlq/wf", "GET, PATCH"),
        ("PUT", "/dlq", "GET, POST"),
        ("GET", "/claims", "POST"),
        ("HEAD", "/events", "GET"),
    ):
        answer = await desk.client.request(method, f"/api/v1{path}")
        assert (answer.status_code, answer.headers["allow"]) == (405, allowed)
        assert method == "HEAD" or answer.json()["detail"] == f"this path knows {allowed}, and not {method}"


async def test_who_watches_a_server_may_ask_for_the_head_alone(desk: Desk, guarded: Desk) -> None:
    await desk.keep("wf")
    for path in ("/healthz", "/readyz", "/metrics", "/api/v1/dlq", "/api/v1/dlq/wf", "/api/v1/openapi.json"):
        whole, head = [await desk.client.request(method, path) for method in ("GET", "HEAD")]
        assert (head.status_code, head.content) == (200, b"")
        assert {*head.headers.items()} - {*whole.headers.items()} == set()
        assert head.headers["content-length"] == str(len(whole.content))
    assert (await guarded.client.head("/healthz")).status_code == 200
    assert (await guarded.client.head("/api/v1/dlq")).status_code == 401
