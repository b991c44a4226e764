"""The rules against what systems really say: exceptions, error texts, and sentences that only look like errors."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from mahavishnu.classify.builtin import rules
from tests.classify.builtin import catalogue
from tests.classify.builtin.catalogue import Row
from tests.support.real_exceptions import exceptions

# These share texts with the others.
OVERLAPPING = {"common_texts", "false_friends", "unseen_texts", "unseen_false_friends", "unseen_systems"}
REAL = [Row("real_exceptions.py", category, error, category) for category, error in exceptions()]


def misread(rows: Iterable[Row]) -> list[str]:
    """The rows that the rules read otherwise than the catalogue says, each with its place."""
    found = []
    for row in rows:
        verdict = rules.classify(row.error)
        category = verdict.category if verdict else "permanent"
        if category != row.read_as:
            reason = verdict and verdict.reason
            found.append(f"{row.place}: {row.error!r:.100} is {row.read_as}, not {category} ({reason})")
    return found


@pytest.mark.parametrize("name", catalogue.TEXTS)
def test_every_text_of_a_catalogue_is_read_as_the_catalogue_says(name: str) -> None:
    rows = catalogue.texts(name)
    assert len(rows) >= 25
    assert misread(rows) == []


@pytest.mark.parametrize("name", catalogue.TEXTS)
def test_at_most_one_text_in_a_hundred_is_a_known_mistake(name: str) -> None:
    rows = catalogue.texts(name)
    mistakes = [row for row in rows if row.read_as != row.category]
    assert len(mistakes) <= len(rows) / 100
    assert not mistakes or name in OVERLAPPING


def test_no_text_is_in_two_places() -> None:
    texts = [row.error for name in catalogue.TEXTS if name not in OVERLAPPING for row in catalogue.texts(name)]
    assert len(texts) > 4800
    assert sorted({str(text) for text in texts if texts.count(text) > 1}) == []


def test_the_catalogues_are_large() -> None:
    assert sum(len(catalogue.texts(name)) for name in catalogue.TEXTS) >= 7152
    assert sum(len(catalogue.texts(name)) for name in ("false_friends", "unseen_false_friends")) >= 400


def test_exceptions_whose_names_say_everything() -> None:
    rows = catalogue.exception_names()
    assert len(rows) >= 167
    assert misread(rows) == []


def test_exceptions_of_the_standard_library_and_of_installed_libraries() -> None:
    libraries = {type(row.error).__module__.partition(".")[0] for row in REAL}
    assert len(REAL) >= 328
    assert {"httpx", "requests", "aiohttp", "opensearchpy", "sqlalchemy", "psycopg", "redis", "grpc"} <= libraries
    assert misread(REAL) == []


def test_exceptions_of_libraries_that_are_not_installed() -> None:
    rows = catalogue.library_exceptions()
    assert len(rows) >= 505
    assert misread(rows) == []


@pytest.mark.parametrize("category", ["transient", "network", "resource", "permission", "validation"])
def test_a_text_means_the_same_in_capitals_and_after_the_name_of_an_exception(category: str) -> None:
    texts = [str(row.error) for row in catalogue.texts("common_texts") if row.category == category]
    plain = [text for text in texts if not text.startswith(("{", "<"))]
    shouted = [Row("in capitals", category, text.upper(), category) for text in plain]
    named = [Row("with a name", category, f"RuntimeError: {text}", category) for text in plain]
    assert len(misread(shouted)) <= len(plain) / 10, "\n".join(misread(shouted))
    assert len(misread(named)) <= len(plain) / 20, "\n".join(misread(named))


def test_every_verdict_has_a_reason_and_an_author() -> None:
    for row in [*REAL, *catalogue.texts("common_texts"), *catalogue.texts("false_friends")]:
        if (verdict := rules.classify(row.error)) is not None:
            assert verdict.reason and "\n" not in verdict.reason and len(verdict.reason) < 250
            assert verdict.author == "built-in"
