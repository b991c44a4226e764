"""The parts of a queue, built from its settings."""

from __future__ import annotations

import logging
import random
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from mahavishnu.engine.breaker import Breakers
from mahavishnu.engine.context import Limits
from mahavishnu.engine.letter_factory import LetterFactory
from mahavishnu.model.backoff import BackoffRegistry
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.rules import Rules
from mahavishnu.settings.places import state_directory
from mahavishnu.settings.settings import MahavishnuSettings
from mahavishnu.settings.sources import SettingsError, queue_files
from mahavishnu.stores.urls import sqlite_path
from mahavishnu.tasks.templates import read_templates
from mahavishnu.values.encryption import encryption_of

if TYPE_CHECKING:
    from mahavishnu.access.oidc import ProviderRules
    from mahavishnu.classify.chain import Chain
    from mahavishnu.http.auth import Access, Limit
    from mahavishnu.settings.sections import LimitSettings


def chain_from(settings: MahavishnuSettings) -> Chain:
    """Return the classifier with its plugins and rules. Raises InvalidInput for rules that are wrong."""
    from mahavishnu.classify.chain import Chain
    from mahavishnu.classify.plugins import Plugins

    plugins = Plugins.discover(
        directory=settings.plugin_directory,
        names=settings.classifier_plugins,
        rules=settings.classifier_rules,
        disabled=settings.disabled_plugins,
    )
    return Chain(plugins, timeout=timedelta(milliseconds=settings.plugin_timeout_ms))


def letter_factory_from(settings: MahavishnuSettings) -> LetterFactory:
    """Return the defaults of new letters."""
    return LetterFactory(
        retry_policy=settings.dlq_default_retry_policy,
        by_category=settings.dlq_automatic_policy == "category",
        max_retries=settings.dlq_default_max_retries,
        category_max_retries=settings.dlq_category_max_retries,
        max_task_bytes=settings.dlq_max_task_bytes,
        redact_keys=settings.redact_keys,
        encryption=encryption_of(
            settings.encryption.fields,
            {name: key.get_secret_value() for name, key in settings.encryption.keys.items()},
            settings.encryption.active,
        ),
    )


def limits_from(settings: MahavishnuSettings) -> Limits:
    """Return the limits of the processor."""
    return Limits(
        concurrency=settings.dlq_retry_concurrency,
        run_seconds=settings.dlq_retry_timeout_seconds,
        lease_seconds=settings.dlq_claim_lease_seconds,
        interval_seconds=settings.dlq_retry_interval_seconds,
        grace_seconds=settings.dlq_stop_grace_seconds,
        skew_seconds=settings.dlq_clock_skew_grace_seconds,
        tombstone_days=settings.dlq_tombstone_days,
        polls=settings.deployment_mode != "event_driven_only",
        wakes=settings.deployment_mode != "polling_only",
        only_failed_repos=settings.retry_only_failed_repos,
        close_on_success=settings.dlq_close_on_success,
    )


def breakers_from(settings: MahavishnuSettings) -> Breakers:
    """Return the circuit breakers."""
    return Breakers(settings.circuit.failure_threshold, settings.circuit.cooloff_seconds)


def rules_from(settings: MahavishnuSettings) -> tuple[Rules, ...]:
    """Return the rule sets of a queue."""
    given = settings.templates
    folder, known = (given or None, {}) if isinstance(given, str) else (None, read_templates(given))
    limit, boost = settings.max_dlq_retries, settings.dlq_priority_boost
    return (
        settings.retention,
        settings.events,
        settings.alerts,
        settings.dlq_reasons,
        replace(settings.staleness, templates=known, templates_directory=folder),
        replace(settings.auto_requeue, max_dlq_retries=limit, dlq_priority_boost=boost),
    )


def backoffs_from(settings: MahavishnuSettings) -> BackoffRegistry:
    """Return the delays, jittered if asked for."""
    return BackoffRegistry(random=random.random if settings.retry_jitter else None)


# --- the queues that the settings declare, read again when their files change

log = logging.getLogger(__name__)


class DeclaredQueues:
    """Reads the files again when they have changed. One that cannot be read leaves everything as it was."""

    def __init__(self, settings: Callable[[], MahavishnuSettings]) -> None:
        self._settings = settings
        self._known: MahavishnuSettings | None = None
        self._queues: Mapping[str, Mapping[str, Any]] = {}
        self._signature: tuple[Any, ...] = ()

    def __call__(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the current declarations; the same object while nothing has changed."""
        settings, signature = self._settings(), self._sign()
        if settings is not self._known:
            self._known, self._queues, self._signature = settings, settings.queues, signature
        elif signature != self._signature:
            self._signature = signature
            try:
                self._queues = settings.load_again().queues
            except SettingsError as problem:
                log.error("the queues stay as they were: %s", problem)
        return self._queues

    def _sign(self) -> tuple[Any, ...]:
        """Return a mark that tells one state of the files from another."""
        file = self._settings().file
        found = []
        for path in (file, *queue_files(file)):
            try:
                found.append((path, (state := path.stat()).st_mtime_ns, state.st_size))
            except OSError:
                found.append((path, 0, 0))
        return tuple(found)


# --- local stores of other settings: files of the state directory with letters that this app never drains

_COUNT = "SELECT count(*) FROM letters WHERE resolution_status IS NOT 'deleted'"


def other_local_files(settings: MahavishnuSettings) -> dict[Path, int]:
    """Return local stores in the state directory of other settings or addresses, with their letters counted."""
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


# --- access to a server, by the settings


def access_of(settings: MahavishnuSettings) -> Access:
    """Return the permissions of the settings. Raises InvalidInput."""
    from mahavishnu.http.auth import Access
    from mahavishnu.http.proxies import Proxies, RoleMap

    def plain(tokens: Any) -> dict[str, str]:
        return {name: secret.get_secret_value() for name, secret in tokens.items()}

    people = settings.server
    limits = {name: limit_of(each) for name, each in people.limits.items()}
    proxy, oidc = people.proxy, people.oidc
    by_proxy = RoleMap(proxy.users, proxy.groups, limits)
    provider_roles = RoleMap(groups=oidc.groups, limits=limits, source=oidc.issuer) if oidc.issuer else None
    if provider_roles is not None and provider_roles.is_empty:
        raise InvalidInput("server.oidc.groups is empty, so nobody could log in there: name groups and their roles")
    return Access.of(
        plain(people.viewers),
        plain(people.operators),
        plain(people.admins),
        limits,
        proxies=Proxies.of(proxy.addresses, by_proxy, proxy.user_header, proxy.groups_header),
        provider_roles=provider_roles,
    )


def provider_of(settings: MahavishnuSettings) -> ProviderRules | None:
    """Return the provider at which people log in; None without one. Raises InvalidInput."""
    from mahavishnu.access.oidc import ProviderRules

    oidc = settings.server.oidc
    if not oidc.issuer:
        return None
    return ProviderRules(
        oidc.issuer,
        oidc.client_id,
        oidc.client_secret.get_secret_value() if oidc.client_secret else "",
        oidc.console_url,
        oidc.scopes,
        oidc.name_claim,
        oidc.group_claim,
        timedelta(minutes=oidc.recheck_minutes),
    )


def limit_of(given: LimitSettings) -> Limit:
    """Return a person's limits in the settings; an omitted one does not limit."""
    from mahavishnu.http.auth import Limit
    from mahavishnu.model.permissions import Scope

    def these(values: Iterable[Any] | None) -> frozenset[Any] | None:
        return None if values is None else frozenset(values)

    return Limit(these(given.permissions), Scope(these(given.namespaces), these(given.queues), these(given.adapters)))
