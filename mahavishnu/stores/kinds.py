"""All kinds of record that the stores of the house are made for, unless they are told which."""

from __future__ import annotations

from typing import Any

from mahavishnu.stores.audit import AUDIT
from mahavishnu.stores.codec import HISTORY, LETTERS
from mahavishnu.stores.groups import GROUPS
from mahavishnu.stores.kind import Kind
from mahavishnu.stores.ledger import LEDGER
from mahavishnu.stores.replies import REPLIES
from mahavishnu.stores.revisions import REVISIONS
from mahavishnu.stores.runs import RUN_PAGES, RUNS
from mahavishnu.stores.workers import WORKERS

# A kind that is missing here goes home from a local store only once somebody has asked for its collection.
KINDS: tuple[Kind[Any], ...] = (LETTERS, HISTORY, LEDGER, GROUPS, REPLIES, WORKERS, AUDIT, REVISIONS, RUNS, RUN_PAGES)
