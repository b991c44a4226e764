"""Every store of the house keeps the same promises."""

from __future__ import annotations

from pathlib import Path

import pytest

from mahavishnu.stores.base import Store
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.stores.opensearch import OpenSearchStore
from mahavishnu.stores.sqlite import SQLiteStore
from mahavishnu.testing import DurableStoreContract, FaultyStore, StoreContract

PATIENT = 30.0  # seconds; these tests ask whether an answer is right, not whether a busy machine gives it in time


class TestMemoryStore(StoreContract):
    def make_store(self) -> Store:
        return MemoryStore()


class TestFaultyStoreWithoutFaults(StoreContract):
    def make_store(self) -> Store:
        return FaultyStore(MemoryStore())


class TestSQLiteStore(DurableStoreContract):
    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path) -> None:
        self.path = tmp_path / "letters.db"

    def make_store(self) -> Store:
        return SQLiteStore(self.path)


@pytest.mark.opensearch
class TestOpenSearchStore(DurableStoreContract):
    @pytest.fixture(autouse=True)
    def place(self, opensearch_url: str, opensearch_class_prefix: str) -> None:
        self.url, self.prefix = opensearch_url, opensearch_class_prefix

    def make_store(self) -> Store:
        return OpenSearchStore([self.url], prefix=self.prefix, timeout=PATIENT)


@pytest.mark.opensearch
class TestOpenSearchWithSQLite(DurableStoreContract):
    @pytest.fixture(autouse=True)
    def place(self, opensearch_url: str, opensearch_class_prefix: str, tmp_path: Path) -> None:
        self.url, self.prefix, self.path = opensearch_url, opensearch_class_prefix, tmp_path / "letters.db"

    def make_store(self) -> Store:
        return FallbackStore(OpenSearchStore([self.url], prefix=self.prefix, timeout=PATIENT), SQLiteStore(self.path))


class TestMemoryWithMemory(StoreContract):
    def make_store(self) -> Store:
        return FallbackStore(MemoryStore(), MemoryStore())


@pytest.mark.opensearch
@pytest.mark.prove  # the two beside it, and the one before, ask the same of its parts
class TestOpenSearchWithMemory(DurableStoreContract):
    @pytest.fixture(autouse=True)
    def place(self, opensearch_url: str, opensearch_class_prefix: str) -> None:
        self.url, self.prefix = opensearch_url, opensearch_class_prefix

    def make_store(self) -> Store:
        return FallbackStore(OpenSearchStore([self.url], prefix=self.prefix, timeout=PATIENT), MemoryStore())
