"""What the commands of one call have in common: the settings, and where the letters are."""

from __future__ import annotations

import getpass
import os
import shlex
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mahavishnu.model.errors import InvalidInput

if TYPE_CHECKING:
    from mahavishnu.core.config import MahavishnuSettings

SERVER_VARIABLE = "MAHAVISHNU_SERVER"
USER_VARIABLE = "MAHAVISHNU_USER"


@dataclass
class Session:
    """The options that stand before the command."""

    settings_file: Path | None = None
    server: str | None = None
    store: str | None = None
    said: tuple[str, ...] = ()  # of these, what stood between the group of commands and the verb

    @cached_property
    def settings(self) -> MahavishnuSettings:
        """The settings. Raises SettingsError with a line for each problem."""
        from mahavishnu.core.config import MahavishnuSettings  # what prints help does not wait for pydantic

        given: dict[str, Any] = {"dlq_store_url": self.store} if self.store else {}
        return MahavishnuSettings.load(self.settings_file, **given)

    def command(self, group: str, *words: str) -> str:
        """A command about the same letters, as it can be typed."""
        settings = ("--settings", str(self.settings_file)) if self.settings_file else ()
        return shlex.join(["mahavishnu", *settings, group, *self.said, *words])

    @property
    def user(self) -> str:
        """Who acts."""
        named = os.environ.get(USER_VARIABLE)
        if named:
            return named
        try:
            return getpass.getuser()
        except (OSError, KeyError, ImportError):  # a container may have no name for its user
            return "cli_user"


def session_of(context: typer.Context) -> Session:
    """The session of a command."""
    return context.ensure_object(Session)


def choose_store(
    context: typer.Context,
    server: Annotated[
        str | None,
        typer.Option(
            "--server", metavar="URL", help=f"Ask this server, instead of opening the store (or {SERVER_VARIABLE})."
        ),
    ] = None,
    store: Annotated[
        str | None, typer.Option("--store", metavar="URL", help="Open this store, instead of the one of the settings.")
    ] = None,
) -> None:
    """Where the letters are: the callback of each group of commands that are about them."""
    for option, given in (("--server", server), ("--store", store)):
        if given == "":  # of a variable that is not set; what is meant is not what there would be without it
            raise InvalidInput(f"{option} is empty: say which one, or leave it out")
    if server and store:
        raise InvalidInput("give --server or --store, not both")
    found = session_of(context)
    named = server or (None if store else os.environ.get(SERVER_VARIABLE))
    found.server, found.store = named or None, store
    found.said = ("--server", server) if server else ("--store", store) if store else ()
