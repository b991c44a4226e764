"""The settings: every key, its default and range, where its value comes from, and what is wrong with it."""

from __future__ import annotations

from mahavishnu.settings.problems import check
from mahavishnu.settings.settings import MahavishnuSettings, ReloadResult, SettingsError

__all__ = ["MahavishnuSettings", "ReloadResult", "SettingsError", "check"]
