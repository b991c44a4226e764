"""The outages that state machines and chaos let a store have, by their names in `mahavishnu.testing.Faults`."""

from __future__ import annotations

from mahavishnu.testing import Faults

OUTAGES = ("unavailable", "answer_lost", "request_lost", "item_unavailable", "item_answer_lost", "item_request_lost")


def change_fault(faults: Faults, fault: str | None, times: int | None) -> None:
    """End what is planned, and plan this `fault`, if it is one, for so many calls; None: for all."""
    faults.clear()
    if fault is not None:
        getattr(faults, fault)(times=times)
