"""Reading error texts: the grammar of phrases, and what takes a phrase back."""

from __future__ import annotations

import pytest

from mahavishnu.classify.builtin import data
from mahavishnu.classify.builtin.clauses import clauses, is_negated, normalize
from mahavishnu.classify.builtin.codes import match_name, statuses_in
from mahavishnu.classify.builtin.data import PRECEDENCE, WORD, Phrase, variants
from mahavishnu.classify.builtin.text import match_text
from mahavishnu.classify.builtin.tracebacks import parse_error_line, parse_errors
from mahavishnu.model.letter_parts import ErrorCategory


def examples(phrase: Phrase) -> list[str]:
    """Texts that the phrase describes: each variant of each word once, with and without what may be left out."""
    tokens = [token for token in phrase.source.split() if token not in ("^", "$") and token[0] != "!"]
    needed = [token for token in tokens if token.strip(".") and token[-1] not in "?*"]
    found = []
    for at, token in enumerate(needed):
        found += [
            " ".join(word if place == at else first(other) for place, other in enumerate(needed))
            for word in variants(token)
            if word != "$"
        ]
    found.append(" ".join("really" if not token.strip(".") else first(token.rstrip("?*")) for token in tokens))
    return found


def first(token: str) -> str:
    return next(word for word in variants(token) if word != "$")


def shortest(phrase: Phrase) -> str:
    """The shortest text of a phrase that may end early."""
    tokens = [token for token in phrase.source.split() if token not in ("^",) and token[0] != "!" and token.strip(".")]
    return " ".join(first(token) for token in tokens if token[-1] not in "?*" and "|$" not in token)


def test_every_phrase_matches_its_examples() -> None:
    assert len(data.phrases()) > 1000
    missed = [
        f"{phrase.source!r} in {example!r}"
        for phrase in data.phrases()
        for example in examples(phrase)
        if not phrase.pattern.search(example)
    ]
    assert missed == []


def test_every_example_of_a_phrase_has_the_words_that_the_phrase_needs() -> None:
    missed = [
        f"{phrase.source!r} in {example!r}"
        for phrase in data.phrases()
        for example in examples(phrase)
        if not all(words & set(WORD.findall(example)) for words in phrase.needs)
    ]
    assert missed == []


def test_a_phrase_that_may_end_early_matches_at_the_end() -> None:
    ending = [phrase for phrase in data.phrases() if "|$" in phrase.source]
    assert ending
    assert [phrase.source for phrase in ending if not phrase.pattern.search(shortest(phrase))] == []


def test_the_phrases_are_well_formed() -> None:
    assert set(PRECEDENCE) == set(ErrorCategory) == {phrase.category for phrase in data.phrases()}
    lines = [phrase.source for phrase in data.phrases()]
    assert len(lines) == len(set(lines))
    tokens = {token.strip("?*") for line in lines for token in line.split()}
    named_sets = {part[1:] for token in tokens for part in token.split("|") if part.startswith("%")}
    assert named_sets == set(data.phrase_sets())


def test_no_word_has_to_try_many_phrases() -> None:
    assert max(map(len, data.phrases_by_word().values())) <= 25


@pytest.mark.parametrize(
    ("text", "tidy"),
    [
        ("Connection REFUSED", "connection refused"),
        ("can't connect; couldn't, won't, isn't", "cannot connect; could not, will not, is not"),
        ("rate_limit-exceeded", "rate limit exceeded"),
        ("ReadTimeoutError", "read timeout error"),
        ("GET https://x.io/timeout failed", "get ~ failed"),
        ("no '/var/lib/timeout' in denied.py", "no '~' in ~"),
        ("bad value 'timeout' for x", "bad value '~' for x"),
        ('{"error": "timeout"}', '{"error": "timeout"}'),
        ("a  b\tc", "a b c"),
        ("it\u2019s", "it's"),
    ],
)
def test_tidying(text: str, tidy: str) -> None:
    assert normalize(text) == tidy


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("all went well. but the upload failed: timeout", ["all went well.", "but the upload failed: timeout"]),
        ("saved successfully", []),
        ("saved successfully, upload failed: connection refused", ["upload failed", "connection refused"]),
        ("could not be saved successfully", ["could not be saved successfully"]),
        ("0 errors", []),
        ("how to fix permission denied", []),
        ("", []),
    ],
)
def test_clauses_that_tell_of_a_failure(text: str, left: list[str]) -> None:
    assert clauses(text) == left


@pytest.mark.parametrize(
    ("before", "words", "after", "taken_back"),
    [
        ("", "connection error", "", False),
        ("no ", "connection error", "", True),
        ("there were no more ", "timeouts", "", True),
        ("this is not a ", "timeout", "", True),
        ("did not start: ", "connection error", "", False),
        ("", "validation error", "s: 0", True),
        ("", "validation error", "s: 10", False),
        ("", "read timeout", "=30", True),
        ("", "read timeout", ": 30s, retries: 3", True),
        ("", "timeout exceeded", ": 30s", False),
        ("", "temporary error", " was fixed", True),
        ("", "permission denied", ": file was created", False),
    ],
)
def test_what_stands_around_may_take_words_back(before: str, words: str, after: str, taken_back: bool) -> None:
    assert is_negated(words, before, after) is taken_back


@pytest.mark.parametrize(
    ("text", "statuses"),
    [
        ("HTTP 503", (503,)),
        ("HTTP/1.1 404 Not Found", (404,)),
        ("status code: 429", (429,)),
        ("failed with 502", (502,)),
        ("got 500 from upstream", (500,)),
        ("rows (503)", ()),
        ("[503]", (503,)),
        ("503: come back", (503,)),
        ("401 Unauthorized", (401,)),
        ("404 items processed", ()),
        ("took 503 ms", ()),
        ("status: 200", ()),
        ("HTTP 503 and then HTTP 504", (503, 504)),
        ("no HTTP 500 was seen", ()),
        ("id=429", ()),
        ("500.5 points", ()),
    ],
)
def test_statuses(text: str, statuses: tuple[int, ...]) -> None:
    assert statuses_in(text) == statuses


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("[Errno 104] x", "network"),
        ("[WinError 10054] x", "network"),
        ("[WinError 5] x", "permission"),
        ("SQLSTATE[40001]: x", "transient"),
        ("SQLSTATE 23505", "validation"),
        ("StatusCode.DEADLINE_EXCEEDED", "network"),
        ("rpc error: code = Unauthenticated desc = x", "permission"),
        ("550 5.7.1 x", "permission"),
        ("452 4.2.2 x", "resource"),
        ("451 4.7.1 x", "transient"),
        ("450 4.4.1 x", "network"),
        ("553 5.1.3 x", "validation"),
        ("409 Conflict: it exists already", "validation"),
        ("409 Conflict", "transient"),
    ],
)
def test_codes_in_texts(text: str, category: str) -> None:
    finding = match_text(text)
    assert finding is not None and finding.category == category


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("ValueError: x", "ValueError", "x"),
        ("ValueError", "ValueError", ""),
        ("ValueError('x')", "ValueError", "'x')"),
        ("<class 'ValueError'>: x", "ValueError", "x"),
        ("builtins.ValueError: x", "builtins.ValueError", "x"),
        ("requests.exceptions.ReadTimeout: x", "requests.exceptions.ReadTimeout", "x"),
        ("acme.Odd: x", "acme.Odd", "x"),
        ("ReadTimeout: x", "ReadTimeout", "x"),
        ("KeyboardInterrupt", "KeyboardInterrupt", ""),
        ("Error: x", None, "Error: x"),
        ("Warning: low disk", "Warning", "low disk"),
        ("Connection timeout: x", None, "Connection timeout: x"),
        ("api.example.com: refused", None, "api.example.com: refused"),
        ("https://x.io: refused", None, "https://x.io: refused"),
        ("Note: x", None, "Note: x"),
        ("ValueErrors: 3", None, "ValueErrors: 3"),
        ("", None, ""),
    ],
)
def test_texts_that_begin_with_the_name_of_an_exception(text: str, name: str | None, message: str) -> None:
    error = parse_error_line(text)
    assert (error.name, error.message) == (name, message)


def test_a_traceback_without_an_end_is_read_as_far_as_it_goes() -> None:
    text = "Traceback (most recent call last):\n  File"
    assert parse_errors(text) == [parse_error_line(text)]


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("ReadTimeout", "network"),
        ("RateLimitError", "transient"),
        ("InvalidApiKey", "permission"),
        ("InvalidParameterValue", "validation"),
        ("ThrottlingException", "transient"),
        ("insufficient_quota", "resource"),
        ("NoSuchKey", "permanent"),
        ("LockTimeout", "transient"),
        ("APIError", None),
        ("OperationalError", None),
        ("", None),
        ("Error", None),
    ],
)
def test_names(name: str, category: str | None) -> None:
    assert match_name(name) == category


def test_nothing_is_in_a_table_twice() -> None:
    with pytest.raises(ValueError, match="twice"):
        data.read_tables([("mysql", ErrorCategory.NETWORK, "1 2"), ("mysql", ErrorCategory.RESOURCE, "2")])
