"""The kind of records of saved views."""

from __future__ import annotations

from mahavishnu.search.rules import SavedView
from mahavishnu.stores.dataclass_codec import dataclass_kind
from mahavishnu.stores.kind import TEXT

VIEWS = dataclass_kind(
    SavedView, name="views", index="dlq_views", types={"text": TEXT}, indexes=[("namespace", "place", "name")]
)
