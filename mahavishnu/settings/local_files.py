"""Local stores of other settings: files of the state directory with letters that this app never drains."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from mahavishnu.settings.schema import state_directory
from mahavishnu.settings.settings import MahavishnuSettings
from mahavishnu.stores.urls import sqlite_path

_COUNT = "SELECT count(*) FROM letters WHERE resolution_status IS NOT 'deleted'"


def other_local_files(settings: MahavishnuSettings) -> dict[Path, int]:
    """Return the local stores in the state directory that are not of these settings, with their letters counted.

    They are of another OpenSearch, or of the same one by another address. Empty where letters live in memory, which is
    no home for them.
    """
    if settings.dlq_store_url.startswith("memory:"):
        return {}
    try:
        found = sorted(state_directory().glob("local-*.db"))
    except (OSError, ValueError):  # there is no such directory, or no home for one
        return {}
    urls = (settings.dlq_store_url, settings.dlq_local_url)
    own = {sqlite_path(url).resolve() for url in urls if url.startswith("sqlite:")}
    counts = {path: count_letters(path) for path in found if path.resolve() not in own}
    return {path: count for path, count in counts.items() if count}


def describe_file(path: Path, count: int) -> str:
    """Describe such a file for people.

    >>> describe_file(Path("x.db"), 1).partition(": ")[2]
    'mahavishnu dlq drain x.db brings it home, if no other program does'
    """
    letters, them = ("1 letter is", "it") if count == 1 else (f"{count} letters are", "them")
    return (
        f"{letters} in {path}, the local store of other settings: mahavishnu dlq drain {path} brings {them} home, "
        "if no other program does"
    )


def count_letters(path: Path) -> int:
    """Count the letters of a file; 0 also for a file that cannot be read, or that is none of ours."""
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=0.2)) as connection:
            return int(connection.execute(_COUNT).fetchone()[0])
    except sqlite3.Error:
        return 0
