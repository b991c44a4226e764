"""Queries as text: what each word means, where a text is wrong, and the way back."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mahavishnu.model.errors import InvalidQuery, InvalidQueryText
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.query import LONGEST_TEXT, AnyOf, At, Between, Condition, Is, Missing, Not, Query, letter_query
from mahavishnu.model.query_text import BY_NAME, NAMES, QueryName, names_in, read_conditions, read_query, values_of
from mahavishnu.search.spelling import query_text, quote_value
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.memory import matching
from mahavishnu.testing import make_letter
from tests.support.letters import NOON
from tests.support.store_strategies import letters, queries

MILLISECOND = timedelta(milliseconds=1)
HOUR = timedelta(hours=1)
DAY = datetime(2025, 12, 31, tzinfo=UTC)
PENDING = Is("resolution_status", ("pending",))
EXHAUSTED = Is("status", ("exhausted",))
MAIL = Is("queue", ("mail",))
BOTH = Not(AnyOf((Not(EXHAUSTED), Not(MAIL))))


def word(text: str) -> Condition:
    return AnyOf((Is("words", (text,)), Is("more_words", (text,))))


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", ()),
        ("  ", ()),
        ("status:exhausted", (EXHAUSTED,)),
        ("STATUS=Exhausted", (EXHAUSTED,)),
        ("status:exhausted,pending", (Is("status", ("exhausted", "pending")),)),
        ("status:exhausted queue:mail", (EXHAUSTED, MAIL)),
        ("status:exhausted AND queue:mail", (EXHAUSTED, MAIL)),
        ("-queue:mail", (Not(MAIL),)),
        ("not queue:mail", (Not(MAIL),)),
        ("queue!=mail", (Not(MAIL),)),
        ("-queue!=mail", (MAIL,)),
        ("--queue:mail", (MAIL,)),
        ("status:exhausted or queue:mail", (AnyOf((EXHAUSTED, MAIL)),)),
        ("(status:exhausted queue:mail) or is:closed", (AnyOf((BOTH, Not(PENDING))),)),
        ("-(status:exhausted queue:mail)", (AnyOf((Not(EXHAUSTED), Not(MAIL))),)),
        ("-(status:exhausted or queue:mail)", (Not(AnyOf((EXHAUSTED, MAIL))),)),
        ("is:open", (PENDING,)),
        ("is:closed", (Not(PENDING),)),
        ("resolution:cancelled", (Is("resolution_status", ("cancelled",)),)),
        ("category:network", (Is("error_category", ("network",)),)),
        ("policy:custom:mine", (Is("retry_policy", ("custom:mine",)),)),
        ("group:v1:4be0", (Is("fingerprint", ("v1:4be0",)),)),
        ('repo:"bulk mail"', (Is("repos", ("bulk mail",)),)),
        ('task_id:"say \\"hi\\" c:\\\\x"', (Is("task_id", ('say "hi" c:\\x',)),)),
        ("namespace:*", (Is("namespace", ("*",)),)),
        ('queue:"*"', (Is("queue", ("*",)),)),
        ("has:group", (Not(Missing("fingerprint")),)),
        ("-has:due", (Missing("due_at"),)),
        ("timeout", (word("timeout"),)),
        ('"Card declined!"', (word("card"), word("declined"))),
        ("-text:\"card declined\"", (AnyOf((Not(word("card")), Not(word("declined")))),)),
        ("api.example", (word("api"), word("example"))),
        ('"or" "not"', (word("or"), word("not"))),
        ("task.currency:EURO", (Is("task_values", ("currency=EURO",)),)),
        ("task.order.lines.sku:a,b", (Is("task_values", ("order.lines.sku=a", "order.lines.sku=b")),)),
        ('task."a key":"a, b"', (Is("task_values", ("a key=a, b",)),)),
        ("metadata.team:web", (At("metadata", "team", "web"),)),
        ("metadata.team:web,ops", (AnyOf((At("metadata", "team", "web"), At("metadata", "team", "ops"))),)),
        ("attempts>=3", (Between("total_attempts", at_least=3),)),
        ("attempts>3", (Between("total_attempts", at_least=4),)),
        ("attempts<3", (Between("total_attempts", below=3),)),
        ("attempts<=3", (Between("total_attempts", at_most=3),)),
        ("priority:-1,5", (Is("priority", (-1, 5)),)),
        ("age>2h", (Between("created_at", below=NOON - 2 * HOUR),)),
        ("age>=2h", (Between("created_at", at_most=NOON - 2 * HOUR),)),
        ("age<1h30m", (Between("created_at", at_least=NOON - 1.5 * HOUR + MILLISECOND),)),
        ("age<=1d", (Between("created_at", at_least=NOON - 24 * HOUR),)),
        ("due<1h", (Between("due_at", below=NOON + HOUR),)),
        ("due<=now", (Between("due_at", at_most=NOON),)),
        ("updated_at>now-1h", (Between("updated_at", at_least=NOON - HOUR + MILLISECOND),)),
        ("failed_at<2025-12-31", (Between("failed_at", below=DAY),)),
        ("failed_at<=2025-12-31", (Between("failed_at", below=DAY + 24 * HOUR),)),
        ("failed_at>2025-12-31", (Between("failed_at", at_least=DAY + 24 * HOUR),)),
        ("failed_at:2025-12-31", (Between("failed_at", at_least=DAY, below=DAY + 24 * HOUR),)),
        ("failed_at>=2025-12-31T01:00", (Between("failed_at", at_least=DAY + HOUR),)),
        ("failed_at:2025-12-31T02:00+01:00", (Is("failed_at", (DAY + HOUR,)),)),
    ],
)  # fmt: skip
def test_what_a_text_means(text: str, where: tuple[Condition, ...]) -> None:
    query = read_query(text, NOON, limit=7)
    assert query.where == where
    assert query.limit == 7
    LETTERS.check(query)
    assert read_conditions(query_text(query), NOON) == where


def test_adapters_are_those_of_the_filter() -> None:
    assert read_query("adapter:orders,(none)", NOON) == letter_query(adapter=["orders", "(none)"])
    assert query_text(letter_query(adapter=["orders", "(none)"])) == "adapter:orders,(none)"
    none, named = make_letter(), make_letter(adapter="orders")
    assert list(matching(LETTERS, read_conditions("adapter:(none)", NOON), [none, named])) == [none]


@pytest.mark.parametrize(
    ("text", "start", "end", "says"),
    [
        ("is:open statsu:pending", 8, 14, "did you mean status?"),
        ("http://example", 0, 4, "quote it"),
        ("status:exhaustd", 7, 15, "did you mean exhausted?"),
        ("status:pending,nope", 15, 19, "there are pending, retrying"),
        ("resolution:deleted", 11, 18, "there are pending"),
        ("policy:exponentail", 7, 18, "did you mean exponential?"),
        ("has:status", 4, 10, "has is never 'status'"),
        ("is:opne", 3, 7, "did you mean open?"),
        ("category>network", 8, 9, "it takes : !="),
        ("attempts>x", 9, 10, "whole number"),
        ("attempts>1,2", 11, 12, "one value"),
        ("attempts>1.5", 9, 12, "whole number"),
        ("age:2h", 4, 6, "age>2h is older"),
        ("age>2", 4, 5, "no length of time"),
        ("age>99999999999w", 4, 16, "there are"),
        ("failed_at>2h", 10, 12, "now-2h is 2h ago"),
        ("failed_at>yesterday", 10, 19, "no instant such as"),
        ("failed_at>now-x", 10, 15, "no length of time"),
        ("failed_at<9999-12-31T23:59:59.999", 10, 33, "no dates"),
        ("adapter:ord*", 8, 12, "a * stands for nothing"),
        ("-namespace:*", 11, 12, "stands for itself"),
        ("namespace:eu,*", 10, 14, "stands for itself"),
        ("namespace:* or is:open", 10, 11, "stands for itself"),
        ("(namespace:*)", 11, 12, "stands for itself"),
        ("namespace:eu namespace:us", 23, 25, "once"),
        ("task:EURO", 5, 9, "task.order.currency"),
        ("status.a:x", 0, 8, "only task and metadata"),
        ('text:"abc', 5, 9, "never closed"),
        ("text:...", 5, 8, "no word"),
        ("status:", 6, 7, "a value is missing"),
        ("status: pending", 6, 7, "a value is missing"),
        ("status:pending,", 14, 15, "a value is missing"),
        ("(status:pending", 0, 1, "never closed"),
        ("status:pending)", 14, 15, "no ( before"),
        ("()", 1, 2, "no conditions"),
        ("is:open or", 9, 10, "there is nothing"),
        ("or is:open", 0, 2, "there is nothing"),
        ("-", 0, 1, "nothing to be left out"),
        ("is:open not", 8, 11, "nothing to be left out"),
        ("(" * 40 + "a", 16, 17, "too deeply"),
    ],
)  # fmt: skip
def test_where_a_text_is_wrong(text: str, start: int, end: int, says: str) -> None:
    with pytest.raises(InvalidQueryText) as wrong:
        read_query(text, NOON)
    assert (wrong.value.start, wrong.value.end) == (start, end), wrong.value
    assert says in str(wrong.value)
    assert wrong.value.marked_text.splitlines()[1].strip(" ").strip("^") == ""


def test_what_was_meant_can_be_put_in_place() -> None:
    with pytest.raises(InvalidQueryText) as wrong:
        read_query("is:open statsu:pending", NOON)
    text, fixed = wrong.value.text, wrong.value
    assert read_query(text[: fixed.start] + fixed.near[0] + text[fixed.end :], NOON).where == (
        PENDING, Is("status", ("pending",)),
    )  # fmt: skip


def test_a_text_has_an_end() -> None:
    with pytest.raises(InvalidQueryText, match="4000 characters"):
        read_query("a" * (LONGEST_TEXT + 1), NOON)
    with pytest.raises(InvalidQuery, match="1000 conditions"):
        read_query("a " * 1999, NOON)
    assert len(read_query("-" * 3998 + "ab", NOON).where) == 1


def test_the_names_of_a_text() -> None:
    assert names_in("is:open (fingerprint:x or -task.a:b) word") == {"is", "group", "task"}


def test_every_name_is_a_field_that_letters_have() -> None:
    for name in NAMES:
        assert name.shape in ("has",) or name.field in LETTERS.searchable, name
    assert len(BY_NAME) == sum(1 + len(name.other_names) for name in NAMES), "a name is there twice"


# ------------------------------------------------------------------------------------------------------- any of them

values = st.text(st.characters(codec="utf-8"), max_size=6) | st.sampled_from(
    ["a b", '"', "\\", '\\"', "a,b", "(", "(none)", "or", "-x", "a:b", "*", "=", "é", "漢字", "\n", "x" * 50]
)
durations = st.integers(0, 500).map("{}h".format) | st.sampled_from(["90s", "1d12h", "3w", "0.5h"])
moments = (
    st.sampled_from(["now", "2026-01-01", "2025-06-01T12:30", "2025-06-01T12:30:01.250Z"])
    | durations.map("now-{}".format)
    | durations.map("now+{}".format)
)


def _terms(name: QueryName) -> st.SearchStrategy[str]:
    listed = st.lists(values.map(quote_value), min_size=1, max_size=3).map(",".join)
    operator = st.sampled_from(name.operators)
    match name.shape:
        case "set" | "state" | "has":
            known = st.lists(st.sampled_from(values_of(name)), min_size=1, max_size=2).map(",".join)
            return st.builds("{}{}{}".format, st.just(name.name), operator, known)
        case "number":
            return st.builds("{}{}{}".format, st.just(name.name), operator, st.integers(-5, 5))
        case "age":
            return st.builds("{}{}{}".format, st.just(name.name), operator, durations)
        case "moment":
            return st.builds("{}{}{}".format, st.just(name.name), operator, moments)
        case "words":
            return st.sampled_from(["timeout", 'text:"card declined"', '"a b c"', "text:x,y"])
        case "path":
            paths = st.sampled_from([".a", ".a.b", '."a key"', '."a\\"=b"', ".ü-1/x"])
            return st.builds("{}{}{}{}".format, st.just(name.name), paths, operator, listed)
    if name.name == "namespace":  # which can be said once
        return st.sampled_from(["is:open", "-is:open"])
    return st.builds("{}{}{}".format, st.just(name.name), operator, listed)


def texts() -> st.SearchStrategy[str]:
    """Texts that mean something."""
    term = st.sampled_from(NAMES).flatmap(_terms)
    return st.recursive(
        term,
        lambda inner: (
            st.builds("-{}".format, inner)
            | st.lists(inner, min_size=1, max_size=3).map(lambda several: f"({' '.join(several)})")
            | st.lists(inner, min_size=2, max_size=3).map(lambda several: f"({' or '.join(several)})")
        ),
        max_leaves=5,
    )


@settings(max_examples=40)
@given(st.lists(texts(), max_size=3).map(" ".join))
def test_what_was_read_is_written_and_read_again(text: str) -> None:
    query = read_query(text, NOON)
    assert read_query(query_text(query), NOON + HOUR) == query, "instants stay what they were"


@settings(max_examples=40)
@given(queries(LETTERS), st.lists(letters(), max_size=8))
def test_what_can_be_written_means_the_same_letters(query: Query, some: list[DeadLetter]) -> None:
    """Also of queries that no text was read for."""
    try:
        LETTERS.check(query)
        text = query_text(query)
    except InvalidQuery:
        return
    try:
        again = read_query(text, NOON)
    except InvalidQueryText as problem:  # values that no letter can have
        assert (
            "never" in problem.problem
            or "whole number" in problem.problem
            or "namespace" in problem.problem
            or (
                "no instant" in problem.problem
                or "stands for itself" in problem.problem
                or "4000" in problem.problem
                or "no dates" in problem.problem
            )
        ), text
        return
    same = replace(again, sort=query.sort, limit=query.limit)
    assert list(matching(LETTERS, same.where, some)) == list(matching(LETTERS, query.where, some)), text


pieces = st.sampled_from(
    ["status:", "exhausted", "-", "(", ")", '"', " ", " or ", "task.a", ",", "=", "<", ">", "now", "."]
)


@given(st.text(max_size=40) | st.lists(pieces, max_size=12).map("".join))
def test_any_text_is_read_or_refused_with_its_place(text: str) -> None:
    try:
        query = read_query(text, NOON)
    except InvalidQueryText as problem:
        assert 0 <= problem.start < problem.end <= max(len(text), 1), text
        assert problem.marked_text
    else:
        LETTERS.check(query)
