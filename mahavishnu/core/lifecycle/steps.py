"""Steps of the workflow that is running, as its code reports them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar, overload

from mahavishnu.capture.adapters import is_async, run_function
from mahavishnu.core.lifecycle.run import current_run
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.tasks import StepRecord

log = logging.getLogger(__name__)
P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StepOptions:
    """How often a step may be run, the first time included, and how long a run of it may take. Raises InvalidInput."""

    max_attempts: int | None = None
    retryable: bool = True
    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.max_attempts is not None and (type(self.max_attempts) is not int or self.max_attempts < 1):
            raise InvalidInput(
                f"max_attempts must be a whole number from 1, not {self.max_attempts!r:.80}: the first run counts too"
            )
        if self.seconds is not None and not (isinstance(self.seconds, int | float) and self.seconds > 0):
            raise InvalidInput(f"seconds must be above 0, not {self.seconds!r:.80}")
        if not self.retryable and (self.max_attempts or 1) > 1:
            log.warning("a step that is not retryable is run once: max_attempts=1 would say so")

    @overload
    async def step(self, name: str, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T: ...

    @overload
    async def step(self, name: str, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...

    async def step(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run a part of a tracked workflow once: see `Lifecycle.step`."""
        run = current_run.get()
        if run is not None:
            return await run.step(self._record(name), self.seconds, function, args, kwargs)
        async with asyncio.timeout(self.seconds):
            return await run_function(function, is_async(function), args, kwargs)

    def _record(self, name: str) -> StepRecord:
        if not isinstance(name, str) or not name:
            raise InvalidInput(f"the name of a step must be text that is not empty, not {name!r:.80}")
        return StepRecord(name, max_attempts=self.max_attempts, retryable=self.retryable)
