"""The real OpenSearch that tests share, and how Hypothesis works here.

OpenSearch is never skipped: where it cannot start, its tests fail.
"""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from mahavishnu.model.ids import new_entry_id
from tests.support.opensearch import Cluster, Servers, SharedNode, state_of_cache

# Fixtures that tests of several rooms use.
pytest_plugins = ["tests.support.api", "tests.support.command_line", "tests.support.houses"]
_prefixes = count(1)
_node = pytest.StashKey[SharedNode]()
_folder = pytest.StashKey["tempfile.TemporaryDirectory[str]"]()
# Who starts the tests in the background has them ignore Ctrl-C, and so would every process that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)
# The same examples every time: who changes one thing is not stopped by what another one left. To look for new ones say
# make test ARGS="--hypothesis-profile=explore". A busy machine is no bug, so no example has a deadline.
settings.register_profile("same", derandomize=True, deadline=None, max_examples=60)
settings.register_profile("explore", deadline=None)
settings.load_profile("same")
os.environ.pop("COLUMNS", None)  # of the terminal that the tests were started in: the program prints for a pipe here


def pytest_report_header() -> str:
    return f"OpenSearch: {state_of_cache()}"


class SharedNodeForWorkers:
    """Only for `pytest -n`: the process that starts the workers keeps one node for all of them."""

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        config: pytest.Config = node.config
        if _node not in config.stash:
            config.stash[_folder] = tempfile.TemporaryDirectory(prefix="mahavishnu-tests-")
            config.stash[_node] = SharedNode(Path(config.stash[_folder].name))
            config.stash[_node].start()
        node.workerinput["opensearch"] = config.stash[_folder].name

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        if _node in config.stash:
            config.stash[_node].stop()
            config.stash[_folder].cleanup()


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(SharedNodeForWorkers())


@pytest.fixture(autouse=True)
def _entry_ids_of_today(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ids of a process never go back: else a test whose clock was ahead would date the entries of later ones."""
    monkeypatch.setattr(new_entry_id, "_last", 0)


@pytest.fixture(scope="session")
def opensearch(request: pytest.FixtureRequest) -> Iterator[Servers]:
    """One plain node for the whole run. Tests that stop or break a server start one of their own."""
    workerinput = getattr(request.config, "workerinput", None)
    if workerinput is not None:
        yield SharedNode.find(Path(workerinput["opensearch"]))
        return
    with Cluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def opensearch_url(opensearch: Servers) -> str:
    return opensearch.urls[0]


@contextmanager
def _own_prefix(servers: Servers) -> Iterator[str]:
    prefix = f"t{next(_prefixes)}-{os.getpid()}"
    yield prefix
    status, answer = servers.request("DELETE", f"/{prefix}_*?expand_wildcards=all")
    assert status == 200, answer


@pytest.fixture
def opensearch_prefix(opensearch: Servers) -> Iterator[str]:
    """The beginning of the names of this test's indices, which are deleted afterwards."""
    with _own_prefix(opensearch) as prefix:
        yield prefix


@pytest.fixture(scope="class")
def opensearch_class_prefix(opensearch: Servers) -> Iterator[str]:
    """The same for all tests of a class, where making indices for each of them would cost more than the tests."""
    with _own_prefix(opensearch) as prefix:
        yield prefix
