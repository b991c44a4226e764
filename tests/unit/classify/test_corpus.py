"""The rules against what systems really say: exceptions, error texts, and sentences that only look like errors."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from mahavishnu.classify.builtin import rules
from tests.unit.classify.exceptions import exceptions
from tests.unit.classify.holdout import HOLDOUT
from tests.unit.classify.libraries import imitated
from tests.unit.classify.systems import SYSTEMS
from tests.unit.classify.texts import FALSE_FRIENDS, TEXTS


def wrong(table: Iterable[tuple[str, BaseException | str]]) -> list[str]:
    """What is classified otherwise than the table says, in words."""
    found = []
    for category, error in table:
        verdict = rules.classify(error)
        said = verdict.category if verdict else "permanent"
        if said != category:
            found.append(f"{error!r:.100} is {category}, not {said} ({verdict and verdict.reason})")
    return found


def test_the_exceptions() -> None:
    table = list(exceptions())
    libraries = {type(error).__module__.partition(".")[0] for _, error in table}
    assert len(table) >= 120
    assert {"httpx", "requests", "aiohttp", "opensearchpy", "sqlalchemy", "psycopg", "redis", "grpc"} <= libraries
    assert wrong(table) == []


def test_the_exceptions_of_libraries_that_are_not_installed() -> None:
    table = list(imitated())
    assert len(table) > 250
    assert wrong(table) == []


@pytest.mark.parametrize("table", [TEXTS, HOLDOUT, SYSTEMS], ids=["texts", "holdout", "systems"])
def test_the_texts(table: tuple[tuple[str, str], ...]) -> None:
    assert len(table) >= 200
    assert len(wrong(table)) <= len(table) / 100, "\n".join(wrong(table))


def test_there_are_enough_false_friends() -> None:
    assert len(FALSE_FRIENDS.strip().splitlines()) >= 60


@pytest.mark.parametrize("category", ["transient", "network", "resource", "permission", "validation"])
def test_a_text_says_the_same_in_capitals_and_with_a_name_in_front(category: str) -> None:
    table = [(category, text) for said, text in TEXTS if said == category and not text.startswith(("{", "<"))]
    shouted = [(said, text.upper()) for said, text in table]
    named = [(said, f"RuntimeError: {text}") for said, text in table]
    assert len(wrong(shouted)) <= len(table) / 10, "\n".join(wrong(shouted))
    assert len(wrong(named)) <= len(table) / 20, "\n".join(wrong(named))


def test_every_verdict_has_a_reason_and_an_author() -> None:
    table: list[tuple[str, BaseException | str]] = [*exceptions(), *TEXTS]
    for _, error in table:
        if (verdict := rules.classify(error)) is not None:
            assert verdict.reason and "\n" not in verdict.reason and len(verdict.reason) < 250
            assert verdict.author == "built-in"
