"""Letters out of one store and into another: `mahavishnu dlq export` and `import`, one JSON document in a line."""

from __future__ import annotations

import asyncio
import gc
import json as codec
import stat
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TextIO
from urllib.parse import quote

import msgspec
import typer

from mahavishnu.cli.client import Connection, TooLarge, run_conversation
from mahavishnu.cli.command import Converse, command
from mahavishnu.cli.names import resolve_filter
from mahavishnu.cli.options import Filters, session_of
from mahavishnu.cli.output import (
    AsJson,
    ExitCode,
    Failed,
    NotFound,
    Unreachable,
    count_of,
    print_error,
    print_json,
    print_line,
    print_notice,
)
from mahavishnu.model.errors import ImportStopped, InvalidInput

if TYPE_CHECKING:
    from mahavishnu.engine.queue import LetterQueue
    from mahavishnu.stores.fallback.drain import DrainResult

_BATCH_LETTERS, _BATCH_LETTERS_HERE = 500, 4000  # a server answers within its client's patience, whatever they meet
_BATCH_BYTES = 3 * 1024 * 1024  # below what a server reads by default
_PROGRESS_EVERY = 1000
_WORDS = {
    "new": "new",
    "joined": "joined the open letter of their task",
    "succeeded": "followed a closed letter",
    "same": "here already",
}


@command()
def export(
    chosen: Filters,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write there, instead of to stdout.")
    ] = None,
) -> Converse:
    """Write letters as lines of JSON, which import reads. Without a filter, all of them."""
    chosen.api_filter()  # raises what is wrong with it before anything is opened

    async def converse(api: Connection) -> None:
        params = await resolve_filter(api, chosen)
        count = 0
        with output_file(output) as file:
            async with api.stream("/dlq/export", params) as lines:
                async for text in lines:
                    file.write(f"{text}\n")
                    count += 1
                    if count % _PROGRESS_EVERY == 0:
                        _print_progress(count)
        _print_progress(count, last=True)

    return converse


@contextmanager
def output_file(path: Path | None) -> Iterator[TextIO]:
    """Open standard output, a device or a pipe; or a file that appears when it is complete. Raise Failed."""
    if path is None:
        yield sys.stdout
        return
    with _write_errors(path):
        mode = _mode(path)
        if mode is not None and not stat.S_ISREG(mode):
            with path.open("w", encoding="utf-8") as file:  # nothing that could be replaced
                yield file
            return
        target = path.resolve()  # a link stays one
        # Nobody else may read payloads, unless they may already, or have put a file where this one is written.
        handle, name = tempfile.mkstemp(".part", f".{target.name}.", target.parent)
        part = Path(name)
        try:
            with open(handle, "w", encoding="utf-8") as file:  # noqa: PTH123 - it is open already
                if mode is not None:
                    part.chmod(stat.S_IMODE(mode))
                yield file
            part.replace(target)
        except BaseException:
            part.unlink(missing_ok=True)
            raise


def _mode(path: Path) -> int | None:
    """Return the mode of the file, through links; None without a file."""
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None


@contextmanager
def _write_errors(path: Path) -> Iterator[None]:
    """Raise what keeps the file from being written as Failed, by the name that was given. A pipe's reader may stop."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as problem:
        raise Failed(f"{path} cannot be written: {problem.strerror or problem}") from None


def import_letters(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="What export wrote; - reads standard input.")],
    even_deleted: Annotated[
        bool, typer.Option("--even-deleted", help="Bring back letters that were deleted here.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Import letters that were exported. Doing it twice changes nothing."""
    counts: dict[str, int] = {}
    refused: dict[str, str] = {}
    at: dict[str, str] = {}  # where in the file that is

    async def converse(api: Connection) -> None:
        done = 0
        gc.freeze()  # what is there now stays: looking through it again and again would take a fifth of the time
        for batch in _batches(file, refused, _BATCH_LETTERS if api.dlq is None else _BATCH_LETTERS_HERE):
            async for part, answer in _send(api, batch, even_deleted):
                for became, number in Counter(answer["taken"].values()).items():
                    counts[became] = counts.get(became, 0) + number
                _note(answer["refused"], part, refused, at)
            done += len(batch)
            _print_progress(done)
        _print_progress(done, last=True)

    stopped: Failed | ImportStopped | None = None
    try:
        run_conversation(session_of(context), converse, new=True)
    except (Unreachable, ImportStopped) as problem:
        stopped = problem
        for became, number in getattr(problem, "taken", {}).items():
            counts[became] = counts.get(became, 0) + number
    if json:
        print_json({"taken": counts, "refused": refused, **({"stopped": str(stopped)} if stopped else {})})
    elif counts or refused or stopped is None:
        for became, number in counts.items():
            print_line(f"{number} {_WORDS.get(became, became)}")
        if not counts and not refused:
            print_line("no letters")
    if refused:
        for name, why in refused.items():
            print_error(f"{at.get(name, name)}: {why}")
    if stopped is not None:
        why = "the store does not answer" if isinstance(stopped, ImportStopped) else str(stopped)
        print_error(
            f"the import has stopped, {why}: {count_of(sum(counts.values()), 'letter')} of {file} went in for certain. "
            "Run it again when the store answers: what is in stays as it is"
        )
        raise typer.Exit(ExitCode.CONFLICT)
    if refused:
        raise typer.Exit(ExitCode.FAILED)


class Line(NamedTuple):
    """A letter in a file: the number of its line, the name that the API has for it, and its JSON text."""

    number: int
    name: str
    text: bytes


class _Names(msgspec.Struct):
    """The ids of a letter. The rest of its line is skipped: the API decodes it."""

    entry_id: Any = None
    task_id: Any = None


_read_names = msgspec.json.Decoder(_Names).decode


def _note(answered: dict[str, str], part: list[Line], refused: dict[str, str], at: dict[str, str]) -> None:
    """Note the refused letters with their lines.

    The API names letters without a name by their place, and further ones with one name by that and their place.
    """
    if not answered:
        return
    lines: dict[str, Line] = {}
    for place, line in enumerate(part):
        name = line.name or str(place)
        lines[f"{name} at {place}" if name in lines else name] = line
    for key, why in answered.items():
        found = lines.get(key)
        number, name = (found.number, found.name) if found else (None, key)
        known = name or f"line {number}"
        if known in refused:
            known = f"{name} at line {number}"
        refused[known] = why
        at[known] = f"line {number}, {name}" if name and number else known


async def _send(api: Connection, batch: list[Line], even_deleted: bool) -> AsyncIterator[tuple[list[Line], Any]]:
    """Send a batch, in halves where it is too large. Yield the parts with their answers."""
    try:
        params = {"even_deleted": True} if even_deleted else None
        body = b"[%b]" % b",".join([line.text for line in batch])
        answer = await api.post("/dlq/import", body, params)
    except TooLarge as problem:
        if len(batch) == 1:
            raise TooLarge(f"line {batch[0].number}: {problem}") from None
    else:
        yield batch, answer
        return
    half = len(batch) // 2
    for part in (batch[:half], batch[half:]):
        async for sent in _send(api, part, even_deleted):
            yield sent


def _batches(file: str, refused: dict[str, str], most: int) -> Iterator[list[Line]]:
    """Yield the letters of a file in batches; problems with other lines go into `refused`."""
    batch: list[Line] = []
    size = 0
    for number, text in enumerate(_lines(file), 1):
        text = text.strip()
        if not text:
            continue
        try:
            line = _line(number, text)
        except UnicodeDecodeError as problem:
            refused[f"line {number}"] = f"this is not UTF-8: {problem}"
            continue
        except (ValueError, RecursionError) as problem:
            refused[f"line {number}"] = f"this is not JSON: {problem}"
            continue
        if line is None:
            refused[f"line {number}"] = "this is no letter"
            continue
        if batch and (len(batch) == most or size + len(line.text) > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(line)
        size += len(line.text) + 1
    if batch:
        yield batch


def _line(number: int, text: bytes) -> Line | None:
    """Return the letter in a line; None if it is JSON and no letter. Raise ValueError and RecursionError."""
    if not text.isascii():
        text = text.decode("utf-8-sig").encode()  # editors add a mark
    try:
        names = _read_names(text)
        names_of = names.entry_id, names.task_id
    except (ValueError, RecursionError):  # such as an escaped lone surrogate, which json takes
        letter = codec.loads(text)
        if not isinstance(letter, dict):
            return None
        names_of = letter.get("entry_id"), letter.get("task_id")
    return Line(number, str(names_of[0] or names_of[1] or ""), text)


def drain(
    context: typer.Context,
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="A local store; without it, that of the settings.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Bring home what is kept in a local store: into the store of the settings, each letter exactly once."""
    from mahavishnu.stores.urls import sqlite_path

    session = session_of(context)
    if session.server:
        raise InvalidInput("drain brings home what is in a file of this machine: without --server")
    if file is not None and not file.is_file():
        raise NotFound(f"there is no file {file}")
    settings = session.settings
    if settings.dlq_store_url.startswith("memory:"):
        raise InvalidInput("the store of the settings is memory:, which is no home for letters: say --store URL")
    if file is not None:
        url = settings.dlq_store_url
        if url.startswith("sqlite:") and sqlite_path(url).resolve() == file.resolve():
            raise InvalidInput(f"{file} is the store of the settings: its letters are at home")
        local = quote(str(file.absolute()), safe="/:~")
        settings = settings.model_copy(update={"dlq_local_url": f"sqlite:///{local}"})
    elif not settings.dlq_local_url.startswith("sqlite:"):
        raise InvalidInput("the settings have no local store in a file: name a FILE")
    path = sqlite_path(settings.dlq_local_url)
    before = session.backend.count_letters(path)
    drained, admitted = asyncio.run(_drain(session.backend.make_queue(settings)))
    left = session.backend.count_letters(path)
    if json:
        refused = [str(problem) for problem in drained.refused]
        print_json({"moved": before - left, "left": left, "admitted": admitted, "refused": refused})
    else:
        print_line(f"{count_of(before - left, 'letter')} brought home, {left} left")
    for problem in (*drained.refused, *([drained.stopped] if drained.stopped else [])):
        print_error(str(problem))
    if drained.refused or drained.stopped:
        raise typer.Exit(ExitCode.FAILED)


async def _drain(queue: LetterQueue) -> tuple[DrainResult, int]:
    """Drain the local store of this queue, then let in what waits in files beside it."""
    from mahavishnu.capture.capture import LetterIntake
    from mahavishnu.stores.fallback import FallbackStore

    try:
        dlq = await queue.open()
        assert isinstance(dlq.store, FallbackStore)
        drained = await dlq.store.drain()
        return drained, 0 if drained.stopped else await dlq.service(LetterIntake).admit_waiting()
    finally:
        await queue.shutdown()


def _lines(file: str) -> Iterator[bytes]:
    if file == "-":
        yield from sys.stdin.buffer
        return
    try:
        with Path(file).open("rb") as opened:
            yield from opened
    except OSError as problem:
        raise InvalidInput(f"{file} cannot be read: {problem.strerror}") from None


def _print_progress(count: int, *, last: bool = False) -> None:
    """Print how far it is, on a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{count} letters")
        if last:
            print_notice("")
