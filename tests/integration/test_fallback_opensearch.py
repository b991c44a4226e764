"""A fallback store whose primary lags: OpenSearch shows a search what was written before its last refresh."""

from __future__ import annotations

from pathlib import Path

import pytest

from mahavishnu.model.query import letters
from mahavishnu.stores.base import write_one
from mahavishnu.stores.codec import LETTERS
from mahavishnu.stores.fallback import FallbackStore
from mahavishnu.stores.opensearch import OpenSearchStore
from mahavishnu.stores.sqlite import SQLiteStore
from mahavishnu.testing import FaultyStore, ManualClock, make_letter

pytestmark = pytest.mark.opensearch


async def test_what_another_process_took_home_is_found_at_once(
    opensearch_url: str, opensearch_prefix: str, tmp_path: Path
) -> None:
    def process() -> tuple[FallbackStore, FaultyStore]:
        never = OpenSearchStore(opensearch_url, prefix=opensearch_prefix, timeout=30, refresh_interval="-1")
        primary = FaultyStore(never)
        return FallbackStore(primary, SQLiteStore(tmp_path / "letters.db"), clock=ManualClock()), primary

    (ours, primary), (theirs, _) = process(), process()
    async with ours, theirs:
        found = ours.collection(LETTERS)
        assert not (await found.find(letters())).items
        primary.faults.unavailable()
        assert await write_one(found, make_letter(task_id="a")) is not None
        assert [each.key for each in (await found.find(letters())).items] == ["a"]
        assert (await theirs.drain()).moved == 1
        primary.faults.clear()
        assert (await ours.drain()).moved == 0
        assert [each.key for each in (await found.find(letters())).items] == ["a"]
