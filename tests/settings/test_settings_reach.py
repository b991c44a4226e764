"""Every setting reaches what it is about: one check for each, and a setting without a check fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from operator import attrgetter
from pathlib import Path
from typing import Any

import httpx
import pytest

from mahavishnu.access.oidc import ProviderRules
from mahavishnu.alerts.rules import AlertRules
from mahavishnu.classify.plugins import PluginState
from mahavishnu.core import wiring
from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.core.processes import api_of, log_format_of, open_listener, worker_probes
from mahavishnu.engine.telemetry import OpenTelemetryTracing
from mahavishnu.events.rules import EventRules
from mahavishnu.http.auth import Actor
from mahavishnu.http.proxies import Proxies
from mahavishnu.letters.rules import RequeueRules
from mahavishnu.model.backoff import FailedRetry
from mahavishnu.model.errors import InvalidInput, InvalidPayload
from mahavishnu.model.permissions import Permission, Principal
from mahavishnu.model.rules import RetentionRules
from mahavishnu.settings.schema import fields
from mahavishnu.settings.sections import LimitSettings
from mahavishnu.settings.wiring import access_of, provider_of
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.stores.opensearch import OpenSearchStore
from mahavishnu.stores.sqlite import SQLiteStore
from mahavishnu.tasks.rules import ReasonRules
from mahavishnu.tasks.staleness_rules import StalenessRules
from mahavishnu.values.encryption import Encryption, new_key
from tests.support.queues import NETWORK, House, Runs, queue_of

OPENSEARCH = {"dlq_store_url": "opensearch://127.0.0.1:1", "dlq_local_url": "memory:"}
PROXY = {"server": {"proxy": {"addresses": ["127.0.0.1"], "groups_header": "X-G"}}}
OIDC = {
    "server": {
        "oidc": {
            "issuer": "https://id.example",
            "client_id": "dlq",
            "console_url": "https://dlq.example",
            "groups": {"g": "viewer"},
        }
    }
}
KEYS = {"k1": new_key(), "k2": new_key()}
PLUGIN = """
from mahavishnu import hookimpl

@hookimpl
def classify_error(error):
    return "resource" if "from the file" in str(error) else None
"""


@dataclass(frozen=True)
class Reach:
    """`value` is not the default; with `also` set too, `look` finds `seen` (the value itself, if nothing is said)."""

    value: Any
    look: Callable[[MahavishnuApp], Any]
    seen: Any = None
    also: dict[str, Any] | None = None


def plugin_states(app: MahavishnuApp) -> dict[str, PluginState]:
    return {info.name: info.state for info in app.chain.plugins.report()}


def proxies_of(app: MahavishnuApp) -> Proxies:
    proxies = access_of(app.config).proxies
    assert proxies is not None
    return proxies


def rules_of(app: MahavishnuApp) -> ProviderRules:
    rules = provider_of(app.config)
    assert rules is not None
    return rules


def role_by_provider(app: MahavishnuApp) -> str | None:
    roles = access_of(app.config).provider_roles
    assert roles is not None
    return roles.role_of("x", ["g"])


def alert_rules_of(app: MahavishnuApp) -> AlertRules:
    return queue_of(app).context.rules(AlertRules)


def sees_orders_only(actor: Actor | None) -> bool:
    assert actor is not None and actor.principal is not None
    return actor.principal.permissions == frozenset({"view"}) and actor.principal.scope.queues == frozenset({"orders"})


def client_arguments(app: MahavishnuApp) -> dict[str, Any]:
    """Of the app's own client. The store's are looked at below."""
    return (
        app.opensearch_integration._arguments
        if app.opensearch_integration
        else {"user": 0, "password": 0, "headers": 0, "timeout": 0}
    )


def verdict(app: MahavishnuApp, error: str) -> str:
    return app.chain.classify(error).category.value


def jittered(app: MahavishnuApp) -> bool:
    waits = [queue_of(app).context.backoffs.delay_for("exponential", FailedRetry(6)).duration for _ in range(10)]
    return len(set(waits)) > 1


def local_path(app: MahavishnuApp) -> str:
    store = queue_of(app).store
    assert isinstance(store, FallbackStore)
    assert isinstance(store.local, SQLiteStore)
    return repr(store.local)


def why_no_api(app: MahavishnuApp) -> str | None:
    """What is said of the keys of sessions where the API cannot be made, in short."""
    try:
        api_of(queue_of(app), app.config)
    except InvalidInput as problem:
        return "at least" if "at least" in str(problem) and "session_keys" in str(problem) else str(problem)
    return None


def listening(app: MahavishnuApp) -> str:
    """Where the server listens, or tries to: somebody else may have the port."""
    try:
        with closing(open_listener(app.config, None, None)) as made:
            return ":".join(map(str, made.getsockname()))
    except InvalidInput as refused:
        return str(refused).partition(": ")[0]


def encryption_of(app: MahavishnuApp) -> Encryption:
    return queue_of(app).context.letter_factory.encryption


async def sent(app: MahavishnuApp, body: bytes) -> int:
    """What the served API answers to so much."""
    transport = httpx.ASGITransport(api_of(queue_of(app), app.config))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        return (await client.post("/api/v1/dlq", content=body)).status_code


def who_sends_it(app: MahavishnuApp) -> Actor | None:
    return access_of(app.config).actor("Bearer t-1")


REACHES: dict[str, Reach] = {
    "dlq_enabled": Reach(False, lambda app: app.queue_if_enabled is not None),
    "dlq_max_size": Reach(123, lambda app: queue_of(app).max_size),
    "dlq_namespace": Reach("billing", lambda app: queue_of(app).namespace),
    "dlq_strategy": Reach("selective", lambda app: app.dlq_integration and app.dlq_integration.get_strategy()),
    "dlq_max_task_bytes": Reach(2048, lambda app: queue_of(app).context.letter_factory.max_task_bytes),
    "redact_keys": Reach(("*token*",), lambda app: queue_of(app).context.letter_factory.redact_keys),
    "encryption.fields": Reach(("pin",), lambda app: encryption_of(app).fields, also={"encryption": {"keys": KEYS}}),
    "encryption.keys": Reach(KEYS, lambda app: list(encryption_of(app).keys), ["k1", "k2"]),
    "encryption.active": Reach("k1", lambda app: encryption_of(app).key_id, also={"encryption": {"keys": KEYS}}),
    "dlq_store_url": Reach("memory:", lambda app: type(queue_of(app).store), MemoryStore),
    "dlq_local_url": Reach("sqlite:////tmp/there.db", lambda app: "/tmp/there.db" in local_path(app), True, OPENSEARCH),
    "dlq_store_user": Reach("ann", lambda app: client_arguments(app)["user"], None, OPENSEARCH),
    "dlq_store_password": Reach("s3cret", lambda app: client_arguments(app)["password"], "s3cret", OPENSEARCH),
    "dlq_store_headers": Reach(
        {"X-Team": "blue"}, lambda app: client_arguments(app)["headers"], {"X-Team": "blue"}, OPENSEARCH
    ),
    "dlq_store_timeout_seconds": Reach(7.5, lambda app: client_arguments(app)["timeout"], 7.5, OPENSEARCH),
    "dlq_default_retry_policy": Reach("linear", lambda app: queue_of(app).context.letter_factory.retry_policy),
    "dlq_default_max_retries": Reach(7, lambda app: queue_of(app).context.letter_factory.max_retries),
    "dlq_automatic_policy": Reach("default", lambda app: queue_of(app).context.letter_factory.by_category, False),
    "dlq_category_max_retries": Reach(
        {"network": 9}, lambda app: dict(queue_of(app).context.letter_factory.category_max_retries)
    ),
    "retry_jitter": Reach(True, jittered),
    "retry_only_failed_repos": Reach(False, lambda app: queue_of(app).context.limits.only_failed_repos),
    "dlq_close_on_success": Reach(False, lambda app: queue_of(app).context.limits.close_on_success),
    "max_dlq_retries": Reach(4, lambda app: queue_of(app).context.rules(RequeueRules).max_dlq_retries),
    "dlq_priority_boost": Reach(17, lambda app: queue_of(app).context.rules(RequeueRules).dlq_priority_boost),
    "auto_requeue.enabled": Reach(True, lambda app: queue_of(app).context.rules(RequeueRules).enabled),
    "auto_requeue.requeue_interval_minutes": Reach(
        18, lambda app: queue_of(app).context.rules(RequeueRules).requeue_interval_minutes
    ),
    "auto_requeue.max_auto_requeue_attempts": Reach(
        5, lambda app: queue_of(app).context.rules(RequeueRules).max_auto_requeue_attempts
    ),
    "auto_requeue.requeue_backoff_multiplier": Reach(
        1.5, lambda app: queue_of(app).context.rules(RequeueRules).requeue_backoff_multiplier
    ),
    "dlq_retry_processor_enabled": Reach(False, lambda app: app.config.dlq_retry_processor_enabled),  # see below
    "dlq_retry_interval_seconds": Reach(11, lambda app: queue_of(app).context.limits.interval_seconds),
    "dlq_retry_concurrency": Reach(3, lambda app: queue_of(app).context.limits.concurrency),
    "dlq_retry_timeout_seconds": Reach(12, lambda app: queue_of(app).context.limits.run_seconds),
    "dlq_claim_lease_seconds": Reach(13, lambda app: queue_of(app).context.limits.lease_seconds),
    "dlq_clock_skew_grace_seconds": Reach(14, lambda app: queue_of(app).context.limits.skew_seconds),
    "dlq_tombstone_days": Reach(16, lambda app: queue_of(app).context.limits.tombstone_days),
    "dlq_stop_grace_seconds": Reach(15, lambda app: queue_of(app).context.limits.grace_seconds),
    "deployment_mode": Reach(
        "polling_only",
        lambda app: (queue_of(app).context.limits.polls, queue_of(app).context.limits.wakes),
        (True, False),
    ),
    "circuit.failure_threshold": Reach(6, lambda app: queue_of(app).context.breakers.threshold),
    "circuit.cooloff_seconds": Reach(16, lambda app: queue_of(app).context.breakers.cooloff_seconds),
    "adapter_limits": Reach(
        {"charge": {"rate": "2/s"}},
        lambda app: dict(queue_of(app).context.declared_limits()),
        {"charge": (None, "2/s")},
    ),
    "queues": Reach({"orders": {"max_attempts": 2}}, lambda app: dict(queue_of(app).context.declared_queues())),
    "retention.enabled": Reach(False, lambda app: queue_of(app).context.rules(RetentionRules).enabled),
    "retention.completed_days": Reach(7, lambda app: queue_of(app).context.rules(RetentionRules).completed_days),
    "retention.cancelled_days": Reach(8, lambda app: queue_of(app).context.rules(RetentionRules).cancelled_days),
    "retention.permanently_failed_days": Reach(
        9, lambda app: queue_of(app).context.rules(RetentionRules).permanently_failed_days
    ),
    "retention.history_days": Reach(13, lambda app: queue_of(app).context.rules(RetentionRules).history_days),
    "retention.archive_months": Reach(10, lambda app: queue_of(app).context.rules(RetentionRules).archive_months),
    "retention.audit_days": Reach(14, lambda app: queue_of(app).context.rules(RetentionRules).audit_days),
    "retention.runs_days": Reach(15, lambda app: queue_of(app).context.rules(RetentionRules).runs_days),
    "retention.tasks_days": Reach(18, lambda app: queue_of(app).context.rules(RetentionRules).tasks_days),
    "retention.revisions_days": Reach(16, lambda app: queue_of(app).context.rules(RetentionRules).revisions_days),
    "retention.replies_days": Reach(17, lambda app: queue_of(app).context.rules(RetentionRules).replies_days),
    "retention.batch_size": Reach(11, lambda app: queue_of(app).context.rules(RetentionRules).batch_size),
    "retention.interval_minutes": Reach(12, lambda app: queue_of(app).context.rules(RetentionRules).interval_minutes),
    "retention.analytics_export": Reach(True, lambda app: queue_of(app).context.rules(RetentionRules).analytics_export),
    "events.durable_names": Reach(("dlq.*",), lambda app: queue_of(app).context.rules(EventRules).durable_names),
    "events.durable_outbox": Reach(True, lambda app: queue_of(app).context.rules(EventRules).durable_outbox),
    "events.acknowledged_days": Reach(3, lambda app: queue_of(app).context.rules(EventRules).acknowledged_days),
    "events.durable_days": Reach(4, lambda app: queue_of(app).context.rules(EventRules).durable_days),
    "events.webhook_url": Reach(
        "https://hooks.example/1", lambda app: queue_of(app).context.rules(EventRules).webhook_url
    ),
    "events.webhook_secret": Reach("hush", lambda app: queue_of(app).context.rules(EventRules).webhook_secret),
    "alerts.rules": Reach(("growth",), lambda app: alert_rules_of(app).rules),
    "alerts.routes": Reach({"slack": ("growth",)}, lambda app: dict(alert_rules_of(app).routes)),
    "alerts.first_seen_minutes": Reach(7, lambda app: alert_rules_of(app).first_seen_minutes),
    "alerts.age_hours": Reach(7, lambda app: alert_rules_of(app).age_hours),
    "alerts.many_exhausted": Reach(7, lambda app: alert_rules_of(app).many_exhausted),
    "alerts.most_groups": Reach(7, lambda app: alert_rules_of(app).most_groups),
    "alerts.cool_down_minutes": Reach(7, lambda app: alert_rules_of(app).cool_down_minutes),
    "alerts.repeat_minutes": Reach(7, lambda app: alert_rules_of(app).repeat_minutes),
    "alerts.console_url": Reach("https://dlq.example", lambda app: alert_rules_of(app).console_url),
    "alerts.log": Reach(True, lambda app: alert_rules_of(app).log),
    "alerts.webhook_url": Reach("https://hooks.example/1", lambda app: alert_rules_of(app).webhook_url),
    "alerts.webhook_secret": Reach("hush", lambda app: alert_rules_of(app).webhook_secret),
    "alerts.slack_url": Reach("https://hooks.example/2", lambda app: alert_rules_of(app).slack_url),
    "alerts.pagerduty_key": Reach("k1", lambda app: alert_rules_of(app).pagerduty_key),
    "alerts.pagerduty_url": Reach("https://pages.example", lambda app: alert_rules_of(app).pagerduty_url),
    "alerts.email_to": Reach(("ops@example.com",), lambda app: alert_rules_of(app).email_to),
    "alerts.email_from": Reach("dlq@example.com", lambda app: alert_rules_of(app).email_from),
    "alerts.smtp_host": Reach("mail.example", lambda app: alert_rules_of(app).smtp_host),
    "alerts.smtp_port": Reach(2525, lambda app: alert_rules_of(app).smtp_port),
    "alerts.smtp_security": Reach("tls", lambda app: alert_rules_of(app).smtp_security),
    "alerts.smtp_user": Reach("ann", lambda app: alert_rules_of(app).smtp_user),
    "alerts.smtp_password": Reach(
        "hush", lambda app: alert_rules_of(app).smtp_password, also={"alerts": {"smtp_security": "tls"}}
    ),
    "staleness.enabled": Reach(False, lambda app: queue_of(app).context.rules(StalenessRules).enabled),
    "staleness.dry_run": Reach(True, lambda app: queue_of(app).context.rules(StalenessRules).dry_run),
    "staleness.detection_interval_seconds": Reach(
        301, lambda app: queue_of(app).context.rules(StalenessRules).detection_interval_seconds
    ),
    "staleness.batch_size": Reach(101, lambda app: queue_of(app).context.rules(StalenessRules).batch_size),
    "staleness.max_batches_per_cycle": Reach(
        51, lambda app: queue_of(app).context.rules(StalenessRules).max_batches_per_cycle
    ),
    "staleness.waiting_for_dependencies_minutes": Reach(
        61, lambda app: queue_of(app).context.rules(StalenessRules).waiting_for_dependencies_minutes
    ),
    "staleness.waiting_for_retry_minutes": Reach(
        31, lambda app: queue_of(app).context.rules(StalenessRules).waiting_for_retry_minutes
    ),
    "staleness.steps_in_process_minutes": Reach(
        32, lambda app: queue_of(app).context.rules(StalenessRules).steps_in_process_minutes
    ),
    "staleness.blocked_by_failures_minutes": Reach(
        62, lambda app: queue_of(app).context.rules(StalenessRules).blocked_by_failures_minutes
    ),
    "staleness.other_states_minutes": Reach(
        1441, lambda app: queue_of(app).context.rules(StalenessRules).other_states_minutes
    ),
    "staleness.task_max_lifetime_hours": Reach(
        25, lambda app: queue_of(app).context.rules(StalenessRules).task_max_lifetime_hours
    ),
    "staleness.auto_transition_to_error": Reach(
        False, lambda app: queue_of(app).context.rules(StalenessRules).auto_transition_to_error
    ),
    "staleness.auto_move_to_dlq": Reach(
        False, lambda app: queue_of(app).context.rules(StalenessRules).auto_move_to_dlq
    ),
    "staleness.emit_warnings": Reach(False, lambda app: queue_of(app).context.rules(StalenessRules).emit_warnings),
    "staleness.warn_ratio": Reach(0.5, lambda app: queue_of(app).context.rules(StalenessRules).warn_ratio),
    "staleness.grace_after_downtime_seconds": Reach(
        20, lambda app: queue_of(app).context.rules(StalenessRules).grace_after_downtime_seconds
    ),
    "staleness.enable_stuck_task_detection": Reach(
        False, lambda app: queue_of(app).context.rules(StalenessRules).enable_stuck_task_detection
    ),
    "staleness.stuck_task_detection_interval_seconds": Reach(
        121, lambda app: queue_of(app).context.rules(StalenessRules).stuck_task_detection_interval_seconds
    ),
    "staleness.max_stuck_duration_minutes": Reach(
        11, lambda app: queue_of(app).context.rules(StalenessRules).max_stuck_duration_minutes
    ),
    "staleness.max_recoveries_per_task": Reach(
        4, lambda app: queue_of(app).context.rules(StalenessRules).max_recoveries_per_task
    ),
    "dlq_reasons.staleness_timeout": Reach(
        False, lambda app: queue_of(app).context.rules(ReasonRules).staleness_timeout
    ),
    "dlq_reasons.max_retries_exceeded": Reach(
        False, lambda app: queue_of(app).context.rules(ReasonRules).max_retries_exceeded
    ),
    "dlq_reasons.worker_unavailable": Reach(
        False, lambda app: queue_of(app).context.rules(ReasonRules).worker_unavailable
    ),
    "dlq_reasons.dependency_cycle_detected": Reach(
        False, lambda app: queue_of(app).context.rules(ReasonRules).dependency_cycle_detected
    ),
    "dlq_reasons.invalid_state_transition": Reach(
        True, lambda app: queue_of(app).context.rules(ReasonRules).invalid_state_transition
    ),
    "templates": Reach(
        {"pay": {"lifecycle": {"max_duration_minutes": 3}}},
        lambda app: queue_of(app).context.rules(StalenessRules).limits_of("pay").max_duration_minutes,
        seen=3,
    ),
    "server.host": Reach("0.0.0.0", lambda app: "'0.0.0.0'" in listening(app), True),  # refused, as there is no token
    "server.port": Reach(47813, lambda app: listening(app).endswith(":47813"), True),
    "server.max_body_bytes": Reach(1024, lambda app: asyncio.run(sent(app, b"x" * 2000)), 413),
    "server.viewers": Reach({"ann": "t-1"}, who_sends_it, Actor.of(Principal.of_role("ann", "viewer"))),
    "server.operators": Reach({"ann": "t-1"}, who_sends_it, Actor.of(Principal.of_role("ann", "operator"))),
    "server.admins": Reach({"ann": "t-1"}, who_sends_it, Actor.of(Principal.of_role("ann", "admin"))),
    "server.limits": Reach(
        {"ann": LimitSettings(permissions=(Permission.VIEW,), queues=("orders",))},
        lambda app: sees_orders_only(who_sends_it(app)),
        True,
        {"server": {"admins": {"ann": "t-1"}}},
    ),
    "server.session_keys": Reach(["too-short"], why_no_api, "at least"),
    "server.audit_payload_reads": Reach(True, lambda app: queue_of(app).context.options.audit_payload_reads),
    "server.proxy.addresses": Reach(("192.0.2.1",), lambda app: proxies_of(app).include("192.0.2.1"), True, PROXY),
    "server.proxy.user_header": Reach("X-User", lambda app: proxies_of(app).user_header, also=PROXY),
    "server.proxy.groups_header": Reach("X-Groups", lambda app: proxies_of(app).groups_header, also=PROXY),
    "server.proxy.users": Reach({"ann": "admin"}, lambda app: proxies_of(app).roles.role_of("ann"), "admin", PROXY),
    "server.proxy.groups": Reach(
        {"g": "operator"}, lambda app: proxies_of(app).roles.role_of("x", ["g"]), "operator", PROXY
    ),
    "server.oidc.issuer": Reach("https://other.example", lambda app: rules_of(app).issuer, also=OIDC),
    "server.oidc.client_id": Reach("me", lambda app: rules_of(app).client_id, also=OIDC),
    "server.oidc.client_secret": Reach("of-mine", lambda app: rules_of(app).client_secret, also=OIDC),
    "server.oidc.console_url": Reach("https://dlq.example/x", lambda app: rules_of(app).console_url, also=OIDC),
    "server.oidc.scopes": Reach("openid groups", lambda app: rules_of(app).scopes, also=OIDC),
    "server.oidc.name_claim": Reach("email", lambda app: rules_of(app).name_claim, also=OIDC),
    "server.oidc.group_claim": Reach("roles", lambda app: rules_of(app).group_claim, also=OIDC),
    "server.oidc.recheck_minutes": Reach(5, lambda app: rules_of(app).recheck, timedelta(minutes=5), OIDC),
    "server.oidc.groups": Reach({"g": "operator"}, role_by_provider, "operator", OIDC),
    "telemetry.metrics_host": Reach("::1", lambda app: getattr(worker_probes(app, 0), "host", None)),
    "telemetry.metrics_port": Reach(47814, lambda app: getattr(worker_probes(app, None), "port", None)),
    "telemetry.log_format": Reach("json", lambda app: log_format_of(app.config, None)),
    "telemetry.tracing": Reach(True, lambda app: isinstance(queue_of(app).context.tracing, OpenTelemetryTracing)),
    "classifier_plugins": Reach(("no.such.plugin",), lambda app: plugin_states(app).get("no.such.plugin"), "broken"),
    "plugin_directory": Reach("{folder}", lambda app: verdict(app, "from the file"), "resource"),
    "disabled_plugins": Reach(
        ("mine",), lambda app: plugin_states(app).get("mine"), "disabled", {"plugin_directory": "{folder}"}
    ),
    "plugin_timeout_ms": Reach(500, lambda app: app.chain._timeout, 0.5),
    "classifier_rules": Reach(
        ({"text": "odd flaw", "category": "network"},), lambda app: verdict(app, "odd flaw"), "network"
    ),
}


def test_every_setting_has_a_check() -> None:
    assert list(REACHES) == list(fields(MahavishnuSettings))


def app_with(folder: Path, path: str, value: Any, also: dict[str, Any] | None = None) -> MahavishnuApp:
    (folder / "mine.py").write_text(PLUGIN)
    values: dict[str, Any] = {"dlq_store_url": "memory:", **(also or {})}
    *sections, key = path.split(".")
    place = values
    for section in sections:
        place[section] = place = {**place.get(section, {})}
    place[key] = value
    filled = {name: str(folder) if value == "{folder}" else value for name, value in values.items()}
    return MahavishnuApp(MahavishnuSettings(**filled))


@pytest.mark.parametrize("path", fields(MahavishnuSettings))
def test_it_arrives(path: str, tmp_path: Path) -> None:
    reach = REACHES[path]
    app = app_with(tmp_path, path, reach.value, reach.also)
    seen = reach.value if reach.seen is None else reach.seen
    assert reach.look(app) == seen
    default = MahavishnuSettings.model_fields[path.partition(".")[0]].get_default(call_default_factory=True)
    default = attrgetter(path.partition(".")[2])(default) if "." in path else default
    assert reach.value != default
    if path not in ("dlq_local_url", "dlq_store_url"):
        without = app_with(tmp_path, "dlq_max_size", 10_000, reach.also)
        assert reach.look(without) != seen, "the check cannot fail"


async def test_passwords_reach_the_client_that_writes(house: House) -> None:
    headers = {"Authorization": "Bearer abc"}
    settings = MahavishnuSettings(
        **OPENSEARCH, dlq_store_user="ann", dlq_store_password="s3cret", dlq_store_headers=headers
    )
    given: dict[str, Any] = {}

    def note(**arguments: Any) -> MemoryStore:
        given.update(arguments)
        return MemoryStore()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wiring, "open_store", note)
        wiring.store_from(settings)
    assert (given["user"], given["password"], given["headers"]) == ("ann", "s3cret", headers)
    assert (given["url"], given["local"]) == ("opensearch://127.0.0.1:1", "memory:")
    assert given["timeout"] == 2.0


@pytest.mark.parametrize(("option", "seconds"), [("", 7.5), ("?timeout=3", 3.0)])
def test_the_time_out_reaches_the_client_unless_the_url_has_one(option: str, seconds: float) -> None:
    url = f"opensearch://127.0.0.1:1{option}"
    for local in ("none", "memory:"):
        given = {"dlq_store_url": url, "dlq_local_url": local, "dlq_store_timeout_seconds": 7.5}
        store = wiring.store_from(MahavishnuSettings(**given))
        primary = store.primary if isinstance(store, FallbackStore) else store
        assert isinstance(primary, OpenSearchStore) and primary._client.timeout == seconds


async def test_what_limits_do(house: House) -> None:
    app = house.app(
        dlq_max_task_bytes=1024, dlq_default_retry_policy="linear", dlq_automatic_policy="default",
        dlq_default_max_retries=5, dlq_category_max_retries={"network": 9}, redact_keys=["*token*"],
        retry_only_failed_repos=False,
    )  # fmt: skip
    app.register_adapter(
        "sweep", Runs({"status": "failed", "error": NETWORK.args[0], "results": {"a": {"status": "ok"}}})
    )
    result = await app.execute_workflow({"id": "wf_1", "api_token": "s3cret"}, "sweep", ["a", "b"])
    letter = await queue_of(app).get_task(result["dlq_task_id"])
    assert letter is not None
    assert (letter.retry_policy, letter.max_retries, letter.repos) == ("linear", 9, ("a", "b"))
    assert letter.task["api_token"] == "***"
    assert (await queue_of(app).enqueue("wf_2", {}, [], "who knows")).max_retries == 5
    with pytest.raises(InvalidPayload):
        await queue_of(app).enqueue("wf_3", "x" * 2000, [], "who knows")
