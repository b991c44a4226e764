"""What a plugin imports: it must be there, and cost nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import mahavishnu
from mahavishnu.classify import hookspecs, verdict
from mahavishnu.model import letter_parts

HEAVY = {"pydantic", "opensearchpy", "aiohttp", "tenacity", "yaml", "requests", "importlib.metadata"}


def modules_after(statement: str) -> set[str]:
    script = f"import sys; {statement}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_mahavishnu_loads_nothing_heavy() -> None:
    assert not modules_after("import mahavishnu") & {*HEAVY, "pluggy", "mahavishnu.model", "mahavishnu.classify"}


def test_importing_what_plugins_need_loads_nothing_heavy() -> None:
    loaded = modules_after("from mahavishnu import ErrorCategory, Verdict, hookimpl")
    assert not loaded & {*HEAVY - {"importlib.metadata"}, "mahavishnu.classify.builtin.rules", "mahavishnu.stores"}


def test_the_public_names_are_those_of_their_modules() -> None:
    assert mahavishnu.hookimpl is hookspecs.hookimpl
    assert mahavishnu.Verdict is verdict.Verdict
    assert mahavishnu.ErrorCategory is letter_parts.ErrorCategory
    assert set(mahavishnu.__all__) <= set(dir(mahavishnu))
    with pytest.raises(AttributeError, match="Verdikt"):
        _ = mahavishnu.Verdikt


def test_the_extension_surface_fits_on_one_screen() -> None:
    assert len(Path(hookspecs.__file__).read_text().splitlines()) <= 80
