"""Settings: their sources, their sections, and what is wrong with them."""

from __future__ import annotations

from mahavishnu.engine.rooms import Command, CommandGroup, Room

ROOM = Room(
    groups=(
        CommandGroup("config", "Show and check the settings.", takes_store=False),
        CommandGroup("plugins", "List, check and silence the classifier plugins.", takes_store=False),
        CommandGroup(
            "classify",
            "Say what kind of failure an error is, and how it would be retried.",
            "mahavishnu.settings.commands:classify",
        ),
    ),
    pages=("mahavishnu.settings.page",),
    commands=(
        Command("config", "show", "mahavishnu.settings.commands:show_settings"),
        Command("config", "check", "mahavishnu.settings.commands:check_settings"),
        Command("plugins", "list", "mahavishnu.settings.commands:list_plugins"),
        Command("plugins", "check", "mahavishnu.settings.commands:check_plugins"),
        Command("plugins", "disable", "mahavishnu.settings.commands:disable_plugin"),
        Command("plugins", "enable", "mahavishnu.settings.commands:enable_plugin"),
    ),
)
