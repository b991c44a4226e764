"""What users of the dead-letter queue were promised to be able to write, on the embedded store and on OpenSearch.

Apps are made as the documentation makes them, `MahavishnuApp()`, with everything else in the environment.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from mahavishnu.core import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.core.dead_letter_queue import DeadLetterQueue, DeadLetterStatus, RetryPolicy
from mahavishnu.core.dlq_integration import DLQIntegrationStrategy, create_dlq_integration
from mahavishnu.core.resilience import ErrorCategory
from mahavishnu.model.clock import SystemClock
from mahavishnu.model.errors import StoreUnavailable
from mahavishnu.model.events import Event, EventName
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.testing import ManualClock
from tests.support.opensearch import Servers

pytestmark = pytest.mark.opensearch
CLOCK = SystemClock()
TASK = {"type": "code_sweep"}
NAMED = {**TASK, "adapter": "llamaindex"}  # names what the documented callback runs it with
REPOS = ["/path/to/repo"]
DOCUMENTED = {
    "task_id", "task", "repos", "error", "failed_at", "retry_count", "max_retries", "retry_policy", "next_retry_at",
    "status", "metadata", "error_category", "last_error", "total_attempts", "updated_at",
}  # fmt: skip
LIFETIME = ("enqueued_total", "retry_success", "retry_failed", "exhausted", "manually_retried", "archived")


@dataclass(frozen=True)
class Index:
    """The letters' index, asked over plain HTTP as somebody without this library would."""

    cluster: Servers
    name: str

    def search(self, query: dict[str, Any]) -> list[dict[str, Any]]:
        """The documents that a query of the documentation finds."""
        self.cluster.request("POST", f"/{self.name}/_refresh")
        status, answer = self.cluster.request("POST", f"/{self.name}/_search", query)
        assert status == 200, answer
        return [hit["_source"] for hit in answer["hits"]["hits"]]

    def found(self, **query: Any) -> set[str]:
        """The tasks of the letters that a query finds."""
        return {document["task_id"] for document in self.search({"query": query})}


@pytest.fixture
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory and home: nobody's own settings and letters."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    return tmp_path


def on_opensearch(home: Path, monkeypatch: pytest.MonkeyPatch, url: str, prefix: str = "") -> None:
    address = url.replace("http", "opensearch", 1)
    monkeypatch.setenv("MAHAVISHNU_DLQ_STORE_URL", f"{address}{prefix and '/'}{prefix}?timeout=10")
    monkeypatch.setenv("MAHAVISHNU_DLQ_LOCAL_URL", f"sqlite:///{home}/local.db")


@pytest.fixture(params=["sqlite", "opensearch"])
def place(request: pytest.FixtureRequest, at_home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The environment says where letters are kept."""
    if request.param == "sqlite":
        monkeypatch.setenv("MAHAVISHNU_DLQ_STORE_URL", f"sqlite:///{at_home}/letters.db")
    else:
        url, prefix = request.getfixturevalue("opensearch_url"), request.getfixturevalue("opensearch_prefix")
        on_opensearch(at_home, monkeypatch, url, prefix)
    return str(request.param)


@pytest.fixture
def index(opensearch: Servers, opensearch_prefix: str, at_home: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    """The environment says OpenSearch, and this is the index there."""
    on_opensearch(at_home, monkeypatch, opensearch.urls[0], opensearch_prefix)
    return Index(opensearch, f"{opensearch_prefix}_dlq")


@pytest.fixture
def default_index(opensearch: Servers, at_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    """The same under the documented name."""
    on_opensearch(at_home, monkeypatch, opensearch.urls[0])
    yield Index(opensearch, "mahavishnu_dlq")
    status, answer = opensearch.request("DELETE", "/mahavishnu_*?expand_wildcards=all")
    assert status == 200, answer


@pytest.fixture
async def app(place: str) -> AsyncIterator[Any]:
    """As in every snippet. `Any`, as users' code is: whoever switches the queue off has None for `app.dlq`."""
    app = MahavishnuApp()
    yield app
    await app.shutdown()


async def happens(dlq: DeadLetterQueue, name: EventName, begin: Callable[[], Any]) -> None:
    """Do something, and return when the queue has told of what must come of it."""
    told = asyncio.Event()

    async def listen(event: Event) -> None:
        if event.name is name:
            told.set()

    forget = dlq.listen(listen)
    await begin()
    async with asyncio.timeout(30):
        await told.wait()
    forget()


def down(task: Any, repos: list[str]) -> None:
    raise ConnectionError("connection refused")


# ------------------------------------------------------------------------------------------- a workflow that fails


async def test_a_workflow_that_fails_is_enqueued_and_retried(app: Any) -> None:
    """The first example: a callback, the processor, a failure, and where to find it."""
    runs: list[tuple[Any, list[str]]] = []

    async def sweep(task: Any, repos: list[str]) -> dict[str, str]:
        runs.append((task, repos))
        if len(runs) == 1:
            raise ConnectionError("connection refused")
        return {"status": "completed"}

    app.register_adapter("llamaindex", sweep)
    await app.start_dlq_processor()
    result = await app.execute_workflow_parallel(task=TASK, adapter_name="llamaindex", repos=REPOS)

    assert result["status"] == "failed"
    assert result.get("dlq_enqueued")
    task = await app.dlq.get_task(result["dlq_task_id"])
    assert (task.task, task.repos, task.error_category) == (TASK, tuple(REPOS), "network")
    assert task.next_retry_at == task.created_at + timedelta(minutes=1)

    answer = await app.dlq.retry_task(task.task_id)
    assert answer["success"]
    assert runs == [(TASK, REPOS), (TASK, REPOS)]
    assert [each.task_id for each in await app.dlq.list_tasks(status="completed")] == [task.task_id]


async def test_the_documented_callback_retries_by_execute_workflow(app: Any) -> None:
    """A callback that runs the workflow through the app again: its failure belongs to the letter, not to a new one."""
    works = asyncio.Event()

    def sweep(task: Any, repos: list[str]) -> None:
        if not works.is_set():
            down(task, repos)

    async def retry_callback(task: Any, repos: list[str]) -> Any:
        return await app.execute_workflow(task, "llamaindex", repos)

    app.register_adapter("llamaindex", sweep)
    await app.start_dlq_processor(retry_callback)

    async def enqueue() -> None:
        await app.dlq.enqueue("wf_1", TASK, REPOS, "timeout", retry_policy=RetryPolicy.IMMEDIATE, max_retries=1)

    await happens(app.dlq, EventName.EXHAUSTED, enqueue)
    assert [task.task_id for task in await app.dlq.list_tasks()] == ["wf_1"]
    assert (await app.dlq.get_task("wf_1")).last_error == "connection refused"
    works.set()
    await happens(app.dlq, EventName.RETRY_SUCCEEDED, lambda: app.dlq.resurrect("wf_1"))
    assert await app.dlq.list_tasks() == []


async def test_an_adapter_that_nobody_registered_is_a_failure_with_a_name(app: Any) -> None:
    """It must not look like the workflow's own fault."""
    result = await app.execute_workflow(TASK, "llamaindex", REPOS)
    assert result["status"] == "failed"
    assert "llamaindex" in result["error"]


# ------------------------------------------------------------------------------------------------------- by hand


async def test_a_task_is_enqueued_listed_read_retried_and_archived_by_hand(app: Any) -> None:
    """With the lines that the example writes about it."""
    await app.dlq.enqueue(
        task_id="wf_abc123",
        task=TASK,
        repos=REPOS,
        error="Connection timeout",
        retry_policy=RetryPolicy.EXPONENTIAL,
        max_retries=5,
        metadata={"priority": "high"},
    )
    pending = await app.dlq.list_tasks(status=DeadLetterStatus.PENDING, limit=100)
    assert [task.task_id for task in pending] == ["wf_abc123"]
    task = await app.dlq.get_task("wf_abc123")
    assert task
    assert f"Retry count: {task.retry_count}/{task.max_retries}" == "Retry count: 0/5"
    assert f"{task.failed_at}".endswith("+00:00")
    assert task.next_retry_at - task.failed_at == timedelta(minutes=1)

    result = await app.dlq.retry_task("wf_abc123")
    assert not result["success"]
    assert f"Retry failed: {result['error']}".startswith("Retry failed: letter 'wf_abc123' names no adapter")
    await app.dlq.letters.edit("wf_abc123", adapter="llamaindex")
    app.register_adapter("llamaindex", down)
    result = await app.dlq.retry_task("wf_abc123")
    assert not result["success"]
    assert f"Retry failed: {result['error']}" == "Retry failed: connection refused"
    app.register_adapter("llamaindex", lambda task, repos: "swept")
    result = await app.dlq.retry_task("wf_abc123")
    assert result["success"]
    assert await app.dlq.archive_task("wf_abc123")
    assert await app.dlq.get_task("wf_abc123") is None
    assert await app.dlq.list_tasks() == []


async def test_the_record_has_every_documented_field(app: Any) -> None:
    """As attributes and in the plain dict."""
    task = await app.dlq.enqueue("wf_1", TASK, REPOS, "boom")
    assert task.to_dict().keys() >= DOCUMENTED
    assert all(hasattr(task, name) for name in DOCUMENTED)


async def test_metadata_comes_back_as_it_went_in(app: Any) -> None:
    """Nested too."""
    metadata = {
        "workflow_type": "code_sweep",
        "priority": "high",
        "business_unit": "payments",
        "slos": {"max_delay_minutes": 15},
        "on_call_team": "platform-team",
    }
    await app.dlq.enqueue(task_id="wf_abc123", task=TASK, repos=REPOS, error=OSError("boom"), metadata=metadata)
    assert (await app.dlq.get_task("wf_abc123")).metadata == metadata
    found = await app.dlq.list_tasks(metadata={"slos.max_delay_minutes": 15, "business_unit": "payments"})
    assert [task.task_id for task in found] == ["wf_abc123"]
    assert not await app.dlq.list_tasks(metadata={"slos.max_delay_minutes": 16})


@pytest.mark.parametrize(("policy", "budget"), [("EXPONENTIAL", 5), ("EXPONENTIAL", 3), ("LINEAR", 2), ("NEVER", 0)])
async def test_each_recommended_limit_is_taken(app: Any, policy: str, budget: int) -> None:
    """A letter that is never retried has no date."""
    await app.dlq.enqueue("wf_1", TASK, REPOS, "boom", retry_policy=RetryPolicy[policy], max_retries=budget)
    task = await app.dlq.get_task("wf_1")
    assert (task.retry_policy, task.max_retries) == (RetryPolicy[policy], budget)
    assert (task.next_retry_at is None) == (policy == "NEVER")


# ---------------------------------------------------------------------------------------------------- statistics


async def test_the_statistics_of_the_documentation(place: str) -> None:
    """The very queue of its example is brought about, and the lines are the same, character by character."""
    holding, letting_go = asyncio.Event(), asyncio.Event()
    held: list[str] = []

    async def sweep(task: Any, repos: list[str]) -> None:
        if task["do"] == "fail":
            raise RuntimeError(task["error"])
        if task["do"] == "hold":
            held.append(task["do"])
            if len(held) == 2:
                holding.set()
            await letting_go.wait()

    clock = ManualClock()
    app: Any = MahavishnuApp(MahavishnuSettings.load(circuit={"failure_threshold": 1000}), clock=clock)
    app.register_adapter("llamaindex", sweep)
    errors = iter(["rate limit exceeded"] * 8 + ["connection refused"] * 4 + ["no idea"] * 3)

    async def enqueue(
        name: str, count: int, do: str, policy: RetryPolicy, *, stays: bool = False, budget: int = 3
    ) -> None:
        for number in range(count):
            error = next(errors) if stays else "boom"
            task = {"do": do, "error": error, "adapter": "llamaindex"}
            await app.dlq.enqueue(f"{name}-{number}", task, REPOS, error, retry_policy=policy, max_retries=budget)

    await enqueue("by-hand", 1, "end", RetryPolicy.NEVER)
    await enqueue("good", 29, "end", RetryPolicy.IMMEDIATE)
    await enqueue("given-up", 2, "fail", RetryPolicy.IMMEDIATE, budget=1)
    await enqueue("unwanted", 3, "end", RetryPolicy.NEVER)
    await enqueue("failing", 11, "fail", RetryPolicy.EXPONENTIAL, stays=True)
    await enqueue("spent", 1, "fail", RetryPolicy.EXPONENTIAL, stays=True, budget=1)
    await enqueue("never", 1, "end", RetryPolicy.NEVER, stays=True)
    await enqueue("held", 2, "hold", RetryPolicy.LINEAR, stays=True)
    clock.advance(minutes=1)
    assert await app.dlq.run_due() == 29 + 2 + 11 + 1
    assert (await app.dlq.retry_task("by-hand-0"))["success"]
    assert not (await app.dlq.retry_task("failing-0"))["success"]
    for number in range(2):
        await app.dlq.letters.resolve(f"given-up-{number}")
    for number in range(3):
        await app.dlq.letters.cancel(f"unwanted-{number}")
    for number in range(2):
        await app.dlq.letters.edit(f"held-{number}", next_retry_at=clock.now())
    cycle = asyncio.create_task(app.dlq.run_due())
    async with asyncio.timeout(30):
        await holding.wait()

    stats = await app.dlq.get_statistics()
    lines = [
        f"Queue size: {stats['queue_size']}/{stats['max_size']}",
        f"Utilization: {stats['utilization_percent']}%",
        f"Status breakdown: {stats['status_breakdown']}",
        f"Error categories: {stats['error_categories']}",
        f"Retry policies: {stats['retry_policies']}",
    ]
    lifetime = {name: stats["lifetime_stats"][name] for name in LIFETIME}
    letting_go.set()
    await cycle
    await app.shutdown()

    assert lines == [
        "Queue size: 15/10000",
        "Utilization: 0.15%",
        "Status breakdown: {'pending': 12, 'retrying': 2, 'exhausted': 1}",
        "Error categories: {'transient': 8, 'network': 4, 'permanent': 3}",
        "Retry policies: {'exponential': 12, 'linear': 2, 'never': 1}",
    ]
    assert lifetime == {
        "enqueued_total": 50,
        "retry_success": 30,
        "retry_failed": 15,
        "exhausted": 3,
        "manually_retried": 2,
        "archived": 0,
    }


async def watch(app: Any) -> list[str]:
    """One round of the documented monitoring loop."""
    warnings = []
    stats = await app.dlq.get_statistics()
    if stats["utilization_percent"] > 80:
        warnings.append(f"WARNING: DLQ is {stats['utilization_percent']}% full!")
    if (exhausted := stats["status_breakdown"]["exhausted"]) > 100:
        warnings.append(f"WARNING: {exhausted} exhausted tasks in DLQ!")
    succeeded, failed = (stats["lifetime_stats"][name] for name in ("retry_success", "retry_failed"))
    if succeeded + failed > 0 and (rate := succeeded / (succeeded + failed)) < 0.5:
        warnings.append(f"WARNING: Low retry success rate: {rate:.1%}")
    return warnings


async def test_the_monitor_has_nothing_to_say_about_an_empty_queue(app: Any) -> None:
    """And stumbles over no key that an empty queue might lack."""
    stats = await app.dlq.get_statistics()
    assert await watch(app) == await app.dlq.health_warnings() == []
    assert (stats["queue_size"], stats["utilization_percent"]) == (0, 0.0)
    assert stats["status_breakdown"] == {"pending": 0, "retrying": 0, "exhausted": 0}
    assert [stats["lifetime_stats"][name] for name in LIFETIME] == [0] * len(LIFETIME)


async def test_the_monitor_and_our_own_warnings_agree(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a queue that is nearly full of letters which no retry has helped."""
    monkeypatch.setenv("MAHAVISHNU_DLQ_MAX_SIZE", "120")
    app: Any = MahavishnuApp(MahavishnuSettings(circuit={"failure_threshold": 1000}))
    app.register_adapter("llamaindex", down)
    options = {"retry_policy": "immediate", "max_retries": 1}
    await asyncio.gather(*(app.dlq.enqueue(f"wf_{n}", NAMED, [], "boom", **options) for n in range(101)))
    await app.dlq.run_due()
    warnings = await watch(app)
    documented = [
        "WARNING: DLQ is 84.17% full!",
        "WARNING: 101 exhausted tasks in DLQ!",
        "WARNING: Low retry success rate: 0.0%",
    ]
    assert warnings == documented
    ours = await app.dlq.health_warnings()
    assert ours[1:] == documented  # word for word; what is not documented, and matters more, comes before them
    besides = ours[0]
    assert besides.startswith("WARNING: Group ")
    assert " grows: 101 letters in the last hour! ConnectionError: connection refused (" in besides  # of the retries
    await app.shutdown()


# ---------------------------------------------------------------------------------------------------- strategies

FAILURES = {
    ErrorCategory.TRANSIENT: "rate limit exceeded",
    ErrorCategory.NETWORK: ConnectionError("connection refused"),
    ErrorCategory.RESOURCE: MemoryError(),
    ErrorCategory.PERMISSION: PermissionError("access denied"),
    ErrorCategory.VALIDATION: "invalid input: no such field",
    ErrorCategory.PERMANENT: "no idea",
}
POLICIES = ("exponential", "exponential", "linear", "never", "never", "never")


def failing(task: Any, repos: list[str]) -> dict[str, Any]:
    error = FAILURES[task["fails"]]
    if isinstance(error, Exception):
        raise error
    return {"status": "failed", "error": error}


@pytest.mark.parametrize("strategy", DLQIntegrationStrategy)
async def test_each_strategy_keeps_what_it_is_documented_to_keep(app: Any, strategy: DLQIntegrationStrategy) -> None:
    """With the retry policy of the error's category, and a reason in the result for what is not kept."""
    app.register_adapter("llamaindex", failing)
    assert app.dlq_integration.get_strategy() is DLQIntegrationStrategy.AUTOMATIC
    app.dlq_integration.set_strategy(strategy)
    results = [
        await app.execute_workflow({"id": f"wf_{category}", "fails": str(category)}, "llamaindex", REPOS)
        for category in FAILURES
    ]

    kept = {result["error_category"]: result["retry_policy"] for result in results if result["dlq_enqueued"]}
    every = dict(zip(FAILURES, POLICIES, strict=True))
    expected = {
        DLQIntegrationStrategy.AUTOMATIC: every,
        DLQIntegrationStrategy.SELECTIVE: {name: policy for name, policy in every.items() if policy != "never"},
        DLQIntegrationStrategy.MANUAL: {},
        DLQIntegrationStrategy.DISABLED: {},
    }[strategy]
    assert kept == expected
    assert {task.error_category for task in await app.dlq.list_tasks()} == set(expected)
    assert all(result["dlq_enqueued"] or strategy in result["dlq_skip_reason"] for result in results)


async def test_manual_enqueues_when_asked_to(app: Any) -> None:
    """By the caller of the workflow, or directly."""
    app.register_adapter("llamaindex", down)
    app.dlq_integration.set_strategy(DLQIntegrationStrategy.MANUAL)
    assert (await app.execute_workflow(TASK, "llamaindex", REPOS, enqueue=True))["dlq_enqueued"]
    await app.dlq.enqueue("wf_1", TASK, REPOS, "boom")
    assert len(await app.dlq.list_tasks()) == 2


async def test_a_handler_of_ones_own(app: Any) -> None:
    """It classifies, chooses policy and budget itself, and keeps nothing that is permanent."""
    chosen = {
        ErrorCategory.TRANSIENT: (RetryPolicy.EXPONENTIAL, 5),
        ErrorCategory.NETWORK: (RetryPolicy.EXPONENTIAL, 3),
        ErrorCategory.RESOURCE: (RetryPolicy.LINEAR, 2),
    }

    async def handler(task_id: str, task: Any, repos: list[str], error: Any) -> Any:
        category = await app.error_recovery_manager.classify_error(error)
        if category not in chosen:
            return None
        policy, budget = chosen[category]
        return await app.dlq.enqueue(
            task_id=task_id,
            task=task,
            repos=repos,
            error=str(error),
            retry_policy=policy,
            max_retries=budget,
            error_category=category.value,
            metadata={"handler": "custom"},
        )

    for category, error in FAILURES.items():
        task = await handler(f"wf_{category}", TASK, REPOS, error)
        assert (task is not None) == (category in chosen)
    tasks = {task.error_category: task for task in await app.dlq.list_tasks(metadata={"handler": "custom"})}
    assert {name: (task.retry_policy, task.max_retries) for name, task in tasks.items()} == chosen


# ------------------------------------------------------------------------------------ an app that wires it up itself


class MyApp(MahavishnuApp):
    """An app with the queue, the processor and the callback as the documentation has users write them."""

    def __init__(self) -> None:
        super().__init__()
        if self.config.dlq_enabled:
            self.dlq = DeadLetterQueue(
                max_size=self.config.dlq_max_size,
                opensearch_client=self.opensearch_integration.client if self.opensearch_integration else None,
                observability_manager=self.observability,
            )
            self.dlq_integration = create_dlq_integration(self)
        else:
            self.dlq = None
            self.dlq_integration = None

    async def start_dlq_processor(self, callback: Any = None) -> None:
        if not self.config.dlq_enabled or not self.dlq:
            return
        if not self.config.dlq_retry_processor_enabled:
            self.logger.info("DLQ retry processor disabled in configuration")
            return

        async def dlq_retry_callback(task: dict[str, Any], repos: list[str]) -> dict[str, Any]:
            adapter_name = task.get("adapter", "llamaindex")
            return await self.execute_workflow_parallel(task=task, adapter_name=adapter_name, repos=repos)

        await self.dlq.start_retry_processor(
            callback=dlq_retry_callback, check_interval_seconds=self.config.dlq_retry_interval_seconds
        )
        self.logger.info("DLQ retry processor started (interval=%ss)", self.config.dlq_retry_interval_seconds)

    async def stop_dlq_processor(self) -> None:
        if self.dlq:
            await self.dlq.stop_retry_processor()
            self.logger.info("DLQ retry processor stopped")


async def used(app: Any) -> str:
    """A workflow fails, is retried by the app's own processor and succeeds. Returns its task id."""
    runs = Counter[str]()

    def sweep(task: Any, repos: list[str]) -> None:
        runs.update(repos)
        if runs[repos[0]] == 1:
            raise ConnectionError("connection refused")

    app.register_adapter("sweeper", sweep)
    result = await app.execute_workflow_parallel(
        task={**TASK, "adapter": "sweeper"}, adapter_name="sweeper", repos=["api", "web"]
    )
    task_id = str(result["dlq_task_id"])
    await app.start_dlq_processor()
    stats = await app.dlq.get_statistics()
    assert (stats["is_processor_running"], stats["retry_interval_seconds"]) == (True, 60)
    now = CLOCK.now()
    await happens(app.dlq, EventName.RETRY_SUCCEEDED, lambda: app.dlq.letters.edit(task_id, next_retry_at=now))
    await app.stop_dlq_processor()
    assert not (await app.dlq.get_statistics())["is_processor_running"]
    assert runs == {"api": 2, "web": 2}
    return task_id


async def test_a_queue_that_an_app_makes_from_its_client(default_index: Index) -> None:
    """Its letters are in the documented index, under their task id."""
    app = MyApp()
    assert app.opensearch_integration is not None
    assert app.opensearch_integration.client.transport.kwargs["timeout"] == 10  # as the URL says, for the queue too
    task_id = await used(app)
    await app.shutdown()
    assert [(each["task_id"], each["status"]) for each in default_index.search({})] == [(task_id, "completed")]
    status, answer = default_index.cluster.request("GET", f"/mahavishnu_dlq/_doc/{task_id}")
    assert (status, answer["_source"]["total_attempts"]) == (200, 1)


async def test_a_queue_that_an_app_makes_without_a_client(at_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without OpenSearch the same lines make a queue in memory."""
    monkeypatch.setenv("MAHAVISHNU_DLQ_STORE_URL", f"sqlite:///{at_home}/letters.db")
    app: Any = MyApp()
    assert app.opensearch_integration is None
    await used(app)
    await app.shutdown()


async def test_a_queue_from_a_client_falls_back_to_memory(
    at_home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """While nobody answers there: failures are kept and retried, and nobody is told that this was all there is."""
    monkeypatch.setenv("MAHAVISHNU_DLQ_STORE_URL", "opensearch://127.0.0.1:9?timeout=0.5")
    app: Any = MyApp()
    await used(app)
    assert (await app.dlq.list_tasks()).degraded
    assert (await app.dlq.get_statistics())["storage_mode"] == "degraded"
    await app.shutdown()
    # The letter, what it was before the edit, and who edited it.
    assert "3 records are lost if this process ends" in caplog.text


async def test_what_is_in_memory_goes_home_before_the_app_ends(default_index: Index) -> None:
    """The server was away for a moment, and the process ends before anybody has looked after it again."""
    app = MyApp()
    store = app.dlq.store
    assert isinstance(store, FallbackStore)
    await app.dlq.open()
    store.primary_failed(StoreUnavailable("the node was restarted"))
    await app.dlq.enqueue("wf_1", TASK, REPOS, "boom")
    assert (await app.dlq.health()).waiting == 1
    await app.shutdown()
    assert default_index.found(match_all={}) == {"wf_1"}


class Manager:
    """What a user's observability manager may look like."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str]] = []

    def log_info(self, message: str, attributes: dict[str, Any]) -> None:
        self.said.append(("info", attributes["event"]))

    def log_error(self, message: str, attributes: dict[str, Any]) -> None:
        self.said.append(("error", attributes["event"]))


async def test_the_documented_observability_manager_hears_of_everything() -> None:
    """It is the third documented argument."""
    manager = Manager()
    dlq = DeadLetterQueue(max_size=100, observability_manager=manager)
    dlq.processing.callback = down
    await dlq.enqueue("wf_1", TASK, REPOS, "boom", retry_policy="immediate", max_retries=1)
    await dlq.run_due()
    await dlq.shutdown()
    names = ("dlq.captured", "dlq.retry.started", "dlq.retry.failed", "dlq.exhausted")
    assert manager.said == [("info", name) for name in names[:3]] + [("error", names[3])]


async def test_such_an_app_keeps_what_the_settings_say(at_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its queue is given one setting only. The others count all the same, and a retry by hand finds a callback."""
    monkeypatch.setenv("MAHAVISHNU_DLQ_STORE_URL", "memory:")
    monkeypatch.setenv("MAHAVISHNU_DLQ_DEFAULT_MAX_RETRIES", "7")
    monkeypatch.setenv("MAHAVISHNU_DLQ_AUTOMATIC_POLICY", "default")
    monkeypatch.setenv("MAHAVISHNU_DLQ_DEFAULT_RETRY_POLICY", "linear")
    monkeypatch.setenv("MAHAVISHNU_DLQ_RETRY_TIMEOUT_SECONDS", "77")
    monkeypatch.setenv("MAHAVISHNU_PLUGIN_DIRECTORY", str(at_home))
    (at_home / "ours.py").write_text(
        "from mahavishnu import hookimpl\n@hookimpl\ndef backoffs():\n    return {'steady': lambda failed: 90}\n"
    )
    app: Any = MyApp()
    app.register_adapter("llamaindex", lambda task, repos: "swept")
    task = await app.dlq.enqueue("wf_1", NAMED, REPOS, "boom")
    assert (task.max_retries, task.retry_policy, app.dlq.context.limits.run_seconds) == (7, RetryPolicy.LINEAR, 77)
    assert (await app.dlq.retry_task("wf_1"))["success"]
    assert app.dlq.context.chain is app.chain
    steady = await app.dlq.enqueue("wf_2", TASK, REPOS, "boom", retry_policy="custom:steady")
    assert steady.next_retry_at - steady.failed_at == timedelta(seconds=90)
    await app.shutdown()


async def test_such_an_app_may_be_switched_off(at_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then there is no queue, and workflows fail as they would without."""
    monkeypatch.setenv("MAHAVISHNU_DLQ_ENABLED", "false")
    for app in (MahavishnuApp(), MyApp()):
        app.register_adapter("llamaindex", down)
        assert (app.queue_if_enabled, app.dlq_integration) == (None, None)
        await app.start_dlq_processor()
        assert (await app.execute_workflow(TASK, "llamaindex", REPOS))["dlq_enqueued"] is False
        await app.stop_dlq_processor()
        await app.shutdown()


# ------------------------------------------------------------------------------------------------------ settings

SIX: dict[str, Any] = {
    "dlq_enabled": True,
    "dlq_max_size": 10000,
    "dlq_default_retry_policy": "exponential",
    "dlq_default_max_retries": 3,
    "dlq_retry_processor_enabled": True,
    "dlq_retry_interval_seconds": 60,
}
OTHERS: dict[str, Any] = {
    "dlq_enabled": False,
    "dlq_max_size": 500,
    "dlq_default_retry_policy": "linear",
    "dlq_default_max_retries": 7,
    "dlq_retry_processor_enabled": False,
    "dlq_retry_interval_seconds": 30,
}


def six() -> dict[str, Any]:
    config = MahavishnuApp().config
    return {name: getattr(config, name) for name in SIX}


def test_the_six_settings_have_the_documented_defaults(at_home: Path) -> None:
    """With nothing in the environment and no file."""
    assert six() == SIX


def test_the_six_settings_are_read_from_the_documented_file(at_home: Path) -> None:
    """`settings/mahavishnu.yaml`, in the working directory."""
    (at_home / "settings").mkdir()
    lines = "".join(f"{name}: {str(value).lower()}\n" for name, value in OTHERS.items())
    (at_home / "settings/mahavishnu.yaml").write_text(f"# Dead Letter Queue\n{lines}")
    assert six() == OTHERS


def test_the_six_settings_are_read_from_the_documented_variables(
    at_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a shell exports them."""
    for name, value in OTHERS.items():
        monkeypatch.setenv(f"MAHAVISHNU_{name.upper()}", str(value).lower())
    assert six() == OTHERS


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("dlq_max_size", 100, 100_000), ("dlq_default_max_retries", 0, 10), ("dlq_retry_interval_seconds", 10, 3600)],
)
def test_the_documented_ranges_hold(at_home: Path, name: str, low: int, high: int) -> None:
    """Both ends belong to them."""
    for value in (low, high):
        assert getattr(MahavishnuSettings(**{name: value}), name) == value
    for value in (low - 1, high + 1):
        with pytest.raises(ValidationError, match=name):
            MahavishnuSettings(**{name: value})


def test_an_unknown_policy_is_refused_with_the_documented_message(at_home: Path) -> None:
    """So that those who look for it find it."""
    known = r"\['never', 'linear', 'exponential', 'immediate'\]"
    with pytest.raises(ValidationError, match=f"dlq_default_retry_policy must be one of {known}, got 'daily'"):
        MahavishnuSettings(dlq_default_retry_policy="daily")


# ------------------------------------------------------------------------------------------------- the index itself


async def test_the_documented_queries_over_plain_http(index: Index) -> None:
    """By status, by category, by the date of the next retry, by a path of the metadata."""
    app: Any = MahavishnuApp()
    app.register_adapter("llamaindex", down)
    options = {"error_category": "transient", "retry_policy": "immediate", "max_retries": 1}
    await app.dlq.enqueue("wf_exhausted", NAMED, REPOS, "boom", **options)
    assert await app.dlq.run_due() == 1
    metadata = {"business_unit": "payments", "slos": {"max_delay_minutes": 15}}
    await app.dlq.enqueue("wf_soon", TASK, REPOS, "rate limit exceeded", metadata=metadata)
    await app.dlq.enqueue("wf_late", TASK, REPOS, "timeout", retry_policy="linear", metadata={"slos": "none"})
    await app.dlq.letters.edit("wf_late", next_retry_at=CLOCK.now() + timedelta(hours=2))
    await app.dlq.enqueue("wf_never", TASK, REPOS, "no idea", retry_policy="never")
    await app.shutdown()

    assert index.found(term={"status.keyword": "exhausted"}) == {"wf_exhausted"}
    assert index.found(term={"status.keyword": "pending"}) == {"wf_soon", "wf_late", "wf_never"}
    assert index.found(term={"error_category.keyword": "transient"}) == {"wf_soon"}
    assert index.found(term={"error_category.keyword": "network"}) == {"wf_exhausted", "wf_late"}
    assert index.found(range={"next_retry_at": {"lte": "now+1h"}}) == {"wf_soon"}
    assert index.found(term={"metadata.business_unit": "payments"}) == {"wf_soon"}
    assert index.found(term={"metadata.slos.max_delay_minutes": 15}) == {"wf_soon"}
    assert index.found(match={"error": "limit"}) == {"wf_soon"}
    assert all(document.keys() >= DOCUMENTED - {"next_retry_at"} for document in index.search({}))


async def test_the_documented_fields_have_the_documented_types(index: Index) -> None:
    """Where the type of a field is another one inside, its queries behave as documented all the same."""
    async with MahavishnuApp() as app:
        await app.dlq.enqueue("wf_1", TASK, REPOS, "boom")
    status, answer = index.cluster.request("GET", f"/{index.name}/_mapping")
    (mapping,) = answer.values()
    types = {name: field.get("type", "object") for name, field in mapping["mappings"]["properties"].items()}
    kinds = {
        "keyword": ("task_id", "repos", "retry_policy", "status", "error_category"),
        "text": ("error", "last_error"),
        "date": ("failed_at", "next_retry_at", "updated_at"),
        "integer": ("retry_count", "max_retries", "total_attempts"),
    }
    assert status == 200
    assert {types[name] for name in DOCUMENTED} - kinds.keys() <= {"object", "flat_object"}
    assert {name: types[name] for names in kinds.values() for name in names} == {
        name: kind for kind, names in kinds.items() for name in names
    }


# ----------------------------------------------------------------------------------------------- troubleshooting


async def exhausted(app: Any, *names: str) -> None:
    app.register_adapter("llamaindex", down)
    for name in names:
        await app.dlq.enqueue(name, NAMED, REPOS, "boom", retry_policy="immediate", max_retries=1)
    await app.dlq.run_due()


async def test_a_full_queue_is_emptied_as_documented(app: Any) -> None:
    """By archiving what is exhausted, or by deleting everything."""
    await exhausted(app, "wf_1", "wf_2")
    await app.dlq.enqueue("wf_3", TASK, REPOS, "boom")
    assert (await app.dlq.get_statistics())["utilization_percent"] == 0.03
    for task in await app.dlq.list_tasks(status=DeadLetterStatus.EXHAUSTED):
        await app.dlq.archive_task(task.task_id)
    assert (await app.dlq.get_statistics())["queue_size"] == 1
    assert f"Cleared {await app.dlq.clear_all()} tasks" == "Cleared 1 tasks"
    stats = await app.dlq.get_statistics()
    assert (stats["queue_size"], stats["lifetime_stats"]["archived"]) == (0, 2)


async def test_retries_that_do_not_work_are_looked_into_as_documented(app: Any) -> None:
    """Is the processor running, how often does it look, and does a single one work?"""
    app.register_adapter("llamaindex", lambda task, repos: "swept")
    await app.dlq.enqueue("wf_abc123", NAMED, REPOS, "timeout")
    stats = await app.dlq.get_statistics()
    if not stats["is_processor_running"]:
        await app.start_dlq_processor()
    assert (await app.dlq.get_statistics())["is_processor_running"]
    assert f"Retry interval: {stats['retry_interval_seconds']}s" == "Retry interval: 60s"
    assert (await app.dlq.retry_task("wf_abc123"))["success"]
    assert (await app.dlq.retry_task("wf_none")) == {
        "success": False,
        "task_id": "wf_none",
        "error": "there is no letter for this task",
    }


async def test_exhausted_tasks_are_counted_by_category_as_documented(app: Any) -> None:
    """A Counter over the list, whose categories read as plain text."""
    await exhausted(app, "wf_1", "wf_2")
    tasks = await app.dlq.list_tasks(status=DeadLetterStatus.EXHAUSTED)
    categories = Counter(task.error_category for task in tasks if task.error_category)
    assert categories == {"network": 2}


async def test_old_exhausted_tasks_are_archived_as_documented(place: str) -> None:
    """Those that failed more than seven days ago, and no others."""
    clock = ManualClock()
    app: Any = MahavishnuApp(clock=clock)
    await exhausted(app, "wf_old")
    clock.advance(hours=24 * 6)
    await exhausted(app, "wf_young")
    clock.advance(hours=25)

    cutoff = clock.now().astimezone(UTC) - timedelta(days=7)
    for task in await app.dlq.list_tasks(status=DeadLetterStatus.EXHAUSTED):
        if task.failed_at < cutoff:
            await app.dlq.archive_task(task.task_id)

    assert [task.task_id for task in await app.dlq.list_tasks()] == ["wf_young"]
    assert [task.task_id for task in await app.dlq.list_tasks(status="archived")] == ["wf_old"]
    await app.shutdown()
