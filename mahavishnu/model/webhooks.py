"""Webhooks: signatures, which show that one is from here, unchanged and recent; and hidden addresses."""

from __future__ import annotations

import hashlib
import hmac
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime

SIGNATURE_HEADER = "Mahavishnu-Signature"
TOLERANCE_SECONDS = 300.0
_IS_HIDDEN: ContextVar[bool] = ContextVar("mahavishnu_hidden_addresses", default=False)


class _Hidden(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return not _IS_HIDDEN.get()


_HIDDEN = _Hidden()


@contextmanager
def hide_addresses() -> Iterator[None]:
    """Hide the addresses of requests, often with a token, which httpx would write into the application's log."""
    log = logging.getLogger("httpx")
    if _HIDDEN not in log.filters:
        log.addFilter(_HIDDEN)
    before = _IS_HIDDEN.set(True)
    try:
        yield
    finally:
        _IS_HIDDEN.reset(before)


def sign(secret: str, body: bytes, at: datetime) -> str:
    """The signature of a body at an instant, as the header `Mahavishnu-Signature` has it.

    >>> from datetime import UTC
    >>> sign("secret", b"{}", datetime(2026, 1, 1, tzinfo=UTC))[:16]
    't=1767225600,v1='
    """
    seconds = int(at.timestamp())
    return f"t={seconds},v1={_digest(secret, seconds, body)}"


def is_signed(
    secret: str, header: str | None, body: bytes, now: datetime, tolerance_seconds: float = TOLERANCE_SECONDS
) -> bool:
    """Return True if the header is the signature of exactly this body, not older (or newer) than the tolerance.

    For receivers; the comparison takes as long whatever is wrong. A header may have several `v1`, of which one fits.

    >>> from datetime import UTC
    >>> now = datetime(2026, 1, 1, tzinfo=UTC)
    >>> header = sign("secret", b"{}", now)
    >>> is_signed("secret", header, b"{}", now), is_signed("other", header, b"{}", now)
    (True, False)
    """
    parts = [part.strip().partition("=") for part in (header or "").split(",")]
    times = [value for name, _, value in parts if name == "t"]
    if len(times) != 1 or not times[0].isascii() or not times[0].isdigit() or len(times[0]) > 15:
        return False
    expected = _digest(secret, int(times[0]), body).encode()
    given = [value.encode() for name, _, value in parts if name == "v1"]
    fits = [hmac.compare_digest(expected, each) for each in given]
    return any(fits) and abs(now.timestamp() - int(times[0])) <= tolerance_seconds


def _digest(secret: str, seconds: int, body: bytes) -> str:
    return hmac.new(secret.encode(), str(seconds).encode() + b"." + body, hashlib.sha256).hexdigest()
