"""Queries as text: `status:exhausted age>2h -category:network`, read into the `Query` that every store understands."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, time, timedelta
from enum import StrEnum
from typing import Any, Final, NamedTuple

from mahavishnu.model.clock import instant
from mahavishnu.model.errors import InvalidInput, InvalidQueryText
from mahavishnu.model.letter_parts import (
    RESOLUTIONS,
    DeadLetterStatus,
    DlqReason,
    ErrorCategory,
    ResolutionStatus,
    RetryPolicy,
)
from mahavishnu.model.query import (
    LONGEST_TEXT,
    MAX_CONDITION_DEPTH,
    NEWEST_FIRST,
    AnyOf,
    At,
    Between,
    Condition,
    Is,
    Missing,
    Not,
    Query,
    Sort,
    adapter_is,
    require_query,
    words,
)
from mahavishnu.model.record import Value

# --- names

_SET, _NUMBER, _MOMENT = "set", "number", "moment"
OPEN, CLOSED = "open", "closed"
CUSTOM_POLICY = "custom:"  # how the names of users' own retry policies begin


class QueryName(Value, frozen=True):
    """A name that stands before an operator: its field of letters, and the values it is compared with.

    `shape` is `word` (any text), `set` (one of `values`), `number`, `moment`, `age` (how long ago), `words` (a text
    search), `path` (a value inside of a JSON object), `state` or `has`. `known`: values that letters have can be
    listed. `other_names` mean the same: those of the HTTP parameters and of the letter's own fields.
    """

    name: str
    shape: str
    field: str
    about: str
    values: tuple[str, ...] = ()
    other_names: tuple[str, ...] = ()
    may_be_missing: bool = False
    known: bool = False

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators that it takes, the usual one first."""
        if self.shape == "age":
            return (">", "<", ">=", "<=")
        if self.shape in (_NUMBER, _MOMENT):
            return (">=", "<=", ">", "<", ":", "!=")
        return (":", "!=")


def _of(values: Iterable[StrEnum]) -> tuple[str, ...]:
    return tuple(value.value for value in values)


def _word(name: str, about: str, field: str = "", *more: str, missing: bool = False, known: bool = False) -> QueryName:
    return QueryName(name, "word", field or name, about, (), more, missing, known)


def _moment(name: str, about: str, field: str = "", *more: str, missing: bool = True) -> QueryName:
    return QueryName(name, _MOMENT, field or name, about, (), more, missing)


def _number(name: str, about: str, field: str = "", *more: str) -> QueryName:
    return QueryName(name, _NUMBER, field or name, about, (), more)


NAMES: Final[tuple[QueryName, ...]] = (
    QueryName("is", "state", "resolution_status", "whether the case has ended", (OPEN, CLOSED)),
    QueryName("status", _SET, "status", "what the letter is doing", _of(DeadLetterStatus)),
    QueryName("resolution", _SET, "resolution_status", "how the case ended", _of(RESOLUTIONS), ("resolution_status",)),
    QueryName("category", _SET, "error_category", "kind of failure", _of(ErrorCategory), ("error_category",), True),
    QueryName("policy", _SET, "retry_policy", "retry policy", _of(RetryPolicy), ("retry_policy",), known=True),
    QueryName("reason", _SET, "reason", "why the letter was written", _of(DlqReason), ("dlq_reason",)),
    _word("adapter", "adapter or workflow that runs it; (none): it names none", known=True),
    _word("queue", "queue of the letter", known=True),
    _word("namespace", "namespace of the letter; * for all", known=True),
    _word("group", "group of letters with the same cause", "fingerprint", "fingerprint", missing=True),
    _word("task_id", "task of the letter", "", "task_uuid"),
    _word("source_id", "task or source that it is other work of", missing=True),
    _word("repo", "one of its repos", "repos", "repos", missing=True),
    _word("tag", "tag that a classifier gave the latest failure", "tags", "tags", missing=True),
    _word("run", "bulk run that moved it", "runs", "runs", missing=True),
    _word("claimed_by", "worker that holds a lease on it", "claim_owner", "claim_owner", missing=True, known=True),
    _word("resolved_by", "who closed the case", missing=True, known=True),
    QueryName("text", "words", "words", "all of these words in its errors, their types, task id or payload"),
    QueryName("task", "path", "task_values", "value inside of the task: task.order.currency:EURO"),
    QueryName("metadata", "path", "metadata", "value inside of the metadata: metadata.team:web"),
    QueryName("age", "age", "created_at", "how long ago the letter was written: 90s, 2h, 1d12h, 3w"),
    _moment("due", "when anyone may pick it up: an instant, or 1h, which is an hour from now", "due_at", "due_at"),
    _moment("failed_at", "when the work failed", missing=False),
    _moment("created_at", "when the letter was written", "", "dlq_timestamp", missing=False),
    _moment("updated_at", "when the letter was changed", missing=False),
    _moment("next_retry_at", "when the next automatic retry is due"),
    _moment("last_retry_at", "when it was last retried"),
    _moment("exhausted_at", "when its retries were used up"),
    _moment("completed_at", "when its work succeeded"),
    _moment("archived_at", "when it was archived"),
    _moment("resolved_at", "when the case ended", "resolution_timestamp", "resolution_timestamp"),
    _number("attempts", "runs that failed", "total_attempts", "total_attempts"),
    _number("retries", "automatic retries since the last redrive", "retry_count", "retry_count"),
    _number("max_retries", "automatic retries that it may have"),
    _number("requeues", "times it was sent back", "dlq_retry_count", "dlq_retry_count"),
    _number("priority", "priority"),
    _number("occurrences", "times the same failure was captured"),
    _number("generation", "cases of this task before it"),
    _number("revision", "edits of it"),
    QueryName("has", "has", "", "whether a letter has any value of that name"),
)
BY_NAME: Final[Mapping[str, QueryName]] = {each: name for name in NAMES for each in (name.name, *name.other_names)}
BY_FIELD: Final[Mapping[str, QueryName]] = {
    name.field: name for name in NAMES if name.shape not in ("state", "age", "words", "has")
}
OPTIONAL: Final[tuple[str, ...]] = tuple(name.name for name in NAMES if name.may_be_missing)  # after has:


def values_of(name: QueryName) -> tuple[str, ...]:
    """Return its possible values, where they are a fixed set."""
    return OPTIONAL if name.shape == "has" else name.values


def near_names(given: str, known: Iterable[str]) -> tuple[str, ...]:
    """Return names that may have been meant, the nearest first.

    >>> near_names("statsu", BY_NAME)
    ('status',)
    """
    return tuple(difflib.get_close_matches(given.lower(), list(known), 3, 0.7))


# --- times

RESOLUTION = timedelta(milliseconds=1)  # of the instants that stores keep
_DAY = timedelta(days=1)
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?[smhdw])+")
_PART = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_FROM_NOW = re.compile(r"now(?:([+-])(.+))?")


def parse_duration(text: str) -> timedelta:
    """Return the length of time. Raises InvalidInput.

    >>> parse_duration("1h30m")
    datetime.timedelta(seconds=5400)
    """
    if not _DURATION.fullmatch(text):
        raise InvalidInput(f"{text!r:.80} is no length of time such as 90s, 30m, 2h, 1d12h, 3w")
    try:
        return timedelta(seconds=sum(float(count) * _SECONDS[unit] for count, unit in _PART.findall(text)))
    except OverflowError:
        raise InvalidInput(f"{text!r:.80} is longer than there are dates for") from None


def shift(moment: datetime, by: timedelta) -> datetime:
    """Return the instant that much later. Raises InvalidInput where there are no dates any more."""
    try:
        return instant(moment + by)
    except OverflowError:
        raise InvalidInput("there are no dates for that") from None


def parse_span(text: str, now: datetime, *, ahead: bool = False) -> tuple[datetime, datetime]:
    """Return the beginning and the end of what the text names: a day, or one instant. Raises InvalidInput.

    `ahead`: a length of time alone is taken for so long from now.

    >>> noon = datetime(2030, 1, 1, 12, tzinfo=UTC)
    >>> [str(each) for each in parse_span("2029-12-31", noon)]
    ['2029-12-31 00:00:00+00:00', '2030-01-01 00:00:00+00:00']
    """
    if found := _FROM_NOW.fullmatch(text):
        sign, duration = found.groups()
        length = parse_duration(duration) if sign else timedelta()
        first = shift(now, -length if sign == "-" else length)
        return first, shift(first, RESOLUTION)
    if _DURATION.fullmatch(text):
        if not ahead:
            raise InvalidInput(f"here an instant is wanted: now-{text} is {text} ago")
        first = shift(now, parse_duration(text))
        return first, shift(first, RESOLUTION)
    try:
        given = datetime.fromisoformat(text.upper())
        first = instant(given if given.tzinfo else given.replace(tzinfo=UTC))
    except ValueError:  # InvalidInput is one
        raise InvalidInput(f"{text!r:.80} is no instant such as 2026-01-31, 2026-01-31T12:00 or now-2h") from None
    return first, shift(first, _DAY if len(text) == len("2026-01-31") else RESOLUTION)


def is_day(first: datetime, end: datetime) -> bool:
    """Return whether from the one instant to the other is one whole day of UTC."""
    return end - first == _DAY and first.astimezone(UTC).time() == time.min


# --- the reader

TASK_VALUES = "task_values"  # the field in which the values inside of a task are looked for
QUOTED: Final = r'"(?:[^"\\]|\\.)*"'
NAME: Final = re.compile(rf'([^\W\d]\w*)((?:\.(?:{QUOTED}|[^\s:=<>!()",]+))?)(!=|>=|<=|[:=<>])', re.DOTALL)
_ESCAPED: Final = re.compile(r'\\(["\\])')
VALUE: Final = re.compile(rf'{QUOTED}|\(none\)|[^\s,()"]+', re.DOTALL)
WORD: Final = re.compile(rf'{QUOTED}|[^\s()"]+', re.DOTALL)
_SPACE = re.compile(r"\s*")
_INTEGER = re.compile(r"[+-]?\d{1,18}")
_OPEN_CASE = Is("resolution_status", (ResolutionStatus.PENDING.value,))
_STANDS_ALONE = "namespace:* stands for itself: not negated, in parentheses, in a list or beside an or"
_TURNED = str.maketrans("<>", "><")  # what is older has an earlier instant
_QUOTE_IT = "quote it to search for the text"


def read_query(text: str, now: datetime, *, sort: tuple[Sort, ...] = NEWEST_FIRST, limit: int = 500) -> Query:
    """Return the query that the text means; ages and times such as `now-1h` are counted from `now`.

    Raises InvalidQueryText, which says where the text is wrong and what may have been meant.

    >>> read_query("status:exhausted -queue:mail", datetime(2030, 1, 1, tzinfo=UTC)).where
    (Is(field='status', values=('exhausted',)), Not(condition=Is(field='queue', values=('mail',))))
    """
    return require_query(Query(read_conditions(text, now), sort, limit))


def read_conditions(text: str, now: datetime) -> tuple[Condition, ...]:
    """Return the conditions of a query. Raises InvalidQueryText."""
    if len(text) > LONGEST_TEXT:
        raise InvalidQueryText(
            f"a query has {LONGEST_TEXT} characters at most, this one {len(text)}", text[:LONGEST_TEXT], 0, LONGEST_TEXT
        )
    return _Reader(text, now).read()


def names_in(text: str) -> frozenset[str]:
    """Return the names that the query uses. Raises InvalidQueryText.

    >>> sorted(names_in("status:exhausted or -task.currency:EURO"))
    ['status', 'task']
    """
    reader = _Reader(text, datetime(2000, 1, 1, tzinfo=UTC))
    reader.read()
    return frozenset(reader.names)


class _Part(NamedTuple):
    """A piece of the text with its place."""

    text: str
    start: int
    end: int
    is_quoted: bool = False


class _Reader:
    def __init__(self, text: str, now: datetime) -> None:
        self._text, self._now, self._at, self._depth = text, now, 0, 0
        self._everywhere: _Part | None = None  # what says that all namespaces are meant
        self.names: list[str] = []

    def read(self) -> tuple[Condition, ...]:
        self._skip_space()
        if self._at == len(self._text):
            return ()
        alternatives = self._alternatives()
        if self._at < len(self._text):
            raise self._problem("this ) has no ( before it", self._at, self._at + 1)
        if len(alternatives) == 1:
            return tuple(alternatives[0])
        if self._everywhere is not None:
            raise self._problem(_STANDS_ALONE, self._everywhere.start, self._everywhere.end)
        return (_any_of(alternatives),)

    def _alternatives(self) -> list[list[Condition]]:
        """Read what stands between `or`, up to the end or a closing parenthesis."""
        found: list[list[Condition]] = [[]]
        while True:
            self._skip_space()
            at = self._at
            if at == len(self._text) or self._text[at] == ")":
                if not found[-1]:
                    what = "here are no conditions" if len(found) == 1 else "after this or there is nothing"
                    start = max(0, at - (at == len(self._text)))
                    raise self._problem(what, start, start + 1)
                return found
            match self._keyword():
                case "or" if not found[-1]:
                    raise self._problem(
                        'before this or there is nothing; to search for the word write "or"', at, at + 2
                    )
                case "or":
                    found.append([])
                case "and":
                    pass
                case _:
                    found[-1] += self._term()

    def _keyword(self) -> str | None:
        """Return `or`, `and` or `not`, if that is the next word; `and` and `or` are passed over."""
        word = WORD.match(self._text, self._at)
        name = word[0].lower() if word and not NAME.match(self._text, self._at) else ""
        if name not in ("or", "and"):
            return "not" if name == "not" else None
        assert word is not None
        self._at = word.end()
        return name

    def _term(self) -> Sequence[Condition]:
        """Read one condition, or those of several words."""
        start = self._at
        negations = 0
        while self._text.startswith("-", self._at) or self._keyword() == "not":
            self._at += 1 if self._text[self._at] == "-" else 3
            self._skip_space()
            negations += 1
            if self._at == len(self._text) or self._text[self._at] == ")":
                raise self._problem("after this there is nothing to be left out", start, self._at)
        found = self._group() if self._text[self._at] == "(" else self._one(alone=not negations and not self._depth)
        return (_negation(_all_of(found)),) if negations % 2 else found

    def _group(self) -> Sequence[Condition]:
        start = self._at
        self._depth += 1
        if self._depth > MAX_CONDITION_DEPTH // 3:  # a group is a condition, and so are its negation and its parts
            raise self._problem("the parentheses are nested too deeply", start, start + 1)
        self._at += 1
        alternatives = self._alternatives()
        if self._at == len(self._text):
            raise self._problem("this ( is never closed", start, start + 1)
        self._at += 1
        self._depth -= 1
        return (_any_of(alternatives),)

    def _one(self, *, alone: bool) -> Sequence[Condition]:
        named = NAME.match(self._text, self._at)
        if named is None:
            return self._words(self._part(WORD))
        start, (given, path, operator) = self._at, named.groups()
        name = self._name(given, start)
        self.names.append(name.name)
        self._at = named.end()
        if path and name.shape != "path":
            raise self._problem(f"{name.name} has nothing inside: only task and metadata have", start, named.end(2))
        if operator not in (":", "=", *name.operators):
            raise self._problem(
                f"{name.name} is not compared with {operator}: it takes {' '.join(name.operators)}",
                named.start(3),
                named.end(3),
            )
        values = self._values(name)
        wanted = operator in (":", "=", "!=")
        if not wanted and len(values) > 1:
            raise self._problem(f"{operator} takes one value", values[1].start, values[-1].end)
        condition = self._condition(name, path, operator if not wanted else ":", values, alone and operator != "!=")
        return (_negation(_all_of(condition)),) if operator == "!=" else condition

    def _name(self, given: str, start: int) -> QueryName:
        if (name := BY_NAME.get(given.lower())) is not None:
            return name
        end = start + len(given)
        near = near_names(given, BY_NAME)
        hint = f"did you mean {near[0]}?" if near else _QUOTE_IT
        raise self._problem(f"there is no name {given!r:.80}; {hint}", start, end, near)

    def _condition(
        self, name: QueryName, path: str, operator: str, values: Sequence[_Part], alone: bool
    ) -> Sequence[Condition]:
        match name.shape:
            case "words":
                return [word for value in values for word in self._words(value)]
            case "state":
                states = [self._of_set(name, value) for value in values]
                return (_any_of([[_OPEN_CASE if state == OPEN else Not(_OPEN_CASE)] for state in states]),)
            case "set":
                return (Is(name.field, tuple(self._of_set(name, value) for value in values)),)
            case "has":
                fields = [BY_NAME[self._of_set(name, value)].field for value in values]
                return (_any_of([[Not(Missing(field))] for field in fields]),)
            case "path":
                return (self._inside(name, path, values),)
            case "number":
                return (self._numbers(name, operator, values),)
            case "age":
                return (self._age(name, operator, values[0]),)
            case "moment":
                return (_any_of([[self._moment(name, operator, value)] for value in values]),)
        return (self._word(name, values, alone),)

    def _words(self, part: _Part) -> Sequence[Condition]:
        found = words(part.text)
        if not found:
            raise self._problem(
                f"there is no word in {part.text!r:.80} that could be searched for", part.start, part.end
            )
        return [has_word(word) for word in found]

    def _word(self, name: QueryName, values: Sequence[_Part], alone: bool) -> Condition:
        for value in values:
            if "*" in value.text and not value.is_quoted and name.name != "namespace":
                raise self._problem(
                    "a * stands for nothing here: name the whole value, or quote it if the * belongs to it",
                    value.start,
                    value.end,
                )
        texts = tuple(value.text for value in values)
        if name.field == "adapter":
            return adapter_is(texts)
        if name.field == "namespace" and "*" in texts:
            if not alone or len(texts) > 1:
                raise self._problem(_STANDS_ALONE, values[0].start, values[-1].end)
            self._everywhere = values[0]
        if name.field == "namespace" and alone and self.names.count("namespace") > 1:
            raise self._problem(
                "say the namespace once: namespace:one,other means both", values[0].start, values[-1].end
            )
        return Is(name.field, texts)

    def _of_set(self, name: QueryName, value: _Part) -> str:
        known = values_of(name)
        given = value.text.lower()
        if name.shape == "has" and given in BY_NAME:
            given = BY_NAME[given].name
        if given in known:
            return given
        if name.name == "policy" and value.text.startswith(CUSTOM_POLICY):
            return value.text
        near = near_names(given, known)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
        raise self._problem(f"{name.name} is never {value.text!r:.80}; {hint}", value.start, value.end, near)

    def _inside(self, name: QueryName, path: str, values: Sequence[_Part]) -> Condition:
        if not path:
            raise self._problem(
                f"say which value of the {name.name}: {name.name}.order.currency:EURO", values[0].start, values[-1].end
            )
        inside = unquote(path[1:])
        texts = [value.text for value in values]
        if name.field == TASK_VALUES:
            return Is(TASK_VALUES, tuple(f"{inside}={text}" for text in texts))
        return _any_of([[At(name.field, inside, text)] for text in texts])

    def _numbers(self, name: QueryName, operator: str, values: Sequence[_Part]) -> Condition:
        numbers = [self._number(name, value) for value in values]
        if operator == ":":
            return Is(name.field, tuple(numbers))
        return _compare(name.field, operator, numbers[0], numbers[0] + 1)

    def _number(self, name: QueryName, value: _Part) -> int:
        if not _INTEGER.fullmatch(value.text):
            raise self._problem(f"{name.name} is a whole number, {value.text!r:.80} is none", value.start, value.end)
        return int(value.text)

    def _age(self, name: QueryName, operator: str, value: _Part) -> Condition:
        if operator == ":":
            raise self._problem("an age is compared: age>2h is older, age<2h younger", value.start, value.end)
        with self._blaming(value):
            at = shift(self._now, -parse_duration(value.text))
            older = operator.translate(_TURNED)
            return _compare(name.field, older, at, shift(at, RESOLUTION))

    def _moment(self, name: QueryName, operator: str, value: _Part) -> Condition:
        with self._blaming(value):
            first, end = parse_span(value.text, self._now, ahead=name.name == "due")
        is_day = end - first > RESOLUTION
        if operator == ":":
            return Between(name.field, at_least=first, below=end) if is_day else Is(name.field, (first,))
        return _compare(name.field, operator, first, end, is_span=is_day)

    @contextmanager
    def _blaming(self, value: _Part) -> Iterator[None]:
        """Report an error in the block as a problem of this value."""
        try:
            yield
        except InvalidInput as problem:
            raise self._problem(str(problem), value.start, value.end) from None

    def _values(self, name: QueryName) -> list[_Part]:
        found = []
        while True:
            if not VALUE.match(self._text, self._at):
                self._refuse_open_quote()
                raise self._problem(f"after {name.name} a value is missing", max(0, self._at - 1), max(1, self._at))
            found.append(self._part(VALUE))
            if not self._text.startswith(",", self._at):
                return found
            self._at += 1

    def _part(self, pattern: re.Pattern[str]) -> _Part:
        found = pattern.match(self._text, self._at)
        if found is None:
            self._refuse_open_quote()
            raise self._problem("nothing is expected here", self._at, self._at + 1)
        self._at = found.end()
        return _Part(unquote(found[0]), found.start(), found.end(), found[0].startswith('"'))

    def _refuse_open_quote(self) -> None:
        if self._text.startswith('"', self._at):
            raise self._problem("this quote is never closed", self._at, len(self._text))

    def _skip_space(self) -> None:
        space = _SPACE.match(self._text, self._at)
        assert space is not None
        self._at = space.end()

    def _problem(self, what: str, start: int, end: int, near: tuple[str, ...] = ()) -> InvalidQueryText:
        return InvalidQueryText(what, self._text, start, end, near)


def _compare(field: str, operator: str, first: Any, end: Any, *, is_span: bool = False) -> Condition:
    """Return the comparison with one value, which goes up to `end`, or `is_span` and has others inside."""
    match operator:
        case ">=":
            return Between(field, at_least=first)
        case ">":
            return Between(field, at_least=end)
        case "<":
            return Between(field, below=first)
    return Between(field, below=end) if is_span else Between(field, at_most=first)


def unquote(text: str) -> str:
    """Return the text that is meant, with or without quotes; in quotes `\\"` is a quote and `\\\\` a backslash."""
    return _ESCAPED.sub(r"\1", text[1:-1]) if text.startswith('"') else text


def has_word(word: str) -> Condition:
    """Return the condition that a text search finds a letter by this word."""
    return AnyOf((Is("words", (word,)), Is("more_words", (word,))))


def _negation(condition: Condition) -> Condition:
    return condition.condition if isinstance(condition, Not) else Not(condition)


def _all_of(conditions: Sequence[Condition]) -> Condition:
    if len(conditions) == 1:
        return conditions[0]
    return Not(AnyOf(tuple(map(_negation, conditions))))


def _any_of(alternatives: Sequence[Sequence[Condition]]) -> Condition:
    several = tuple(map(_all_of, alternatives))
    return several[0] if len(several) == 1 else AnyOf(several)
