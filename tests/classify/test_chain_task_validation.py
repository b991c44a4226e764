"""The hook `validate_task`: who is asked, how, and what counts as an objection."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest

from mahavishnu import hookimpl
from mahavishnu.classify.chain import Chain
from mahavishnu.classify.plugins import Plugins
from mahavishnu.classify.verdict import Context


class TaskOnly:
    @hookimpl
    def validate_task(self, task: Any) -> str | None:
        return "no type" if "type" not in task else None


class TheOtherWayRound:
    @hookimpl
    def validate_task(self, context: Context, task: Any) -> str | None:
        return f"{context.task_id} says {task['say']}" if "say" in task else None


class Raises:
    def __init__(self, problem: BaseException) -> None:
        self.problem = problem

    @hookimpl
    def validate_task(self, task: Any, context: Context) -> None:
        raise self.problem


class Answers:
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    @hookimpl
    def validate_task(self) -> Any:
        return self.answer


def chain(*plugins: Any, **options: Any) -> Chain:
    found = Plugins()
    for number, plugin in reversed(list(enumerate(plugins))):  # the last one registered is asked first
        found.register(plugin, f"p{number}")
    return Chain(found, **options)


def faults(chain: Chain) -> dict[str, int]:
    return {info.name: info.faults for info in chain.plugins.report() if info.faults}


async def test_without_plugins_there_is_no_objection() -> None:
    assert await Chain().objection({"any": "thing"}) is None


async def test_hooks_take_what_they_name_in_their_order() -> None:
    both = chain(TaskOnly(), TheOtherWayRound())
    assert await both.objection({}) == "p0: no type"
    assert await both.objection({"type": "x", "say": "hello"}, Context(task_id="wf_1")) == "p1: wf_1 says hello"
    assert await both.objection({"type": "x"}) is None
    assert faults(both) == {}


async def test_a_hook_with_an_unknown_argument_is_refused() -> None:
    class Wrong:
        @hookimpl
        def validate_task(self, payload: Any) -> None: ...

    with pytest.raises(ValueError, match="payload, but is called with task, context"):
        chain(Wrong())


async def test_a_value_error_is_an_objection() -> None:
    assert await chain(Raises(ValueError("too small"))).objection({}) == "p0: too small"
    assert await chain(Raises(ValueError())).objection({}) == "p0: ValueError"


@pytest.mark.parametrize(
    "broken",
    [Raises(KeyError("x")), Raises(SystemExit(1)), Answers(7), Answers("")],
    ids=lambda each: type(each).__name__,
)
async def test_a_broken_plugin_is_passed_over_and_counted(broken: Any) -> None:
    both = chain(broken, TaskOnly())
    assert await both.objection({}) == "p1: no type"
    assert faults(both) == {"p0": 1}


async def test_a_plugin_that_hangs_is_passed_over() -> None:
    let_go = threading.Event()

    class Hangs:
        @hookimpl
        def validate_task(self, task: Any) -> None:
            let_go.wait()

    both = chain(Hangs(), TaskOnly(), timeout=timedelta(milliseconds=50))
    try:
        assert await both.objection({}) == "p1: no type"
        assert faults(both) == {"p0": 1}
    finally:
        let_go.set()
