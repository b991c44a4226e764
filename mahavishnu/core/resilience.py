"""Classifying errors, under the names that workflow apps know."""

from __future__ import annotations

from mahavishnu.classify.chain import Chain
from mahavishnu.classify.verdict import Context
from mahavishnu.model.letter_parts import ErrorCategory

__all__ = ["ErrorCategory", "ErrorRecoveryManager"]


class ErrorRecoveryManager:
    """What an app asks about errors.

    >>> import asyncio
    >>> asyncio.run(ErrorRecoveryManager().classify_error("Connection timeout"))
    <ErrorCategory.NETWORK: 'network'>
    """

    def __init__(self, chain: Chain | None = None) -> None:
        self.chain = chain or Chain()

    async def classify_error(self, error: BaseException | str, context: Context | None = None) -> ErrorCategory:
        """The category of an exception, or of a text where only that is known. PERMANENT if nobody knows it."""
        return (await self.chain.classify_async(error, context)).category
