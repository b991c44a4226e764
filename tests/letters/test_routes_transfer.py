"""Export and import over HTTP."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from dataclasses import replace
from typing import Any

import pytest
from starlette.responses import StreamingResponse

from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.core.processes import open_listener, run_server
from mahavishnu.letters.transfer import Transfer, letter_as_line
from mahavishnu.model.errors import ItemFailed, StoreUnavailable
from mahavishnu.stores.base import Cursor, Page
from mahavishnu.testing.letters import make_letter
from tests.support.api import ApiHarness, bearer

PAGES = 400  # of 500 letters: much more than what fits between two sockets


async def _first_bytes(address: Any) -> None:
    """Ask for an export, read a little of it, and go away without a word."""
    loop = asyncio.get_running_loop()
    with socket.create_connection(address[:2]) as wire:
        wire.setblocking(False)
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await loop.sock_sendall(wire, b"GET /api/v1/dlq/export HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await loop.sock_recv(wire, 1000)).startswith(b"HTTP/1.1 200 OK")


async def test_an_export_whose_client_is_gone_stops_reading_the_store(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    dlq, read, over = DeadLetterQueue(), 0, asyncio.Event()
    letters = tuple(replace(make_letter(task_id=f"wf_{number}"), version=(1,)) for number in range(500))

    async def find(*_: Any) -> Page[Any]:
        nonlocal read
        read += 1
        return Page(letters, next=Cursor((read,)) if read < PAGES else None)

    class Answer(StreamingResponse):
        async def __call__(self, *request: Any) -> None:
            try:
                await super().__call__(*request)
            finally:
                over.set()

    monkeypatch.setattr(type(dlq.context.letters), "find", find)
    monkeypatch.setattr("starlette.responses.StreamingResponse", Answer)
    settings = MahavishnuSettings()
    with open_listener(settings, "127.0.0.1", 0) as listening:
        async with dlq, run_server(dlq, listening, settings):
            await _first_bytes(listening.getsockname())
            await asyncio.wait_for(over.wait(), 60)
    assert 0 < read < PAGES / 2
    assert [each.getMessage() for each in caplog.records if each.name == "asyncio"] == []


async def test_a_letter_that_the_store_refuses_does_not_stop_an_import(
    api: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [json.loads(letter_as_line(make_letter(task_id=name, entry_id=name))) for name in ("good", "bad", "fine")]
    letters = type(api.dlq.context.letters.records)
    real = letters.write

    async def write(self: Any, records: Any) -> Any:
        others = iter(await real(self, [each for each in records if each.key != "bad"]))
        refusal = ItemFailed("bad", "mapper [x] of 10.1.2.3 cannot")
        return [refusal if each.key == "bad" else next(others) for each in records]

    monkeypatch.setattr(letters, "write", write)
    told = (await api.post("/dlq/import", lines)).json()
    assert (told["taken"], list(told["refused"])) == ({"good": "new", "fine": "new"}, ["bad"])
    assert "10.1.2.3" not in str(told)


async def test_impossible_dates_and_numbers_are_refused_and_names_are_marked(guarded_api: ApiHarness) -> None:
    line = json.loads(letter_as_line(make_letter(status="completed")))
    lines: dict[str, dict[str, Any]] = {
        "late": {"updated_at": "9999-12-31T23:59:59.999Z"},
        "resolved": {"resolution_timestamp": "2027-01-01T00:00:00Z"},
        "edited": {"revision": 2**31 - 1},
        "forged": {"resolved_by": "ada"},
    }
    sent = [{**line, "task_id": name, "entry_id": name, **values} for name, values in lines.items()]
    told = (await guarded_api.post("/dlq/import", sent, headers=bearer("operator"))).json()
    assert (told["taken"], list(told["refused"])) == ({"forged": "new"}, ["late", "resolved", "edited"])
    assert "updated_at of letter 'late' is 9999-12-31T23:59:59.999Z, which has not come yet" in told["refused"]["late"]
    seen = (await guarded_api.get("/dlq/forged", headers=bearer("viewer"))).json()
    assert seen["resolved_by"] == "ada (imported by olga)"


JSON_BODY = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("body", "said"), [(b"{", "is not JSON"), (b"{}", "an array of letters"), (b"", "is not JSON")]
)
async def test_a_body_that_is_no_array_is_refused(api: ApiHarness, body: bytes, said: str) -> None:
    told = await api.client.post("/api/v1/dlq/import", content=body, headers=JSON_BODY)
    assert told.status_code == 422 and said in told.json()["detail"]


async def test_items_that_are_no_letters_do_not_stop_an_import(api: ApiHarness) -> None:
    line = json.loads(letter_as_line(make_letter(task_id="wf", entry_id="wf")))
    for odd in ([5, "text", None, []], ["\ud800", 5]):  # of the latter the whole body needs another parser
        body = json.dumps([*odd, line])
        told = (await api.client.post("/api/v1/dlq/import", content=body, headers=JSON_BODY)).json()
        assert list(told["taken"]) == ["wf"] and list(told["refused"]) == [str(place) for place in range(len(odd))]


async def test_what_was_deleted_is_imported_only_if_that_is_meant(api: ApiHarness) -> None:
    line = json.loads(letter_as_line(make_letter(task_id="wf", entry_id="wf")))
    assert (await api.post("/dlq/import", [line])).json()["taken"] == {"wf": "new"}
    assert await api.dlq.clear_all(by="ann") == 1
    told = (await api.post("/dlq/import", [line])).json()
    assert told["taken"] == {} and "by ann" in told["refused"]["wf"]
    assert (await api.post("/dlq/import?even_deleted=true", [line])).json()["taken"] == {"wf": "new"}


async def test_an_import_that_stops_says_how_much_is_in(api: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [json.loads(letter_as_line(make_letter(task_id=name, entry_id=name))) for name in ("one", "two")]

    async def fail(self: Any, *_: Any, **__: Any) -> Any:
        raise StoreUnavailable("10.1.2.3 is gone", maybe_written=True)

    monkeypatch.setattr(Transfer, "_create_new", fail)
    answer = await api.post("/dlq/import", lines)
    told = answer.json()
    assert (answer.status_code, told["type"]) == (503, "urn:mahavishnu:problem:import-stopped")
    assert (told["taken"], told["letters"]) == ({}, 2)
    assert answer.headers["Retry-After"] and "10.1.2.3" not in answer.text
    assert "0 of 2 letters are in for certain, perhaps more. Import the same again" in told["detail"]
