"""Types that plugins bring: their values come back, also after an edit; what cannot be a kind is left out."""

from __future__ import annotations

from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest

from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.model.errors import InvalidInput
from mahavishnu.testing import ManualClock
from tests.support.queues import NETWORK, queue_of

PLUGIN = """
from ipaddress import IPv4Address
from mahavishnu import ValueKind, hookimpl

@hookimpl
def value_kinds():
    address = ValueKind(IPv4Address, to_plain=str, from_plain=IPv4Address, what="an IPv4 address")
    return {"ipv4": address, "decimal": address, "broken": 7}
"""


@pytest.fixture
def app(tmp_path: Path) -> MahavishnuApp:
    (tmp_path / "addresses.py").write_text(PLUGIN)
    settings = MahavishnuSettings(dlq_store_url="memory:", plugin_directory=tmp_path, dlq_strategy="automatic")
    return MahavishnuApp(settings, clock=ManualClock())


async def test_values_of_a_kind_of_a_plugin_come_back(app: MahavishnuApp, caplog: pytest.LogCaptureFixture) -> None:
    calls: list[Any] = []

    @app.workflow("ping")
    async def ping(address: Any, others: Any = ()) -> None:
        calls.append((address, others))
        raise NETWORK

    def sweep(task: Any, repos: list[str]) -> None:
        calls.append(task)
        raise NETWORK

    app.register_adapter("sweep", sweep)
    address, second = IPv4Address("10.0.0.1"), IPv4Address("10.0.0.2")
    async with app:
        queue = queue_of(app)
        with pytest.raises(ConnectionError):
            await ping(address, {"a": [address]})
        await app.execute_workflow({"address": address}, "sweep", task_id="wf_2")
        await queue.enqueue("wf_3", {"address": address}, [], "boom", adapter="sweep")
        letters = await queue.list_tasks()
        assert len(letters) == 3
        app.reload()
        for letter in letters:
            assert "ipv4" in letter.payload_types.value.values()
            with pytest.raises(InvalidInput, match="`address` is an IPv4 address: 'home' is not one"):
                await queue.letters.edit(letter.task_id, patch={"address": "home"})
            await queue.letters.edit(letter.task_id, patch={"address": "10.0.0.2"})
            await queue.retry_task(letter.task_id)
    assert sorted(map(str, calls[2:])) == sorted(map(str, [{"address": second}] * 2 + [(second, {"a": [address]})]))
    said = " ".join(record.getMessage() for record in caplog.get_records("setup"))
    assert "offers as 'decimal' cannot be used: the kind 'decimal' of IPv4Address is built in" in said
    assert "offers as 'broken' cannot be used: a kind of values is a ValueKind, not 7" in said


async def test_a_kind_that_is_missing_is_named(app: MahavishnuApp) -> None:
    queue = queue_of(app)
    app.register_adapter("sweep", lambda task, repos: None)
    async with app:
        await queue.enqueue("wf_1", {"address": IPv4Address("10.0.0.1")}, [], "boom", adapter="sweep")
        app.adapters.kinds = ()
        answer = await queue.retry_task("wf_1")
    assert "address is of the kind 'ipv4', which nothing here can read: is a plugin missing?" in answer["error"]
