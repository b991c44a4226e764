"""The chain: the first opinion counts, and the answer always comes."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from datetime import timedelta
from typing import Any

import pytest

from mahavishnu import ErrorCategory, Verdict, hookimpl
from mahavishnu.classify.chain import Chain
from mahavishnu.classify.plugins import Plugins, PluginState
from mahavishnu.classify.verdict import Context
from mahavishnu.model.errors import InvalidInput

SOON = timedelta(milliseconds=50)
Classify = Callable[[Chain, BaseException | str], Verdict]


def sync(chain: Chain, error: BaseException | str) -> Verdict:
    return chain.classify(error)


def in_a_loop(chain: Chain, error: BaseException | str) -> Verdict:
    return asyncio.run(chain.classify_async(error))


@pytest.fixture(params=[sync, in_a_loop], ids=["sync", "async"])
def classify(request: pytest.FixtureRequest) -> Classify:
    chosen: Classify = request.param
    return chosen


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What a hanging plugin waits for."""
    gate = threading.Event()
    yield gate
    gate.set()


def plugins(**functions: Callable[..., Any]) -> Plugins:
    """Plugins that are asked in this order."""
    made = Plugins()
    for name, function in reversed(functions.items()):
        made.register(function, name)
    return made


def state_of(plugins: Plugins, name: str) -> tuple[PluginState, int]:
    return next((info.state, info.faults) for info in plugins.report() if info.name == name)


def raising(error: object) -> None:
    raise LookupError("no opinion, no mercy")


class StripeOdd(ValueError):
    """Somebody's own, of a kind that the built-in rules take for something else."""


def test_a_plugin_is_asked_before_the_built_in_rules(classify: Classify) -> None:
    def stripe(error: BaseException | str) -> ErrorCategory | None:
        return ErrorCategory.TRANSIENT if isinstance(error, StripeOdd) else None

    chain = Chain(plugins(stripe=stripe))
    assert classify(Chain(), StripeOdd("x")).category == "validation"
    verdict = classify(chain, StripeOdd("x"))
    assert (verdict.category, verdict.author) == ("transient", "stripe")
    assert classify(chain, ConnectionResetError()).author == "built-in"


def test_an_unknown_error_is_permanent(classify: Classify) -> None:
    for error in (Exception("boom"), "", "boom"):
        verdict = classify(Chain(), error)
        assert (verdict.category, verdict.author) == ("permanent", "nobody")
        assert verdict.reason


def test_an_object_is_classified_by_its_text() -> None:
    assert Chain().classify(None).author == "nobody"  # type: ignore[arg-type]
    assert Chain().classify({"error": "connection refused"}).category == "network"  # type: ignore[arg-type]


def test_a_verdict_keeps_its_advice_and_gets_its_author(classify: Classify) -> None:
    def advises(error: object, context: Context) -> Verdict:
        return Verdict(ErrorCategory.RESOURCE, "full", "somebody else", timedelta(1), "custom:slowly", 7, ("disk",))

    verdict = classify(Chain(plugins(advises=advises)), "x")
    assert verdict == Verdict(ErrorCategory.RESOURCE, "full", "advises", timedelta(1), "custom:slowly", 7, ("disk",))


def test_the_first_opinion_counts_and_the_rest_are_not_asked(classify: Classify) -> None:
    asked: list[str] = []

    def saying(name: str, answer: str | None) -> Callable[[object], str | None]:
        def say(error: object) -> str | None:
            asked.append(name)
            return answer

        return say

    made = plugins(a=saying("a", None), b=saying("b", "network"), c=saying("c", "resource"))
    assert classify(Chain(made), "x").author == "b"
    assert asked == ["a", "b"]


def test_plugins_that_raise_or_hang_are_passed_over(classify: Classify, gate: threading.Event) -> None:
    """The acceptance test A17."""
    made = plugins(P1=raising, P2=lambda error: gate.wait(10) and None, P3=lambda error: ErrorCategory.TRANSIENT)
    chain = Chain(made)
    started = time.perf_counter()
    verdict = classify(chain, "connection refused")
    assert time.perf_counter() - started < 1
    assert (verdict.category, verdict.author) == ("transient", "P3")
    assert [state_of(made, name) for name in ("P1", "P2", "P3")] == [("ok", 1), ("ok", 1), ("ok", 0)]
    for _ in range(4):
        assert classify(chain, "connection refused").category == "transient"
    assert [state_of(made, name) for name in ("P1", "P2", "P3")] == [("quarantined", 5), ("quarantined", 5), ("ok", 0)]
    started = time.perf_counter()
    assert classify(chain, "connection refused").author == "P3"
    assert time.perf_counter() - started < 0.2  # nobody is waited for any more
    told = {info.name: info.why for info in made.report()}
    assert "5 faults in a row, the last one: raised LookupError" in told["P1"]
    assert "took longer than 250 ms" in told["P2"]


class Odd:
    """A value that is no verdict."""


class Hostile(str):
    """A value that cannot even be looked at."""

    def __hash__(self) -> int:
        raise RuntimeError("no")

    __repr__ = __eq__ = __hash__  # type: ignore[assignment]


class Loud:
    """A value whose own code would run where nobody guards it."""

    def __repr__(self) -> str:
        raise SystemExit("printed")


async def answers_later(error: object) -> str:
    return "network"


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (lambda error: "flaky", "'flaky', which is not a category"),
        (lambda error: Odd(), "which is not a category"),
        (lambda error: Hostile("network"), "something of type Hostile, which is not a category"),
        (lambda error: Loud(), "something of type Loud, which is not a category"),
        (lambda error: True, "True, which is not a category"),
        (lambda error: Verdict("flaky"), "there is no error category 'flaky'"),  # type: ignore[arg-type]
        (answers_later, "is async"),
        (raising, "raised LookupError: no opinion, no mercy"),
        (lambda error: (_ for _ in ()).throw(SystemExit(3)), "raised SystemExit"),
        (lambda error: (_ for _ in ()).throw(KeyboardInterrupt), "raised KeyboardInterrupt"),
    ],
)
def test_nonsense_is_passed_over_and_named(
    classify: Classify, answer: Callable[[object], object], complaint: str, caplog: pytest.LogCaptureFixture
) -> None:
    made = plugins(fool=answer)
    with caplog.at_level(logging.WARNING, "mahavishnu"):
        assert classify(Chain(made), ConnectionResetError()).author == "built-in"
    assert "fool" in caplog.text and complaint in caplog.text
    assert state_of(made, "fool") == ("ok", 1)


def test_a_category_may_be_answered_by_name(classify: Classify) -> None:
    assert classify(Chain(plugins(p=lambda error: "resource")), "x").category is ErrorCategory.RESOURCE


def test_only_faults_in_a_row_lead_to_quarantine(classify: Classify) -> None:
    mood = [True, True, False, True, True, False]

    def moody(error: object) -> None:
        if mood.pop(0):
            raise ValueError

    made = plugins(moody=moody)
    chain = Chain(made, max_faults=3)
    for _ in range(6):
        classify(chain, "x")
    assert state_of(made, "moody") == ("ok", 4)
    mood += [True, True, True]
    for _ in range(3):
        classify(chain, "x")
    assert state_of(made, "moody") == ("quarantined", 7)
    made.enable("moody")
    assert state_of(made, "moody") == ("ok", 0)


def test_the_built_in_rules_are_never_quarantined() -> None:
    class Broken(Exception):
        @property  # type: ignore[misc]
        def __class__(self) -> type:
            raise RuntimeError("not even that")

    chain = Chain()
    for _ in range(10):
        assert chain.classify(Broken()).category == "permanent"
    assert chain.classify(TimeoutError()).author == "built-in"


def test_a_hanging_plugin_costs_its_timeout_and_not_more(classify: Classify, gate: threading.Event) -> None:
    chain = Chain(plugins(slow=lambda error: gate.wait(10) and None), timeout=SOON)
    started = time.perf_counter()
    assert classify(chain, TimeoutError()).author == "built-in"
    assert SOON.total_seconds() <= time.perf_counter() - started < 1


def test_the_late_answer_of_a_plugin_is_ignored(gate: threading.Event) -> None:
    left = threading.Event()

    def slow(error: object) -> str:
        gate.wait(10)
        left.set()
        return "resource"

    chain = Chain(plugins(slow=slow), timeout=SOON)
    assert chain.classify(TimeoutError()).category == "network"
    gate.set()
    assert left.wait(10)
    assert chain.classify(TimeoutError()).category == "resource"


async def test_the_event_loop_runs_while_a_plugin_hangs(gate: threading.Event) -> None:
    chain = Chain(plugins(slow=lambda error: gate.wait(10) and None), timeout=timedelta(seconds=9))
    task = asyncio.create_task(chain.classify_async(TimeoutError()))
    ticks = 0
    while ticks < 100:
        ticks += 1
        await asyncio.wait([task], timeout=0)
    assert not task.done()
    gate.set()
    assert (await task).category == "network"


async def test_the_answer_of_a_slow_plugin_counts_in_the_event_loop(gate: threading.Event) -> None:
    chain = Chain(plugins(slow=lambda error: "resource" if gate.wait(10) else None), timeout=timedelta(seconds=9))
    task = asyncio.create_task(chain.classify_async(TimeoutError()))
    await asyncio.wait([task], timeout=0.01)
    gate.set()
    assert (await task).author == "slow"


async def test_a_cancelled_caller_does_not_wait_for_a_plugin(gate: threading.Event) -> None:
    chain = Chain(plugins(slow=lambda error: gate.wait(10) and None), timeout=timedelta(seconds=9))
    task = asyncio.create_task(chain.classify_async("x"))
    await asyncio.wait([task], timeout=0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_many_threads_can_ask_at_once() -> None:
    chain = Chain(plugins(a=lambda error: None, b=lambda error: "network" if error == "1" else None))
    answers: list[str] = []

    def ask(number: int) -> None:
        answers.extend(chain.classify(str(number % 2)).author for _ in range(50))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == ["b"] * 200 + ["nobody"] * 200


WHO = ContextVar("WHO", default="nobody")


def test_plugins_see_the_callers_context_variables(classify: Classify) -> None:
    seen: list[str] = []
    chain = Chain(plugins(p=lambda error: seen.append(WHO.get())))
    token = WHO.set("me")
    classify(chain, "x")
    WHO.reset(token)
    assert seen == ["me"]


def test_plugins_get_the_context() -> None:
    seen: list[Context] = []
    chain = Chain(plugins(p=lambda error, context: seen.append(context)))
    chain.classify("x", Context(task_id="wf_1", repos=("api",)))
    chain.classify("x")
    assert seen == [Context(task_id="wf_1", repos=("api",)), Context()]


class First:
    @hookimpl(tryfirst=True)
    def classify_error(self, error: object) -> str:
        return "resource"


class Last:
    @hookimpl(trylast=True)
    def classify_error(self, context: Context, error: object) -> str:
        assert isinstance(context, Context)
        return "transient"


def test_plugins_are_asked_in_pluggys_order() -> None:
    made = Plugins()
    made.register(First(), "first")
    made.register(lambda error: "network", "later")
    assert Chain(made).classify("x").author == "first"
    made.unregister("first")
    assert Chain(made).classify("x").author == "later"


def test_a_trylast_plugin_is_asked_after_the_built_in_rules() -> None:
    made = Plugins()
    made.register(Last(), "last")
    assert Chain(made).classify(TimeoutError()).author == "built-in"
    assert Chain(made).classify("boom").author == "last"


def test_a_plugin_counts_from_the_moment_it_is_registered() -> None:
    made = Plugins()
    chain = Chain(made)
    assert chain.classify("x").author == "nobody"
    made.register(lambda error: "network", "new")
    assert chain.classify("x").author == "new"
    made.disable("new")
    assert chain.classify("x").author == "nobody"
    made.enable("new")
    assert chain.classify("x").author == "new"


def test_an_explanation_has_the_answers_of_all_plugins() -> None:
    made = plugins(
        silent=lambda error: None, fool=raising, speaks=lambda error: "resource", off=lambda error: "network"
    )
    made.disable("off")
    explained = Chain(made).explain(ConnectionResetError())
    assert explained.verdict.author == "speaks"
    told = {said.plugin: said for said in explained.trail}
    assert list(told) == ["silent", "fool", "speaks", "built-in", "off"]
    assert told["silent"].outcome == "no opinion"
    assert told["fool"].outcome.startswith("raised LookupError: no opinion, no mercy (")
    assert told["speaks"].counts and told["speaks"].verdict == explained.verdict
    assert told["built-in"].outcome == "network: ConnectionResetError" and not told["built-in"].counts
    assert told["off"].outcome == "not asked, because it is disabled: disabled at run time"
    assert all(said.seconds >= 0 for said in explained.trail)
    assert state_of(made, "fool") == ("ok", 0)  # looking is free


def test_a_fault_names_the_file_and_line() -> None:
    explained = Chain(plugins(fool=raising)).explain("x")
    assert f"{__file__}, line {raising.__code__.co_firstlineno + 1}" in explained.trail[0].outcome


def test_a_plugin_may_name_the_fingerprint() -> None:
    class Groups:
        @hookimpl
        def fingerprint_failure(self, error: BaseException | str, context: Context) -> str | None:
            return "card-declined" if "card" in str(error) else None

    made = Plugins()
    made.register(Groups(), "groups")
    chain = Chain(made)
    assert (
        chain.fingerprint("card 1 declined") == chain.fingerprint(ValueError("another card")) != chain.fingerprint("x")
    )
    assert chain.fingerprint("x") == Chain().fingerprint("x")
    assert chain.fingerprint("card").startswith("v2:")


@pytest.mark.parametrize("answer", [3, "", b"x"])
def test_a_fingerprint_that_is_no_text_is_passed_over(answer: object) -> None:
    class Groups:
        @hookimpl
        def fingerprint_failure(self, error: object) -> object:
            return answer

    made = Plugins()
    made.register(Groups(), "groups")
    assert Chain(made).fingerprint("x") == Chain().fingerprint("x")
    assert state_of(made, "groups") == ("ok", 1)


def test_without_a_thread_only_the_built_in_rules_are_asked(
    classify: Classify, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("mahavishnu.classify.plugin_guard._idle", deque())
    made = plugins(p=lambda error: "resource")
    chain = Chain(made)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        assert classify(chain, TimeoutError()).author == "built-in"
    assert "plugins are not asked: can't start new thread" in caplog.text
    assert state_of(made, "p") == ("ok", 0)
    assert classify(chain, TimeoutError()).author == "p"


def test_threads_are_reused(monkeypatch: pytest.MonkeyPatch, gate: threading.Event) -> None:
    monkeypatch.setattr("mahavishnu.classify.plugin_guard._idle", deque())
    before = threading.active_count()
    chain = Chain(plugins(a=lambda error: None))
    for _ in range(100):
        chain.classify("x")
    assert threading.active_count() == before + 1


@pytest.mark.parametrize("options", [{"timeout": timedelta(0)}, {"max_faults": 0}])
def test_a_chain_needs_limits(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Chain(**options)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_starts_its_own_threads() -> None:
    chain = Chain(plugins(p=lambda error: "network"))
    assert chain.classify("x").author == "p"
    child = os.fork()
    if not child:
        os._exit(0 if chain.classify("x").author == "p" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
