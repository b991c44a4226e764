"""The parts of a queue, built from its settings."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from mahavishnu.engine.breaker import Breakers
from mahavishnu.engine.context import Limits
from mahavishnu.engine.letter_factory import LetterFactory
from mahavishnu.model.backoff import BackoffRegistry
from mahavishnu.model.rules import Rules
from mahavishnu.settings.settings import MahavishnuSettings
from mahavishnu.tasks.templates import read_templates
from mahavishnu.values.encryption import encryption_of

if TYPE_CHECKING:
    from mahavishnu.classify.chain import Chain


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
