"""The command `mahavishnu`: its options, its verbs, and the one place where errors become a line and an exit code.

A new verb is a module of this package with a `typer.Typer`, and one `add_typer` line below; a single command is
registered with `app.command`.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from typer.core import TyperGroup

from mahavishnu import __version__
from mahavishnu.cli.commands import audit, classify, config, demo, groups, letters, plugins, runs, serve, worker
from mahavishnu.cli.exits import ExitCode, explain_error
from mahavishnu.cli.output import print_error, print_line
from mahavishnu.cli.session import Session

TRACEBACK = "--traceback"


class CommandGroup(TyperGroup):
    """A group of commands that ends with an exit code and at most a few lines on stderr, whatever happens inside."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command. A reader that has gone is told apart here, before the base class takes it for a failure."""
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
            code = _told(mistake, given)
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


def _told(mistake: typer.TyperException, given: Sequence[str]) -> int:
    """Tell of a mistake in the arguments, in one line."""
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
    cls=CommandGroup,
    help="Look after failed workflows: keep, explain, retry and put them right.",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(config.app, name="config")
app.add_typer(plugins.app, name="plugins")
app.add_typer(letters.app, name="dlq")
app.add_typer(groups.app, name="group")
app.add_typer(runs.app, name="run")
app.add_typer(audit.app, name="audit")
app.command("classify")(classify.classify)
app.command("worker")(worker.worker)
app.command("serve")(serve.serve)
app.command("demo")(demo.demo)


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
    context.obj = Session(settings)


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
    """What cannot be written is dropped, so that the interpreter does not try again at its end, and complain."""
    try:
        stream.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
