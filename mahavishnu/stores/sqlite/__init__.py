"""The embedded store: one file that several processes of a host share, with one writer thread in each."""

from __future__ import annotations

from mahavishnu.stores.sqlite.store import SQLiteStore

__all__ = ["SQLiteStore"]
