"""The capture pipeline: failures of the same moment are recorded by one write, and none of them affects the others."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Sequence
from contextvars import ContextVar
from datetime import timedelta
from typing import Any

import pytest

from mahavishnu import hookimpl
from mahavishnu.capture.integration import DLQIntegration
from mahavishnu.classify.chain import Chain
from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.dlq_integration import CaptureOutcome
from mahavishnu.core.strategies import Decision, Occurrence
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.events import Event
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.testing import turn
from mahavishnu.values.payload import LetterRequest
from tests.support.queues import NETWORK, House, Runs, letter_of, queue_of, sound

trace: ContextVar[str] = ContextVar("trace", default="nobody's")


def start_captures(app: MahavishnuApp, names: Sequence[str], **options: Any) -> list[asyncio.Task[CaptureOutcome]]:
    """Failures of these tasks, all in one turn."""
    integration = app.dlq_integration
    assert integration is not None
    return [
        asyncio.create_task(
            integration.capture(LetterRequest(name, {"n": name}), ConnectionError("connection refused"), **options)
        )
        for name in names
    ]


class TestBatch:
    """Failures of one turn."""

    async def test_captures_of_one_moment_are_one_write(self, house: House) -> None:
        app = house.app()
        await queue_of(app).open()
        hold = house.faults.hold("write", kind=LETTERS)
        tasks = start_captures(app, [f"wf_{number}" for number in range(20)])
        assert len((await hold.wait_for_call()).keys) == 20
        hold.release()
        decided = await asyncio.gather(*tasks)
        assert {each.letter.task_id for each in decided if each.letter} == {f"wf_{number}" for number in range(20)}
        await sound(queue_of(app))

    async def test_each_capture_has_its_own_outcome(self, any_house: House) -> None:
        app = any_house.app(dlq_max_task_bytes=1024)
        integration = app.dlq_integration
        assert integration is not None

        def strategy(occurrence: Occurrence) -> Decision | bool:
            return occurrence.task_id != "dropped"

        integration.set_strategy(strategy)
        await queue_of(app).enqueue("open", {}, [], "boom")
        before = await queue_of(app).enqueue("closed", {}, [], "boom")
        await queue_of(app).letters.resolve("closed")
        wanted = [
            LetterRequest("new", {}),
            LetterRequest("open", {}),
            LetterRequest("closed", {}),
            LetterRequest("twice", {}),
            LetterRequest("twice", {}),
            LetterRequest("large", {"text": "x" * 2000}),
            LetterRequest("dropped", {}),
            LetterRequest("unwritable", {"no": object()}),
            LetterRequest("", {}),
            LetterRequest("custom", {}, retry_policy="custom:unknown"),
        ]
        decided = await asyncio.gather(*(integration.capture(each, NETWORK) for each in wanted))
        new, opened, closed, *twice, large, dropped, unwritable, nameless, custom = decided
        assert new.letter is not None and new.letter.occurrences == 1
        assert opened.letter is not None and opened.letter.occurrences == 2
        assert closed.letter is not None
        assert (closed.letter.generation, closed.letter.previous_entry_id) == (2, before.entry_id)
        assert sorted(each.letter.occurrences for each in twice if each.letter) == [1, 2]
        assert large.problem is not None and "it waits to be let in" in large.problem
        assert dropped.skip_reason == "strategy strategy says so"
        assert unwritable.letter is not None and unwritable.letter.retry_policy == "never"
        assert nameless.letter is not None and nameless.letter.metadata == {"dlq_given": {"task_id": ""}}
        assert custom.letter is not None and custom.letter.retry_policy == "custom:unknown"
        stats = await sound(queue_of(app))
        assert (stats["queue_size"], stats["waiting"], stats["lifetime_stats"]["capture_failed"]) == (7, 1, 0)

    async def test_a_nearly_full_queue_takes_what_fits_and_the_others_wait(self, any_house: House) -> None:
        app = any_house.app()
        queue_of(app).max_size = 3
        names = [f"wf_{number}" for number in range(5)]
        decided = await asyncio.gather(*start_captures(app, names))
        assert [each.letter is not None for each in decided] == [True, True, True, False, False]
        assert all("wait" in (each.problem or "") for each in decided[3:])
        stats = await sound(queue_of(app))
        assert (stats["queue_size"], stats["waiting"]) == (3, 2)
        again = await asyncio.gather(*start_captures(app, ["wf_0"]))  # it has a letter, which needs no room
        assert again[0].letter is not None and again[0].letter.occurrences == 2

    async def test_all_wait_while_the_store_is_away(self, any_house: House) -> None:
        app = any_house.app()
        await queue_of(app).open()
        with any_house.faults.unavailable():
            decided = await asyncio.gather(*start_captures(app, ["wf_0", "wf_1", "wf_2"]))
        assert all("memory" in (each.problem or "") for each in decided)
        assert await queue_of(app).intake.admit_waiting() == 3
        await sound(queue_of(app))

    async def test_a_letter_that_the_store_refuses_does_not_hold_up_the_others(self, any_house: House) -> None:
        app = any_house.app()
        await queue_of(app).open()
        any_house.faults.item_failed("write", kind=LETTERS, keys=["wf_1"])
        decided = await asyncio.gather(*start_captures(app, ["wf_0", "wf_1", "wf_2"]))
        assert [each.letter is not None for each in decided] == [True, False, True]
        assert "it waits" in (decided[1].problem or "")

    async def test_listeners_and_strategies_are_called_in_the_context_of_the_failure(self, house: House) -> None:
        app, heard = house.app(), []
        integration = app.dlq_integration
        assert integration is not None

        def strategy(occurrence: Occurrence) -> bool:
            heard.append((occurrence.task_id, trace.get()))
            return True

        integration.set_strategy(strategy)
        queue_of(app).context.events.subscribe(
            lambda event: heard.append((event.letter.task_id, trace.get())) if event.letter else None
        )

        async def one(name: str) -> None:
            trace.set(f"{name}'s")
            await integration.capture(LetterRequest(name, {}), NETWORK)

        await asyncio.gather(one("a"), one("b"), one("a"))
        assert sorted(set(heard)) == [("a", "a's"), ("b", "b's")]
        assert len(heard) == 6

    async def test_a_cancelled_caller_does_not_affect_the_others(self, any_house: House) -> None:
        app = any_house.app()
        await queue_of(app).open()
        tasks = start_captures(app, ["wf_0", "wf_1", "wf_2"])
        await turn()
        tasks[1].cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(done[1], asyncio.CancelledError)
        assert isinstance(done[0], CaptureOutcome) and isinstance(done[2], CaptureOutcome)
        assert app.dlq_integration is not None
        await app.dlq_integration.finish()
        assert len(await queue_of(app).list_tasks()) == 3

    async def test_a_slow_plugin_holds_up_no_other_capture(self, house: House) -> None:
        app, free = house.app(), threading.Event()
        app.chain.use(Chain(timeout=timedelta(seconds=30)))

        class Slow:
            @hookimpl
            def classify_error(self, error: Any, context: Any) -> None:
                if context.task_id == "wf_0":
                    free.wait()

        app.chain.plugins.register(Slow(), "slow")
        held, other = start_captures(app, ["wf_0", "wf_1"])
        try:
            assert (await other).letter is not None
            assert not held.done()
        finally:
            free.set()
        assert (await held).letter is not None

    async def test_a_slow_step_lets_other_tasks_run(self, house: House) -> None:
        app, turns = house.app(), []

        class Slow(Exception):
            def __str__(self) -> str:
                house.clock.advance(1)
                turns.append("text")
                return "connection refused"

        async def other() -> None:
            while len(turns) < 20:
                turns.append("other")
                await turn()

        await queue_of(app).open()
        integration = app.dlq_integration
        assert integration is not None
        tasks = [asyncio.create_task(integration.capture(LetterRequest(f"wf_{n}", {}), Slow())) for n in range(5)]
        await asyncio.gather(other(), *tasks)
        texts = [place for place, each in enumerate(turns) if each == "text"]
        assert "other" in turns[texts[0] : texts[-1]]
        assert len(await queue_of(app).list_tasks()) == 5

    async def test_an_internal_error_answers_every_caller(
        self, house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        app = house.app()

        def broken(letter: Any) -> None:
            raise RuntimeError("a bug")

        monkeypatch.setattr(queue_of(app).intake, "record_many", broken)
        decided = await asyncio.gather(*start_captures(app, ["wf_0", "wf_1"]))
        for each in decided:
            assert re.fullmatch(r"RuntimeError: a bug; it waits to be let in \(entry .*\)", each.problem or "")
        assert await queue_of(app).context.waiting.count() == 2
        monkeypatch.undo()
        assert await queue_of(app).intake.admit_waiting() == 2
        monkeypatch.setattr(queue_of(app).intake, "announce_captured", broken)
        decided = await asyncio.gather(*start_captures(app, ["wf_2", "wf_3"]))
        assert all(each.letter is not None for each in decided)
        assert "letter 'wf_3' is stored, but something stumbled over it" in caplog.text

    async def test_a_classifier_that_cannot_be_made_loses_no_failure(
        self, house: House, caplog: pytest.LogCaptureFixture
    ) -> None:
        def make() -> Chain:
            raise InvalidInput("the rules are wrong")

        integration = DLQIntegration(None, house.queue(chain=make))
        captures = [integration.capture(LetterRequest(f"wf_{n}", {"n": n}), NETWORK) for n in range(2)]
        letters = [outcome.letter for outcome in await asyncio.gather(*captures)]
        assert [letter and (letter.task, letter.retry_policy) for letter in letters] == [
            ({"n": 0}, "exponential"),
            ({"n": 1}, "exponential"),
        ]
        assert "left to the built-in rules: InvalidInput('the rules are wrong')" in caplog.text

    @pytest.mark.parametrize("odd", [asyncio.CancelledError(), BaseException("neither"), ValueError("bad")])
    @pytest.mark.parametrize("place", ["strategy", "text", "listener"])
    async def test_what_user_code_raises_affects_only_its_own_capture(
        self, house: House, odd: BaseException, place: str
    ) -> None:
        class Odd(Exception):
            def __str__(self) -> str:
                raise odd

        def strategy(occurrence: Occurrence) -> bool:
            if place == "strategy" and occurrence.task_id == "wf_1":
                raise odd
            return True

        def listener(event: Event) -> None:
            if place == "listener" and event.letter is not None and event.letter.task_id == "wf_1":
                raise odd

        app = house.app()
        integration = app.dlq_integration
        assert integration is not None
        integration.set_strategy(strategy)
        queue_of(app).context.events.subscribe(listener)
        errors = [NETWORK, Odd() if place == "text" else NETWORK, NETWORK]
        tasks = [integration.capture(LetterRequest(f"wf_{n}", {}), error) for n, error in enumerate(errors)]
        decided = await asyncio.gather(*tasks)
        assert [each.letter and each.letter.task_id for each in decided] == ["wf_0", "wf_1", "wf_2"]
        await sound(queue_of(app))

    async def test_a_plugin_registered_at_the_last_moment_is_not_asked_in_the_event_loop(self, house: House) -> None:
        app, asked = house.app(), []
        app.chain.use(Chain(timeout=timedelta(seconds=30)))

        class Late:
            @hookimpl
            def classify_error(self, error: Any, context: Any) -> None:
                asked.append(threading.current_thread() is threading.main_thread())

        await queue_of(app).open()
        tasks = start_captures(app, ["wf_0", "wf_1"])
        asyncio.get_running_loop().call_soon(app.chain.plugins.register, Late(), "late")
        assert all(each.letter is not None for each in await asyncio.gather(*tasks))
        assert asked == [False, False]

    async def test_finish_waits_for_captures_that_are_recorded_one_by_one(self, any_house: House) -> None:
        app = any_house.app()
        queue = queue_of(app)
        await queue.enqueue("wf_0", {}, [], "boom")
        integration = DLQIntegration(None, queue)
        waiting = asyncio.create_task(integration.capture(LetterRequest("wf_0", {}), NETWORK))
        await turn()
        waiting.cancel()
        await integration.finish()
        assert (await letter_of(queue, "wf_0")).occurrences == 2


class Watched(dict[str, Any]):
    """Remembers which threads encoded it."""

    threads: set[int]

    def items(self) -> Any:
        self.threads.add(threading.get_ident())
        return super().items()


@pytest.mark.parametrize(("parts", "is_here"), [(10, True), (5000, False)])
@pytest.mark.parametrize("odd", [None, object()])  # the second makes a payload that JSON cannot hold
async def test_large_payloads_are_encoded_in_a_thread(house: House, parts: int, is_here: bool, odd: object) -> None:
    watched = Watched(n=1)
    watched.threads = set()
    app = house.app()
    assert app.dlq_integration is not None
    request = LetterRequest("large", {"parts": list(range(parts)), "watched": watched, "odd": odd})
    outcome = await app.dlq_integration.capture(request, NETWORK)
    assert outcome.letter is not None and outcome.letter.task["parts"] == list(range(parts))
    assert (threading.get_ident() in watched.threads) is is_here


async def test_a_large_payload_that_is_not_kept_is_not_encoded(house: House) -> None:
    watched = Watched(n=1)
    watched.threads = set()
    app = house.app()
    assert app.dlq_integration is not None
    app.dlq_integration.set_strategy(lambda occurrence: False)
    outcome = await app.dlq_integration.capture(LetterRequest("large", {"x": [0] * 5000, "y": watched}), NETWORK)
    assert outcome.skip_reason is not None and watched.threads == set()


async def test_failures_of_one_moment_are_one_line_and_each_is_one_for_debugging(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    def lines() -> list[tuple[str, str]]:
        told = [(each.levelname, each.getMessage()) for each in caplog.records if "captured" in each.getMessage()]
        caplog.clear()
        return told

    caplog.set_level("DEBUG", "mahavishnu.capture.capture")
    app = house.app(dlq_automatic_policy="default")
    app.register_adapter("sweep", Runs(ConnectionResetError("connection reset by peer")))
    await app.execute_workflow({"n": 0}, "sweep", ["api"], task_id="a")
    assert lines() == [("INFO", "captured a: ConnectionResetError (network), retry in 1 min")]
    await asyncio.gather(
        *(app.execute_workflow({"n": 1}, "sweep", ["api"], task_id=name) for name in ("b", "c")),
        app.dlq_integration.capture(LetterRequest("d", {}, retry_policy="never"), "no permission", named=True),  # type: ignore[union-attr]
    )
    first, *others = lines()
    assert first == ("INFO", "captured 3 failures: network 2, permanent 1")
    assert {level for level, _ in others} == {"DEBUG"}
    assert len(others) == 3
