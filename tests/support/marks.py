"""Marks that tests share."""

from __future__ import annotations

import pytest

# `make test` runs it on SQLite, and `make prove` on OpenSearch too: what it asks of a store, the contract suite asks.
PROVED_ON_OPENSEARCH = pytest.mark.parametrize(
    "store_url",
    ["sqlite", pytest.param("opensearch", marks=[pytest.mark.opensearch, pytest.mark.prove])],
    indirect=True,
)
