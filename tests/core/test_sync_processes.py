"""`app.sync` where processes are forked and end: nothing that was acknowledged is lost, and nobody waits for ever."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings

APP = """
import multiprocessing, os, sys, threading
from mahavishnu.core import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings

app = MahavishnuApp(MahavishnuSettings(dlq_store_url={url!r}))
def fail(task, repos):
    raise ConnectionError("connection refused")
app.register_adapter("sweep", fail)
def work(name):
    result = app.sync.execute_workflow({{"id": name}}, "sweep")
    assert result["dlq_enqueued"], result
"""


def run(url: str, code: str) -> subprocess.CompletedProcess[str]:
    """A script, in an interpreter of its own."""
    script = APP.format(url=url) + textwrap.dedent(code)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAHAVISHNU_")}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, timeout=60, env=environment
    )


def names(url: str) -> set[str]:
    app = MahavishnuApp(MahavishnuSettings(dlq_store_url=url))
    with app.sync as sync:
        return {letter.task_id for letter in sync.dlq.list_tasks()}


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a local store is kept beside OpenSearch."""
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'letters.db'}"


def test_a_script_ends_at_once_and_leaves_a_closed_store(url: str, tmp_path: Path) -> None:
    done = run(url, "work('wf_1')")
    assert (done.returncode, done.stderr.count("Traceback")) == (0, 0), done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["letters.db"]  # no log is left: it was closed
    assert names(url) == {"wf_1"}


@pytest.mark.parametrize("used_before", [True, False])
def test_forked_children_and_their_parent_use_the_same_store(url: str, used_before: bool) -> None:
    done = run(
        url,
        f"""
        if {used_before}:
            work("parent")
        fork = multiprocessing.get_context("fork")
        children = [fork.Process(target=work, args=[f"child_{{number}}"]) for number in range(3)]
        for child in children:
            child.start()
        work("parent_too")
        for child in children:
            child.join(30)
        assert [child.exitcode for child in children] == [0, 0, 0], [child.exitcode for child in children]
        """,
    )
    assert done.returncode == 0, done.stderr
    assert names(url) == {"child_0", "child_1", "child_2", "parent_too", *(["parent"] if used_before else [])}


def test_a_prefork_server_serves_from_its_children(url: str) -> None:
    """As gunicorn has it with --preload: the master captures, forks, and its children end by sys.exit."""
    done = run(
        url,
        """
        work("master")
        children = []
        for number in range(2):
            child = os.fork()
            if not child:
                work(f"child_{number}")
                sys.exit(0)
            children.append(child)
        assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0]
        work("master_too")
        """,
    )
    assert done.returncode == 0, done.stderr
    assert names(url) == {"master", "child_0", "child_1", "master_too"}


@pytest.mark.parametrize("is_open", [True, False])
def test_threads_that_outlive_the_main_thread_lose_nothing(url: str, is_open: bool) -> None:
    """Python lets no thread read the store then, or open it: what fails waits, in the store or in a file."""
    done = run(
        url,
        f"""
        @app.workflow("charge")
        def charge(order):
            raise ConnectionError("the bank is away")
        main = threading.current_thread()
        def late():
            main.join()
            try:
                charge("late")
            except ConnectionError as error:
                print(error)
        if {is_open}:
            app.sync.dlq.open()
        threading.Thread(target=late).start()
        """,
    )
    assert (done.returncode, done.stdout) == (0, "the bank is away\n"), done.stderr
    app = MahavishnuApp(MahavishnuSettings(dlq_store_url=url))
    with app.sync as sync:
        assert sync.dlq.intake.admit_waiting() == 1
        assert [letter.task for letter in sync.dlq.list_tasks()] == [{"order": "late"}]


def test_a_decorated_function_in_a_forked_child_is_captured_in_the_store(url: str) -> None:
    """Its parent's call was captured in the same loop, which let go of the store before the fork."""
    done = run(
        url,
        """
        @app.workflow
        def charge(amount):
            raise ConnectionError(f"cannot charge {amount}")
        def call(amount):
            try:
                charge(amount)
            except ConnectionError:
                return
            raise AssertionError("it did not raise its own error")
        call(1)
        fork = multiprocessing.get_context("fork")
        child = fork.Process(target=call, args=[2])
        child.start()
        child.join(30)
        assert child.exitcode == 0
        """,
    )
    assert done.returncode == 0, done.stderr
    app = MahavishnuApp(MahavishnuSettings(dlq_store_url=url))
    with app.sync as sync:
        assert sorted(letter.task["amount"] for letter in sync.dlq.list_tasks()) == [1, 2]
        assert sync.dlq.get_statistics()["waiting"] == 0


@pytest.mark.opensearch
def test_opensearch_is_used_before_a_fork_and_after_it(opensearch_url: str, opensearch_prefix: str) -> None:
    """Its connections belong to one process; each has its own."""
    url = f"{opensearch_url.replace('http', 'opensearch', 1)}/{opensearch_prefix}"
    done = run(
        url,
        """
        work("parent")
        fork = multiprocessing.get_context("fork")
        children = [fork.Process(target=work, args=[f"child_{number}"]) for number in range(2)]
        for child in children:
            child.start()
        work("parent_too")
        for child in children:
            child.join(30)
        assert [child.exitcode for child in children] == [0, 0]
        """,
    )
    assert done.returncode == 0, done.stderr
    assert names(url) == {"parent", "child_0", "child_1", "parent_too"}
