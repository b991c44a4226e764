"""Letters that this process took and could not give to their workflow: it leaves them to workers of other versions."""

from __future__ import annotations

from datetime import timedelta

from mahavishnu.engine.context import QueueContext
from mahavishnu.model.clock import Clock
from mahavishnu.model.letter import DeadLetter

FORGOTTEN_AFTER = timedelta(minutes=15)
_MOST = 100_000


class Misfits:
    """Remembers such letters for a while, as they were: one that was edited since may fit.

    It is asked only after a claim. To look before it would be cheaper, but reading a task back runs code of the
    application, and a letter that kills its process there has to be counted.
    """

    @classmethod
    def for_context(cls, context: QueueContext) -> Misfits:
        """Return the misfits of a queue."""
        return cls(context.clock)

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[str, tuple[object, float]] = {}

    def __contains__(self, letter: object) -> bool:
        if not isinstance(letter, DeadLetter) or letter.unfit is None or (known := self._known.get(letter.key)) is None:
            return False
        what, until = known
        return what == _task_of(letter) and self._clock.monotonic() < until

    def note(self, letter: DeadLetter) -> None:
        """Leave this letter, as it is, to others from now on."""
        if len(self._known) >= _MOST:
            self.clear()
        self._known[letter.key] = (_task_of(letter), self._clock.monotonic() + FORGOTTEN_AFTER.total_seconds())

    def clear(self) -> None:
        """Forget them all: a letter that could not be run here may run now."""
        self._known.clear()


def _task_of(letter: DeadLetter) -> object:
    return letter.entry_id, letter.adapter, hash(letter.payload.text), hash(letter.payload_types.text)
