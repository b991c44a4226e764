"""Default store locations, and the store of a command without other settings. This module imports no pydantic."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, urlsplit

from mahavishnu.model.errors import InvalidInput

PREFIX = "MAHAVISHNU_"
NO_STORE = "none"  # a local store that is not wanted; an empty value means "choose one for me"
FILE = Path("settings/mahavishnu.yaml")
QUEUE_FOLDER = "queues"  # beside the settings file
_STORE = f"{PREFIX}DLQ_STORE_URL"
_NO_SETTING = re.compile(f"{PREFIX}(TOKEN|USER|TEST_\\w+|OPENSEARCH_(CACHE|MAVEN_ARGS))")


def plain_store(given: str | None) -> str | None:
    """Return the URL of the SQLite store, if `given` or a variable names it and nothing else is set.

    None means that the settings have to be read: there is a file, another variable, or another kind of store.
    """
    from mahavishnu.stores.urls import check_url

    for name, text in os.environ.items():
        if text and name.upper().startswith(PREFIX) and name != _STORE and not _NO_SETTING.fullmatch(name):
            return None
    if any(_may_exist(path) for path in (FILE, FILE.parent / QUEUE_FOLDER)):
        return None
    try:
        url = given or os.environ.get(_STORE) or default_store_url()
        url.encode()
        check_url(url)
    except (InvalidInput, ValueError):
        return None
    return url if url.startswith("sqlite:") else None


def _may_exist(path: Path) -> bool:
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    except OSError:
        pass
    return True


def state_directory(platform: str = sys.platform, environ: Mapping[str, str] | None = None) -> Path:
    """Return the directory for what this user's programs keep between runs, as the platform has it.

    Raises ValueError where there is none, because the user has no home directory.

    >>> state_directory("linux", {"XDG_STATE_HOME": "/var/state"}).as_posix()
    '/var/state/mahavishnu'
    """
    environ = os.environ if environ is None else environ
    try:
        if platform == "win32":
            base = Path(environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
        elif platform == "darwin":
            base = Path.home() / "Library" / "Application Support"
        else:
            chosen = environ.get("XDG_STATE_HOME", "")
            base = Path(chosen if chosen.startswith("/") else Path.home() / ".local" / "state")  # XDG: ignore relative
    except RuntimeError:
        raise ValueError("this user has no home directory to keep letters in; say where") from None
    return base / "mahavishnu"


def default_store_url() -> str:
    """Return the URL of the embedded store: one SQLite file in the user's state directory."""
    return _sqlite_url(state_directory() / "letters.db")


def default_local_url(store_url: str) -> str:
    """Return the local store for `store_url`: a SQLite file for OpenSearch, none for a store that is local anyway.

    Each OpenSearch has its own file, or else the letters that one program had to keep could be drained by another
    program into another cluster. The order of the hosts, credentials and options make no difference to the name.
    """
    if not is_opensearch(store_url):
        return NO_STORE
    parts = urlsplit(store_url)
    hosts = sorted(parts.netloc.rpartition("@")[2].lower().split(","))
    index = f"{','.join(hosts)}/{parts.path.strip('/') or 'mahavishnu'}"
    readable = re.sub(r"[^a-z0-9.]+", "-", hosts[0])[:40].strip("-")
    digest = hashlib.sha256(index.encode()).hexdigest()[:8]
    return _sqlite_url(state_directory() / f"local-{readable}-{digest}.db")


def is_opensearch(url: str) -> bool:
    """Return whether `url` means an OpenSearch rather than a store of this machine.

    >>> is_opensearch("opensearchs://search:9200"), is_opensearch("memory:")
    (True, False)
    """
    return url.partition(":")[0] in ("opensearch", "opensearchs")


def without_passwords(text: str) -> str:
    """Return `text` without the passwords of the URLs in it, also where the URL is malformed.

    >>> without_passwords("opensearchs://ann:se/cret@search:9200")
    'opensearchs://***@search:9200'
    """
    from mahavishnu.stores.urls import mask  # what only reads the settings does not wait for the stores

    return mask(text)


def _sqlite_url(path: Path) -> str:
    return "sqlite:///" + quote(path.as_posix(), safe="/:~")
