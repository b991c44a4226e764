"""What tests of code around dead letters need, for this project and for its users.

`ManualClock` stands still until it is advanced, `make_letter` makes sound letters, `FaultyStore` lets a store fail as
planned, and `StoreContract` is the suite that every store has to pass (it needs pytest and pytest-asyncio).

>>> clock = ManualClock()
>>> clock.advance(minutes=5)
>>> make_letter(task_id="wf_1", created_at=clock.now()).created_at.isoformat()
'2026-01-01T00:05:00+00:00'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mahavishnu.testing.clock import START, ManualClock, turn
from mahavishnu.testing.faults import Call, Fault, Faults, FaultyStore, Hold, Hook
from mahavishnu.testing.letters import make_failure, make_letter

if TYPE_CHECKING:
    from mahavishnu.testing.contract import DurableStoreContract, StoreContract

__all__ = [
    "START",
    "Call",
    "DurableStoreContract",
    "Fault",
    "Faults",
    "FaultyStore",
    "Hold",
    "Hook",
    "ManualClock",
    "StoreContract",
    "make_failure",
    "make_letter",
    "turn",
]


def __getattr__(name: str) -> Any:
    if name in ("StoreContract", "DurableStoreContract"):  # only these need pytest
        from mahavishnu.testing import contract

        return getattr(contract, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
