"""Queries: one value that says which records are meant."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given

from mahavishnu.model.errors import InvalidInput, InvalidQuery
from mahavishnu.model.letter_parts import DeadLetterStatus
from mahavishnu.model.query import (
    LONGEST_WORD,
    MOST_WORDS,
    SOONEST_FIRST,
    AnyOf,
    At,
    Between,
    Condition,
    Is,
    Missing,
    Not,
    Query,
    Sort,
    filter_query,
    letter_query,
    require_query,
    words,
)
from tests.support.letters import NAIVE, NOON, noon
from tests.support.strategies import texts

FEW = {
    "status": ("pending", "exhausted"),
    "resolution": ("pending", "cancelled"),
    "category": ("network", "permanent"),
    "reason": ("manual", "expired"),
}


def test_nothing_asked_for_is_everything_newest_first() -> None:
    """R130."""
    assert letter_query() == Query((), (Sort("created_at", descending=True),), 500)
    assert letter_query(sort=SOONEST_FIRST).sort == (Sort("priority", descending=True), Sort("due_at"))  # R112


@pytest.mark.parametrize(
    ("argument", "field"),
    [
        ("status", "status"),
        ("resolution", "resolution_status"),
        ("category", "error_category"),
        ("policy", "retry_policy"),
        ("reason", "reason"),
        ("namespace", "namespace"),
        ("queue", "queue"),
        ("fingerprint", "fingerprint"),
        ("task_id", "task_id"),
        ("repo", "repos"),
    ],
)
def test_a_field_has_one_of_the_values(argument: str, field: str) -> None:
    """One text is one value, not its letters; several are alternatives; none at all is none of the letters."""
    one, two = FEW.get(argument, ("one", "two"))
    asked: dict[str, Any] = {argument: one}
    assert letter_query(**asked).where == (Is(field, (one,)),)
    asked = {argument: [one, two]}
    assert letter_query(**asked).where == (Is(field, (one, two)),)
    asked = {argument: iter(())}
    assert letter_query(**asked).where == (Is(field, ()),)


@pytest.mark.parametrize("argument", ["status", "resolution", "category", "reason"])
def test_a_value_that_there_is_not_is_refused(argument: str) -> None:
    """It would look as if there were no letters. What there is, is named."""
    for wrong in ("lost", ["lost"], [FEW[argument][0], "lost"], [5], FEW[argument][0].upper()):
        asked: dict[str, Any] = {argument: wrong}
        with pytest.raises(InvalidQuery, match=rf"there is no .*{argument} .*; there are .*{FEW[argument][1]}"):
            letter_query(**asked)


def test_enum_members_are_values_too() -> None:
    """They are texts."""
    assert letter_query(status=DeadLetterStatus.PENDING).where == (Is("status", ("pending",)),)


@pytest.mark.parametrize("argument", ["failed", "created", "updated"])
def test_a_range_of_time_is_from_and_before(argument: str) -> None:
    """Either end may be open; the instants are those that stores keep."""
    local = noon(2).astimezone(timezone(timedelta(hours=5)))
    field = f"{argument}_at"
    asked: dict[str, Any] = {argument: (NOON, local)}
    assert letter_query(**asked).where == (Between(field, at_least=NOON, below=noon(2)),)
    assert letter_query(**{argument: (None, NOON)}).where == (Between(field, below=NOON),)  # type: ignore[arg-type]
    assert letter_query(**{argument: (NOON, None)}).where == (Between(field, at_least=NOON),)  # type: ignore[arg-type]
    assert letter_query(**{argument: (None, None)}).where == ()  # type: ignore[arg-type]


def test_due_means_anyone_may_pick_it_up_at_that_instant() -> None:
    """Up to and including; a partition is a part of the keys."""
    assert letter_query(due=NOON).where == (Between("due_at", at_most=NOON),)
    assert letter_query(partitions=range(64, 128)).where == (Between("partition", at_least=64, below=128),)


def test_naive_times_are_refused() -> None:
    """As everywhere."""
    with pytest.raises(InvalidInput, match="no time zone"):
        letter_query(due=NAIVE)
    with pytest.raises(InvalidInput, match="no time zone"):
        letter_query(failed=(NAIVE, None))


def has_word(word: str) -> Condition:
    """In what failed and why, or in what else a text search looks at."""
    return AnyOf((Is("words", (word,)), Is("more_words", (word,))))


def test_all_conditions_hold_together() -> None:
    """In the order of the arguments' documentation; metadata by dotted paths, text by all of its words."""
    query = letter_query(
        status="pending", text="Timed out", metadata={"slos.max": 5, "vip": True}, sort=SOONEST_FIRST, limit=7
    )

    assert query == Query(
        (
            Is("status", ("pending",)),
            has_word("timed"),
            has_word("out"),
            At("metadata", "slos.max", 5),
            At("metadata", "vip", True),
        ),
        SOONEST_FIRST,
        7,
    )


@pytest.mark.parametrize("text", ["", " \t\n", "???", "… !? ()"])
def test_a_text_without_words_does_not_mean_everything(text: str) -> None:
    """A bulk verb that was told a filter must not work on all letters."""
    with pytest.raises(InvalidQuery, match=re.escape(f"there is no word in {text!r} that could be searched for")):
        letter_query(text=text)


@pytest.mark.parametrize("limit", [0, -1, 10_001])
def test_a_page_has_bounds(limit: int) -> None:
    """The way on is told."""
    with pytest.raises(InvalidQuery, match=f"a page holds 1 to 10000 records, not {limit}; page on with the cursor"):
        Query(limit=limit)


def test_a_query_is_a_value() -> None:
    """Equal ones are equal and hash alike: it can be a key, and is shown in an answer."""
    assert letter_query(status="pending") == letter_query(status=["pending"])
    assert hash(letter_query(status="pending", due=datetime(2026, 1, 1, tzinfo=UTC)))


def test_words_are_what_a_text_search_compares() -> None:
    """Distinct, lower case, in order; of any language; not the whole of an endless one."""
    assert words("Größe ÜBER 10_000; größe", None, "été-über") == ("größe", "über", "10_000", "été")
    assert words() == words("", "… !?") == ()
    plain = "".join(map(chr, range(128)))
    assert words(plain) == tuple(dict.fromkeys(re.findall(r"\w+", plain.lower())))
    assert words("x" * 5000) == ("x" * LONGEST_WORD,) == words("X" * LONGEST_WORD)
    assert len(words("İ" * LONGEST_WORD)[0]) <= LONGEST_WORD, "it is twice as long in lower case"
    assert len(words(" ".join(map(str, range(3000))))) == MOST_WORDS


@given(text=texts)
def test_a_text_is_found_by_its_own_words(text: str) -> None:
    """What was indexed is what is asked for, all of it; what has no word is not asked for at all."""
    try:
        query = letter_query(text=text)
    except InvalidQuery:
        assert words(text) == ()
        return
    assert words(text) != ()
    assert query.where == tuple(map(has_word, words(text)))


def nested(depth: int) -> Condition:
    return Missing("due_at") if depth == 0 else Not(nested(depth - 1))


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ((Is("repos", ("a",) * 101),), "repos can be one of 100 values, not 101: ask for them in parts"),
        ((Not(Is("words", ("a",) * 101)),), "words can be one of 100 values"),
        ((Is("task_id", ("a",) * 10_001),), "10000 values and 1000 conditions at most"),
        ((AnyOf((Is("task_id", ("a",) * 6000), Is("queue", ("a",) * 6000))),), "10000 values"),
        ((Missing("due_at"),) * 1001, "1000 conditions"),
        ((AnyOf((Missing("due_at"),) * 1000),), "1000 conditions"),
        ((nested(51),), "nested deeper than 50"),
    ],
)
def test_a_query_that_would_hold_up_others_is_refused(where: tuple[Condition, ...], said: str) -> None:
    with pytest.raises(InvalidQuery, match=said):
        require_query(Query(where))


def test_a_query_as_large_as_it_may_be_is_taken() -> None:
    where = (Is("repos", ("a",) * 100), Is("task_id", ("a",) * 9900), nested(50), *(Missing("due_at"),) * 900)
    query = Query(where)
    assert require_query(query) is query
    assert filter_query({"repo": ["a"] * 100, "task_id": ["a"] * 9900}).where
    with pytest.raises(InvalidQuery, match="in parts"):
        filter_query({"repo": ["a"] * 101})
