"""The app's own connection to OpenSearch."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Self

from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.settings.schema import is_opensearch
from mahavishnu.stores.urls import opensearch_client


class OpenSearchIntegration:
    """The app's own connection to OpenSearch, for those who want to query the index of letters."""

    def __init__(self, settings: MahavishnuSettings) -> None:
        self._arguments = settings.store_arguments()

    @classmethod
    def from_settings(cls, settings: MahavishnuSettings) -> Self | None:
        """The integration, or None where letters are not kept in OpenSearch."""
        return cls(settings) if is_opensearch(settings.dlq_store_url) else None

    @cached_property
    def client(self) -> Any:
        """An `opensearchpy.AsyncOpenSearch`; a queue made from it waits for answers as long as the app's own."""
        names = ("url", "user", "password", "headers", "timeout")
        return opensearch_client(**{name: self._arguments[name] for name in names})

    async def close(self) -> None:
        """Close the client, if there is one."""
        if "client" in self.__dict__:
            await self.__dict__.pop("client").close()
