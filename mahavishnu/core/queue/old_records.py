"""Deletes records that nobody asks for any more: audit entries, bulk runs with their pages, revisions."""

from __future__ import annotations

from collections import Counter
from typing import Any

from mahavishnu.bulk.run import BulkRun
from mahavishnu.engine.context import QueueContext
from mahavishnu.engine.letters import NamespaceRecords
from mahavishnu.model.errors import StoreError
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.query import Is, Query
from mahavishnu.model.retention import RetentionRules, old_records
from mahavishnu.stores.base import home_of, pages
from mahavishnu.stores.kinds import AUDIT, LETTERS, REVISIONS, RUN_PAGES, RUNS


async def delete_old_records(context: QueueContext, rules: RetentionRules) -> Counter[str]:
    """Delete what the rules say, in the store that all processes share. Returns how many of each kind.

    Somebody else may do the same. Raises StoreError.
    """
    home, count = home_of(context.store), Counter[str]()
    collections: dict[str, Any] = {
        "audit": NamespaceRecords(home.collection(AUDIT), context.namespace, default_is_none=True),
        "runs": NamespaceRecords(home.collection(RUNS), context.namespace, default_is_none=True),
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
            for removed in await collections[name].remove(old) if old else []:
                if isinstance(removed, StoreError):
                    raise removed
                count[name] += removed
    return count


def _is_in(namespace: str, letter: Any) -> bool:
    return isinstance(letter, DeadLetter) and letter.namespace == namespace
