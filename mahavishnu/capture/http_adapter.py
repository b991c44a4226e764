"""Runs a task by posting it to a URL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mahavishnu.capture.adapters import live_attempt
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.json_value import safe_repr
from mahavishnu.values.typed_json import plain_text, write_all

if TYPE_CHECKING:
    import httpx


class HttpAdapter:
    """Posts `{"task": …, "repos": […]}` as JSON and takes a JSON answer. Needs httpx (`mahavishnu-dlq[http]`).

    A retry carries `Idempotency-Key`, `Mahavishnu-Attempt-Id` and `Mahavishnu-Attempt-Number`. An answer of 400 or more
    raises httpx.HTTPStatusError, which the classifier reads, `Retry-After` included; redirects are not followed.
    """

    takes_json = True  # a letter needs no types for it: what is posted is plain

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float = 60.0,
        client: httpx.AsyncClient | None = None,
    ) -> None:
        """A given `client` is used as it is and never closed. Raises InvalidInput for a URL that is not HTTP."""
        if not url.startswith(("http://", "https://")):
            raise InvalidInput(f"{url!r} is not an HTTP URL: it must begin with http:// or https://")
        self.url = url
        self._headers = dict(headers or {})
        self._timeout = timeout_seconds
        self._client = client

    async def run(self, task: Any, repos: list[str]) -> Any:
        import httpx

        headers = {**self._headers, **attempt_headers()}
        plain = task if plain_text(task) is not None else write_all(task, safe_repr)[0]
        body = {"task": plain, "repos": repos}
        if self._client is not None:
            answer = await self._client.post(self.url, json=body, headers=headers)
        else:  # a client for each call: the loop may be another one each time, and a workflow is no hot path
            async with httpx.AsyncClient(timeout=self._timeout) as client:
                answer = await client.post(self.url, json=body, headers=headers)
        answer.raise_for_status()
        if not answer.content:
            return None
        if "json" in answer.headers.get("content-type", ""):
            return answer.json()
        return answer.text

    def __repr__(self) -> str:
        return f"HttpAdapter({self.url.split('?')[0]!r})"


def attempt_headers() -> dict[str, str]:
    """Return headers that tell the target which run this is; none outside of a retry."""
    if (attempt := live_attempt()) is None:
        return {}
    return {
        "Idempotency-Key": attempt.idempotency_key,
        "Mahavishnu-Attempt-Id": attempt.attempt_id,
        "Mahavishnu-Attempt-Number": str(attempt.number),
    }
