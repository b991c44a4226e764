"""The shared store: an OpenSearch index for each kind of record."""

from __future__ import annotations

from mahavishnu.stores.opensearch.store import OpenSearchStore

__all__ = ["OpenSearchStore"]
