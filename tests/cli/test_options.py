"""Options that commands share."""

from __future__ import annotations

import pytest

from mahavishnu.cli.options import instant_from
from mahavishnu.model.errors import InvalidInput


@pytest.mark.parametrize("text", ["2h", "1d12h", "1.5h", "30m", "2026-01-01", "2026-01-01T10:00+02:00"])
def test_durations_and_dates_are_instants(text: str) -> None:
    assert instant_from(text, "--since")


@pytest.mark.parametrize("text", ["2", "h", "-2h", "2 h", "2x", "soon", "2026-13-01"])
def test_other_texts_are_no_instants(text: str) -> None:
    with pytest.raises(InvalidInput, match="--since"):
        instant_from(text, "--since")
