"""The suite that every store has to pass: each sentence of `mahavishnu.stores.base` is a test.

    from mahavishnu.testing import StoreContract

    class TestMyStore(StoreContract):
        def make_store(self):
            return MyStore("somewhere")

and `pytest` runs it. It needs pytest-asyncio, in any mode, and a store that may be filled with test records; they need
not be removed between tests. A store whose records outlive it takes `DurableStoreContract` instead.
"""

from __future__ import annotations

from mahavishnu.testing.promises.agreeing import Agreeing
from mahavishnu.testing.promises.counting import Counting
from mahavishnu.testing.promises.finding import Finding
from mahavishnu.testing.promises.keeping import Keeping
from mahavishnu.testing.promises.lasting import Lasting
from mahavishnu.testing.promises.listing import Listing
from mahavishnu.testing.promises.naming import Naming
from mahavishnu.testing.promises.paging import Paging
from mahavishnu.testing.promises.racing import Racing
from mahavishnu.testing.promises.serving import Serving
from mahavishnu.testing.promises.writing import Writing

__all__ = ["DurableStoreContract", "StoreContract"]


class StoreContract(Writing, Racing, Keeping, Naming, Finding, Listing, Paging, Counting, Agreeing, Serving):
    """Every promise of a `Store`, for letters, their history and a kind of record that no store has heard of.

    Subclass it as `Test…` and define `make_store`: an unopened store. A fixture may prepare what that needs:

        class TestSQLiteStore(StoreContract):
            @pytest.fixture(autouse=True)
            def place(self, tmp_path):
                self.path = tmp_path / "letters.db"

            def make_store(self):
                return SQLiteStore(self.path)
    """


class DurableStoreContract(StoreContract, Lasting):
    """The same for stores whose records outlive them: whatever one store that `make_store` made has written, the next
    one finds, also while the first is still open.
    """
