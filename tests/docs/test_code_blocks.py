"""What the documentation shows is run: the ```python blocks of the pages, and the examples in docstrings.

The blocks of a page run in order, in one namespace, on one event loop (they may `await`), in an empty directory. One
that cannot run says why, in a comment on the line before it: `<!-- not run: needs a server of yours -->`. It has to be
Python all the same.
"""

from __future__ import annotations

import ast
import asyncio
import doctest
import importlib
import inspect
import re
import sys
import textwrap
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
# Named by their files: looking for them by importing would import them in another order than their users do.
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in (ROOT / "mahavishnu").rglob("*.py")
)
_FENCE = re.compile(r"[ \t]*(?P<fence>`{3,}|~{3,})[ \t]*(?P<language>\w*).*")
_NOT_RUN = re.compile(r"\s*<!-- *not run(?P<reason>.*?)-->\s*")


@dataclass(frozen=True)
class Block:
    """One piece of code on a page, compiled so that errors name the line of the page."""

    code: CodeType
    skipped: bool


def blocks(text: str, page: str) -> list[Block]:
    """The ```python blocks of a page. Raises SyntaxError, and AssertionError for a skipped one without a reason."""
    found = []
    lines = text.splitlines()
    rest = enumerate(lines)
    for number, line in rest:
        if not (opening := _FENCE.fullmatch(line)):
            continue
        source = []
        for _, inside in rest:
            closing = _FENCE.fullmatch(inside)
            if closing and closing["fence"].startswith(opening["fence"]) and not closing["language"]:
                break
            source.append(inside)
        if opening["language"].lower() not in ("python", "py", "python3"):
            continue
        padded = "\n" * (number + 1) + textwrap.dedent("\n".join(source))
        code = compile(padded, page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        mark = _NOT_RUN.fullmatch(lines[number - 1]) if number else None
        assert not mark or mark["reason"].strip(" :-"), f"{page}:{number + 1}: say why this block is not run"
        found.append(Block(code, bool(mark)))
    return found


def run(found: list[Block], namespace: dict[str, Any]) -> None:
    """All of them, in order."""
    with asyncio.Runner() as runner:
        for block in found:
            if block.skipped:
                continue
            if block.code.co_flags & inspect.CO_COROUTINE:
                runner.run(_awaited(block.code, namespace))
            else:
                exec(block.code, namespace)


async def _awaited(code: CodeType, namespace: dict[str, Any]) -> None:
    await eval(code, namespace)


@pytest.fixture
def namespace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Where a page's code runs: a module of its own, so that its classes can be looked up, and an empty home."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))  # where letters are kept unless something else is said
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    module = type(sys)("page")
    monkeypatch.setitem(sys.modules, "page", module)
    return vars(module)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_code_of_a_page_runs(page: Path, namespace: dict[str, Any]) -> None:
    """From the first block to the last, as a reader would type it."""
    run(blocks(page.read_text(encoding="utf-8"), str(page)), namespace)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_are_true(name: str) -> None:
    """Every `>>>` in its docstrings gives what stands below it."""
    module = importlib.import_module(name)
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
    report: list[str] = []
    for example in finder.find(module, extraglobs={"datetime": datetime, "timedelta": timedelta, "UTC": UTC}):
        runner.run(example, out=report.append)

    assert not runner.failures, "".join(report)


# ---------------------------------------------------------------------------------------- the checks above are checked


def test_blocks_share_a_namespace_and_may_await(namespace: dict[str, Any], tmp_path: Path) -> None:
    """One loop for all of them, and files go into the empty directory."""
    text = """
Start here:

```python
import asyncio
from pathlib import Path

event, loop = asyncio.Event(), None
```

- in a list:

  ```python
  loop = asyncio.get_running_loop()
  event.set()
  await event.wait()
  Path("out.txt").write_text("here")
  ```

~~~py
assert await event.wait() and loop is asyncio.get_running_loop()
done = True
~~~

````markdown
```python
not python
```
````
"""
    found = blocks(text, "page.md")
    run(found, namespace)

    assert len(found) == 3
    assert namespace["done"]
    assert (tmp_path / "out.txt").read_text() == "here"


def test_a_block_that_fails_fails_with_the_line_of_the_page(namespace: dict[str, Any]) -> None:
    """So that it is found."""
    with pytest.raises(ZeroDivisionError) as caught:
        run(blocks("# Page\n\n```python\nx = 0\n1 / x\n```\n", "page.md"), namespace)

    assert caught.traceback[-1].lineno == 4  # counted from 0


def test_a_block_is_skipped_only_with_a_reason(namespace: dict[str, Any]) -> None:
    """And only if it is Python."""
    run(blocks("<!-- not run: needs a server -->\n```python\n1 / 0\n```\n", "page.md"), namespace)
    with pytest.raises(AssertionError, match=r"page\.md:2: say why"):
        blocks("<!-- not run: -->\n```python\n1 / 0\n```\n", "page.md")
    with pytest.raises(SyntaxError):
        blocks("<!-- not run: needs a server -->\n```python\n1 /\n```\n", "page.md")
    with pytest.raises(ZeroDivisionError):
        run(blocks("<!-- not run: needs a server -->\n\n```python\n1 / 0\n```\n", "page.md"), namespace)


def test_there_is_something_to_run() -> None:
    """A renamed folder must not make these tests pass."""
    assert ROOT / "docs" / "lifecycle.md" in PAGES
    assert "mahavishnu.model.lifecycle" in MODULES
