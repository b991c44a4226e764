"""Headers that every response has, whoever made it: nothing is framed, guessed at, or taken by other sites."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
# A page has a policy of its own, which lets it load what is ours.
GUARDS: Mapping[str, str] = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


def guard(send: Send) -> Send:
    """The same, with those of the headers that a response does not have yet."""

    async def send_guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [*message.get("headers", ())]
            known = {name.lower() for name, _ in headers}
            headers += [(k.encode(), v.encode()) for k, v in GUARDS.items() if k.encode() not in known]
            message = {**message, "headers": headers}
        await send(message)

    return send_guarded
