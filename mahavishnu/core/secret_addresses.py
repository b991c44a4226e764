"""Addresses of webhooks have a token in them, often: what asks them leaves none in a log."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_IS_HIDDEN: ContextVar[bool] = ContextVar("mahavishnu_hidden_addresses", default=False)


class _Hidden(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return not _IS_HIDDEN.get()


_HIDDEN = _Hidden()


@contextmanager
def hide_addresses() -> Iterator[None]:
    """Around requests that httpx sends: it would write each whole address into the log of the application."""
    log = logging.getLogger("httpx")
    if _HIDDEN not in log.filters:
        log.addFilter(_HIDDEN)
    before = _IS_HIDDEN.set(True)
    try:
        yield
    finally:
        _IS_HIDDEN.reset(before)
