"""From a workflow that failed to its letter, and what happens where no letter can be made."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from datetime import date
from typing import Any
from unittest.mock import ANY

import pytest

from mahavishnu.capture.adapters import current_attempt
from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.dlq_integration import DLQIntegration, create_dlq_integration
from mahavishnu.core.strategies import Decision
from mahavishnu.model.errors import InvalidInput, NoAdapterNamed, QueueDisabled
from mahavishnu.model.letter import DeadLetter
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.testing import turn
from mahavishnu.values.payload import LetterRequest
from tests.support.queues import NETWORK, Gate, House, Runs, fails, letter_of, queue_of, sound, until


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even that")


class Untold:
    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise ValueError("ambiguous")

    def __eq__(self, other: object) -> Any:
        return self  # as arrays do


class Hostile(dict[str, Any]):
    def items(self) -> Any:
        raise RuntimeError("Hostile")

    __repr__ = items


class Login:
    def __init__(self, password: str) -> None:
        self.password = password

    def __repr__(self) -> str:
        return f"Login({self.password})"


@dataclass
class Account:
    password: str


def deep(levels: int) -> Any:
    """A list in a list in a list."""
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def circle() -> Any:
    """It contains itself."""
    value: dict[str, Any] = {}
    value["itself"] = value
    return value


class TestFailures:
    """What becomes of a failed run."""

    async def test_the_result_says_what_became_of_the_failure(self, any_house: House) -> None:
        app = any_house.app()
        result = await fails(app, NETWORK, metadata={"team": "blue"})
        assert (result["status"], result["error"], result["error_type"]) == (
            "failed",
            "connection refused",
            "ConnectionError",
        )
        letter = await letter_of(queue_of(app), result["dlq_task_id"])
        assert (letter.task, letter.repos, letter.metadata) == ({"n": 1}, ("api",), {"team": "blue"})
        assert (letter.source.queue, letter.failures[0].type) == ("sweep", "ConnectionError")
        app.register_adapter("fine", Runs({"swept": 1}))
        assert await app.execute_workflow({}, "fine", []) == {
            "status": "completed",
            "result": {"swept": 1},
            "adapter": "fine",
        }

    async def test_a_queue_that_is_off_changes_nothing_about_workflows(self, house: House) -> None:
        app = house.app(dlq_enabled=False)
        result = await fails(app, NETWORK)
        assert (result["status"], result.get("dlq_enqueued"), app.dlq_integration) == ("failed", False, None)
        with pytest.raises(QueueDisabled, match="this app keeps no letters: dlq_enabled is false"):
            assert app.dlq
        assert app.queue_if_enabled is None
        await app.start_dlq_processor()
        await app.stop_dlq_processor()

    async def test_cancellation_is_no_failure(self, house: House) -> None:
        app = house.app()
        app.register_adapter("slow", gate := Gate())
        for run in (app.execute_workflow, app.execute_workflow_parallel):
            running = asyncio.create_task(run({}, "slow", ["api"]))
            await gate.reached(1)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        assert await queue_of(app).list_tasks() == []

    async def test_only_the_repos_that_failed_are_retried(self, any_house: House) -> None:
        app = any_house.app()
        broken, calls = {"web"}, []

        async def sweep(task: Any, repos: list[str]) -> None:
            calls.append(repos)
            if broken & set(repos):
                raise NETWORK

        app.register_adapter("sweep", sweep)
        result = await app.execute_workflow_parallel({"id": "wf_1"}, "sweep", ["api", "web", "db"])
        assert [result["results"][name]["status"] for name in ("api", "web", "db")] == [
            "completed",
            "failed",
            "completed",
        ]
        assert (await letter_of(queue_of(app), "wf_1")).repos == ("web",)
        calls.clear()
        broken.clear()
        any_house.clock.advance(minutes=1)
        assert await queue_of(app).run_due() == 1
        assert calls == [["web"]]

    async def test_a_letter_of_an_unknown_adapter_is_left_alone(self, any_house: House) -> None:
        app = any_house.app()
        await queue_of(app).enqueue("gone", {"adapter": "sweeep"}, [], "connection refused", "immediate")
        await queue_of(app).enqueue("none", {}, [], "connection refused", "immediate")
        await queue_of(app).enqueue("well", {"adapter": "sweep"}, [], "connection refused", "immediate")
        app.register_adapter("sweep", Runs())
        assert await queue_of(app).run_due() == 1
        for name in ("gone", "none"):
            letter = await letter_of(queue_of(app), name)
            assert (letter.status, letter.retry_count, letter.total_attempts) == ("pending", 0, 0)
        assert (await letter_of(queue_of(app), "well")).status == "completed"

    async def test_the_default_retry_runs_the_adapter_that_the_task_names(self, house: House) -> None:
        app = house.app()
        app.register_adapter("x", x := Runs())
        app.register_adapter("llamaindex", guessed := Runs())
        await queue_of(app).enqueue("wf_1", {"adapter": "x"}, ["api"], "connection refused", "immediate")
        await queue_of(app).enqueue("wf_2", {}, ["api"], "connection refused", "immediate")
        await queue_of(app).run_due()
        assert (x.calls, guessed.calls) == ([({"adapter": "x"}, ["api"])], [])
        answer = await queue_of(app).retry_task("wf_2")
        assert "'wf_2' names no adapter" in answer["error"]
        assert "mahavishnu dlq edit TASK --adapter NAME" in answer["error"]
        await queue_of(app).letters.edit("wf_2", adapter="x", redrive=True)
        await queue_of(app).run_due()
        assert x.calls[1:] == [({}, ["api"])]
        with pytest.raises(NoAdapterNamed, match="the task names no adapter"):
            await app.run_again({}, [])

    async def test_a_store_error_never_reaches_the_workflow(self, any_house: House) -> None:
        app = any_house.app()
        with any_house.faults.misconfigured("write"):
            result = await fails(app, NETWORK)
        assert (result["status"], result["error"], result["dlq_enqueued"]) == ("failed", "connection refused", False)
        assert "in this process's memory" in result["dlq_error"]
        assert await queue_of(app).context.waiting.count() == 1
        await queue_of(app).run_due()
        assert (await letter_of(queue_of(app), "wf_1")).error == "connection refused"

    @pytest.mark.parametrize("task_id", ["x" * 9000, "a\ud800", "sha256:" + "é" * 5000], ids=["long", "half", "bytes"])
    @pytest.mark.parametrize("named", [True, False])
    async def test_an_id_that_cannot_be_kept_is_replaced(self, any_house: House, task_id: str, named: bool) -> None:
        app = any_house.app()
        app.register_adapter("sweep", runs := Runs(NETWORK))
        task = {"n": 1, "text": "y" * 5000} if named else {"id": task_id, "n": 1}
        results = [
            await app.execute_workflow(
                task, "sweep", ["api"], task_id=task_id if named else None, metadata={"by": "me"}
            )
            for _ in range(2)
        ]
        (letter,) = await queue_of(app).list_tasks()
        assert {result["dlq_task_id"] for result in results} == {letter.task_id}
        assert (letter.task, letter.repos, letter.occurrences) == (task, ("api",), 2)
        assert letter.metadata == {"by": "me", "dlq_given": {"task_id": task_id}}
        any_house.clock.advance(hours=24)
        assert await queue_of(app).run_due() == 1  # nothing else was wrong with it
        assert runs.tasks[-1] == task

    async def test_an_id_that_is_neither_true_nor_false_hides_no_error(self, house: House) -> None:
        app = house.app()
        sweep = app.workflow("sweep")(Runs(NETWORK))
        with pytest.raises(ConnectionError, match="refused"):
            await sweep({"id": Untold(), "n": 1}, [])
        assert (await app.execute_workflow({"id": Untold(), "n": 1}, "sweep"))["dlq_enqueued"] is True
        assert [letter.task["n"] for letter in await queue_of(app).list_tasks()] == [1, 1]

    async def test_the_id_0_is_an_id(self, house: House) -> None:
        app = house.app()
        app.register_adapter("sweep", Runs(NETWORK))
        assert [(await app.execute_workflow({"id": 0}, "sweep"))["dlq_task_id"] for _ in range(2)] == ["0", "0"]

    @pytest.mark.parametrize("repos", [[17, 18], 17, [None], [["a"]]], ids=repr)
    async def test_repos_that_are_not_texts_hide_no_error_of_a_decorated_function(
        self, any_house: House, repos: Any
    ) -> None:
        app = any_house.app()

        async def sweep(task: Any, repos: Any) -> None:
            raise NETWORK

        with pytest.raises((ConnectionError, TypeError)):  # 17 is no list
            await app.workflow("sweep")(sweep)({"id": "wf_1", "n": 1}, repos)
        letter = await letter_of(queue_of(app), "wf_1")
        assert (letter.task, letter.repos, letter.retry_policy) == ({"id": "wf_1", "n": 1}, (), "never")
        assert letter.metadata["dlq_given"] == {"repos": repos}

    @pytest.mark.parametrize(
        "odd",
        [
            {"metadata": 7},
            {"priority": "now"},
            {"depends_on": 5},
            {"namespace": "a/b"},
            {"queue": ""},
            {"reason": "because"},
            {"task_id": 5},
        ],
        ids=repr,
    )
    async def test_what_no_letter_can_have_is_kept_in_its_metadata(self, any_house: House, odd: dict[str, Any]) -> None:
        app = any_house.app()
        assert app.dlq_integration is not None
        outcome = await app.dlq_integration.capture(LetterRequest("wf_1", {"n": 1})._replace(**odd), NETWORK)
        assert outcome.letter is not None
        assert (outcome.letter.task, outcome.letter.metadata["dlq_given"]) == ({"n": 1}, odd)
        assert (await sound(queue_of(app)))["lifetime_stats"]["capture_failed"] == 0

    @pytest.mark.parametrize(
        ("task", "kept", "why"),
        [
            (object, {"n": 1, "it": ANY, "nan": "nan"}, "it is of type type, which cannot come back equal"),
            (deep(100_000), {"n": 1, "it": ANY, "nan": "nan"}, "nested"),
            (circle(), {"n": 1, "it": {"itself": ANY}, "nan": "nan"}, "itself"),
            (Hostile(), {"n": 1, "it": "<Hostile>", "nan": "nan"}, "Hostile"),
        ],
        ids=["no JSON", "too deep", "a circle", "hostile"],
    )
    @pytest.mark.parametrize("redact", [[], ["*token*"]])
    async def test_a_task_that_json_cannot_hold_is_kept_as_a_description(
        self, any_house: House, task: Any, kept: Any, why: str, redact: list[str]
    ) -> None:
        app = any_house.app(redact_keys=redact)
        app.register_adapter("sweep", runs := Runs(NETWORK))
        result = await app.execute_workflow({"id": "wf_1", "n": 1, "it": task, "nan": float("nan")}, "sweep", ["api"])
        assert (result["dlq_enqueued"], result["retry_policy"]) == (True, "never")
        letter = await letter_of(queue_of(app), "wf_1")
        assert letter.task == {"id": "wf_1", **kept}
        said = letter.metadata["dlq_not_json"]
        assert why in said or "recursion" in said
        any_house.clock.advance(hours=24)
        await queue_of(app).run_due()
        assert len(runs.calls) == 1
        assert queue_of(app).context.counts["capture_failed"] == 0

    async def test_redacted_values_are_in_no_description(self, house: House) -> None:
        app = house.app(redact_keys=["*token*"])
        app.register_adapter("sweep", Runs(NETWORK))
        await app.execute_workflow({"id": "wf_1", "login": Login("s3cret")}, "sweep")
        assert "s3cret" not in str((await letter_of(queue_of(app), "wf_1")).task["login"])

    async def test_the_fields_of_an_object_are_masked_like_keys(self, house: House) -> None:
        app = house.app(redact_keys=["*password*"])
        app.register_adapter("sweep", Runs(NETWORK))
        await app.execute_workflow({"id": "wf_1", "account": Account("s3cret")}, "sweep")
        assert (await letter_of(queue_of(app), "wf_1")).task["account"] == {"password": "***"}

    @pytest.mark.parametrize("way", ["whole", "parallel", "decorated"])
    @pytest.mark.parametrize("more", [{}, {"on": date(2030, 1, 1)}])
    async def test_a_letter_has_the_task_as_the_run_was_given_it(self, house: House, way: str, more: Any) -> None:
        app = house.app()

        @app.workflow("sweep")
        async def sweep(task: Any, repos: Any = ()) -> None:
            task["steps"].append(task.pop("id"))
            raise NETWORK

        task = {"id": "wf_1", "steps": [], **more}
        if way == "decorated":
            with pytest.raises(ConnectionError):
                await sweep(task)
        else:
            await (app.execute_workflow if way == "whole" else app.execute_workflow_parallel)(task, "sweep")
        letter = await letter_of(queue_of(app), "wf_1")
        assert letter.task == {"id": "wf_1", "steps": [], **{name: str(value) for name, value in more.items()}}

    @pytest.mark.parametrize("raises", [Unspeakable, RecursionError])
    async def test_repos_that_raise_lose_no_failure(self, house: House, raises: type[Exception]) -> None:
        class Repos(list[str]):
            def __iter__(self) -> Any:
                raise raises

        app = house.app()
        assert app.dlq_integration is not None
        task = {"id": "wf_1", "it": deep(100_000)}
        letter = await app.dlq_integration.enqueue_failed_workflow("wf_1", task, Repos(), NETWORK)
        assert letter is not None and letter.task["id"] == "wf_1"
        assert queue_of(app).context.counts["capture_failed"] == 0

    async def test_a_failure_that_cannot_be_kept_is_in_the_log_with_its_whole_payload(
        self, house: House, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(*_: Any, **__: Any) -> None:
            raise RuntimeError("a bug")

        app = house.app()
        monkeypatch.setattr("mahavishnu.engine.letter_factory.LetterFactory.make", broken)
        app.register_adapter("sweep", Runs(NETWORK))
        result = await app.execute_workflow({"id": "wf_1", "text": "x" * 9000 + "the end"}, "sweep")
        assert (result["dlq_enqueued"], result["dlq_error"]) == (False, "RuntimeError: a bug")
        assert "the failure of task 'wf_1' could not be captured" in caplog.text
        assert "the end" in caplog.text
        assert queue_of(app).context.counts["capture_failed"] == 1

    async def test_a_decorated_function_raises_its_own_error(self, house: House) -> None:
        app = house.app()

        @app.workflow("sweep")
        async def sweep(task: Any, repos: Any = ()) -> str:
            if task["n"]:
                raise NETWORK
            return "done"

        assert await sweep({"n": 0}) == "done"
        with pytest.raises(ConnectionError, match="refused"):
            await sweep({"n": 1, "id": "wf_1"}, ["api"])
        assert (await letter_of(queue_of(app), "wf_1")).repos == ("api",)

    async def test_a_decorated_function_that_returns_a_failure_has_a_letter(self, house: House) -> None:
        app = house.app()
        answer = {"status": "failed", "error": "boom", "results": {"api": "swept", "web": NETWORK}}
        sweep = app.workflow("sweep")(Runs(answer).__call__)
        assert await sweep({"id": "wf_1"}, ["api", "web"]) is answer
        letter = await letter_of(queue_of(app), "wf_1")
        assert (letter.error, letter.repos) == ("boom", ("web",))

    @pytest.mark.parametrize("parallel", [False, True])
    @pytest.mark.parametrize(
        "answer",
        [
            Unspeakable(),
            asyncio.CancelledError("inside"),
            {"status": "failed", "error": Untold()},
            {"status": "failed", "error": "no", "results": {"api": {"status": Untold()}}},
            StopAsyncIteration(),
        ],
        ids=["no text", "cancels itself", "no truth", "no truth of a repo", "end of iteration"],
    )
    async def test_every_kind_of_failure_is_captured(self, house: House, answer: Any, parallel: bool) -> None:
        app = house.app()
        app.register_adapter("sweep", Runs(answer))
        run = app.execute_workflow_parallel if parallel else app.execute_workflow
        result = await run({"id": "wf_1"}, "sweep", ["api", "web"])
        assert (result["status"], result["dlq_task_id"]) == ("failed", "wf_1")

    @pytest.mark.parametrize("bad", [NETWORK, False, {"success": False}, None])
    async def test_every_report_of_a_failed_repo_is_recognised(self, house: House, bad: Any) -> None:
        app = house.app()
        results = {"api": "swept", "db": {"status": "failed"}} | ({} if bad is None else {"web": bad})
        app.register_adapter("sweep", Runs({"status": "failed", "results": results}))
        await app.execute_workflow({"id": "wf_1"}, "sweep", ["api", "web", "db"])
        assert (await letter_of(queue_of(app), "wf_1")).repos == ("web", "db")

    @pytest.mark.parametrize("repos", ["api", b"api", 5, [None], [["api"]]])
    async def test_repos_that_are_not_texts_are_refused_before_the_run(self, house: House, repos: Any) -> None:
        app = house.app()
        app.register_adapter("sweep", runs := Runs())
        for run in (app.execute_workflow, app.execute_workflow_parallel):
            with pytest.raises(InvalidInput, match="repos must be a list of texts"):
                await run({}, "sweep", repos)
        assert runs.calls == []

    async def test_a_caller_cancelled_during_a_capture_loses_nothing(self, any_house: House) -> None:
        app = any_house.app()
        async with app:
            for step in range(40):
                app.register_adapter("sweep", runs := Runs(NETWORK))
                running = asyncio.create_task(app.execute_workflow({}, "sweep", task_id=f"wf_{step}"))
                await until(lambda runs=runs: runs.calls)  # type: ignore[misc]
                for _ in range(step):
                    await asyncio.sleep(0)  # noqa: TID251 - every step of the capture is one to give up at
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
        assert {letter.task_id for letter in await queue_of(app).list_tasks()} == {f"wf_{step}" for step in range(40)}
        await sound(queue_of(app))

    async def test_shutdown_waits_for_captures(self, any_house: House) -> None:
        app = any_house.app()
        app.register_adapter("sweep", Runs(NETWORK))
        async with app:
            writing = any_house.faults.hold("write", kind=LETTERS)
            running = asyncio.create_task(app.execute_workflow({}, "sweep", task_id="wf_1"))
            await writing.wait_for_call()
            running.cancel()
            await asyncio.wait({running})
            closing = asyncio.create_task(app.shutdown())
            for _ in range(50):
                await turn()
            assert not closing.done()
            writing.release()
            await closing
        assert await queue_of(app).get_task("wf_1") is not None

    async def test_a_cancelled_capture_ends_its_caller(self, house: House) -> None:
        app = house.app()
        assert app.dlq_integration is not None
        async with app:
            before = asyncio.all_tasks()
            requests = LetterRequest(task_id="wf_1", task={})
            waiting = asyncio.create_task(app.dlq_integration.capture(requests, NETWORK))
            await asyncio.sleep(0)  # noqa: TID251 - now the capture has a task of its own, which has not begun
            (keeping,) = asyncio.all_tasks() - before - {waiting}
            keeping.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(waiting, 5)
            await app.dlq_integration.finish()

    @pytest.mark.parametrize("advice", [{"retry_policy": "sometimes"}, {"max_retries": -1}, {"max_retries": "many"}])
    async def test_impossible_advice_of_a_strategy_loses_no_failure(self, house: House, advice: Any) -> None:
        app = house.app()
        assert app.dlq_integration is not None
        app.dlq_integration.set_strategy(lambda occurrence: Decision(True, "why not", **advice))
        assert (await fails(app, NETWORK))["dlq_enqueued"] is True
        assert (await letter_of(queue_of(app), "wf_1")).retry_policy == "exponential"

    async def test_a_listener_that_raises_cancelled_error_disturbs_nobody(self, house: House) -> None:
        app = house.app()

        def listener(event: Any) -> None:
            raise asyncio.CancelledError

        queue_of(app).context.events.subscribe(listener)
        assert (await fails(app, NETWORK))["dlq_enqueued"] is True

    async def test_a_task_left_behind_by_a_retry_is_captured_when_it_fails(self, house: House) -> None:
        app = house.app()
        left: list[asyncio.Task[Any]] = []
        later = asyncio.Event()

        async def consume() -> Any:
            await later.wait()
            return await fails(app, NETWORK, "later")

        async def run(task: Any, repos: list[str]) -> None:
            left.append(asyncio.create_task(consume()))

        queue = queue_of(app)
        await queue.enqueue("wf_1", {}, [], "boom", "immediate")
        queue.processing.callback = run
        assert await queue.run_due() == 1
        later.set()
        assert (await left[0])["dlq_task_id"] == "later"

    async def test_a_payload_that_is_too_large_waits_durably(self, any_house: House) -> None:
        app = any_house.app(dlq_max_task_bytes=1024)
        app.register_adapter("sweep", Runs(NETWORK))
        result = await app.execute_workflow({"text": "x" * 2000}, "sweep", task_id="wf_1")
        assert "memory" not in result["dlq_error"]
        await app.shutdown()
        assert (await any_house.queue().get_statistics())["waiting"] == 1


class TestStatistics:
    """What the integration counts."""

    async def test_failures_are_counted_and_counts_can_be_reset(self, house: House) -> None:
        app = house.app()
        assert app.dlq_integration is not None
        await fails(app, NETWORK, "wf_1")
        await fails(app, NETWORK, "wf_2", enqueue=True)
        app.dlq_integration.set_strategy("disabled")
        await fails(app, NETWORK, "wf_3")
        app.register_adapter("fine", Runs())
        await app.execute_workflow({}, "fine", [])
        stats = await app.dlq_integration.get_statistics()
        assert (stats["strategy"], stats["workflows_executed"], stats["workflows_failed"]) == ("disabled", 4, 3)
        assert (stats["auto_enqueued"], stats["manually_enqueued"], stats["skipped_by_strategy"]) == (1, 1, 1)
        assert stats["enqueue_rate"] == 66.67
        app.dlq_integration.reset_statistics()
        after = await app.dlq_integration.get_statistics()
        assert {name: count for name, count in after.items() if count} == {"strategy": "disabled"}
        assert (await queue_of(app).get_statistics())["lifetime_stats"]["skipped_by_strategy"] == 1

    async def test_a_failed_retry_does_not_lower_the_enqueue_rate(self, house: House) -> None:
        app = house.app()
        await fails(app, NETWORK)
        for _ in range(3):
            house.clock.advance(minutes=20)
            assert await queue_of(app).run_due() == 1
        assert app.dlq_integration is not None
        stats = await app.dlq_integration.get_statistics()
        assert (stats["workflows_failed"], stats["auto_enqueued"], stats["enqueue_rate"]) == (4, 1, 100.0)

    async def test_the_names_of_the_earlier_orchestrator(self, house: House) -> None:
        app = house.app(dlq_strategy="selective")
        integration = create_dlq_integration(app)
        assert await integration.should_enqueue(NETWORK) is True
        assert await integration.should_enqueue("nobody knows", "transient") is True
        assert await integration.should_enqueue(NETWORK, "permission") is False
        assert await integration.determine_retry_policy(MemoryError()) == "linear"
        letter = await integration.enqueue_failed_workflow("wf_1", {}, [], NETWORK, "linear", 1, {"a": 1})
        assert letter is not None
        assert (letter.retry_policy, letter.max_retries, letter.metadata) == ("linear", 1, {"a": 1})
        assert await integration.enqueue_failed_workflow("wf_2", {}, [], ValueError("x")) is None
        app.register_adapter("sweep", Runs(NETWORK))
        assert (await integration.execute_with_dlq({"id": "wf_3"}, "sweep", ["api"]))["dlq_task_id"] == "wf_3"


async def test_a_requested_capture_inside_a_retry_makes_a_letter(any_house: House) -> None:
    queue = any_house.queue()
    integration = DLQIntegration(None, queue)

    async def parent(task: Any, repos: list[str]) -> str:
        requests = [LetterRequest(task_id="asked", task={}), LetterRequest(task_id="parent", task={})]
        outcomes = [
            await integration.capture(each, ConnectionError("down"), requested=each.task_id == "asked")
            for each in requests
        ]
        return f"{outcomes[0].letter is not None} {outcomes[1].folded}"

    queue.processing.callback = parent
    await queue.enqueue("parent", {}, [], "reset", retry_policy="immediate")
    assert (await queue.retry_task("parent"))["result"] == "True True"
    assert await queue.get_task("asked") is not None
    assert await queue.get_task("folded") is None


class TestInsideOfARetry:
    """What fails inside of a retry: the letter takes in its own workflow's failure, and nothing else."""

    async def retried(self, app: MahavishnuApp, callback: Any) -> DeadLetter:
        queue = queue_of(app)
        queue.processing.callback = callback
        app.register_adapter("sweep", Runs(NETWORK))
        await app.execute_workflow({"id": "parent", "n": 1}, "sweep", ["api", "web"])
        await queue.retry_task("parent")
        return await letter_of(queue, "parent")

    @pytest.mark.parametrize("named", [True, False], ids=["with an id", "without an id"])
    @pytest.mark.parametrize("decorated", [True, False])
    async def test_another_workflow_that_fails_is_captured_though_the_retry_ignores_it(
        self, any_house: House, named: bool, decorated: bool
    ) -> None:
        app = any_house.app()
        child = app.workflow("child")(Runs(NETWORK))
        task = {"id": "child", "n": 2} if named else {"n": 2}

        async def callback(_: Any, repos: list[str]) -> str:
            if decorated:
                with contextlib.suppress(ConnectionError):
                    await child(task, ["api"])
            else:
                await app.execute_workflow(task, "child", ["api"])
            return "done"

        assert (await self.retried(app, callback)).status == "completed"
        (left,) = await queue_of(app).list_tasks()
        assert (left.task, left.repos, left.adapter) == (task, ("api",), "child")

    async def test_the_same_payload_under_another_id_is_other_work(self, house: House) -> None:
        app = house.app()

        async def callback(task: Any, repos: list[str]) -> str:
            await app.execute_workflow(task, "sweep", repos, task_id="another")
            return "done"

        await self.retried(app, callback)
        assert [letter.task_id for letter in await queue_of(app).list_tasks()] == ["another"]

    async def test_a_task_that_a_nested_run_changes_is_kept_as_it_was(self, house: House) -> None:
        app = house.app()

        async def child(task: Any, repos: list[str]) -> None:
            task["n"] = "changed"
            raise NETWORK

        app.register_adapter("child", child)

        async def callback(task: Any, repos: list[str]) -> str:
            await app.execute_workflow({"id": "child", "n": 2}, "child")
            return "done"

        await self.retried(app, callback)
        assert (await letter_of(queue_of(app), "child")).task == {"id": "child", "n": 2}

    async def test_another_workflow_does_not_see_the_attempt(self, house: House) -> None:
        app = house.app()
        seen = dict[str, Any]()

        async def child(task: Any, repos: list[str]) -> None:
            seen[task["id"]] = current_attempt.get()

        app.register_adapter("child", child)

        async def callback(task: Any, repos: list[str]) -> str:
            await app.execute_workflow({"id": "child"}, "child", repos)
            seen["before"] = current_attempt.get()
            app.register_adapter("sweep", child)
            await app.execute_workflow(task, "sweep", repos)
            return "done"

        await self.retried(app, callback)
        assert seen["child"] is None
        assert seen["parent"] is seen["before"] is not None

    @pytest.mark.parametrize("named", [True, False], ids=["by its id", "by its payload"])
    async def test_its_own_failure_is_the_attempts_though_the_callback_says_nothing(
        self, house: House, named: bool
    ) -> None:
        app = house.app()
        app.register_adapter("sweep", Runs(NETWORK))
        task = {"id": "parent"} if named else {"n": 1}
        name = (await app.execute_workflow(task, "sweep", ["api"]))["dlq_task_id"]

        async def callback(task: Any, repos: list[str]) -> None:
            await app.execute_workflow(task, "sweep", repos)

        queue_of(app).processing.callback = callback
        assert (await queue_of(app).retry_task(name))["success"] is False
        (letter,) = await queue_of(app).list_tasks()
        assert (letter.task_id, letter.last_error, letter.occurrences) == (name, "connection refused", 1)
        assert len(letter.failures) == 2

    async def test_its_own_success_after_a_failure_is_the_attempts(self, house: House) -> None:
        app = house.app()

        async def callback(task: Any, repos: list[str]) -> None:
            app.register_adapter("sweep", Runs(NETWORK, None))
            await app.execute_workflow(task, "sweep", ["api"])
            await app.execute_workflow(task, "sweep", repos)

        assert (await self.retried(app, callback)).status == "completed"

    async def test_a_success_for_another_repo_does_not_make_up_for_a_failure(self, house: House) -> None:
        app = house.app()

        async def callback(task: Any, repos: list[str]) -> None:
            app.register_adapter("sweep", Runs(NETWORK, None))
            for repo in repos:
                await app.execute_workflow(task, "sweep", [repo])

        assert (await self.retried(app, callback)).is_open
