"""`app.sync`: the same as the app and its queue, for threads without an event loop."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mahavishnu.core import sync
from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.core.sync import SyncQueue, SyncService
from mahavishnu.engine import store_session
from mahavishnu.engine.store_session import UsedElsewhere
from mahavishnu.letters.service import LetterOperations
from mahavishnu.model.errors import (
    InsideEventLoop,
    MahavishnuError,
    NoSuchLetter,
    QueueDisabled,
    StoreUnavailable,
    SyncTimeout,
)
from mahavishnu.model.events import EventName
from mahavishnu.model.letter_parts import Source
from mahavishnu.model.query import letter_query
from mahavishnu.testing import turn
from tests.support.queues import NETWORK, Gate, House, Runs, queue_of


@pytest.fixture(params=["memory", "sqlite"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MahavishnuApp]:
    url = "memory:" if request.param == "memory" else f"sqlite:///{tmp_path / 'letters.db'}"
    app = MahavishnuApp(MahavishnuSettings(dlq_store_url=url))
    app.register_adapter("sweep", Runs(NETWORK))
    yield app
    app.sync.shutdown()


def test_a_failed_run_is_a_letter_when_the_call_returns(app: MahavishnuApp) -> None:
    result = app.sync.execute_workflow({"id": "wf_1"}, "sweep", ["api"])
    assert result["dlq_task_id"] == "wf_1"
    letter = app.sync.dlq.get_task("wf_1")
    assert letter is not None
    assert letter.error == "connection refused"
    parallel = app.sync.execute_workflow_parallel({"id": "wf_2"}, "sweep", ["api", "web"])
    assert parallel["dlq_enqueued"] is True
    assert {letter.task_id for letter in app.sync.dlq.list_tasks()} == {"wf_1", "wf_2"}


def test_the_queue_and_its_services_do_what_they_do_elsewhere(app: MahavishnuApp) -> None:
    queue = app.sync.dlq
    queue.enqueue("wf_1", {"url": "old"}, ["api"], "connection reset")
    assert queue.letters.edit("wf_1", patch={"url": "new"}, by="ann").task == {"url": "new"}
    assert len(queue.letters.revisions("wf_1")) == 1
    assert queue.get_statistics()["status_breakdown"]["pending"] == 1
    assert queue.retry_task("wf_1")["success"] is False
    (group,) = queue.groups.list().items
    assert queue.groups.update(group.fingerprint, by="ann", owner="ann").owner == "ann"
    assert queue.health().status == "ok"
    with pytest.raises(NoSuchLetter):
        queue.letters.resolve("wf_9")
    assert queue.letters.resolve("wf_1", by="ann").is_open is False
    assert "letter:wf_1" in {entry.subject for entry in queue.audit.list().items}
    assert queue.clear_all() == 0


def test_letters_are_exported_one_by_one(app: MahavishnuApp) -> None:
    for number in range(3):
        app.sync.dlq.enqueue(f"wf_{number}", {}, [], "connection reset")
    lines = app.sync.dlq.transfer.export()
    first = json.loads(next(lines))
    lines.close()  # who has seen enough
    names = [json.loads(line)["task_id"] for line in app.sync.dlq.transfer.export()]
    assert names[0] == first["task_id"]
    assert sorted(names) == ["wf_0", "wf_1", "wf_2"]
    assert app.sync.dlq.transfer.import_letter(first) == "same"


def test_a_processor_retries_in_the_background(app: MahavishnuApp) -> None:
    """Of a program that has no event loop of its own."""
    runs, done = Runs(NETWORK, "done"), threading.Event()
    app.register_adapter("sweep", runs)
    queue_of(app).listen(lambda event: done.set() if event.name == EventName.RETRY_SUCCEEDED else None)
    app.sync.execute_workflow({"id": "wf_1"}, "sweep")
    app.sync.dlq.letters.redrive("wf_1")
    app.sync.start_dlq_processor()
    assert done.wait(10)
    app.sync.stop_dlq_processor()
    letter = app.sync.dlq.get_task("wf_1")
    assert letter is not None and letter.status == "completed"


async def test_where_the_event_loop_is_running_it_says_what_to_await(app: MahavishnuApp) -> None:
    with pytest.raises(InsideEventLoop, match=r"await app\.dlq\.letters\.find\("):
        app.sync.dlq.letters.find(None)  # type: ignore[arg-type]
    with pytest.raises(InsideEventLoop, match=r"await app\.execute_workflow\("):
        app.sync.execute_workflow({}, "sweep")
    await asyncio.to_thread(app.sync.shutdown)


async def test_where_another_thread_awaits_the_app_its_event_loop_does_the_work(app: MahavishnuApp) -> None:
    """One store has one home: both see the same letters, and neither waits for the other's thread."""
    await queue_of(app).enqueue("wf_0", {}, [], NETWORK)

    def work() -> set[str]:
        app.sync.execute_workflow({"id": "wf_1"}, "sweep")
        app.sync.dlq.enqueue("wf_2", {}, [], NETWORK)
        return {letter.task_id for letter in app.sync.dlq.list_tasks()}

    assert await asyncio.to_thread(work) == {"wf_2", "wf_1", "wf_0"}
    assert len(await queue_of(app).list_tasks()) == 3
    await app.shutdown()


def test_a_home_loop_that_has_ended_is_followed_by_ours(app: MahavishnuApp) -> None:
    async def home() -> None:
        await app.execute_workflow({"id": "wf_1"}, "sweep")

    asyncio.run(home())
    assert [letter.task_id for letter in app.sync.dlq.list_tasks()] == ["wf_1"]


def test_a_call_may_be_given_a_time(app: MahavishnuApp) -> None:
    async def hang(task: Any, repos: list[str]) -> None:
        await asyncio.Event().wait()

    app.register_adapter("hang", hang)
    with pytest.raises(SyncTimeout, match=r"execute_workflow was cancelled after 0\.05 s"):
        app.sync.within(0.05).execute_workflow({}, "hang")
    assert app.sync.within(10).dlq.list_tasks() == []


def test_a_workflow_that_is_run_may_use_it_too(app: MahavishnuApp) -> None:
    """A sync function is run in a thread of its own, where nothing waits for it."""
    app.register_adapter("nested", lambda task, repos: app.sync.dlq.enqueue("wf_1", {}, [], "nested").task_id)
    result = app.sync.within(10).execute_workflow({}, "nested")
    assert result["result"] == "wf_1"


def test_an_app_without_a_queue_runs_workflows_and_says_what_it_has_not() -> None:
    app = MahavishnuApp(MahavishnuSettings(dlq_enabled=False))
    app.register_adapter("sweep", Runs(NETWORK))
    with app.sync as here:
        assert here.execute_workflow({}, "sweep")["dlq_enqueued"] is False
        with pytest.raises(MahavishnuError, match="dlq_enabled is false"):
            here.dlq.list_tasks()
        with pytest.raises(MahavishnuError, match="dlq_enabled is false"):
            here.dlq_integration.get_statistics()


def test_an_event_loop_that_comes_later_gets_the_store(app: MahavishnuApp) -> None:
    """As of a script that looks at something first and then calls asyncio.run; and the other way round after it."""
    app.sync.execute_workflow({"id": "wf_1"}, "sweep")

    async def later() -> int:
        await queue_of(app).enqueue("wf_2", {}, [], NETWORK)
        await asyncio.to_thread(app.sync.dlq.enqueue, "wf_3", {}, [], NETWORK)
        return len(await queue_of(app).list_tasks())

    assert asyncio.run(later()) == 3
    assert len(app.sync.dlq.list_tasks()) == 3


def test_the_store_is_given_up_when_what_uses_it_has_ended(app: MahavishnuApp) -> None:
    began, free = threading.Event(), threading.Event()

    def slow(task: Any, repos: list[str]) -> None:
        began.set()
        free.wait(10)

    app.register_adapter("slow", slow)
    app.sync.dlq.enqueue("wf_1", {"adapter": "slow"}, [], NETWORK, source=Source(queue="slow"))
    results = list[dict[str, Any]]()
    retrying = threading.Thread(target=lambda: results.append(app.sync.dlq.retry_task("wf_1")))
    retrying.start()
    assert began.wait(10)

    async def later() -> str:
        opening = asyncio.create_task(queue_of(app).open())
        await turn()
        assert not opening.done()
        free.set()
        await opening
        letter = await queue_of(app).get_task("wf_1")
        assert letter is not None
        return letter.status

    assert asyncio.run(later()) == "completed"
    retrying.join(10)
    assert results[0]["success"] is True


def test_an_event_loop_waits_for_a_store_that_is_being_opened(any_house: House) -> None:
    """As where a thread and an event loop begin at the same moment."""
    app = any_house.app()
    store = queue_of(app).store
    opening, free = threading.Event(), threading.Event()
    open_store = store.open

    async def open_slowly() -> None:
        opening.set()
        await asyncio.to_thread(free.wait, 10)
        await open_store()

    store.open = open_slowly  # type: ignore[method-assign]
    first = threading.Thread(target=app.sync.dlq.open)
    first.start()
    assert opening.wait(10)

    async def later() -> None:
        second = asyncio.create_task(queue_of(app).open())
        await turn()
        assert not second.done()
        free.set()
        await second
        await queue_of(app).enqueue("wf_1", {}, [], NETWORK)
        await app.shutdown()

    asyncio.run(later())
    first.join(10)


async def test_an_event_loop_that_is_blocked_is_not_waited_for_for_ever(
    app: MahavishnuApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as by a function that waits for a thread, in an event loop that uses the store."""
    monkeypatch.setattr(store_session, "_PATIENCE_SECONDS", 0.01)
    await queue_of(app).open()
    problems = list[Exception]()

    def ask() -> None:
        try:
            app.sync.dlq.get_task("wf_1")
        except Exception as problem:
            problems.append(problem)

    asking = threading.Thread(target=ask)
    asking.start()
    asking.join(30)  # what uses the store is blocked by this
    assert [type(problem) for problem in problems] == [StoreUnavailable]
    assert "does not answer" in str(problems[0])
    await app.shutdown()


def test_a_processor_keeps_the_store(app: MahavishnuApp) -> None:
    app.sync.start_dlq_processor()
    with pytest.raises(UsedElsewhere, match="another event loop that is running"):
        asyncio.run(queue_of(app).open())
    app.sync.stop_dlq_processor()
    asyncio.run(queue_of(app).open())


async def test_what_takes_long_is_waited_for_while_its_event_loop_goes_on(
    app: MahavishnuApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only an event loop that does not answer is given up."""
    monkeypatch.setattr(store_session, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(store_session, "_PATIENCE_SECONDS", 0.2)
    gate = Gate()
    app.register_adapter("gate", gate)
    await queue_of(app).enqueue("wf_1", {}, [], NETWORK, source=Source(queue="gate"))
    retrying = asyncio.create_task(asyncio.to_thread(app.sync.dlq.retry_task, "wf_1"))
    await gate.reached()
    assert await asyncio.wait({retrying}, timeout=0.5) == (set(), {retrying})
    gate.open()
    assert (await retrying)["success"] is True
    await app.shutdown()


STUB = ast.parse(Path(sync.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))


NO_SERVICES = {"sync", "queue_if_enabled", "dlq.store", "dlq.clock", "dlq.all_namespaces"}


def services_of(app: MahavishnuApp) -> dict[str, object]:
    """Everything of the app and of its queue that has methods to await, by its place under `app.sync`."""
    services: dict[str, object] = {"": app, "dlq_integration.": app.dlq_integration}
    for place, owner in (("", app), ("dlq.", queue_of(app))):
        for name, each in vars(type(owner)).items():
            if name.startswith("_") or callable(each) or not hasattr(each, "__get__") or place + name in NO_SERVICES:
                continue
            service = getattr(owner, name)
            if any(inspect.iscoroutinefunction(method) for method in vars(type(service)).values()):
                services[f"{place}{name}."] = service
    return services


def declared_in_stub(path: str) -> set[str]:
    """The members that the stub declares under a path of `app.sync`."""
    classes = {node.name: node for node in STUB.body if isinstance(node, ast.ClassDef)}
    face = classes["SyncApp"]
    for name in path.split(".")[:-1]:
        member = next(each for each in face.body if isinstance(each, ast.FunctionDef) and each.name == name)
        assert member.returns is not None
        face = classes[ast.unparse(member.returns)]
    return {each.name for each in face.body if isinstance(each, ast.FunctionDef)}


def test_each_awaited_method_has_a_twin_that_the_stub_declares() -> None:
    app = MahavishnuApp(MahavishnuSettings(dlq_store_url="memory:"))
    services = services_of(app)
    assert {"", "dlq.", "dlq.letters.", "dlq.audit.", "dlq.archive.", "lifecycle.", "events.", "dlq_integration."} <= {
        *services
    }
    count = 0
    for path, service in services.items():
        face: Any = app.sync
        for name in path.split(".")[:-1]:
            face = getattr(face, name)
        assert face.service is service
        public = {name: each for name, each in inspect.getmembers(type(service)) if not name.startswith("_")}
        awaited = {
            name
            for name, each in public.items()
            if inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each)
        }
        assert awaited <= set(dir(face)), path
        assert awaited <= declared_in_stub(path), path
        for name in awaited:
            assert callable(getattr(face, name)), f"{path}{name}"
            count += 1
    assert count > 180


def test_a_method_that_a_service_gets_later_is_there_without_a_further_line(app: MahavishnuApp) -> None:
    class Letters(LetterOperations):
        async def count_all(self, *, at_least: int = 0) -> int:
            """Count the letters."""
            return max(at_least, len(await queue_of(app).list_tasks()))

    queue_of(app).letters = Letters(queue_of(app).context)
    app.sync.dlq.enqueue("wf_1", {}, [], NETWORK)
    count_all = app.sync.dlq.letters.count_all  # type: ignore[attr-defined]  # not in the stub
    assert (count_all(), count_all(at_least=3), count_all.__doc__) == (1, 3, "Count the letters.")


def test_names_that_are_not_awaited_say_so(app: MahavishnuApp) -> None:
    for ask, why in {
        "app.sync.nothing": r"^app\.nothing does not exist$",
        "app.sync.dlq.letters.nothing": r"^app\.dlq\.letters\.nothing does not exist$",
        "app.sync.dlq.listen": r"^app\.dlq\.listen is not awaited: use it there, not under app\.sync$",
        "app.sync.dlq.store": r"^app\.dlq\.store is not awaited",
        "app.sync.sync": r"^app\.sync is not awaited",
        "app.sync.dlq._ledger": "^'SyncQueue' object has no attribute '_ledger'$",
        "app.sync.dlq.letters._move": "^'SyncService' object has no attribute '_move'$",
    }.items():
        with pytest.raises(AttributeError, match=why):
            eval(ask, {"app": app})
    for kind in (SyncQueue, SyncService):
        with pytest.raises(AttributeError):  # as `copy` and debuggers ask an object that is not ready
            kind.__new__(kind).service  # noqa: B018


def test_a_service_is_made_when_it_is_first_used(app: MahavishnuApp) -> None:
    names = {"get_task", "letters", "groups", "audit"}
    assert names <= set(dir(app.sync.dlq))
    views = app.sync.dlq.views
    assert "views" not in vars(queue_of(app))
    assert "save" in dir(views)
    assert app.sync.dlq.views is views
    assert views.list() == []
    disabled = MahavishnuApp(MahavishnuSettings(dlq_enabled=False)).sync
    assert names <= set(dir(disabled.dlq))
    assert "service" in dir(disabled.dlq.groups) and "list" not in dir(disabled.dlq.groups)
    with pytest.raises(QueueDisabled):
        disabled.dlq.groups.list()
    with pytest.raises(QueueDisabled):
        disabled.events.read(consumer="me")


def test_a_representative_of_each_service_is_called(tmp_path: Path) -> None:
    """And what was written is there for another app: it was durable when the call returned."""
    settings = MahavishnuSettings(dlq_store_url=f"sqlite:///{tmp_path / 'letters.db'}")
    with MahavishnuApp(settings).sync as here:
        here.dlq.intake.record_many([])
        here.dlq.enqueue("wf_1", {}, ["api"], NETWORK)
        here.dlq.queues.create("mail")
        item = here.dlq.queues.produce("mail", {"to": "ann"})
        here.dlq.views.save("mine", "is:open", by="ann")
        here.lifecycle.create("sweep")
        with MahavishnuApp(settings).sync as there:
            assert there.dlq.queues.item("mail", item.id).payload == {"to": "ann"}
            assert [view.name for view in there.dlq.views.list()] == ["mine"]
            assert [task.name for task in there.lifecycle.list().items] == ["sweep"]
            assert there.dlq.search.count(letter_query()).number == 1
            assert [line for line in there.dlq.transfer.export()] != []
            assert there.dlq.replies.begin("key", "asked") is None
            assert there.telemetry.collect()
            assert there.dlq.archive.run(dry_run=True).tasks_archived == 0
            there.dlq.closing.finish()


async def test_lines_are_exported_where_another_event_loop_uses_the_store(app: MahavishnuApp) -> None:
    await queue_of(app).enqueue("wf_1", {}, [], NETWORK)
    lines = await asyncio.to_thread(lambda: list(app.sync.dlq.transfer.export()))
    assert [json.loads(line)["task_id"] for line in lines] == ["wf_1"]
    await app.shutdown()


def test_the_module_imports_no_service_before_it_is_used() -> None:
    program = "import sys, mahavishnu.core.sync\nprint(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    services = services_of(MahavishnuApp(MahavishnuSettings(dlq_store_url="memory:"))).values()
    needed = {"mahavishnu.core.dead_letter_queue", "mahavishnu.engine.audit", LetterOperations.__module__}
    needed |= {"mahavishnu.monitoring.statistics"}  # it counts letters
    assert {type(each).__module__ for each in services} & {*loaded} == needed


def test_a_method_shows_the_arguments_and_the_words_of_the_awaited_one() -> None:
    method = MahavishnuApp(MahavishnuSettings(dlq_store_url="memory:")).sync.dlq.get_task
    assert list(inspect.signature(method).parameters) == ["task_id", "include_archived", "namespace", "queue"]
    assert method.__doc__ and method.__doc__.startswith("The letter of a task")
