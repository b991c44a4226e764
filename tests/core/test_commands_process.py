"""The command as a shell starts it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command_line import kept

pytestmark = pytest.mark.usefixtures("home")
MAHAVISHNU = [sys.executable, "-m", "mahavishnu"]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **more}


def done(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*MAHAVISHNU, *arguments], capture_output=True, text=True, env=environment(**more), timeout=60
    )


def test_a_command() -> None:
    found = done("classify", "builtins.ConnectionResetError")
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout.startswith("category  network\n")


def test_the_script_is_installed_with_the_package() -> None:
    script = Path(sys.executable).with_name("mahavishnu")
    found = subprocess.run([script, "--version"], capture_output=True, text=True, env=environment(), timeout=60)
    assert (found.returncode, found.stderr) == (0, "")


def test_a_reader_that_stops_is_no_reason_to_complain() -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        found = subprocess.run(
            [*MAHAVISHNU, "config", "show", "--json"],
            stdout=write,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
            timeout=60,
        )
    finally:
        os.close(write)
    assert (found.returncode, found.stderr) == (141, "")


def test_a_full_disk_is_told_once() -> None:
    with Path("/dev/full").open("w") as full:
        found = subprocess.run(
            [*MAHAVISHNU, "--version"], stdout=full, stderr=subprocess.PIPE, text=True, env=environment(), timeout=60
        )
    assert found.returncode == 1
    assert found.stderr.startswith("mahavishnu: [Errno 28]") and found.stderr.count("\n") == 1


def test_without_standard_output() -> None:
    found = subprocess.run(
        ["sh", "-c", f"exec {sys.executable} -m mahavishnu config show >&-"],
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        timeout=60,
    )
    assert (found.returncode, found.stderr) == (0, "")


def test_ctrl_c_ends_it_quietly() -> None:
    with subprocess.Popen(
        [*MAHAVISHNU, "classify", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(PYTHONUNBUFFERED="1", PYTHONSTARTUP=""),
    ) as process:
        fd = Path(f"/proc/{process.pid}/syscall")
        while process.poll() is None and not fd.read_text().startswith("0 0x0 "):  # it reads standard input
            os.sched_yield()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "")


@pytest.mark.parametrize(
    "module", ["typer", "mahavishnu.core.commands", "mahavishnu.cli.client", "mahavishnu.letters.documents"]
)
def test_ctrl_c_while_modules_are_loaded_is_quiet_too(module: str, tmp_path: Path) -> None:
    script = (
        "import os, signal, sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}: os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "sys.argv = ['mahavishnu', 'dlq', 'list']\n"
        "from mahavishnu.__main__ import main\n"
        "sys.exit(main())\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env=environment(XDG_STATE_HOME=str(tmp_path)),
        timeout=60,
    )
    assert (found.returncode, found.stdout, found.stderr) == (130, "", "")


def test_no_colours_for_whoever_does_not_want_them() -> None:
    plain = done("plugins", "list", NO_COLOR="1", FORCE_COLOR="1").stdout
    assert "\x1b[3" not in plain


def test_a_terminal_that_knows_only_ascii() -> None:
    found = done("classify", "Verbindung wurde zurückgesetzt ✗", "--json", PYTHONIOENCODING="ascii", LC_ALL="C")
    assert (found.returncode, found.stderr) == (0, "")


@pytest.mark.parametrize(
    ("missing", "arguments"),
    [("typer", ["--help"]), ("rich", ["demo", "--help"]), ("httpx", ["dlq", "--server", "http://127.0.0.1:9", "list"])],
)
def test_without_the_extra_it_says_what_to_install(missing: str, arguments: list[str]) -> None:
    script = (
        f"import sys; sys.modules[{missing!r}] = None; sys.argv = ['mahavishnu', *{arguments!r}];"
        "from mahavishnu.__main__ import main; sys.exit(main())"
    )
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment(), timeout=60
    )
    assert (found.returncode, found.stdout) == (1, "")
    assert found.stderr == f"mahavishnu: there is no {missing}: pip install 'mahavishnu-dlq[cli]'\n"


@pytest.mark.parametrize(
    ("arguments", "unneeded"),
    [
        (["--help"], {"asyncio", "pydantic", "rich", "sqlite3", "starlette", "mahavishnu.cli.client"}),
        (
            ["dlq", "--store", "sqlite:///letters.db", "list"],
            {
                "fastapi",
                "httpx",
                "opensearchpy",
                "rich",
                "uvicorn",
                "yaml",
                "mahavishnu.core.api",
                "mahavishnu.bulk.routes",
            }
            | {
                f"mahavishnu.{name}"
                for name in ("bulk.letter_commands", "groups.commands", "bulk.commands", "core.processes")
            }
            | {"mahavishnu.values.arguments", "mahavishnu.values.typed_edit"}
            | {"mahavishnu.values.typed_json", "mahavishnu.values.kinds"},
        ),
    ],
)
def test_a_command_does_not_wait_for_what_it_does_not_need(
    arguments: list[str], unneeded: set[str], tmp_path: Path
) -> None:
    kept(f"sqlite:///{tmp_path}/letters.db", {"task_id": "wf_1"})
    script = (
        f"import sys; sys.argv = ['mahavishnu', *{arguments!r}];"
        "from mahavishnu.__main__ import main; code = main();"
        "print('\\n'.join(sys.modules)); sys.exit(code)"
    )
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment(), timeout=60, cwd=tmp_path
    )
    assert (found.returncode, found.stderr) == (0, "")
    assert not unneeded & set(found.stdout.splitlines())
