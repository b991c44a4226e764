"""Tests of the settings read nobody's own file, home or environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mahavishnu.core.config import MahavishnuSettings, SettingsError


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A working directory with an empty folder `settings`, and a home without anything."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    (tmp_path / "settings").mkdir()
    return tmp_path


def problems(**values: Any) -> tuple[str, ...]:
    """What `load` says about these arguments."""
    with pytest.raises(SettingsError) as refused:
        MahavishnuSettings.load(**values)
    return refused.value.problems
