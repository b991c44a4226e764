"""Where letters are kept if nobody says where, and how store URLs are read and shown in the settings."""

from __future__ import annotations

import difflib
import hashlib
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, urlsplit

from mahavishnu.stores.urls import masked

NO_STORE = "none"  # a local store that is not wanted; an empty value means "choose one for me"
_SCHEMES = ("memory", "sqlite", "opensearch", "opensearchs")
_FORMS = "memory:, sqlite:///file, opensearch://host:9200 or opensearchs://host:9200"


def state_directory(platform: str = sys.platform, environ: Mapping[str, str] | None = None) -> Path:
    """The directory for what this user's programs keep between runs, as the platform has it.

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
            given = environ.get("XDG_STATE_HOME", "")
            base = Path(given if given.startswith("/") else Path.home() / ".local" / "state")  # XDG: ignore relative
    except RuntimeError:
        raise ValueError("this user has no home directory to keep letters in; say where") from None
    return base / "mahavishnu"


def default_store_url() -> str:
    """The embedded store: one SQLite file in the user's state directory."""
    return _sqlite_url(state_directory() / "letters.db")


def default_local_url(store_url: str) -> str:
    """The local store that goes with `store_url`: a SQLite file for OpenSearch, none for a store that is local anyway.

    Each OpenSearch has its own file, or else the letters that one program had to keep could be drained by another
    program into another cluster. The order of the hosts, credentials and options make no difference to the name.
    """
    if not is_opensearch(store_url):
        return NO_STORE
    parts = urlsplit(store_url)
    hosts = sorted(parts.netloc.rpartition("@")[2].lower().split(","))
    place = f"{','.join(hosts)}/{parts.path.strip('/') or 'mahavishnu'}"
    readable = re.sub(r"[^a-z0-9.]+", "-", hosts[0])[:40].strip("-")
    digest = hashlib.sha256(place.encode()).hexdigest()[:8]
    return _sqlite_url(state_directory() / f"local-{readable}-{digest}.db")


def is_opensearch(url: str) -> bool:
    """Whether `url` means an OpenSearch rather than a store of this machine.

    >>> is_opensearch("opensearchs://search:9200"), is_opensearch("memory:")
    (True, False)
    """
    return url.partition(":")[0] in ("opensearch", "opensearchs")


def check_url(key: str, url: str) -> None:
    """Raise ValueError, with what to write instead, if `url` cannot be the URL of a store.

    The message never quotes more than the part before the first colon.
    """
    kind, colon, _ = url.partition(":")
    if is_opensearch(url):
        try:
            hosts = urlsplit(url).netloc.rpartition("@")[2].split(",")
            places = [(host.hostname, host.port) for host in (urlsplit(f"//{host}") for host in hosts)]
        except ValueError:  # its message may quote the password
            raise ValueError(f"{key} is an address that cannot be read") from None
        if not all(name for name, _ in places):
            raise ValueError(f"{key} names no host; write {kind}://host:9200")
    if colon and kind in _SCHEMES:
        return
    if url.startswith(("/", "./", "~")):
        raise ValueError(f"{key} must be a URL, not a path: write sqlite:///{url}")
    if not colon:
        raise ValueError(f"{key} must be a URL: {_FORMS}")
    better = {"http": "opensearch", "https": "opensearchs"}.get(kind)
    near = [better] if better else difflib.get_close_matches(kind, _SCHEMES, 1)
    hint = f"; did you mean {near[0]}:?" if near else f"; use {_FORMS}"
    raise ValueError(f"{key}: {kind!r} is no kind of store{hint}")


def shown(text: str) -> str:
    """`text` without the passwords of the URLs in it, also where the URL is malformed.

    >>> shown("opensearchs://ann:se/cret@search:9200")
    'opensearchs://***@search:9200'
    """
    return masked(text)


def _sqlite_url(path: Path) -> str:
    return "sqlite:///" + quote(path.as_posix(), safe="/:~")
