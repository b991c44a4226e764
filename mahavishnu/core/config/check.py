"""What `mahavishnu config check` says: what keeps the settings from being used, and what may surprise later."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from mahavishnu.core.config import MahavishnuSettings, SettingsError
from mahavishnu.core.config.urls import NO_STORE, is_opensearch, shown
from mahavishnu.model.errors import InvalidInput
from mahavishnu.stores.urls import open_store


@dataclass(frozen=True, slots=True)
class Report:
    """Lines for people, each with the place it is about. `settings` is None if they could not be read at all."""

    settings: MahavishnuSettings | None
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether a program can start with these settings."""
        return not self.problems


def check(path: str | os.PathLike[str] | None = None, **values: Any) -> Report:
    """Load the settings as `MahavishnuSettings.load` does and look closer. Never raises for what they contain.

    Nothing is opened or changed: no store is connected, no plugin is loaded.

    >>> check(dlq_store_url="opensearch://search.example:9200").warnings[0]
    'argument: dlq_store_url: letters go to search.example unencrypted; use opensearchs:'
    """
    try:
        settings = MahavishnuSettings.load(path, **values)
    except SettingsError as refused:
        return Report(None, refused.problems)
    origins = settings.origins()
    problems = [f"{origins[key]}: {key}: {text}" for key, text in _problems(settings)]
    warnings = [f"{origins[key]}: {key}: {text}" for key, text in _warnings(settings)]
    return Report(settings, tuple(problems), tuple(warnings))


def _problems(settings: MahavishnuSettings) -> Iterator[tuple[str, str]]:
    for key in ("dlq_store_url", "dlq_local_url"):
        url = getattr(settings, key)
        try:
            if url != NO_STORE:
                open_store(url)
        except InvalidInput as problem:
            yield key, shown(str(problem))
        authority = dict(parse_qsl(urlsplit(url).query)).get("ca") if is_opensearch(url) else None
        if authority and not Path(authority).exists():
            yield key, f"there is no {authority}"
    if settings.plugin_directory is not None and not settings.plugin_directory.is_dir():
        yield "plugin_directory", f"{settings.plugin_directory} is no directory"
    if isinstance(settings.classifier_rules, str) and not Path(settings.classifier_rules).is_file():
        yield "classifier_rules", f"there is no file {settings.classifier_rules}"


def _warnings(settings: MahavishnuSettings) -> Iterator[tuple[str, str]]:
    for key in ("dlq_store_url", "dlq_local_url"):
        url = getattr(settings, key)
        if is_opensearch(url):
            yield from ((key, text) for text in _about_opensearch(url))
        if url.startswith("memory:"):
            yield key, "letters kept in memory are lost when the program ends"
    if is_opensearch(settings.dlq_store_url):
        if settings.dlq_local_url == NO_STORE:
            yield "dlq_local_url", "failures that happen while OpenSearch is away cannot be kept"
        if bool(settings.dlq_store_user) != bool(settings.dlq_store_password):
            yield "dlq_store_user", "user and password are only used together"
    else:
        for key in ("dlq_store_user", "dlq_store_password", "dlq_store_headers"):
            if getattr(settings, key):
                yield key, "has no effect, because the store is not an OpenSearch"
    if not settings.dlq_enabled or settings.dlq_strategy == "disabled":
        yield "dlq_strategy" if settings.dlq_enabled else "dlq_enabled", "failed workflows are not kept"
    if settings.dlq_automatic_policy == "category" and settings.dlq_default_retry_policy != "exponential":
        yield "dlq_default_retry_policy", "only counts for captured failures if dlq_automatic_policy is default"
    if "*" in settings.redact_keys:
        yield "redact_keys", "'*' masks the whole payload: no letter can be run again as it was"
    yield from _readable_secrets(settings)


def _about_opensearch(url: str) -> Iterator[str]:
    parts = urlsplit(url)
    credentials, _, hosts = parts.netloc.rpartition("@")
    names = [urlsplit(f"//{host}").hostname or "" for host in hosts.split(",")]
    far = [name for name in names if not _is_loopback(name)]
    if parts.scheme == "opensearch" and far:
        yield f"letters go to {', '.join(far)} unencrypted; use opensearchs:"
    if ":" in credentials:
        yield "a password in a URL ends up in logs and process lists; use dlq_store_user and dlq_store_password"
    if parts.scheme == "opensearchs" and {"verify=false", "verify=0"} & set(parts.query.lower().split("&")):
        yield "whoever answers is trusted, because certificates are not verified; give the authority as ca=file"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _readable_secrets(settings: MahavishnuSettings) -> Iterator[tuple[str, str]]:
    file = settings.read_from
    if os.name != "posix" or file is None or not file.path.stat().st_mode & 0o044:
        return
    for key in ("dlq_store_password", "dlq_store_headers"):
        if getattr(settings, key) and settings.origins()[key].startswith(f"{file.label}:"):
            yield key, f"is written in {file.label}, which other users of this machine can read"
