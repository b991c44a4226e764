"""Python functions as workflows, and what counts as an adapter."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import sys
import threading
from typing import Any

import pytest

from mahavishnu.capture.adapters import PythonAdapter, as_adapter
from mahavishnu.model.errors import InvalidInput
from tests.support.queues import House, letter_of, queue_of

HERE: contextvars.ContextVar[str] = contextvars.ContextVar("here", default="nowhere")


class Callable:
    async def __call__(self, task: Any, repos: list[str]) -> str:
        return f"{task} {repos}"


class Runner:
    async def run(self, task: Any, repos: list[str]) -> str:
        return "ran"


async def plain(task: Any, repos: list[str]) -> str:
    return f"{task} {repos}"


@pytest.mark.parametrize("function", [plain, Callable(), lambda task, repos: f"{task} {repos}", lambda *a: plain(*a)])
async def test_every_kind_of_function_runs(function: Any) -> None:
    assert await as_adapter(function).run("t", ["a"]) == "t ['a']"


async def test_an_adapter_is_used_as_it_is() -> None:
    runner = Runner()
    assert as_adapter(runner) is runner
    assert await as_adapter(runner).run(None, []) == "ran"


async def test_an_adapter_whose_run_is_a_plain_function_gets_a_thread() -> None:
    class Sync:
        def run(self, task: Any, repos: list[str]) -> bool:
            return threading.current_thread() is threading.main_thread()

    assert await as_adapter(Sync()).run({}, []) is False  # type: ignore[arg-type]  # it is none for a type checker


async def test_a_sync_wrapper_of_an_async_function_is_sync() -> None:
    @functools.wraps(plain)
    def wrapper(task: Any, repos: list[str]) -> str:
        return asyncio.run(plain(task, repos))

    assert await as_adapter(wrapper).run("t", ["a"]) == "t ['a']"


async def test_stop_iteration_in_a_sync_function_is_a_failure() -> None:
    async with asyncio.timeout(10):
        with pytest.raises(RuntimeError, match="StopIteration"):
            await PythonAdapter(lambda task, repos: next(iter(()))).run({}, [])


async def test_sys_exit_in_a_sync_function_is_a_failure_and_ends_nothing_else() -> None:
    with pytest.raises(RuntimeError, match=r"SystemExit\(2\)"):
        await PythonAdapter(lambda task, repos: sys.exit(2)).run({}, [])


def test_a_thing_that_cannot_run_is_refused() -> None:
    with pytest.raises(InvalidInput, match="is no adapter"):
        as_adapter("sweep")  # type: ignore[arg-type]  # that is the point


async def test_a_sync_function_runs_in_a_thread_and_sees_the_context() -> None:
    HERE.set("here")
    run = PythonAdapter(lambda task, repos: (HERE.get(), threading.current_thread() is threading.main_thread()))
    assert await run.run({}, []) == ("here", False)


async def test_sync_functions_that_hang_do_not_hold_up_others() -> None:
    go = threading.Event()
    hanging = [asyncio.create_task(PythonAdapter(lambda task, repos: go.wait(60)).run({}, [])) for _ in range(40)]
    try:
        async with asyncio.timeout(30):
            assert await PythonAdapter(lambda task, repos: "done").run({}, []) == "done"
    finally:
        go.set()
        assert await asyncio.gather(*hanging) == [True] * 40


def generator(task: Any, repos: list[str]) -> Any:
    yield task


async def async_generator(task: Any, repos: list[str]) -> Any:
    yield task


class Generates:
    def __call__(self, task: Any, repos: list[str]) -> Any:
        yield task

    def run(self, task: Any, repos: list[str]) -> Any:
        yield task


GENERATORS = {
    "function": generator,
    "async function": async_generator,
    "callable object": type("Callable", (), {"__call__": async_generator})(),
    "method": Generates().run,
    "adapter": Generates(),
    "partial": functools.partial(generator, 1),
    "partial of an object": functools.partial(type("Callable", (), {"__call__": generator})(), repos=[]),
}


@pytest.mark.parametrize("function", GENERATORS.values(), ids=GENERATORS)
async def test_a_generator_is_refused_because_calling_it_runs_nothing(house: House, function: Any) -> None:
    app = house.app()
    for register in (
        functools.partial(app.register_adapter, "sweep", function),
        functools.partial(app.workflow("sweep"), function),
    ):
        with pytest.raises(InvalidInput, match="generator function"):
            register()
    if not isinstance(function, Generates):  # that is no callback
        with pytest.raises(InvalidInput, match="generator function"):
            await queue_of(app).start_retry_processor(function)


async def pending() -> str:
    return "done"


@pytest.mark.parametrize(
    "answer", [generator, async_generator, lambda *a: pending()], ids=["generator", "async generator", "coroutine"]
)
async def test_a_run_that_answers_what_was_not_run_has_failed(house: House, answer: Any) -> None:
    app = house.app()

    class Wrong:
        async def run(self, task: Any, repos: list[str]) -> Any:
            return answer(task, repos)

    app.register_adapter("sweep", Wrong())
    result = await app.execute_workflow({"id": "wf_1"}, "sweep", ["api"])
    assert (result["error_type"], result["dlq_enqueued"]) == ("TypeError", True)
    assert "nothing of that was run" in result["error"]
    await queue_of(app).retry_task("wf_1")
    assert (await letter_of(queue_of(app), "wf_1")).is_open


async def test_a_coroutine_that_an_async_function_forgot_to_await_is_run() -> None:
    async def forgetful(task: Any, repos: list[str]) -> Any:
        return pending()

    assert await PythonAdapter(forgetful).run({}, []) == "done"
