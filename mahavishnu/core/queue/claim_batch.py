"""What one call that claims letters for remote workers remembers between its writes."""

from __future__ import annotations

import random
from collections.abc import Sequence

from mahavishnu.engine.breaker import CircuitState
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.lifecycle import MAX_RECOVERIES
from mahavishnu.model.query import SOONEST_FIRST, Sort


class ClaimBatch:
    """Which circuits are being probed, whether a suspect was handed out, and whether others want the same letters."""

    def __init__(self) -> None:
        self._probes: set[str] = set()
        self._suspect = False
        self.lost = False  # whether somebody else got a letter first
        self._random = random.Random()

    def may_go(self, circuit: str, position: CircuitState) -> bool:
        """Whether the adapter's circuit lets it through: of a half-open one a single letter probes."""
        if position is CircuitState.HALF_OPEN and circuit not in self._probes:
            self._probes.add(circuit)
            return True
        return position is CircuitState.CLOSED

    def is_safe(self, claim: DeadLetter) -> bool:
        """Letters that may kill their worker are handed out one at a time, at their last chance (ADR 0010)."""
        last_chance = claim.recoveries >= MAX_RECOVERIES - 1
        safe = not (last_chance and self._suspect)
        self._suspect |= last_chance
        return safe

    def spread(self, waiting: list[DeadLetter], order: Sequence[Sort]) -> None:
        """Where others want the same letters, go on with any of those that are as urgent."""
        lost, self.lost = self.lost, False
        if not lost or order != SOONEST_FIRST:  # the longest due are taken one after the other
            return
        self._random.shuffle(waiting)
        waiting.sort(key=lambda letter: -letter.priority)
