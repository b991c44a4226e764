"""Deletes records that nobody asks for any more: audit entries, bulk runs with their pages, tasks, revisions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from mahavishnu.core.queue.services import make_lifecycle
from mahavishnu.engine.context import QueueContext
from mahavishnu.engine.letters import NamespaceRecords
from mahavishnu.model.bulk_run import BulkRun
from mahavishnu.model.errors import StoreError
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.query import Is, Query
from mahavishnu.model.retention import RetentionRules, old_records
from mahavishnu.model.task_states import TaskState
from mahavishnu.model.tasks import TaskRecord
from mahavishnu.stores.base import home_of, pages
from mahavishnu.stores.kinds import AUDIT, LETTERS, REVISIONS, RUN_PAGES, RUNS
from mahavishnu.stores.source_kinds import TASKS, TRANSITIONS


async def delete_old_records(context: QueueContext, rules: RetentionRules) -> Counter[str]:
    """Delete what the rules say, in the store that all processes share. Returns how many of each kind.

    Somebody else may do the same. Raises StoreError.
    """
    home, count = home_of(context.store), Counter[str]()
    collections: dict[str, Any] = {
        "audit": NamespaceRecords(home.collection(AUDIT), context.namespace, default_is_none=True),
        "runs": NamespaceRecords(home.collection(RUNS), context.namespace, default_is_none=True),
        "tasks": NamespaceRecords(home.collection(TASKS), context.namespace),
        "revisions": home.collection(REVISIONS),
    }
    members, letters = home.collection(RUN_PAGES), home.collection(LETTERS)
    for name, query in old_records(rules, context.clock.now()).items():
        async for page in pages(collections[name], query):
            runs = tuple(each.run_id for each in page if isinstance(each, BulkRun))
            if runs:  # the members first: who knows the run finds what is left of it
                async for listed in pages(members, Query((Is("run_id", runs),))):
                    await members.remove(listed)
            old = page
            if name == "revisions":  # only their letters say in which namespace they are
                there = await letters.get([each.letter_key for each in page])
                old = [each for each, letter in zip(page, there, strict=True) if _is_in(context.namespace, letter)]
            if name == "tasks":
                old = await _without_letters(context, page)
            for removed in await collections[name].remove(old) if old else []:
                if isinstance(removed, StoreError):
                    raise removed
                count[name] += removed
    return count


async def _without_letters(context: QueueContext, tasks: Sequence[TaskRecord]) -> Sequence[TaskRecord]:
    """Those that no open letter needs any more, after their moves that are records of their own are gone."""
    handover = make_lifecycle(context).handover
    old = [each for each in tasks if each.state is not TaskState.ERROR or not await handover.is_needed(each)]
    moves = home_of(context.store).collection(TRANSITIONS)
    if long := tuple(each.task_id for each in old if each.transition_count > len(each.transitions)):
        async for listed in pages(moves, Query((Is("task_id", long),))):
            await moves.remove(listed)
    return old


def _is_in(namespace: str, letter: Any) -> bool:
    return isinstance(letter, DeadLetter) and letter.namespace == namespace
