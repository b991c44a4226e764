"""What the README says about its own example, held against a run of it by a user who has nothing yet."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SETTING = ("MAHAVISHNU_DLQ_STORE_URL", "sqlite:///letters.db")
LOGGING_INFO = """
import logging, runpy, sys
logging.basicConfig(level=logging.INFO, format="%(message)s")
runpy.run_path(sys.argv[1], run_name="__main__")
"""


def tried(home: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """The example as a program of a user who lives there."""
    example = home / "example.py"
    example.write_text(re.findall(r"```python\n(.*?)```", README, re.DOTALL)[0], encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-c", LOGGING_INFO, str(example)],
        capture_output=True,
        text=True,
        check=True,
        cwd=home,
        env={"HOME": str(home), "PATH": "", "PYTHONPATH": str(ROOT), **variables},
        timeout=60,
    )


def test_the_example_prints_and_keeps_what_the_readme_tells(tmp_path: Path) -> None:
    """The file that is made, and the line in the log."""
    done = tried(tmp_path)

    failed, letter, kept, ended = done.stdout.splitlines()
    assert failed == "failed: connection reset by peer"
    assert f"# {letter}\n" in README and kept.startswith("network exponential 20")
    assert f"# {ended}\n" in README
    (said,) = (line for line in done.stderr.splitlines() if line.startswith("captured "))
    assert f"`{said}`" in README
    (made,) = tmp_path.rglob("letters.db")
    assert f"~/{made.relative_to(tmp_path).as_posix()}\n" in README


def test_the_setting_that_the_readme_names_chooses_another_place(tmp_path: Path) -> None:
    assert f"`{'='.join(SETTING)}`" in README

    tried(tmp_path, **dict([SETTING]))

    assert [path.parent for path in tmp_path.rglob("letters.db")] == [tmp_path]


def test_type_checkers_see_no_error_in_the_example(tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text(re.findall(r"```python\n(.*?)```", README, re.DOTALL)[0], encoding="utf-8")
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file", "", str(tmp_path / "example.py")],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        timeout=120,
    )
    assert checked.returncode == 0, checked.stdout
