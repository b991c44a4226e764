"""Builds the parts of an app from its settings: here is where each setting is used. Nothing else reads them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.core.dead_letter_queue import DeadLetterQueue, all_kinds
from mahavishnu.engine.context import QueueOptions
from mahavishnu.engine.telemetry import make_tracing
from mahavishnu.events.rules import EventRules
from mahavishnu.model import backoff
from mahavishnu.model.backoff import BackoffRegistry
from mahavishnu.model.clock import Clock
from mahavishnu.model.errors import InvalidInput
from mahavishnu.settings.places import NO_STORE
from mahavishnu.settings.wiring import (
    backoffs_from,
    breakers_from,
    chain_from,
    letter_factory_from,
    limits_from,
    rules_from,
)
from mahavishnu.stores.base import Store
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.stores.urls import open_store

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


def store_from(settings: MahavishnuSettings, kinds: Sequence[Kind[Any]] | None = None) -> Store:
    """The store that letters are kept in, not opened yet; of `kinds` where it is a file, which has others when used."""
    few = kinds if settings.dlq_store_url.startswith("sqlite:") and settings.dlq_local_url == NO_STORE else None
    return open_store(**settings.store_arguments(), kinds=all_kinds() if few is None else few)


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


def queue_from(
    settings: MahavishnuSettings,
    *,
    store: Store | None = None,
    clock: Clock | None = None,
    chain: Chain | None = None,
    kinds: Sequence[Kind[Any]] | None = None,
) -> DeadLetterQueue:
    """The queue as the settings describe it; `store`, `clock` and `chain` may be given.

    Without a `chain`, one is made for the first failure, which then raises InvalidInput for rules that are wrong.
    """
    queue = DeadLetterQueue(
        max_size=settings.dlq_max_size,
        store=store or store_from(settings, kinds),
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
    if store is None and not isinstance(queue.store, MemoryStore):
        queue.context.open_beside = lambda: open_store(
            **{**settings.store_arguments(), "local": None}, kinds=all_kinds()
        )
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
