"""Calls slow work in threads of its own, where the jobs that an app gives to asyncio's threads hold up no failure."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar

T = TypeVar("T")
_THREADS = 4


async def call_in_thread(work: Callable[..., T], *arguments: Any) -> T:
    """The answer of a call in another thread; in this one if there is none, as at the end of the interpreter."""
    call = functools.partial(copy_context().run, work, *arguments)
    try:
        working = asyncio.get_running_loop().run_in_executor(_thread_pool(os.getpid()), call)
    except RuntimeError:
        return work(*arguments)
    return await working  # not above: a RuntimeError of its own is an answer


@functools.cache
def _thread_pool(process: int) -> ThreadPoolExecutor:
    """The threads of this process: a forked one has none of its parent's."""
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="mahavishnu-classify")
