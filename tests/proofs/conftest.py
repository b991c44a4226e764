"""Stores that several processes of a test share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.opensearch import Servers


@pytest.fixture(params=["sqlite", pytest.param("opensearch", marks=pytest.mark.opensearch)])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty store of each kind; what is in OpenSearch is deleted afterwards."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/letters.db"
    cluster: Servers = request.getfixturevalue("opensearch")
    prefix: str = request.getfixturevalue("opensearch_prefix")
    return f"{cluster.urls[0].replace('http', 'opensearch', 1)}/{prefix}?timeout=30"  # a busy machine is no outage
