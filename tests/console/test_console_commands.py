"""The commands that pages give to be copied: what strangers wrote is one word, and the command line knows them."""

from __future__ import annotations

import html
import re
import shlex
from typing import Any

import pytest
import typer.main

from mahavishnu.core.commands import app
from tests.support.api import ApiHarness
from tests.support.pages import read

EVIL = "x'; touch /tmp/owned #$(id)`id`"


def commands_of(page: str) -> list[list[str]]:
    """The words of each command on a page, as a shell reads them."""
    shown = re.findall(r'<pre class="cmd"[^>]*aria-label="Command">([^<]*)</pre>', page)
    return [shlex.split(line) for text in shown for line in html.unescape(text).splitlines()]


def parse(words: list[str]) -> None:
    """Raises what the command line says of options that it does not know, without running anything."""
    command: Any = typer.main.get_command(app)
    context = command.context_class(command, info_name=words[0])
    rest = words[1:]
    while rest and hasattr(command, "get_command"):
        command = command.get_command(context, rest.pop(0))
        assert command is not None, words
    command.make_context(" ".join(words), rest, parent=context)


@pytest.mark.parametrize("task_id", [EVIL, "two words", "order-1"])
async def test_an_id_is_one_word_of_the_command_that_changes_its_letter(api: ApiHarness, task_id: str) -> None:
    await api.keep(task_id, queue="mail")
    quoted = "".join(f"%{byte:02X}" for byte in task_id.encode())
    commands = commands_of(await read(api, f"/letters/{quoted}?queue=mail"))
    edits = [words for words in commands if words[:3] == ["mahavishnu", "dlq", "edit"]]
    assert [words[3:6] for words in edits] == [[task_id, "--queue", "mail"]]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/audit", {"actor": EVIL}),
        ("/archive", {"task_id": EVIL, "fingerprint": EVIL}),
        ("/archive/tasks", {"task_id": EVIL, "name": EVIL}),
    ],
)
async def test_what_is_searched_for_is_one_word(api: ApiHarness, path: str, said: dict[str, str]) -> None:
    shown = await api.client.get(path, params=said, headers={"Accept": "text/html"})
    (words,) = commands_of(shown.text)
    assert words.count(EVIL) == len(said) and not any("touch" in word for word in words if word != EVIL)


async def test_the_command_line_knows_every_command_that_a_page_gives(api: ApiHarness) -> None:
    await api.dlq.enqueue("order-1", {"currency": "EURO"}, [], ValueError("x"), "never", 0)
    await api.dlq.queues.create("jobs")
    run = await api.dlq.runs.start("redrive", everything=True, by="ann")
    (group,) = (await api.dlq.groups.list()).items
    pages = ["letters", "letters/order-1", f"groups/{group.fingerprint}", f"runs/{run.run_id}", "queues/jobs"]
    pages += ["queues", "tasks", "archive", "archive/tasks", "archive/months", "audit", "alerts", "plugins", "workers"]
    known = 0
    for path in pages:
        for words in commands_of(await read(api, f"/{path}")):
            if words[0] == "mahavishnu":
                parse(words)
                known += 1
    assert known > 12
