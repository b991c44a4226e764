from __future__ import annotations

import os
import select
import socket
import ssl
import subprocess
import sys
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from . import Cluster

pytestmark = [pytest.mark.opensearch, pytest.mark.prove]

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def plain() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def secure() -> Iterator[Cluster]:
    with Cluster(secure=True) as cluster:
        yield cluster


def test_answers(plain: Cluster) -> None:
    status, answer = plain.request("GET", "/")
    assert status == 200
    assert answer["version"]["distribution"] == "opensearch"


def test_has_painless_and_reindex(plain: Cluster) -> None:
    plain.request("PUT", "/old/_doc/1?refresh=true", {"n": 1})
    copy = {"source": {"index": "old"}, "dest": {"index": "new"}, "script": {"source": "ctx._source.n += 1"}}
    assert plain.request("POST", "/_reindex", copy)[0] == 200
    assert plain.request("GET", "/new/_source/1") == (200, {"n": 2})


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_comes_back_on_the_same_port_with_its_data(plain: Cluster, end: str) -> None:
    [node] = plain.nodes
    url, pid = node.url, node.pid
    assert plain.request("PUT", f"/kept/_doc/{end}", {"n": 1})[0] == 201
    getattr(node, end)()
    with pytest.raises(urllib.error.URLError, match="refused"):
        plain.request("GET", "/")
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", urlsplit(url).port))

    node.start()
    plain.wait(status="yellow")

    assert node.pid != pid
    assert plain.urls == [url]
    assert plain.request("GET", f"/kept/_source/{end}") == (200, {"n": 1})


def test_paused_node_is_silent(plain: Cluster) -> None:
    [node] = plain.nodes
    node.pause()
    with pytest.raises(TimeoutError):
        plain.request("GET", "/", timeout=0.2)
    node.resume()
    assert plain.request("GET", "/")[0] == 200


def test_leaves_nothing_behind() -> None:
    with Cluster() as cluster:
        [node] = cluster.nodes
        assert node.home.exists()
        ended = os.pidfd_open(node.pid)
    with os.fdopen(ended):
        assert select.select([ended], [], [], 0)[0]
    assert not node.home.parent.exists()


def test_boot_failure_shows_the_log() -> None:
    with pytest.raises(RuntimeError, match="crashed") as failure, Cluster(settings={"no.such.setting": 1}):
        pass
    assert "unknown setting [no.such.setting]" in "".join(failure.value.__notes__)


@pytest.mark.parametrize("state", ["running", "paused"])
def test_node_goes_with_its_launcher(state: str) -> None:
    script = """
import sys
from tests.support.opensearch import Cluster
with Cluster() as cluster:
    [node] = cluster.nodes
    if "paused" in sys.argv:
        node.pause()
    print(node.pid, node.home, flush=True)
    sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", script, state],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a shared session could keep the paused node's group from being orphaned
    ) as launcher:
        assert launcher.stdout
        pid, home = launcher.stdout.readline().split()
        ended = os.pidfd_open(int(pid))
        launcher.kill()

    with os.fdopen(ended):
        assert select.select([ended], [], [], 30)[0]
    assert not Path(home).parent.exists()


@pytest.mark.faults
def test_three_nodes_survive_the_loss_of_one() -> None:
    index = {"settings": {"number_of_replicas": 2, "index.unassigned.node_left.delayed_timeout": "0s"}}
    with Cluster(nodes=3) as cluster:
        assert cluster.request("PUT", "/three", index)[0] == 200
        cluster.wait()
        cluster.nodes[1].kill()
        cluster.wait(status="yellow")
        assert cluster.request("PUT", "/three/_doc/1", {"n": 1}, node=2)[0] == 201
        cluster.nodes[1].start()
        cluster.wait()
        assert cluster.request("GET", "/three/_source/1?preference=_local", node=1) == (200, {"n": 1})


def test_secure_needs_a_password(secure: Cluster) -> None:
    assert secure.request("GET", "/")[0] == 200
    assert secure.request("GET", "/", user=("admin", "wrong"))[0] == 401
    assert secure.request("GET", "/", user=None)[0] == 401


def test_certificate_is_trusted_with_the_ca_only(secure: Cluster) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(secure, ssl.create_default_context())
    handshake(secure, ssl.create_default_context(cafile=secure.ca))


def test_certificate_passes_strict_verification(secure: Cluster) -> None:
    context = ssl.create_default_context(cafile=secure.ca)
    context.verify_flags |= ssl.VERIFY_X509_STRICT  # the default from Python 3.13 on
    handshake(secure, context)


def handshake(cluster: Cluster, context: ssl.SSLContext) -> None:
    address = urlsplit(cluster.urls[0])
    with (
        socket.create_connection((address.hostname, address.port)) as connection,
        context.wrap_socket(connection, server_hostname=address.hostname),
    ):
        pass


def test_user_limited_to_some_indices(secure: Cluster) -> None:
    user = ("limited", "nine-Lives-of-cats")
    secure.add_user(*user, {"mahavishnu*": ["indices_all"]})

    assert secure.request("PUT", "/mahavishnu-1", user=user)[0] == 200
    assert secure.request("PUT", "/other", user=user)[0] == 403
    assert secure.request("GET", "/_cluster/health", user=user)[0] == 200
    status, answer = secure.request(
        *("POST", "/_bulk"),
        *({"create": {"_index": "mahavishnu-1", "_id": "1"}}, {"n": 1}),
        *({"create": {"_index": "other", "_id": "1"}}, {"n": 1}),
        user=user,
    )
    assert status == 200
    assert [item["create"]["status"] for item in answer["items"]] == [201, 403]


def test_user_who_may_only_read(secure: Cluster) -> None:
    user = ("reader", "nine-Lives-of-cats")
    secure.add_user(*user, {"mahavishnu*": ["read"]})
    secure.request("PUT", "/mahavishnu-2/_doc/1", {"n": 1})

    assert secure.request("GET", "/mahavishnu-2/_source/1", user=user) == (200, {"n": 1})
    assert secure.request("POST", "/mahavishnu-2/_search", {"query": {"match_all": {}}}, user=user)[0] == 200
    assert secure.request("PUT", "/mahavishnu-2/_doc/1", {"n": 2}, user=user)[0] == 403
    assert secure.request("DELETE", "/mahavishnu-2", user=user)[0] == 403


def test_add_user_reports_refusal(secure: Cluster) -> None:
    with pytest.raises(RuntimeError, match="internalusers/weak: 400"):
        secure.add_user("weak", "1234", {})
