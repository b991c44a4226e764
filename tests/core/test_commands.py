"""What all commands have in common: exit codes, one line for an error, and output that suits its reader."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from mahavishnu import __version__
from mahavishnu.cli.output import ExitCode, plain, print_block, print_json, print_table
from mahavishnu.core import commands as app
from mahavishnu.model import errors
from tests.support.command_line import Run

REFERENCE = Path(__file__).parents[2] / "docs" / "reference-cli.md"


def test_help_and_version(run: Run) -> None:
    assert run("--version").out == f"mahavishnu {__version__}\n"
    for arguments in (("--help",), ("-h",), ("plugins", "--help"), ("classify", "-h")):
        done = run(*arguments)
        assert done.code == 0 and done.out.startswith("Usage: mahavishnu")


def test_a_group_without_a_command_shows_its_help(run: Run) -> None:
    for arguments in ((), ("config",)):
        done = run(*arguments)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("Usage: mahavishnu")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("bogus",), "No such command 'bogus' (see mahavishnu --help)"),
        (("config", "shw"), "No such command 'shw'. Did you mean 'show'? (see mahavishnu config --help)"),
        (("classify",), "Missing argument 'ERROR' (see mahavishnu classify --help)"),
        (
            ("classify", "x", "--jsn"),
            "No such option: --jsn (Possible options: --json) (see mahavishnu classify --help)",
        ),
        (("--bogus",), "No such option: --bogus (see mahavishnu --help)"),
    ],
)
def test_a_mistake_in_the_arguments_is_told_in_one_line(run: Run, arguments: tuple[str, ...], told: str) -> None:
    done = run(*arguments)
    assert (done.code, done.out, done.err) == (2, "", f"mahavishnu: {told}\n")


@pytest.fixture
def raising(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[BaseException], None]]:
    """Makes a command `fail` that raises what it is told to."""
    registered = list(app.app.registered_commands)
    box: list[BaseException] = []

    def fail() -> None:
        raise box[0]

    app.app.command("fail")(fail)
    yield box.append
    app.app.registered_commands[:] = registered


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (errors.InvalidInput("no such day"), 2, "no such day"),
        (errors.StoreUnavailable("search.example does not answer"), 1, "search.example does not answer"),
        (errors.StoreMisconfigured("wrong password"), 1, "wrong password"),
        (errors.StoreCorrupt("letters.db is torn"), 1, "letters.db is torn"),
        (errors.NoSuchLetter("t-1"), 3, "there is no letter 't-1'"),
        (errors.NoSuchGroup("v1:1"), 3, "there is no group 'v1:1'"),
        (errors.NoSuchRun("r-1"), 3, "there is no bulk run 'r-1'"),
        (errors.IllegalMove("t-1", "retry", "archived"), 4, "letter 't-1' is archived: cannot retry it"),
        (errors.IllegalRunMove("r-1", "pause", "done"), 4, "bulk run 'r-1' is done: cannot pause it"),
        (errors.MahavishnuError(), 1, "MahavishnuError"),
        (PermissionError(13, "Permission denied", "x.yaml"), 1, "[Errno 13] Permission denied: 'x.yaml'"),
        (KeyboardInterrupt(), 130, None),
        (BrokenPipeError(), 141, None),
        (typer.Exit(7), 7, None),
        (typer.Abort(), 130, None),
    ],
)
def test_errors_become_a_line_and_a_code(
    run: Run, raising: Callable[[BaseException], None], error: BaseException, code: int, told: str | None
) -> None:
    raising(error)
    done = run("fail")
    assert (done.code, done.out, done.err) == (code, "", f"mahavishnu: {told}\n" if told else "")


def test_a_bug_is_told_in_one_line_and_shown_on_request(run: Run, raising: Callable[[BaseException], None]) -> None:
    raising(RuntimeError("one\ntwo"))
    done = run("fail")
    assert done.code == 1
    assert done.err.startswith("mahavishnu: RuntimeError: one two (") and done.err.count("\n") == 1
    shown = run("--traceback", "fail")
    assert shown.code == 1
    assert "Traceback (most recent call last)" in shown.err and "in fail" in shown.err


# ------------------------------------------------------------------------------------------------------------ output


def test_a_table_for_a_pipe_is_not_wrapped(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("name", "why"), [("a", "x" * 150), ("bb", None)], empty="none")
    assert capsys.readouterr().out == f"name  why\na     {'x' * 150}\nbb    -\n"


def test_an_empty_table_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("name",), [], empty="no plugins")
    assert capsys.readouterr().out == "no plugins\n"


def test_a_narrow_terminal_gets_blocks(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    rows = [("first", "ok", "x" * 50), ("second", "broken", "")]
    print_table(("name", "state", "why"), rows, empty="none")
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 40
    assert out.replace("x", "") == "name   first\nstate  ok\nwhy    \n       \n\nname   second\nstate  broken\n"


def test_ids_are_not_wrapped_and_texts_get_what_is_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"v1:{'0' * 20}"
    row = (name, "m" * 10, "one two three four fifteen six")
    for width, spare, expected in (
        (60, (), f"id{' ' * 23}more        why\n{name}  {row[1]}  one two three four\n{' ' * 37}fifteen six\n"),
        (80, ("more",), f"id{' ' * 23}more        why\n{name}  {'  '.join(row[1:])}\n"),
        (55, (), f"id    {name}\nmore  {row[1]}\nwhy   {row[2]}\n"),
    ):
        monkeypatch.setenv("COLUMNS", str(width))
        print_table(("id", "more", "why"), [row], empty="none", spare=spare)
        assert capsys.readouterr().out == expected
    long = (f"v1:{'0' * 40}", *row[1:])
    monkeypatch.setenv("COLUMNS", "66")
    print_table(("id", "more", "why"), [long], empty="none", spare=("more",))
    assert capsys.readouterr().out == f"id{' ' * 43}why\n{long[0]}  one two three four\n{' ' * 45}fifteen six\n"
    print_table(("id", "more", "why"), [long], empty="none")
    assert capsys.readouterr().out == f"id    {long[0]}\nmore  {row[1]}\nwhy   {row[2]}\n"


def test_in_a_pipe_a_record_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("a", "b", "c"), [("x" * 150, "y " * 150 + "y", "z " * 150 + "z")], empty="none")
    assert capsys.readouterr().out.count("\n") == 2
    print_block({"name": "z " * 150 + "z"})
    assert capsys.readouterr().out.count("\n") == 1


def test_what_would_act_on_a_terminal_is_written_out(capsys: pytest.CaptureFixture[str]) -> None:
    print_block({"said": "\x1b[2Jgone\r\u202eback", "many": "a\n  b", "markup": "[red]x[/red]"})
    assert capsys.readouterr().out == "said    \\x1b[2Jgone\\r\\u202eback\nmany    a b\nmarkup  [red]x[/red]\n"


def test_json_keeps_every_character(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"said": "é \x1b"})
    assert capsys.readouterr().out in ('{\n  "said": "é \\u001b"\n}\n', '{\n  "said": "\\u00e9 \\u001b"\n}\n')


@pytest.mark.parametrize(("value", "text"), [(0, "0"), (False, "false"), ({"a": "é"}, '{"a": "é"}'), ([], "[]")])
def test_values_as_people_read_them(value: object, text: str) -> None:
    assert plain(value) == text


# ------------------------------------------------------------------------------------------------------- the reference


def test_the_help_says_of_each_command_what_the_command_says_of_itself() -> None:
    root = typer.main.get_command(app.app)
    for group in app.GROUPS:
        assert root.commands[group.name].get_short_help_str(limit=200) == group.help  # type: ignore[attr-defined]


def test_every_command_belongs_to_a_group() -> None:
    assert {each.group for each in app.COMMANDS} <= {each.name for each in app.GROUPS}


def test_the_help_lists_one_verb_for_each_purpose(run: Run) -> None:
    listed = {
        line.split()[0] for line in run("dlq", "--help").out.partition("Commands")[2].splitlines() if line.strip(" :")
    }
    assert {"retry", "redrive"} <= listed and not {"resurrect", "requeue", "status"} & listed
    assert run("dlq", "requeue", "--help").code == 0


def commands(group: Any, path: str = "mahavishnu") -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if getattr(command, "invoke_without_command", False):
            yield f"{path} {name}", command
        if hasattr(command, "commands"):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def test_every_verb_and_option_is_in_the_reference() -> None:
    root = typer.main.get_command(app.app)
    text = REFERENCE.read_text(encoding="utf-8")
    sections = {
        re.sub(r" \[?[A-Z]+\]?(\.\.\.)?", "", head): body
        for head, body in re.findall(r"^## `([^`]+)`\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    }
    shared = {
        "#filters": text.partition("\n## Filters\n")[2].partition("\n## ")[0],
        "#bulk-runs": text.partition("\n## Bulk runs\n")[2].partition("\n## ")[0],
    }
    everywhere = text.partition("\n### Namespaces\n")[2].partition("\n## ")[0]
    for name, body in sections.items():
        sections[name] = body + everywhere + "".join(part for link, part in shared.items() if f"]({link})" in body)
    found = dict(commands(root))
    assert set(sections) == set(found)
    for path, command in found.items():
        for option in command.params:
            if option.param_type_name == "option" and not {"--help", "--json"} & set(option.opts):
                assert f"`{option.opts[0]}" in sections[path], f"{path} {option.opts[0]}"
    for option in root.params:
        assert f"`{option.opts[0]}" in text, option.opts[0]


def test_every_exit_code_is_in_the_reference() -> None:
    text = REFERENCE.read_text(encoding="utf-8")
    for code in ExitCode:
        assert f"| {code.value} |" in text
