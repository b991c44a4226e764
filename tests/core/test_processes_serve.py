"""`mahavishnu serve` as a shell starts it, and the API of the demo."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, Request, build_opener

import httpx
import pytest

from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.core.processes import open_listener
from tests.core.test_processes_worker import ENQUEUE, MAHAVISHNU, lines_until, shop, started

pytestmark = pytest.mark.usefixtures("home")
__all__ = ["shop"]  # a fixture
DIRECT = build_opener(ProxyHandler({}))  # whatever proxy this machine has


def get(url: str, token: str | None = None) -> tuple[int, bytes]:
    """The status and the answer."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        with DIRECT.open(Request(url, headers=headers), timeout=30) as answer:
            return answer.status, answer.read()
    except HTTPError as refused:
        return refused.code, refused.read()


def address(process: subprocess.Popen[str]) -> str:
    """Where it says that it can be reached."""
    line = lines_until(process, " at http")[-1]
    return line.rpartition(" at ")[2].strip()


def failed(*arguments: str) -> tuple[int, str]:
    """How a server that cannot start ends."""
    done = subprocess.run([*MAHAVISHNU, *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == ""
    return done.returncode, done.stderr


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody else listens on."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_it_serves_until_it_is_told_to_stop(shop: Path, number: signal.Signals) -> None:
    subprocess.run([sys.executable, "-c", ENQUEUE], check=True)
    with started("serve", "--port", "0") as server:
        api = address(server)
        status, letters = get(f"{api}/dlq")
        assert (status, [letter["task_id"] for letter in json.loads(letters)]) == (200, ["wf_1"])
        assert get(f"{api.removesuffix('/api/v1')}/readyz")[0] == 200
        assert get(f"{api}/openapi.json")[0] == 200
        server.send_signal(number)
        rest = lines_until(server, "stopped")
        assert server.wait(30) == 0
    assert rest == ["stopped\n"]


def test_who_listens_to_events_does_not_keep_it_from_stopping(shop: Path) -> None:
    with started("serve", "--port", "0") as server:
        api = address(server)
        with DIRECT.open(f"{api}/events", timeout=60) as stream:
            assert stream.readline() == b": open\n"
            subprocess.run([sys.executable, "-c", ENQUEUE], check=True)  # another process
            while not (line := stream.readline()).startswith(b"data:"):
                assert line, "the stream has ended"
            assert json.loads(line.partition(b":")[2])["task_id"] == "wf_1"
            server.terminate()
            assert stream.read() is not None  # to its end
        lines_until(server, "stopped")
        assert server.wait(30) == 0


def test_a_port_that_somebody_has_is_said_in_one_line(shop: Path, taken: int) -> None:
    code, said = failed("serve", "--port", str(taken))
    assert code == 2
    assert said.count("\n") == 1
    assert said.startswith(f"mahavishnu: cannot listen on 127.0.0.1:{taken}: ")
    assert "choose another --port" in said


def test_other_machines_are_let_in_with_a_token_only(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, said = failed("serve", "--port", "0", "--host", "0.0.0.0")
    assert (code, said.count("\n")) == (2, 1)
    assert "listens on loopback only" in said and "server.viewers" in said
    monkeypatch.setenv("MAHAVISHNU_SERVER__VIEWERS", '{"vic": "look-1"}')
    monkeypatch.setenv("MAHAVISHNU_SERVER__HOST", "0.0.0.0")
    monkeypatch.setenv("MAHAVISHNU_SERVER__PORT", "0")
    with started("serve") as server:
        api = address(server).replace("0.0.0.0", "127.0.0.1")
        assert get(f"{api}/dlq")[0] == 401
        assert get(f"{api}/dlq", "look-1")[0] == 200
        server.terminate()
        assert server.wait(30) == 0


def test_tokens_that_are_two_peoples_are_refused(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAHAVISHNU_SERVER__VIEWERS", '{"vic": "same"}')
    monkeypatch.setenv("MAHAVISHNU_SERVER__ADMINS", '{"ada": "same"}')
    code, said = failed("serve", "--port", "0")
    assert (code, said.count("\n")) == (2, 1)
    assert "ada" in said and "same" not in said


def test_with_an_app_it_retries_its_workflows(shop: Path) -> None:
    subprocess.run([sys.executable, "-c", ENQUEUE], check=True)
    with started("serve", "--app", "shop:app", "--port", "0") as server:
        api = address(server)
        with DIRECT.open(f"{api}/events", timeout=60) as stream:  # told when it happens
            while json.loads(get(f"{api}/dlq/wf_1")[1])["status"] != "completed":
                assert stream.readline()
        server.terminate()
        assert server.wait(30) == 0
    assert (shop / "swept").read_text() == "night\n"


def test_settings_that_cannot_be_are_said_by_its_health_until_they_are_mended(shop: Path) -> None:
    (shop / "settings").mkdir()
    file = shop / "settings" / "mahavishnu.yaml"
    with started("serve", "--app", "shop:app", "--port", "0") as server:
        health = address(server).removesuffix("/api/v1") + "/healthz"
        file.write_text("dlq_retry_interval_seconds: 3\n")
        server.send_signal(signal.SIGHUP)
        lines_until(server, "the settings stay as they were")
        found = json.loads(get(health)[1])
        assert (found["status"], "dlq_retry_interval_seconds" in found["config_error"]) == ("ok", True)
        file.write_text("dlq_retry_interval_seconds: 30\n")
        server.send_signal(signal.SIGHUP)
        lines_until(server, "settings read again: dlq_retry_interval_seconds")
        assert json.loads(get(health)[1])["config_error"] is None
        server.terminate()
        assert server.wait(30) == 0


@pytest.mark.parametrize(
    ("start", "more"),
    [(b"GET /", b"a" * 1000), (b"GET / HTTP/1.1\r\nHost: localhost\r\nX-A: ", b"a" * 1000),
     (b"GET / HTTP/1.1\r\nHost: localhost\r\n", b"X-A: b\r\n" * 100)],
    ids=["line", "header", "headers"],
)  # fmt: skip
def test_a_request_whose_head_does_not_end_is_refused(shop: Path, start: bytes, more: bytes) -> None:
    with started("serve", "--port", "0") as server:
        parts = urlsplit(address(server))
        with socket.create_connection((parts.hostname, parts.port), timeout=30) as line:
            line.sendall(start)
            with suppress(OSError):  # it has hung up
                for _ in range(20_000):
                    line.sendall(more)
                pytest.fail("20 MB of a head were taken in")
            assert line.recv(100).startswith(b"HTTP/1.1 400 ")
        server.terminate()
        assert server.wait(30) == 0


async def test_small_answers_do_not_wait_for_the_next_packet_of_the_client() -> None:
    options: asyncio.Queue[int] = asyncio.Queue()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted = writer.get_extra_info("socket")
        await options.put(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    with open_listener(MahavishnuSettings(), None, 0) as listening:
        server = await asyncio.start_server(connected, sock=listening)
        async with asyncio.timeout(10), server:
            _, writer = await asyncio.open_connection(*listening.getsockname())
            assert await options.get()
            writer.close()
            await writer.wait_closed()


def test_an_app_without_a_queue_has_nothing_to_serve(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAHAVISHNU_DLQ_ENABLED", "false")
    code, said = failed("serve", "--app", "shop:app", "--port", "0")
    assert (code, said) == (2, "mahavishnu: there is nothing to serve: dlq_enabled is false\n")


def test_the_demo_serves_its_letters_also_if_the_port_is_taken(
    home: Path, taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(home))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    with started("demo", "--speed", "60", "--port", str(taken)) as demo:
        (line,) = lines_until(demo, "the API listens at ")[-1:]
        api = line.partition("listens at ")[2].partition(";")[0]
        assert f":{taken}/" not in api
        lines_until(demo, "curl ")
        names = {letter["task_id"] for letter in json.loads(get(f"{api}/dlq")[1])}
        assert {"order-1", "one-bad-repo", "always-down"} <= names
        assert get(f"{api}/groups")[0] == 200
        page = httpx.get(api.removesuffix("api/v1"), headers={"Accept": "text/html"}).text
        assert "Your first fix" in page and ">demo</a>" in page
        demo.send_signal(signal.SIGINT)
        lines_until(demo, "docs/quickstart.md")
        assert demo.wait(30) == 0
    assert list(home.iterdir()) == []
