"""The real OpenSearch that tests share. It is never skipped: where it cannot start, its tests fail."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import pytest

from tests.opensearch import Cluster

_prefixes = count(1)
# Who starts the tests in the background has them ignore Ctrl-C, and so would every process that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def opensearch() -> Iterator[Cluster]:
    """One plain node for the whole session. Tests that stop or break a server start one of their own."""
    with Cluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def opensearch_url(opensearch: Cluster) -> str:
    return opensearch.urls[0]


@contextmanager
def _own_prefix(cluster: Cluster) -> Iterator[str]:
    prefix = f"t{next(_prefixes)}-{os.getpid()}"
    yield prefix
    status, answer = cluster.request("DELETE", f"/{prefix}_*?expand_wildcards=all")
    assert status == 200, answer


@pytest.fixture
def opensearch_prefix(opensearch: Cluster) -> Iterator[str]:
    """The beginning of the names of this test's indices, which are deleted afterwards."""
    with _own_prefix(opensearch) as prefix:
        yield prefix


@pytest.fixture(scope="class")
def opensearch_class_prefix(opensearch: Cluster) -> Iterator[str]:
    """The same for all tests of a class, where making indices for each of them would cost more than the tests."""
    with _own_prefix(opensearch) as prefix:
        yield prefix
