"""The promises of a store by topic; `mahavishnu.testing.contract` puts them together."""

from __future__ import annotations

from pkgutil import iter_modules

import pytest

# They are plain modules to pytest: without this, a failed assert in them would not show its values.
pytest.register_assert_rewrite(*(f"{__name__}.{module.name}" for module in iter_modules(__path__)))
