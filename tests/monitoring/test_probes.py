"""The small HTTP server of workers: what it answers, whom it refuses, and that nothing stops it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from mahavishnu.model.errors import InvalidInput
from mahavishnu.monitoring.probes import Answer, ProbeServer
from tests.support.server import environment_for


async def answer_ok() -> Answer:
    return Answer.of({"status": "ok"})


async def stumble() -> Answer:
    raise RuntimeError("no numbers")


async def test_what_it_answers(caplog: pytest.LogCaptureFixture) -> None:
    async with ProbeServer({"/healthz": answer_ok, "/metrics": stumble}) as server, httpx.AsyncClient() as client:
        ok, head = await client.get(f"{server.url}/healthz?x=1"), await client.head(f"{server.url}/healthz")
        assert (ok.status_code, ok.json(), head.status_code, head.text) == (200, {"status": "ok"}, 200, "")
        assert (await client.get(f"{server.url}/metrics")).status_code == 500
        assert (await client.get(f"{server.url}/")).status_code == 404
        assert (await client.post(f"{server.url}/healthz")).status_code == 405
        assert (await client.get(f"{server.url}/healthz", headers={"Host": "evil.example"})).status_code == 403
        assert (await client.get(f"{server.url}/healthz")).status_code == 200
        with pytest.raises(InvalidInput, match=r"cannot listen on 127\.0\.0\.1"):
            await ProbeServer({}, port=server.port).start()
    assert "/metrics could not be answered" in caplog.text


@pytest.mark.parametrize("sent", [b"", b"GET", b"\x00" * 20_000, b"GET /healthz HTTP/1.1\r\n" + b"A: b\r\n" * 5000])
async def test_what_is_no_request_harms_nobody(sent: bytes) -> None:
    async with ProbeServer({"/healthz": answer_ok}) as server, httpx.AsyncClient() as client:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(sent)
        if len(sent) < 10:
            writer.write_eof()
        with contextlib.suppress(ConnectionError):  # closed with what it did not read
            assert await reader.read() == b""
        writer.close()
        assert (await client.get(f"{server.url}/healthz")).status_code == 200


APP = """
from mahavishnu.core.app import MahavishnuApp

app = MahavishnuApp()
app.register_adapter("orders", lambda task, repos: "done")
"""


def test_a_worker_tells_its_numbers_and_how_it_is(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(APP)
    environment = environment_for(f"sqlite:///{tmp_path}/letters.db", tmp_path)
    command = [sys.executable, "-m", "mahavishnu", "worker", "--app", "shop:app", "--metrics-port", "0"]
    process = subprocess.Popen(
        [*command, "--log-format", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**environment, "PYTHONPATH": os.pathsep.join([str(tmp_path), environment["PYTHONPATH"]])},
        cwd=tmp_path,
    )
    try:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(2)]
        assert "metrics and probes are at http://127.0.0.1:" in lines[1], lines
        url = lines[1].split()[-1]
        ready, text = httpx.get(f"{url}/readyz"), httpx.get(f"{url}/metrics").text
        assert (ready.status_code, ready.json()["takes_letters"]) == (200, True)
        assert httpx.get(f"{url}/healthz").json()["status"] == "ok"
        assert "mahavishnu_lease_losses_total 0.0" in text
        assert 'mahavishnu_dlq_store_state{state="ok"} 1.0' in text
        assert "mahavishnu_dlq_size" not in text
    finally:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
