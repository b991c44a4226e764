"""Letters out of one store and into another: `mahavishnu dlq export` and `import`, one JSON document in a line."""

from __future__ import annotations

import json as codec
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from mahavishnu.cli.exits import ExitCode, Failed
from mahavishnu.cli.filters import Filters
from mahavishnu.cli.naming import resolve_filter
from mahavishnu.cli.options import expand_options
from mahavishnu.cli.output import AsJson, print_error, print_json, print_line, print_notice
from mahavishnu.cli.session import session_of
from mahavishnu.model.errors import InvalidInput

if TYPE_CHECKING:
    from mahavishnu.cli.client import Connection

PORTION_LETTERS = 200
PORTION_BYTES = 1024 * 1024
_TOLD_EVERY = 1000
_WORDS = {
    "new": "new",
    "joined": "joined the open letter of their task",
    "succeeded": "followed a closed letter",
    "same": "here already",
}


def register(app: typer.Typer) -> None:
    """Make the commands."""
    app.command("export")(export)
    app.command("import")(import_letters)


@expand_options
def export(
    context: typer.Context,
    chosen: Filters,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write there, instead of to stdout.")
    ] = None,
) -> None:
    """Write letters as lines of JSON, which import reads. Without a filter, all of them."""
    from mahavishnu.cli.client import run_conversation

    chosen.api_filter()  # what is wrong with it is told before anything is opened

    async def ask(api: Connection) -> None:
        asked = await resolve_filter(api, chosen)
        count = 0
        with _written(output) as file:
            async with api.stream("/dlq/export", asked) as lines:
                async for text in lines:
                    file.write(f"{text}\n")
                    count += 1
                    if count % _TOLD_EVERY == 0:
                        _told(count)
        _told(count, last=True)

    run_conversation(session_of(context), ask)


@contextmanager
def _written(path: Path | None) -> Iterator[TextIO]:
    """Standard output, a device or a pipe; or a file that is there when it is complete. Raises Failed."""
    if path is None:
        yield sys.stdout
        return
    with _named(path):
        mode = _mode(path)
        if mode is not None and not stat.S_ISREG(mode):
            with path.open("w", encoding="utf-8") as file:  # nothing that could be replaced
                yield file
            return
        target = path.resolve()  # a link stays one
        part = target.with_name(f".{target.name}.part")
        try:
            with part.open("w", encoding="utf-8") as file:
                if mode is not None:
                    part.chmod(stat.S_IMODE(mode))
                yield file
            part.replace(target)
        except BaseException:
            part.unlink(missing_ok=True)
            raise


def _mode(path: Path) -> int | None:
    """What is there, through links; None for nothing."""
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """What cannot be written is called as the person called it. Whoever reads a pipe may stop."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as problem:
        raise Failed(f"{path} cannot be written: {problem.strerror or problem}") from None


def import_letters(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="What export wrote; - reads standard input.")],
    json: AsJson = False,
) -> None:
    """Take in letters that were exported. Doing it twice changes nothing."""
    from mahavishnu.cli.client import run_conversation

    counts: dict[str, int] = {}
    refused: dict[str, str] = {}
    at: dict[str, str] = {}  # where in the file that is

    async def ask(api: Connection) -> None:
        done = 0
        for portion in _portions(file, refused):
            for part, answer in await _sent(api, portion):
                for became in answer["taken"].values():
                    counts[became] = counts.get(became, 0) + 1
                _note(answer["refused"], part, refused, at)
            done += len(portion)
            _told(done)
        _told(done, last=True)

    run_conversation(session_of(context), ask, new=True)
    if json:
        print_json({"taken": counts, "refused": refused})
    else:
        for became, number in counts.items():
            print_line(f"{number} {_WORDS.get(became, became)}")
        if not counts and not refused:
            print_line("no letters")
    if refused:
        for name, why in refused.items():
            print_error(f"{at.get(name, name)}: {why}")
        raise typer.Exit(ExitCode.FAILED)


Numbered = tuple[int, dict[str, Any]]  # a line's number, and the letter in it


def _note(answered: dict[str, str], part: list[Numbered], refused: dict[str, str], at: dict[str, str]) -> None:
    """Note what was refused, and in which line it is; the API calls letters without a name by their place."""
    lines = {_name(letter) or str(place): (number, _name(letter)) for place, (number, letter) in enumerate(part)}
    for called, why in answered.items():
        number, name = lines.get(called, (None, called))
        known = name or f"line {number}"
        refused[known] = why
        at[known] = f"line {number}, {name}" if name and number else known


def _name(letter: dict[str, Any]) -> str:
    return str(letter.get("entry_id") or letter.get("task_id") or "")


async def _sent(api: Connection, portion: list[Numbered]) -> list[tuple[list[Numbered], Any]]:
    """The parts of a portion with their answers; it is halved where it is too large for the server.

    Raises what refuses it.
    """
    from mahavishnu.cli.client import TooLarge

    try:
        return [(portion, await api.post("/dlq/import", [letter for _, letter in portion]))]
    except TooLarge as problem:
        if len(portion) == 1:
            raise TooLarge(f"line {portion[0][0]}: {problem}") from None
        half = len(portion) // 2
        return [*await _sent(api, portion[:half]), *await _sent(api, portion[half:])]


def _portions(file: str, refused: dict[str, str]) -> Iterator[list[Numbered]]:
    """The letters of a file, some at a time; lines that are none are noted."""
    portion: list[Numbered] = []
    size = 0
    for number, text in enumerate(_lines(file), 1):
        if not text.strip():
            continue
        try:
            letter = codec.loads(text.decode("utf-8-sig"))  # editors add a mark
        except UnicodeDecodeError as problem:
            refused[f"line {number}"] = f"this is not UTF-8: {problem}"
            continue
        except (ValueError, RecursionError) as problem:
            refused[f"line {number}"] = f"this is not JSON: {problem}"
            continue
        if not isinstance(letter, dict):
            refused[f"line {number}"] = "this is no letter"
            continue
        if portion and (len(portion) == PORTION_LETTERS or size + len(text) > PORTION_BYTES):
            yield portion
            portion, size = [], 0
        portion.append((number, letter))
        size += len(text)
    if portion:
        yield portion


def _lines(file: str) -> Iterator[bytes]:
    if file == "-":
        yield from sys.stdin.buffer
        return
    try:
        with Path(file).open("rb") as opened:
            yield from opened
    except OSError as problem:
        raise InvalidInput(f"{file} cannot be read: {problem.strerror}") from None


def _told(count: int, *, last: bool = False) -> None:
    """How far it is, on a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{count} letters")
        if last:
            print_notice("")
