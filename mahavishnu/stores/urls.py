"""Stores and clients from a URL."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from mahavishnu.model.errors import InvalidInput
from mahavishnu.stores.base import Store
from mahavishnu.stores.kind import Kind
from mahavishnu.stores.kinds import stored_kinds

if TYPE_CHECKING:
    from opensearchpy import AsyncOpenSearch

_KINDS = ("memory", "sqlite", "opensearch", "opensearchs")
_MISTAKEN = {"http": "opensearch", "https": "opensearchs"}
_FORMS = "memory:, sqlite:///path, opensearch://host:9200 or opensearchs://host:9200"


def open_store(
    url: str,
    *,
    local: str | None = None,
    user: str | None = None,
    password: str | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float | None = None,
    kinds: Sequence[Kind[Any]] | None = None,
) -> Store:
    """Return the store that `url` means, to be used with `async with`.

    - `memory:` lives in this process.
    - `sqlite:///letters.db` is a file relative to here, `sqlite:////var/lib/letters.db` an absolute one.
    - `opensearch://host:9200` speaks plain HTTP, `opensearchs://` TLS with verification. Several hosts are separated by
      commas. A path is the prefix of the index names (default `mahavishnu`). Options: `ca` (a file), `verify=false`,
      `timeout` (seconds), `refresh_interval`, `shards`, `replicas`. Give credentials as `user` and `password` or as
      `headers` rather than in the URL, which tends to end up in logs; `timeout` counts where the URL has none.
    - with `local`, another URL, what the first store cannot take is kept in the second one until it can.

    Raises InvalidInput for anything else; the message never contains the password.

    >>> open_store("memory:")
    MemoryStore()
    """
    kinds = stored_kinds() if kinds is None else kinds
    if local is not None:
        from mahavishnu.stores.fallback import FallbackStore

        primary = open_store(url, user=user, password=password, headers=headers, timeout=timeout, kinds=kinds)
        return FallbackStore(primary, open_store(local, kinds=kinds), kinds=kinds)
    check_url(url)
    match url.partition(":")[0]:
        case "memory":
            from mahavishnu.stores.memory import MemoryStore

            return MemoryStore()
        case "sqlite":
            from mahavishnu.stores.sqlite import SQLiteStore

            return SQLiteStore(sqlite_path(url), kinds=kinds)
        case _:
            from mahavishnu.stores.opensearch import OpenSearchStore

            hosts, options = _opensearch(url)
            chosen = {"user": user, "password": password} | ({} if timeout is None else {"timeout": timeout})
            options = chosen | options
            return OpenSearchStore(hosts, headers=headers, kinds=kinds, **options)


def check_url(url: str) -> None:
    """Raise InvalidInput, with what to write instead, if `open_store` cannot use `url`. No store is imported."""
    kind, colon, _ = url.partition(":")
    match kind if colon else None:
        case "memory":
            if url not in ("memory:", "memory://"):
                raise InvalidInput(f"{mask(url)!r} is not a store's URL; did you mean 'memory:'?")
        case "sqlite":
            sqlite_path(url)
        case "opensearch" | "opensearchs":
            _opensearch(url)
        case _ if url.startswith(("/", "./", "~")):
            raise InvalidInput(f"a URL is needed, not a path: write sqlite:///{url}")
        case None:  # what has no colon may be a password
            raise InvalidInput(f"a URL is needed: {_FORMS}")
        case other:
            near = _MISTAKEN.get(other) or "".join(difflib.get_close_matches(other, _KINDS, 1))
            raise InvalidInput(
                f"{other!r} is no kind of store; " + (f"did you mean {near}:?" if near else f"use {_FORMS}")
            )


def opensearch_client(
    url: str,
    *,
    user: str | None = None,
    password: str | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float | None = None,
) -> AsyncOpenSearch:
    """A client of opensearch-py for the OpenSearch that `url` means, to be closed by whoever asked for it."""
    from mahavishnu.stores.opensearch.client import Client

    hosts, options = _opensearch(url)
    known = {"user": user, "password": password, "ca": None, "verify": True, "timeout": timeout or 2.0}
    chosen: dict[str, Any] = {name: options.get(name, value) for name, value in known.items()}
    return Client(hosts, None, headers=headers, **chosen).connection()


def mask(url: str) -> str:
    """`url` without its password, for people and logs.

    >>> mask("opensearchs://ann:secret@host:9200/x")
    'opensearchs://ann:***@host:9200/x'
    >>> mask("sqlite:///letters.db")
    'sqlite:///letters.db'
    >>> mask("https://token:x@hooks.example/billing?secret")  # of a webhook also the user and the query may be tokens
    'https://***@hooks.example/billing?***'
    """
    if url.startswith("sqlite:///"):  # a file's name may have an @
        return url
    if found := re.fullmatch(r"(https?://)([^?#]*)([?#]?)(.*)", url, re.DOTALL):
        scheme, place, mark, query = found.groups()
        if "@" in query and "@" not in place:  # perhaps a password that was not encoded
            return f"{scheme}***"
        _, at, host = place.rpartition("@")
        return f"{scheme}{'***@' if at else ''}{host}{mark}{'***' if query else ''}"
    scheme, colon, rest = url.partition(":")
    credentials, at, host = rest.rpartition("@")
    host = re.sub(r"(?<==)[^&#'\s]*", "***", host)  # the values of options
    if at:
        named = re.fullmatch(r"//([^:/?#@]+):[^/?#@]*", credentials)
        credentials = f"//{named.group(1)}:***" if named else "//***" if credentials.startswith("//") else "***"
    return f"{scheme}{colon}{credentials}{at}{host}"


def sqlite_path(url: str) -> Path:
    """The file that a sqlite: URL means. Raises InvalidInput."""
    if not url.startswith("sqlite:///") or url == "sqlite:///":
        raise InvalidInput(f"{mask(url)!r} names no file; write sqlite:///relative.db or sqlite:////absolute.db")
    try:
        return Path(unquote(url.removeprefix("sqlite:///"))).expanduser()
    except RuntimeError:
        raise InvalidInput(f"{url!r} is in a home directory that there is not") from None


def _seconds(text: str) -> float:
    if not 0 < (seconds := float(text)) < math.inf:
        raise ValueError(text)
    return seconds


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false", "1", "0"):
        raise ValueError(text)
    return text.lower() in ("true", "1")


_OPENSEARCH_OPTIONS: dict[str, Callable[[str], Any]] = {
    "ca": str,
    "verify": _truth,
    "timeout": _seconds,
    "refresh_interval": str,
    "shards": int,
    "replicas": int,
}


def _opensearch(url: str) -> tuple[list[str], dict[str, Any]]:
    shown, hint = mask(url), "; percent-encode /, ?, # and @ in user and password" if "@" in url else ""
    try:
        parts = urlsplit(url)
        credentials, _, hosts = parts.netloc.rpartition("@")
        names = [(host.hostname, host.port)[0] for host in (urlsplit(f"//{host}") for host in hosts.split(","))]
    except ValueError:  # its message may quote the password
        raise InvalidInput(f"the address cannot be read{hint}") from None
    if not all(names) or "@" in parts.path + parts.query + parts.fragment:
        raise InvalidInput(f"{shown!r} names no host; write {parts.scheme}://host:9200{hint}")
    scheme = "https" if parts.scheme == "opensearchs" else "http"
    options: dict[str, Any] = {}
    for name, text in parse_qsl(parts.query, keep_blank_values=True):
        if name not in _OPENSEARCH_OPTIONS:
            near = difflib.get_close_matches(name, _OPENSEARCH_OPTIONS, 1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(_OPENSEARCH_OPTIONS)}"
            raise InvalidInput(f"{shown!r} has the unknown option {name!r}{hint}")
        try:
            options[name] = _OPENSEARCH_OPTIONS[name](text)
        except ValueError:
            raise InvalidInput(f"{shown!r} has no usable value for {name!r}") from None
    if prefix := parts.path.strip("/"):
        options["prefix"] = prefix
    if credentials:
        user, _, password = credentials.partition(":")
        options["user"] = unquote(user)
        if password:
            options["password"] = unquote(password)
    return [f"{scheme}://{host}" for host in hosts.split(",")], options


def is_loopback(host: str) -> bool:
    """Return True for a name or address of this machine itself.

    >>> is_loopback("localhost"), is_loopback("127.0.0.1"), is_loopback("[::1]"), is_loopback("search.example")
    (True, True, True, False)
    """
    import ipaddress  # only OpenSearch needs it

    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
