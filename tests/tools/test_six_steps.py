"""The worked example in CONTRIBUTING.md adds a room that works on every surface."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINT = Path(sys.executable).with_name("lint-imports")
_STEP = re.compile(r"^\*\*(\d)\. ", re.MULTILINE)
_BLOCK = re.compile(r"^```(?:python|jinja|diff)\n(?:# |\{# |--- )(\S+)(?: #\})?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_USE = """
import asyncio
import sys
import httpx
from mahavishnu.bookmarks.service import Bookmarks
from mahavishnu.core.api import create_app
from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.model.errors import PermissionDenied
from mahavishnu.model.permissions import Principal
from mahavishnu.stores.urls import open_store

async def main():
    async with DeadLetterQueue(store=open_store(sys.argv[1], kinds=KINDS)) as dlq:
        bookmarks = dlq.service(Bookmarks)
        assert dlq.service(Bookmarks) is bookmarks
        assert (await bookmarks.save("wf_1", " ask ann ", by="bob")).note == "ask ann"
        try:
            await dlq.for_actor(Principal("eve")).service(Bookmarks).save("wf_1", "mine", by="eve")
        except PermissionDenied:
            pass
        else:
            raise AssertionError("a viewer saved a bookmark")
        transport = httpx.ASGITransport(create_app(dlq), client=("127.0.0.1", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as api:
            saved = await api.post("/api/v1/bookmarks/wf_2", json={"note": "ask carl"})
            assert saved.status_code == 200, saved.text
            listed = await api.get("/api/v1/bookmarks")
            assert [each["note"] for each in listed.json()] == ["ask ann", "ask carl"], listed.text
            page = await api.get("/bookmarks", headers={"Accept": "text/html"})
            assert page.status_code == 200 and "ask carl" in page.text, page.text
        assert [each.task_id for each in await bookmarks.list()] == ["wf_1", "wf_2"]

asyncio.run(main())
"""


def read_steps(text: str) -> Mapping[int, Sequence[tuple[str, str]]]:
    """Return the blocks of each step of the example: the file, and its content or the lines of a diff."""
    _, *parts = _STEP.split(text.partition("## Add a room in six steps")[2])
    return {int(step): _BLOCK.findall(body) for step, body in zip(parts[::2], parts[1::2], strict=True)}


def apply_block(package: Path, file: str, content: str) -> None:
    """Write a new file, or insert the added lines of a diff between the lines around them."""
    path = package / file
    if path.suffix in (".py", ".html") and not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        return
    lines = content.splitlines(keepends=True)
    before, after = ("".join(line[1:] for line in lines if line[0] in signs) for signs in (" ", " +"))
    text = path.read_text()
    assert text.count(before) == 1, f"{file} has not just one place for:\n{content}"
    path.write_text(text.replace(before, after))


def run_in(package: Path, *command: str) -> str:
    """Return what a command prints with the copied package. Fail with that if the command does."""
    environ = {**os.environ, "PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": ""}  # later ones start faster
    done = subprocess.run(command, cwd=package, env=environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


STEPS = read_steps((ROOT / "CONTRIBUTING.md").read_text())
BLOCKS = [(step, *block) for step, blocks in STEPS.items() for block in blocks]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package without the example."""
    shutil.copytree(ROOT / "mahavishnu", tmp_path / "mahavishnu")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def use_room(package: Path) -> None:
    """Use the example's room from Python, over HTTP, on its page and on the command line."""
    store = f"sqlite:///{package}/letters.db"
    run_in(package, sys.executable, "-c", _USE, store)
    bookmark = (sys.executable, "-m", "mahavishnu", "bookmark", "--store", store)
    run_in(package, *bookmark, "save", "wf_3", "ask dora")
    listed = json.loads(run_in(package, *bookmark, "list", "--json"))
    assert [each["note"] for each in listed] == ["ask ann", "ask carl", "ask dora"]


def test_a_room_of_six_steps_works_on_every_surface_and_keeps_the_order_of_imports(package: Path) -> None:
    assert list(STEPS) == [1, 2, 3, 4, 5, 6]
    for _, file, content in BLOCKS:
        apply_block(package, file, content)
    use_room(package)
    run_in(package, str(LINT), "--no-cache")


@pytest.mark.prove
@pytest.mark.parametrize("missing", range(len(BLOCKS)), ids=[f"{step}-{Path(file).name}" for step, file, _ in BLOCKS])
def test_the_room_does_not_work_if_a_block_is_missing(package: Path, missing: int) -> None:
    for _, file, content in [*BLOCKS[:missing], *BLOCKS[missing + 1 :]]:
        apply_block(package, file, content)
    with pytest.raises(AssertionError):
        use_room(package)
        run_in(package, str(LINT), "--no-cache")
