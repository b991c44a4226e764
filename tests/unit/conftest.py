"""How Hypothesis works here."""

from __future__ import annotations

from hypothesis import settings

# A busy machine is no bug, so no example has a deadline; the tests are pure, so nothing else can make them slow.
settings.register_profile("unit", deadline=None)
settings.load_profile("unit")
