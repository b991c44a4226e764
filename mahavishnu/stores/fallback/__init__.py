"""A primary store and a local one as one store: what fails while the primary is away is kept locally."""

from __future__ import annotations

from mahavishnu.stores.fallback.store import FallbackStore

__all__ = ["FallbackStore"]
