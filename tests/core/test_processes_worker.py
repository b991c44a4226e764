"""`mahavishnu worker` and `mahavishnu demo`, as a shell starts them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.command_line import Run

MAHAVISHNU = [sys.executable, "-m", "mahavishnu"]
APP = """
from mahavishnu.core import MahavishnuApp

app = MahavishnuApp()
app.register_adapter("sweep", lambda task, repos: open("swept", "a").write(task["type"] + "\\n"))


def make():
    return app


def broken():
    raise ValueError("no settings")


class Something:
    pass


something = Something()
"""
ENQUEUE = """
import asyncio
from shop import app

async def main():
    async with app:
        await app.dlq.enqueue("wf_1", {"type": "night", "adapter": "sweep"}, [], "reset", retry_policy="immediate")

asyncio.run(main())
"""


NIGHT = """
import asyncio
from shop import app

async def sweep(task, repos):
    print("begun", flush=True)
    await asyncio.Event().wait()

app.register_adapter("sweep", sweep)
"""

HANGING = """
import time
from shop import app

def sweep(task, repos):
    print("begun", flush=True)
    time.sleep(3600)

app.register_adapter("sweep", sweep)
"""


@pytest.fixture
def shop(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with an app in it."""
    (home / "shop.py").write_text(APP)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.setenv("MAHAVISHNU_DLQ_STORE_URL", "sqlite:///letters.db")
    return home


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [*MAHAVISHNU, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def lines_until(process: subprocess.Popen[str], text: str) -> list[str]:
    assert process.stdout is not None
    seen: list[str] = []
    for line in process.stdout:
        seen.append(line)
        if text in line:
            return seen
    raise AssertionError("".join(seen))


def test_a_worker_retries_letters_reads_settings_again_and_stops_when_told(shop: Path) -> None:
    subprocess.run([sys.executable, "-c", ENQUEUE], check=True)
    with started("worker", "--app", "shop:app", "-v") as worker:
        lines_until(worker, "retries letters of SQLiteStore")
        lines_until(worker, "dlq.retry.succeeded: wf_1")
        (shop / "settings").mkdir()
        (shop / "settings" / "mahavishnu.yaml").write_text("dlq_retry_interval_seconds: 30\n")
        worker.send_signal(signal.SIGHUP)
        lines_until(worker, "settings read again")
        (shop / "settings" / "mahavishnu.yaml").write_text("dlq_retry_interval_seconds: 3\n")
        worker.send_signal(signal.SIGHUP)
        lines_until(worker, "the settings stay as they were")
        worker.terminate()
        lines_until(worker, "stopped")
        assert worker.wait(30) == 0
    assert (shop / "swept").read_text() == "night\n"


def test_once_runs_what_is_due_and_ends(shop: Path) -> None:
    subprocess.run([sys.executable, "-c", ENQUEUE], check=True)
    done = subprocess.run(
        [*MAHAVISHNU, "worker", "--app", "shop:make", "--once"], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "1 letter run\n"


def test_once_carries_bulk_runs_on(shop: Path) -> None:
    subprocess.run([sys.executable, "-c", ENQUEUE.replace("immediate", "never")], check=True)

    def said(*words: str) -> str:
        return subprocess.run([*MAHAVISHNU, *words], capture_output=True, text=True, timeout=60, check=True).stdout

    assert said("worker", "--app", "shop:make", "--once") == "0 letters run\n"
    said("dlq", "redrive", "--all", "--yes", "--detach")
    assert said("worker", "--app", "shop:make", "--once") == "1 letter run\n"
    assert (shop / "swept").read_text() == "night\n"
    (run,) = json.loads(said("run", "list", "--json"))
    assert (run["counts"]["moved"], run["state"]) == (1, "running"), "its outcome is counted by whoever looks next"


def test_once_runs_letters_of_its_queues_only(shop: Path) -> None:
    subprocess.run([sys.executable, "-c", ENQUEUE], check=True)

    def ran(*queues: str) -> str:
        command = [*MAHAVISHNU, "worker", "--app", "shop:make", "--once", *(f"--queue={name}" for name in queues)]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.strip()

    assert [ran("mail"), ran("mail", "default")] == ["0 letters run", "1 letter run"]


@pytest.mark.parametrize("arguments", [(), ("--once",)])
def test_who_is_told_to_stop_gives_back_what_does_not_end(shop: Path, arguments: tuple[str, ...]) -> None:
    (shop / "night.py").write_text(NIGHT)
    (shop / "settings").mkdir()
    (shop / "settings" / "mahavishnu.yaml").write_text("dlq_stop_grace_seconds: 0\n")
    subprocess.run([sys.executable, "-c", ENQUEUE], check=True)
    with started("worker", "--app", "night:app", *arguments) as worker:
        lines_until(worker, "begun")
        worker.terminate()
        lines_until(worker, "stopping: runs may take 0 s")
        assert worker.wait(30) == 0
    shown = subprocess.run(
        [*MAHAVISHNU, "dlq", "show", "wf_1", "--json"], capture_output=True, text=True, timeout=60, check=True
    )
    letter = json.loads(shown.stdout)
    assert (letter["status"], letter["total_attempts"]) == ("pending", 0)


@pytest.mark.parametrize("command", [("worker",), ("worker", "--once"), ("serve", "--port", "0")], ids=" ".join)
def test_a_run_that_hangs_in_its_thread_does_not_keep_the_process(shop: Path, command: tuple[str, ...]) -> None:
    (shop / "hanging.py").write_text(HANGING)
    (shop / "settings").mkdir()
    (shop / "settings" / "mahavishnu.yaml").write_text("dlq_stop_grace_seconds: 0\n")
    subprocess.run([sys.executable, "-c", ENQUEUE], check=True)
    with started(*command, "--app", "hanging:app") as process:
        lines_until(process, "begun")
        process.terminate()
        assert process.wait(30) == 0
        assert process.stdout is not None and "1 run could not be interrupted" in process.stdout.read()
    shown = subprocess.run(
        [*MAHAVISHNU, "dlq", "show", "wf_1", "--json"], capture_output=True, text=True, timeout=60, check=True
    )
    assert (json.loads(shown.stdout)["status"], json.loads(shown.stdout)["total_attempts"]) == ("pending", 0)


def test_live_workers_are_listed(shop: Path) -> None:
    def listed(*options: str) -> str:
        command = [*MAHAVISHNU, "worker", *options, "list"]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout

    subprocess.run([sys.executable, "-c", ENQUEUE], check=True)
    assert "no worker lives" in listed()
    with started("worker", "--app", "shop:app", "--queue", "mail") as worker:
        lines_until(worker, "retries letters of SQLiteStore")
        row = listed("--store", "sqlite:///letters.db").splitlines()[1]
        assert str(worker.pid) in row and "mail" in row
        worker.terminate()
        assert worker.wait(30) == 0
    subprocess.run([*MAHAVISHNU, "worker", "--app", "shop:app", "--once"], timeout=60, check=True)
    assert "ran once" in listed()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "say which app's workflows"),
        (("--once", "list"), "a worker is started without a verb"),
        (("--app", "shop:app", "--server", "http://localhost"), "leave out --server"),
        (("lst",), "No such command 'lst'"),
    ],
)
def test_a_worker_is_either_started_or_listed(run: Run, arguments: tuple[str, ...], why: str) -> None:
    answer = run("worker", *arguments)
    assert answer.code == 2
    assert why in answer.err


@pytest.mark.parametrize("words", [("worker", "--once"), ("dlq", "retry", "wf_1")])
def test_settings_beside_an_app_are_read_by_it_or_refused(shop: Path, words: tuple[str, ...]) -> None:
    (shop / "other.yaml").write_text("dlq_enabled: false\n")
    (shop / "lazy_shop.py").write_text("from mahavishnu.core import MahavishnuApp\nmake = lambda: MahavishnuApp()\n")
    (shop / "own_shop.py").write_text(
        "from mahavishnu.core import MahavishnuApp\nfrom mahavishnu.core.config import MahavishnuSettings\n"
        "app = MahavishnuApp(MahavishnuSettings.load('own.yaml'))\n"
    )
    (shop / "own.yaml").write_text("dlq_max_size: 500\n")
    command = [*MAHAVISHNU, "--settings", "other.yaml", *words, "--app"]
    read = subprocess.run([*command, "lazy_shop:make"], capture_output=True, text=True, timeout=60)
    assert read.returncode in (1, 2) and read.stderr.endswith("dlq_enabled is false\n")
    refused = subprocess.run([*command, "own_shop:app"], capture_output=True, text=True, timeout=60)
    assert refused.returncode == 2
    assert "own_shop:app does not read other.yaml, it has settings of own.yaml: leave" in refused.stderr


def test_an_app_runs_letters_of_its_own_store_only(shop: Path, run: Run) -> None:
    refused = run("dlq", "--store", "sqlite:///other.db", "retry", "wf_1", "--app", "shop:app")
    assert (refused.code, "leave out --store and --server" in refused.err) == (2, True)


def test_a_hang_up_while_the_app_is_imported_reads_its_settings_again(shop: Path) -> None:
    (shop / "early.py").write_text("import os, signal\nfrom shop import app\nos.kill(os.getpid(), signal.SIGHUP)\n")
    with started("worker", "--app", "early:app") as worker:
        seen = lines_until(worker, "retries letters of SQLiteStore")
        worker.terminate()
        assert worker.wait(30) == 0
    assert any("settings read again: nothing has changed" in line for line in seen)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("shop", "write package.module:app"),
        ("nowhere:app", "there is no module 'nowhere'"),
        ("shop:nothing", "is NoneType, not a MahavishnuApp"),
        ("shop:something", "is Something, not a MahavishnuApp"),
        ("closed:app", "closed cannot be imported: SystemExit: no licence"),
        ("shop:broken", "shop:broken makes no app: ValueError: no settings"),
    ],
)
def test_what_is_no_app_is_said_in_one_line(shop: Path, name: str, said: str) -> None:
    (shop / "closed.py").write_text("import sys\nsys.exit('no licence')\n")
    command = [*MAHAVISHNU, "worker", "--app", name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_app_without_a_queue_has_nothing_to_do(shop: Path) -> None:
    environment = {**os.environ, "MAHAVISHNU_DLQ_ENABLED": "false"}
    command = [*MAHAVISHNU, "worker", "--app", "shop:app"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)
    assert (done.returncode, done.stderr) == (1, "mahavishnu: there is nothing to do: dlq_enabled is false\n")


def test_the_demo_shows_each_way_to_end_and_leaves_nothing_behind(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(home))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    with started("demo", "--speed", "2000") as demo:
        lines_until(demo, "letters are kept in SQLiteStore")
        seen = "".join(lines_until(demo, "exhausted        always-down"))
        assert "one-bad-repo" in seen
        assert "retry.failed" in seen
        demo.send_signal(signal.SIGINT)
        rest = lines_until(demo, "docs/quickstart.md")
        assert demo.wait(30) == 0
    assert not any("Traceback" in line for line in rest)
    assert list(home.iterdir()) == []


def test_reclassify_is_dry_unless_told(
    run: Run, shop: Path, settings_file: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run([sys.executable, "-c", ENQUEUE.replace('"reset"', '"the frobnicator is sulking"')], check=True)
    rules = 'classifier_rules:\n  - text: "frobnicator"\n    category: transient\n    reason: it sulks\n'
    (shop / "settings").mkdir()
    (shop / "settings" / "mahavishnu.yaml").write_text(rules)
    dry = run("dlq", "reclassify", "--json")
    assert dry.json == {"dry_run": True, "changed": ["wf_1"], "refused": {}, "degraded": None}
    assert "1 letter would be classified otherwise" in run("dlq", "reclassify").out
    assert "1 letter classified otherwise" in run("dlq", "reclassify", "--apply").out
    assert run("dlq", "reclassify", "--apply", "--json").json["changed"] == []
