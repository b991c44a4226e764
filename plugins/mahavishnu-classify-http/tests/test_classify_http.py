"""The plugin against errors that httpx, requests and aiohttp really raise, made by a server on loopback."""

from __future__ import annotations

import asyncio
import socket
import tomllib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import aiohttp
import httpx
import mahavishnu_classify_http as plugin
import pytest
import requests

from mahavishnu.classify.chain import Chain
from mahavishnu.classify.plugins import Plugins
from mahavishnu.classify.verdict import Context, Verdict

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
Get = Callable[[str], BaseException]


class Handler(BaseHTTPRequestHandler):
    """Answers /status/<status>?<header>=<value>, and misbehaves otherwise."""

    released = Event()

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        _, what, *rest = parts.path.split("/")
        if what == "status":
            self.send_response_only(int(rest[0]))
            for name, value in [*parse_qsl(parts.query), ("Content-Length", "0")]:
                self.send_header(name, value)
            self.end_headers()
        elif what == "short":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"not that much")
            self.close_connection = True
        elif what == "hang":
            self.released.wait(10)
        elif what == "hangup":
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads it."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{httpd.server_port}"
    Handler.released.set()
    httpd.shutdown()
    httpd.server_close()
    thread.join()


@pytest.fixture
def nowhere() -> Iterator[str]:
    """An address at which nobody listens: taken, so that nobody else can listen there either."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


def with_httpx(url: str) -> BaseException:
    try:
        httpx.get(url, timeout=0.2, trust_env=False).raise_for_status()
    except httpx.HTTPError as error:
        return error
    raise AssertionError("no error")


def with_requests(url: str) -> BaseException:
    try:
        with requests.Session() as session:
            session.trust_env = False
            session.get(url, timeout=0.2).raise_for_status()
    except requests.RequestException as error:
        return error
    raise AssertionError("no error")


def with_aiohttp(url: str) -> BaseException:
    async def get() -> BaseException:
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None, sock_read=0.2)) as session,
                session.get(url, raise_for_status=True) as response,
            ):
                await response.read()
        except aiohttp.ClientError as error:
            return error
        raise AssertionError("no error")

    return asyncio.run(get())


@pytest.fixture(params=[with_httpx, with_requests, with_aiohttp], ids=["httpx", "requests", "aiohttp"])
def get(request: pytest.FixtureRequest) -> Get:
    chosen: Get = request.param
    return chosen


@pytest.fixture
def chain() -> Chain:
    plugins = Plugins()
    plugins.register(plugin, "http")
    return Chain(plugins, timeout=timedelta(seconds=10))


def verdict(chain: Chain, error: BaseException, now: datetime | None = NOW) -> Verdict:
    return chain.classify(error, Context(now=now))


def test_a_connection_that_does_not_come_about(get: Get, chain: Chain, nowhere: str) -> None:
    found = verdict(chain, get(nowhere))
    assert (found.category, found.author, found.tags) == ("network", "http", (plugin.NOT_SENT,))


@pytest.mark.parametrize("path", ["hang", "hangup", "short"])
def test_an_answer_that_is_lost(get: Get, chain: Chain, server: str, path: str) -> None:
    found = verdict(chain, get(f"{server}/{path}"))
    assert (found.category, found.author, found.tags) == ("network", "http", (plugin.MAYBE_CARRIED_OUT,))


RESET = int((NOW + timedelta(minutes=5)).timestamp())


@pytest.mark.parametrize(
    ("status", "headers", "minutes"),
    [
        (429, "", None),
        (429, "Retry-After=60", 1),
        (429, f"Retry-After={format_datetime(NOW + timedelta(minutes=2), usegmt=True).replace(' ', '+')}", 2),
        (429, "RateLimit-Remaining=0&RateLimit-Reset=180", 3),
        (429, f"X-RateLimit-Remaining=0&X-RateLimit-Reset={RESET}", 5),
        (403, f"X-RateLimit-Remaining=0&X-RateLimit-Reset={RESET}", 5),
        (403, f"X-RateLimit-Remaining=0&X-RateLimit-Reset={RESET - 3600}", 0),
        (503, "X-RateLimit-Remaining=0&X-RateLimit-Reset=soon", None),
    ],
)
def test_a_rate_limit_that_is_used_up(
    get: Get, chain: Chain, server: str, status: int, headers: str, minutes: int | None
) -> None:
    found = verdict(chain, get(f"{server}/status/{status}?{headers}"))
    assert (found.category, found.author, found.tags) == ("transient", "http", (plugin.RATE_LIMITED,))
    assert found.retry_in == (None if minutes is None else timedelta(minutes=minutes))


def test_the_servers_clock_counts_more_than_ours(get: Get, chain: Chain, server: str) -> None:
    date = format_datetime(NOW + timedelta(minutes=4), usegmt=True).replace(" ", "+")
    error = get(f"{server}/status/429?X-RateLimit-Reset={RESET}&Date={date}")
    assert verdict(chain, error).retry_in == verdict(chain, error, now=None).retry_in == timedelta(minutes=1)


@pytest.mark.parametrize(
    ("status", "headers", "category"),
    [
        (403, "", "permission"),
        (403, "X-RateLimit-Remaining=12", "permission"),
        (503, "", "transient"),
        (504, "", "network"),
        (422, "", "validation"),
        (507, "", "resource"),
        (404, "", "permanent"),
    ],
)
def test_everything_else_is_left_to_the_built_in_rules(
    get: Get, chain: Chain, server: str, status: int, headers: str, category: str
) -> None:
    found = verdict(chain, get(f"{server}/status/{status}?{headers}"))
    assert (found.category, found.author) == (category, "built-in")


@pytest.mark.parametrize("error", ["HTTP 429", ValueError("x"), TimeoutError(), httpx.InvalidURL("x")])
def test_it_has_no_opinion_on_what_it_does_not_know(error: Any) -> None:
    assert plugin.classify_error(error, Context()) is None


def test_it_is_found_by_its_entry_point() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["mahavishnu"] == {"http": plugin.__name__}
    assert project["version"] == plugin.__version__
