"""What people are told about groups that need them: how fast one grows, and that one is back."""

from __future__ import annotations

LONGEST_CAUSE = 100  # characters of a group's title in a warning


def growth_warning(fingerprint: str, last_hour: int, title: str = "") -> str:
    """The warning that a group grows: how fast, its title, and the command that shows it."""
    growing = f"grows: {last_hour} letters in the last hour!"
    return f"WARNING: Group {fingerprint} {growing}{_cause(title)} (mahavishnu group show {fingerprint})"


def return_warning(fingerprint: str, title: str = "") -> str:
    """The warning that a resolved group has new letters.

    >>> return_warning("v1:4be0", "KeyError: <text>")
    'WARNING: Resolved group v1:4be0 is back! KeyError: <text> (mahavishnu group show v1:4be0)'
    """
    return f"WARNING: Resolved group {fingerprint} is back!{_cause(title)} (mahavishnu group show {fingerprint})"


def _cause(title: str) -> str:
    return f" {title if len(title) <= LONGEST_CAUSE else title[: LONGEST_CAUSE - 1] + '…'}" if title else ""
