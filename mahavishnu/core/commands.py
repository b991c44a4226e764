"""The command `mahavishnu`: its options, all its verbs on one screen, and the one place where errors become exit codes.

A command's module is imported when the command is run. A new verb is a function in a module of `commands/`, and one
line in `COMMANDS`; both tables are data, to which any package can contribute.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, ClassVar, TextIO

import typer
from typer.core import TyperGroup

from mahavishnu import __version__
from mahavishnu.cli.command import PlainCommand, PlainValues, for_typer
from mahavishnu.cli.options import Session, choose_store
from mahavishnu.cli.output import ExitCode, explain_error, print_error, print_line
from mahavishnu.core.backend import ProcessBackend
from mahavishnu.core.rooms import rooms
from mahavishnu.engine.rooms import Command, CommandGroup, load

TRACEBACK = "--traceback"
GROUPS = tuple(group for room in rooms() for group in room.groups)
COMMANDS = tuple(command for room in rooms() for command in room.commands)


class LazyCommands(MutableMapping[str, Any]):
    """The commands of a group by their names; each one is made when it is first asked for."""

    def __init__(self, sources: Mapping[str, CommandGroup | Command], made: Mapping[str, Any]) -> None:
        self._sources, self._made = dict(sources), dict(made)

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = _make(self._sources[name])
        return self._made[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        self._sources.pop(name, None)
        del self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**self._sources, **self._made})

    def __len__(self) -> int:
        return len({**self._sources, **self._made})


class LazyGroup(PlainValues, TyperGroup):
    """A group that imports a command when it is run."""

    sources: ClassVar[Mapping[str, CommandGroup | Command]] = {}

    def __init__(self, *, commands: Any = None, **attributes: Any) -> None:
        super().__init__(commands=LazyCommands(self.sources, commands or {}), **attributes)  # type: ignore[arg-type]

    def list_commands(self, ctx: Any) -> list[str]:
        """The names for the help and for completion."""
        sources = self.sources
        unlisted = {name for name, each in sources.items() if isinstance(each, Command) and not each.listed}
        return [name for name in super().list_commands(ctx) if name not in unlisted]


class CommandLine(LazyGroup):
    """The whole command line. It ends with an exit code and at most a few lines on stderr, whatever happens inside."""

    sources: ClassVar = {each.name: each for each in GROUPS}

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands into the help, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(each.name, each.help) for each in GROUPS])

    def invoke(self, ctx: Any) -> Any:
        """Run the command. A reader that has gone is noticed here, before the base class takes it for a failure."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise typer.Exit(ExitCode.NO_READER) from None

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command line, see its output through to the reader, and exit."""
        given = sys.argv[1:] if args is None else args
        try:
            code = super().main(given, prog_name, complete_var, False, windows_expand_args, **extra)
            sys.stdout.flush()
        except typer.TyperException as mistake:
            code = _print_mistake(mistake, given)
        except typer.Abort:
            code = ExitCode.INTERRUPTED
        except BrokenPipeError:
            code = ExitCode.NO_READER
        except Exception as error:
            if TRACEBACK in given:
                traceback.print_exc()
            lines, code = explain_error(error)
            for each in lines:
                print_error(each)
        sys.exit(int(code) if isinstance(code, int) else ExitCode.DONE)


def verbs_of(group: str) -> dict[str, Command]:
    """Return the commands of a group by their names."""
    return {each.name: each for each in COMMANDS if each.group == group}


def function_of(source: Command | CommandGroup) -> Callable[..., None]:
    """Import the function of a command, with the options that typer is to read."""
    assert source.target is not None
    return for_typer(load(source.target), namespaces=isinstance(source, Command) and has_namespaces(source))


def has_namespaces(command: Command) -> bool:
    """Return whether a command has --namespace and --all-namespaces."""
    return command.namespaced and next(each.takes_store for each in GROUPS if each.name == command.group)


def _make(source: Command | CommandGroup) -> Any:
    """Build a command, or a group of them."""
    if isinstance(source, Command) or not (verbs := verbs_of(source.name)):
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        single.command(source.name, cls=PlainCommand)(function_of(source))
        return typer.main.get_command(single)
    itself = function_of(source) if source.target else None
    group = typer.Typer(
        name=source.name,
        cls=type("CommandsOfGroup", (LazyGroup,), {"sources": verbs}),
        help=itself.__doc__ if itself else source.help,
        no_args_is_help=itself is None,
        invoke_without_command=itself is not None,
        callback=itself or (choose_store if source.takes_store else None),
        add_completion=False,
        rich_markup_mode=None,
    )
    return typer.main.get_group(group)


def _print_mistake(mistake: typer.TyperException, given: Sequence[str]) -> int:
    """Print a mistake in the arguments, in one line, and return the exit code."""
    text = _hint(mistake, given) or mistake.format_message()
    if "\n" in text:  # a group without a command shows its help
        sys.stderr.write(f"{text}\n")
    else:
        context = getattr(mistake, "ctx", None)
        print_error(f"{text.rstrip('.')} (see {context.command_path if context else 'mahavishnu'} --help)")
    return mistake.exit_code


def _hint(mistake: typer.TyperException, given: Sequence[str]) -> str | None:
    """What is meant, where an option stands in the wrong place, or a list is written with blanks."""
    option, context = getattr(mistake, "option_name", None), getattr(mistake, "ctx", None)
    path = context.command_path.split() if context else []
    if option in ("--server", "--store") and len(path) > 2:
        return f"{option} stands before the verb: {' '.join(path[:-1])} {option} URL {path[-1]}"
    if option in ("--settings", TRACEBACK) and path:
        value = " FILE" if option == "--settings" else ""
        return f"{option} stands before the command: {path[0]} {option}{value} {' '.join(path[1:])}"
    if "unexpected extra argument" in mistake.format_message() and "--ramp" in given:
        return "the sizes of a ramp are written with commas: --ramp 1,5,all"
    return None


app = typer.Typer(
    name="mahavishnu",
    cls=CommandLine,
    help="Look after failed workflows: keep, explain, retry and put them right.",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print_line(f"mahavishnu {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    settings: Annotated[
        Path | None,
        typer.Option("--settings", metavar="FILE", help="The settings file, instead of settings/mahavishnu.yaml."),
    ] = None,
    _traceback: Annotated[  # looked for in the arguments themselves: they may be what is wrong
        bool, typer.Option(TRACEBACK, help="Show where in the program an error was raised.")
    ] = False,
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    context.obj = Session(settings, program=ProcessBackend())


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command of this process and return the exit code."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # the shell has closed it
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - open to the end
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, ValueError):  # a stream of another kind, or none at all
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    if os.getcwd() not in sys.path and "" not in sys.path:  # noqa: PTH109 - plugins and apps of the working directory
        sys.path.append(os.getcwd())  # noqa: PTH109
    logging.getLogger("mahavishnu").addHandler(logging.NullHandler())  # what matters is printed, not logged as well
    try:
        app(args=arguments, prog_name="mahavishnu")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else ExitCode.DONE
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    finally:
        _detach_stdout(sys.stdout)
    return ExitCode.DONE


def _detach_stdout(stream: TextIO) -> None:
    """Drop what cannot be written, so that the interpreter does not try again at its end, and complain."""
    try:
        stream.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
