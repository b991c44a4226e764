"""Builds the parts of an app from its settings: here is where each setting is used. Nothing else reads them."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.core.dead_letter_queue import KINDS, DeadLetterQueue
from mahavishnu.engine.breaker import Breakers
from mahavishnu.engine.context import Limits, QueueOptions
from mahavishnu.engine.letter_factory import LetterFactory
from mahavishnu.engine.tracing import make_tracing
from mahavishnu.events.rules import EventRules
from mahavishnu.model import backoff
from mahavishnu.model.backoff import BackoffRegistry
from mahavishnu.model.clock import Clock
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.rules import Rules
from mahavishnu.stores.base import Store
from mahavishnu.stores.urls import open_store
from mahavishnu.tasks.templates import read_templates
from mahavishnu.values.encryption import encryption_of

if TYPE_CHECKING:
    from mahavishnu.classify.chain import Chain
    from mahavishnu.stores.kind import Kind
    from mahavishnu.values.kinds import ValueKind

log = logging.getLogger(__name__)
# Where letters are kept, and who is told of it, is decided when an app starts, whatever the settings say later.
FROM_THE_START = frozenset(
    {
        "dlq_enabled",
        "dlq_namespace",
        "dlq_store_url",
        "dlq_local_url",
        "dlq_store_user",
        "dlq_store_password",
        "dlq_store_headers",
        "dlq_store_timeout_seconds",
        "telemetry.metrics_host",
        "telemetry.metrics_port",
        "telemetry.log_format",
        "telemetry.tracing",
    }
)


def store_from(settings: MahavishnuSettings) -> Store:
    """The store that letters are kept in, not opened yet."""
    return open_store(**settings.store_arguments(), kinds=KINDS)


def chain_from(settings: MahavishnuSettings) -> Chain:
    """The classifier with its plugins and rules. Raises InvalidInput for rules that are wrong."""
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
    """The defaults of new letters."""
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
    """How the processor works."""
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
    """The circuit breakers."""
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


def follow_event_rules(dlq: DeadLetterQueue) -> None:
    """Have the events heard that the settings name; where they name none, nothing is made for it."""
    follow_arrivals(dlq)
    if dlq.context.rules(EventRules).durable_names or "domain_events" in vars(dlq):
        dlq.domain_events.sources.listen()


def follow_arrivals(dlq: DeadLetterQueue) -> None:
    """Have the outbox of events told of records that come home from a local store, if there is one."""

    async def note(kind: Kind[Any], records: Sequence[Any]) -> None:
        if dlq.context.rules(EventRules).durable_outbox:
            from mahavishnu.events.outbox import note_arrivals  # what has no outbox starts without it

            await note_arrivals(dlq.context, kind, records)

    if hasattr(dlq.store, "on_arrival"):
        dlq.store.on_arrival = note


def backoffs_from(settings: MahavishnuSettings) -> BackoffRegistry:
    """The delays, jittered if asked for."""
    return BackoffRegistry(random=random.random if settings.retry_jitter else None)


def queue_from(
    settings: MahavishnuSettings, *, store: Store | None = None, clock: Clock | None = None, chain: Chain | None = None
) -> DeadLetterQueue:
    """The queue as the settings describe it; `store`, `clock` and `chain` may be given.

    Without a `chain`, one is made for the first failure, which then raises InvalidInput for rules that are wrong.
    """
    queue = DeadLetterQueue(
        max_size=settings.dlq_max_size,
        store=store or store_from(settings),
        clock=clock,
        options=QueueOptions(
            chain=chain or partial(chain_from, settings),
            letter_factory=letter_factory_from(settings),
            limits=limits_from(settings),
            breakers=breakers_from(settings),
            rules=rules_from(settings),
            backoffs=backoffs_from(settings),
            namespace=settings.dlq_namespace,
            tracing=make_tracing(settings.telemetry.tracing),
            audit_payload_reads=settings.server.audit_payload_reads,
        ),
    )
    follow_arrivals(queue)
    return queue


def apply_defaults(dlq: DeadLetterQueue, settings: MahavishnuSettings, chain: Chain | None) -> None:
    """Let a queue that the app made by itself follow the settings in everything that its maker left open."""
    given = dlq.context.options
    if given.chain is None and chain is not None:
        dlq.context.chain = chain
    if given.letter_factory is None:
        dlq.context.letter_factory = letter_factory_from(settings)
    kinds = {kind.name: kind for kind in (*value_kinds_from(dlq.context.chain), *dlq.context.value_kinds)}
    dlq.context.letter_factory = replace(dlq.context.letter_factory, value_kinds=tuple(kinds.values()))
    dlq.context.set_rules(*rules_from(settings), *given.rules)
    if dlq.context.backoffs is backoff.DEFAULT:
        dlq.context.backoffs = backoffs_from(settings)
    own = dict(dlq.context.backoffs.custom)
    register_plugin_offers(dlq.context.chain, "backoffs", dlq.register_backoff)
    for name, function in own.items():  # the user's own count more than those of plugins
        dlq.register_backoff(name, function)
    dlq.configure(
        limits=None if given.limits is not None else limits_from(settings),
        breakers=None if given.breakers is not None else breakers_from(settings),
        keep_interval=True,
    )


def value_kinds_from(chain: Chain) -> tuple[ValueKind, ...]:
    """The types that plugins have values kept of."""
    from mahavishnu.values.kinds import named_kind  # what only reads letters does not wait for it

    found: dict[str, ValueKind] = {}

    def note(name: str, kind: Any) -> None:
        found[name] = named_kind(name, kind)

    register_plugin_offers(chain, "value_kinds", note)
    return tuple(found.values())


def register_plugin_offers(chain: Chain, hook: str, register: Callable[[str, Any], None]) -> None:
    """Register what plugins offer; an offer that cannot be used is logged and left out."""
    for plugin, name, thing in reversed(chain.plugins.offers(hook)):  # the first plugin counts most, so it comes last
        try:
            register(name, thing)
        except InvalidInput as problem:
            log.warning("what plugin %s offers as %r cannot be used: %s", plugin, name, problem)


def reconfigure(dlq: DeadLetterQueue, settings: MahavishnuSettings) -> None:
    """Go on with other settings. The store stays: another one needs a restart."""
    dlq.max_size = settings.dlq_max_size
    kinds = dlq.context.value_kinds  # plugins were asked for them at the start
    dlq.context.letter_factory = replace(letter_factory_from(settings), value_kinds=kinds)
    dlq.context.backoffs = BackoffRegistry(dlq.context.backoffs.custom, backoffs_from(settings).random)
    dlq.context.set_rules(*rules_from(settings))
    dlq.configure(limits=limits_from(settings), breakers=breakers_from(settings), keep_interval=True)
    follow_event_rules(dlq)
