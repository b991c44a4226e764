"""The suite that every store has to pass: each sentence of `mahavishnu.stores.base` is a test.

    from mahavishnu.testing import StoreContract

    class TestMyStore(StoreContract):
        def make_store(self):
            return MyStore("somewhere")

and `pytest` runs it. It needs pytest-asyncio, in any mode, and a store that may be filled with test records; they need
not be removed between tests. A store whose records outlive it takes `DurableStoreContract` instead.
"""

from __future__ import annotations

from pkgutil import iter_modules

import pytest

# They are plain modules to pytest: without this, a failed assert in them would not show its values.
pytest.register_assert_rewrite(*(f"{__name__}.{module.name}" for module in iter_modules(__path__)))

from mahavishnu.testing.contract.counting import (  # noqa: E402
    AgreementContract,
    ConcurrencyContract,
    CountContract,
    HistogramContract,
)
from mahavishnu.testing.contract.durability import DurabilityContract, FidelityContract  # noqa: E402
from mahavishnu.testing.contract.paging import OrderContract, PagingContract  # noqa: E402
from mahavishnu.testing.contract.reading import KeyContract, SearchContract  # noqa: E402
from mahavishnu.testing.contract.writing import RaceContract, WritingContract  # noqa: E402

__all__ = ["DurableStoreContract", "StoreContract"]


class StoreContract(
    WritingContract,
    RaceContract,
    FidelityContract,
    KeyContract,
    SearchContract,
    OrderContract,
    PagingContract,
    CountContract,
    HistogramContract,
    AgreementContract,
    ConcurrencyContract,
):
    """Every promise of a `Store`, for letters, their history and a kind of record that no store has heard of.

    Subclass it as `Test…` and define `make_store`: an unopened store. A fixture may prepare what that needs:

        class TestSQLiteStore(StoreContract):
            @pytest.fixture(autouse=True)
            def place(self, tmp_path):
                self.path = tmp_path / "letters.db"

            def make_store(self):
                return SQLiteStore(self.path)
    """


class DurableStoreContract(StoreContract, DurabilityContract):
    """The same for stores whose records outlive them: whatever one store that `make_store` made has written, the next
    one finds, also while the first is still open.
    """
