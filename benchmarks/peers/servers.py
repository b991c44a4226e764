"""Servers of the peers: of this machine or of Debian's packages, on loopback and a free port."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

BUILD = Path(__file__).parent.parent.parent / "build" / "peers"
_DEBIAN = ("redis-server", "redis-tools", "liblzf1", "libjemalloc2", "liblua5.1-0", "libhiredis0.14", "lua-cjson")
_SECONDS = 30.0


class Missing(Exception):
    """A server that is not on this machine."""


@dataclass(frozen=True)
class Running:
    """A server: the URL of it as it is in a new round, which `fresh` empties."""

    fresh: Callable[[int], str]
    about: str


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def folder() -> Iterator[Running]:
    """Return a new folder for the file of each round."""
    with tempfile.TemporaryDirectory() as path:
        yield Running(lambda number: f"sqlite:///{path}/{number}.db", "SQLite, a file")


@contextmanager
def redis() -> Iterator[Running]:
    """Start Redis, which writes each second to the disk what has changed."""
    program, libraries = _find_redis()
    port = free_port()
    with tempfile.TemporaryDirectory() as path:
        options = ["--port", str(port), "--bind", "127.0.0.1", "--dir", path, "--save", "", "--loglevel", "warning"]
        durable = ["--appendonly", "yes", "--appendfsync", "everysec"]
        server = subprocess.Popen(
            [program, *options, *durable], env={**os.environ, **libraries}, stdout=subprocess.DEVNULL
        )

        def fresh(number: int) -> str:
            with socket.create_connection(("127.0.0.1", port)) as client:
                client.sendall(b"FLUSHALL\r\n")
                client.recv(100)
            return f"redis://127.0.0.1:{port}/0"

        try:
            _await_port(port, server)
            yield Running(fresh, "Redis, appendfsync everysec")
        finally:
            _end(server)


def _find_redis() -> tuple[str, dict[str, str]]:
    if found := shutil.which("redis-server"):
        return found, {}
    unpacked = BUILD / "debian"
    program = unpacked / "usr" / "bin" / "redis-server"
    if not program.exists():
        if not shutil.which("apt-get"):
            raise Missing("no redis-server, and no Debian to take it from")
        unpacked.mkdir(parents=True, exist_ok=True)
        quiet = {"cwd": unpacked, "capture_output": True, "check": False}
        subprocess.run(["apt-get", "download", *_DEBIAN], **quiet)  # type: ignore[call-overload]
        for package in unpacked.glob("*.deb"):
            subprocess.run(["dpkg", "-x", package.name, "."], **quiet)  # type: ignore[call-overload]
        if not program.exists():
            raise Missing("no redis-server, and Debian gives none")
    (libraries,) = {path.parent for path in (unpacked / "usr" / "lib").glob("*/libjemalloc.so*")}
    return str(program), {"LD_LIBRARY_PATH": str(libraries)}


@contextmanager
def postgres() -> Iterator[Running]:
    """Start PostgreSQL, which writes each commit to the disk."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not programs:
        raise Missing("no PostgreSQL in /usr/lib/postgresql")
    as_user = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []  # it does not run as root
    port = free_port()
    with tempfile.TemporaryDirectory() as path:
        data = Path(path) / "data"
        if as_user:
            shutil.chown(path, "postgres")
        initialize = [*as_user, str(programs[-1] / "initdb"), "-D", str(data), "-A", "trust", "-U", "peer"]
        subprocess.run(initialize, check=True, capture_output=True, cwd=path)
        options = ["-p", str(port), "-c", "listen_addresses=127.0.0.1", "-k", path]
        command = [*as_user, str(programs[-1] / "postgres"), "-D", str(data), *options]
        server = subprocess.Popen(command, cwd=path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def fresh(number: int) -> str:
            create = ["-h", "127.0.0.1", "-p", str(port), "-U", "peer", f"round{number}"]
            subprocess.run([str(programs[-1] / "createdb"), *create], check=True, capture_output=True, cwd=path)
            return f"postgresql://peer@127.0.0.1:{port}/round{number}"

        try:
            _await_port(port, server)
            yield Running(fresh, "PostgreSQL, synchronous_commit on")
        finally:
            master = data / "postmaster.pid"
            if as_user and master.exists():  # the process that was started is the one that changed the user
                os.kill(int(master.read_text().split()[0]), 2)
            _end(server)


@contextmanager
def opensearch() -> Iterator[Running]:
    """Start OpenSearch as the tests do."""
    from tests.support.opensearch import Cluster

    with Cluster(heap="1g", lasting=True) as cluster:
        address = cluster.urls[0].partition("://")[2]
        yield Running(lambda number: f"opensearch://{address}/peers{number}?timeout=30", "OpenSearch, one node")


SERVERS = {"folder": folder, "redis": redis, "postgres": postgres, "opensearch": opensearch}


def _await_port(port: int, server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end and server.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                time.sleep(0.5)  # PostgreSQL listens a little before it answers
                return
        time.sleep(0.05)
    raise Missing(f"{server.args!r:.60} does not start")


def _end(server: subprocess.Popen[bytes]) -> None:
    server.terminate()
    try:
        server.wait(10)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
