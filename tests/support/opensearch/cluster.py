"""Nodes as processes, and clusters of them."""

from __future__ import annotations

import base64
import json
import os
import random
import shutil
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any

from .distribution import Distribution
from .tls import make_certificates, security_settings
from .tools import exclusive, is_installed

ADMIN = ("admin", "admin")


def prepare(secure: bool = False) -> Distribution:
    """Fills the cache unless that is done; every `Cluster` does it by itself."""
    distribution = Distribution(secure)
    if not distribution.ready:
        with exclusive("build"):
            if not distribution.ready:
                distribution.build()
                with Cluster(secure=secure, distribution=distribution) as cluster:
                    cluster.nodes[0].stop()
                distribution.publish()
    return distribution


def state_of_cache() -> str:
    """How long the first test that needs a server waits, in words. Installs nothing."""
    if not (is_installed("java") and is_installed("mvn")):
        return "a JDK and Maven will be installed if need be, then its jars downloaded: some minutes, once"
    distribution = Distribution(secure=False)
    if distribution.ready:
        return "ready, a node takes some seconds to start"
    return f"its jars will be downloaded by Maven into {distribution.directory}: about a minute, once"


def until(condition: Callable[[], object], timeout: float, what: str) -> None:
    """Polls for a condition, or raises TimeoutError."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {timeout:g} s for {what}")
        time.sleep(0.05)


class Node:
    """One server process. Its ports and its data stay the same over restarts."""

    def __init__(self, url: str, home: Path, command: list[str]) -> None:
        self.url = url
        self.home = home
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def started(self) -> bool:
        """Whether it is meant to be up, though it may have `crashed`."""
        return self._process is not None

    @property
    def crashed(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    @property
    def pid(self) -> int:
        return self._running().pid

    @property
    def log(self) -> str:
        return (self.home / "node.log").read_text(errors="replace")

    def start(self) -> None:
        """Returns at once; `Cluster.wait` waits until the node serves."""
        if self.started:
            raise RuntimeError(f"{self.home.name} is started already")
        with (self.home / "node.log").open("ab") as log:
            # The node ends when its stdin does, so it cannot outlive this process. A paused one would not notice, but
            # the kernel wakes stopped processes if their group is left without a parent, hence a group of its own.
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=log, stderr=log, process_group=0
            )

    def stop(self, timeout: float = 60) -> None:
        """Ends it cleanly, if it is up."""
        self._end(timeout, signal.SIGTERM, signal.SIGCONT)

    def kill(self) -> None:
        """Ends it with SIGKILL, if it is up."""
        self._end(10, signal.SIGKILL)

    def pause(self) -> None:
        """Connections to it are still accepted, by the kernel, but nothing answers."""
        process = self._running()
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        self._running().send_signal(signal.SIGCONT)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError(f"{self.home.name} is not started")
        return self._process

    def _end(self, timeout: float, *signals: signal.Signals) -> None:
        if self._process is None:
            return
        for number in signals:
            self._process.send_signal(number)
        self._process.wait(timeout)
        if self._process.stdin:
            self._process.stdin.close()
        self._process = None


class Servers:
    """Addresses of a cluster that runs, whoever started it."""

    def __init__(self, urls: Sequence[str] = (), ca: Path | None = None) -> None:
        self._urls = list(urls)
        self._secure = ca is not None
        self._opener = _opener(ca)

    @property
    def urls(self) -> list[str]:
        return self._urls

    def request(
        self,
        method: str,
        path: str,
        *documents: object,
        node: int = 0,
        user: tuple[str, str] | None = ADMIN,
        timeout: float = 30,
    ) -> tuple[int, Any]:
        """The status and the decoded body of a response. Documents are sent one per line, as `_bulk` wants them."""
        headers = {"Content-Type": "application/json"}
        if self._secure and user:
            headers["Authorization"] = "Basic " + base64.b64encode(":".join(user).encode()).decode()
        body = "".join(json.dumps(document) + "\n" for document in documents).encode()
        request = urllib.request.Request(self.urls[node] + path, body or None, headers, method=method)
        try:
            with self._opener.open(request, timeout=timeout) as response:
                return response.status, _decode(response.read())
        except urllib.error.HTTPError as response:
            with response:
                return response.code, _decode(response.read())


class Cluster(Servers):
    """Use it as a context manager; it is green when entered, and leaves nothing behind."""

    def __init__(
        self,
        nodes: int = 1,
        heap: str = "512m",
        secure: bool = False,
        settings: Mapping[str, Any] | None = None,
        *,
        lasting: bool = False,
        distribution: Distribution | None = None,
    ) -> None:
        """`lasting`: its speed is measured, and it may take longer to start and to get up to speed."""
        super().__init__()
        self.nodes: list[Node] = []
        self.ca: Path | None = None
        self._size = nodes
        self._heap = heap
        self._secure = secure
        self._settings = settings or {}
        self._lasting = lasting
        self._distribution = distribution
        self._cleanup = ExitStack()

    @property
    def urls(self) -> list[str]:
        return [node.url for node in self.nodes]

    def __enter__(self) -> Cluster:
        with ExitStack() as cleanup:
            self._create_nodes(cleanup)
            for node in self.nodes:
                cleanup.callback(node.kill)
                node.start()
            self.wait()
            self._cleanup = cleanup.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._cleanup.close()

    def wait(self, timeout: float = 120, status: str = "green") -> None:
        """Until all started nodes, and no others, are in the cluster, answer, and report `status` or better."""
        started = [index for index, node in enumerate(self.nodes) if node.started]
        health = f"/_cluster/health?wait_for_status={status}&wait_for_nodes={len(started)}&timeout=1s"
        deadline = time.monotonic() + timeout
        for index in started:
            node = self.nodes[index]
            try:
                until(partial(self._answers, index, health), deadline - time.monotonic(), f"{node.url} to be {status}")
            except (RuntimeError, TimeoutError) as error:
                error.add_note(f"Its log ends with:\n{node.log[-8000:]}")
                raise

    def add_user(
        self,
        name: str,
        password: str,
        permissions: Mapping[str, Iterable[str]],
        cluster_permissions: Iterable[str] = ("cluster_composite_ops", "cluster_monitor"),
    ) -> None:
        """A user who may do the given actions (such as "read", "indices_all") on the given index patterns only.

        A bulk request needs "cluster_composite_ops", and is then judged item by item. The server refuses passwords that
        are shorter than 8 characters or easy to guess.
        """
        role = {
            "cluster_permissions": list(cluster_permissions),
            "index_permissions": [
                {"index_patterns": [pattern], "allowed_actions": list(actions)}
                for pattern, actions in permissions.items()
            ],
        }
        self._administer(f"roles/{name}", role)
        self._administer(f"internalusers/{name}", {"password": password, "opendistro_security_roles": [name]})

    def _answers(self, index: int, path: str) -> bool:
        if self.nodes[index].crashed:
            raise RuntimeError(f"{self.nodes[index].url} has crashed")
        try:
            return self.request("GET", path, node=index, timeout=5)[0] == 200
        except OSError:
            return False

    def _administer(self, path: str, document: object) -> None:
        status, answer = self.request("PUT", f"/_plugins/_security/api/{path}", document)
        if status not in (200, 201):
            raise RuntimeError(f"{path}: {status} {answer}")

    def _create_nodes(self, cleanup: ExitStack) -> None:
        distribution = self._distribution or prepare(self._secure)
        scratch = Path(
            cleanup.enter_context(TemporaryDirectory(prefix="mahavishnu-opensearch-", ignore_cleanup_errors=True))
        )
        names = [f"node-{index}" for index in range(self._size)]
        ports = [(_reserve_port(cleanup), _reserve_port(cleanup)) for _ in names]

        settings: dict[str, Any] = {
            "cluster.name": scratch.name,
            "network.host": "127.0.0.1",
            "cluster.routing.allocation.disk.threshold_enabled": False,
        }
        if self._size == 1:
            settings["discovery.type"] = "single-node"
        else:
            settings["discovery.seed_hosts"] = [f"127.0.0.1:{transport}" for _, transport in ports]
            settings["cluster.initial_cluster_manager_nodes"] = names
        config = scratch / "config"
        if self._secure:
            settings |= security_settings()
            make_certificates(config)
            shutil.copytree(distribution.security_config, config / "opensearch-security")
            self.ca = config / "ca.pem"
        else:
            config.mkdir()
        self._opener = _opener(self.ca)

        scheme = "https" if self._secure else "http"
        self.nodes = []
        for name, (http, transport) in zip(names, ports, strict=True):
            home = scratch / name
            shutil.copytree(config, home / "config")
            own = {"node.name": name, "http.port": http, "transport.port": transport}
            yaml = json.dumps({**settings, **own, **self._settings})  # any JSON is YAML
            (home / "config" / "opensearch.yml").write_text(yaml)
            command = distribution.command(scratch, home, self._heap, lasting=self._lasting)
            self.nodes.append(Node(f"{scheme}://127.0.0.1:{http}", home, command))


def _reserve_port(cleanup: ExitStack) -> int:
    """A port below the ephemeral range that no other test process gets, even while no node listens on it."""
    for port in random.sample(range(20000, 32000), 100):
        holder = socket.socket()
        try:
            holder.bind(("127.0.0.1", port))
        except OSError:
            holder.close()
            continue
        # Linux lets others bind a port that is held but not listened on if both sides set this option. Servers do,
        # the bind above does not: so a node may have this port, another reservation may not.
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        cleanup.enter_context(holder)
        return port
    raise RuntimeError("no free port from 20000 to 32000")


def _opener(ca: Path | None) -> urllib.request.OpenerDirector:
    no_proxy = urllib.request.ProxyHandler({})  # the environment may name one, which could not reach this machine
    context = ssl.create_default_context(cafile=ca) if ca else None
    return urllib.request.build_opener(no_proxy, urllib.request.HTTPSHandler(context=context))


def _decode(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body.decode(errors="replace")
