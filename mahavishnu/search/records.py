"""The kind of records of saved views."""

from __future__ import annotations

from mahavishnu.search.rules import SavedView
from mahavishnu.stores.kind import TEXT
from mahavishnu.stores.record_codec import record_kind

VIEWS = record_kind(
    SavedView, name="views", index="dlq_views", types={"text": TEXT}, indexes=[("namespace", "place", "name")]
)
