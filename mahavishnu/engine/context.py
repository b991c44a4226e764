"""What the parts of `DeadLetterQueue` have in common: a store, a clock, a classifier, and somebody to tell."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from typing import Any, Self

from mahavishnu.classify.chain import Chain
from mahavishnu.engine.event_bus import Announcer
from mahavishnu.engine.letter_factory import LetterFactory
from mahavishnu.engine.recorder import Capacity
from mahavishnu.engine.waiting_room import WaitingRoom
from mahavishnu.model.backoff import BackoffRegistry
from mahavishnu.model.clock import Clock
from mahavishnu.model.events import Event, EventName
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import fast_constructor
from mahavishnu.stores.base import Collection, Store

BY = "api_user"  # who does it, where nobody says
_new_event = fast_constructor(Event)


class Desk(ABC):
    """The base of the parts; none of them is used alone."""

    store: Store
    letters: Collection[DeadLetter]
    clock: Clock
    chain: Chain
    backoffs: BackoffRegistry
    room: Capacity
    waiting: WaitingRoom
    intake: LetterFactory
    counts: Counter[str]
    _announcer: Announcer

    @abstractmethod
    async def open(self) -> Self:
        """Make the store ready."""

    @abstractmethod
    async def admit(self) -> int:
        """Let in what waits for room."""

    @abstractmethod
    async def health_warnings(self) -> list[str]:
        """What a person should look at now."""

    @abstractmethod
    async def look_at_groups(self) -> int:
        """Write down what follows for groups from their letters."""

    @abstractmethod
    async def requeue_exhausted(self) -> int:
        """Send back what a rule sends back."""

    @abstractmethod
    def _heard(self, event: Event) -> None:
        """Something was written: tell everybody."""

    def _tell(self, name: EventName, letter: DeadLetter, /, **detail: Any) -> None:
        self._heard(_new_event(name=name, at=self.clock.now(), letter=letter, detail=detail))
