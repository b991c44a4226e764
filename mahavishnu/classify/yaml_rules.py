"""Rules without code: a list in the settings or in a YAML file. The first that matches counts.

- exception: [stripe.RateLimitError, acme.errors.Busy]
  category: transient
  retry_in_seconds: 30
- text: card declined
  category: validation
  reason: the customer has to act
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn, Self

import yaml

from mahavishnu.classify.builtin.attributes import status_of
from mahavishnu.classify.builtin.codes import statuses_in
from mahavishnu.classify.exceptions import Link, middle_cut, share, text_of, type_name, walk
from mahavishnu.classify.hookspecs import hookimpl
from mahavishnu.classify.tracebacks import parse_errors
from mahavishnu.classify.verdict import Context, Verdict, category, delay, policy
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.json_value import MOST_NODES, is_too_large
from mahavishnu.model.letter_parts import ErrorCategory
from mahavishnu.model.record import Value

op: Any = import_module("re._constants")  # the parse tree of a pattern; type checkers do not know it
parser: Any = import_module("re._parser")
_CONDITIONS = ("exception", "text", "status", "adapter")
_ADVICE = ("category", "policy", "max_retries", "retry_in_seconds", "reason", "runbook", "tags")
KEYS = (*_CONDITIONS, "match_subclasses", *_ADVICE)
_REGULAR = re.compile(r"[\\^$*+?{}\[\]()|]")
_LONGEST_SLOW = 1000  # characters that a regular expression with unbounded repetition reads
_UNBOUNDED = 256  # repetitions: a larger bound is none in practice
_REPETITIONS = (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT)
_STATUS_CLASS = re.compile(r"[45]xx", re.IGNORECASE)


class Rule(Value, frozen=True):
    """One rule. All its conditions must hold for the error, or all for one of its causes."""

    number: int
    category: ErrorCategory
    exceptions: tuple[str, ...] = ()
    match_subclasses: bool = True
    text: re.Pattern[str] | None = None
    text_is_slow: bool = False  # its time may grow faster than the text
    statuses: tuple[range, ...] = ()
    adapters: tuple[str, ...] = ()
    policy: str | None = None
    max_retries: int | None = None
    retry_in: timedelta | None = None
    reason: str | None = None
    runbook: str | None = None
    tags: tuple[str, ...] = ()

    def verdict(self) -> Verdict:
        said = f"rule {self.number}" + (f": {self.reason}" if self.reason else "")
        return Verdict(
            self.category,
            said + (f" (runbook: {self.runbook})" if self.runbook else ""),
            retry_in=self.retry_in,
            policy=self.policy,
            max_retries=self.max_retries,
            tags=self.tags,
        )

    def matches(self, view: ErrorView) -> bool:
        """Return True if the error fulfils every condition."""
        return (
            (not self.exceptions or any(view.is_a(name, self.match_subclasses) for name in self.exceptions))
            and (self.text is None or self.text.search(view.short if self.text_is_slow else view.text) is not None)
            and (not self.statuses or any(status in span for status in view.statuses for span in self.statuses))
        )


@dataclass(frozen=True)
class ErrorView:
    """One error as the rules see it."""

    text: str
    error: BaseException | None = None
    name: str | None = None

    @cached_property
    def short(self) -> str:
        return middle_cut(self.text, _LONGEST_SLOW)

    @cached_property
    def statuses(self) -> tuple[int, ...]:
        found = status_of(self.error) if self.error is not None else None
        return (found[0],) if found else statuses_in(self.text)

    def is_a(self, name: str, with_subclasses: bool) -> bool:
        if self.error is None:
            return self.name is not None and (self.name == name or self.name.endswith(f".{name}"))
        kind = type(self.error)
        kinds = kind.__mro__ if with_subclasses else (kind,)
        names = {type_name(kind) for kind in kinds} | {
            kind.__qualname__ for kind in kinds if kind.__module__ == "builtins"
        }
        if name in names:
            return True
        alias = _imported_object(name)  # `redis.ConnectionError` is `redis.exceptions.ConnectionError` by another name
        return alias is not None and alias in kinds


def _imported_object(name: str) -> object:
    """The object of a dotted name if its module is imported already; a rule never imports anything."""
    module, _, attribute = name.rpartition(".")
    return getattr(sys.modules.get(module), attribute, None) if module else None


class YamlRules(Value, frozen=True):
    """The rules as a plugin. It is asked first, so that an operator overrules all others."""

    rules: tuple[Rule, ...]
    origin: str = "settings"

    @classmethod
    def of(cls, source: Sequence[Mapping[Any, Any]] | Path | str) -> Self:
        """The rules of a list, or of a YAML file. Raises InvalidInput naming the rule and the key that is wrong.

        >>> YamlRules.of([{"text": "card declined", "categroy": "validation"}])
        Traceback (most recent call last):
        mahavishnu.model.errors.InvalidInput: classifier rule 1: unknown key 'categroy'; did you mean 'category'?
        """
        if isinstance(source, str | Path):
            return cls(_parse_rules(_read(Path(source)), f"{source}: rule"), str(source))
        return cls(_parse_rules(source, "classifier rule"))

    @hookimpl(tryfirst=True)
    def classify_error(self, error: BaseException | str, context: Context) -> Verdict | None:
        views = _views(error)
        for rule in self.rules:
            if rule.adapters and context.adapter not in rule.adapters:
                continue
            if any(rule.matches(view) for view in views):
                return rule.verdict()
        return None


def _views(error: BaseException | str) -> list[ErrorView]:
    if isinstance(error, str):
        errors = parse_errors(error)
        return [ErrorView(middle_cut(each.message, share(len(errors))), name=each.name) for each in errors]
    links: list[Link] = walk(error)
    return [ErrorView(text_of(link.error, share(len(links))), link.error) for link in links]


def _read(path: Path) -> Any:
    try:
        text = path.read_text("utf-8")
        if (node := yaml.compose(text, yaml.SafeLoader)) is not None and is_too_large(node):
            raise InvalidInput(f"the classifier rules {path} mean more than {MOST_NODES} values, by their aliases")
        return yaml.safe_load(text)
    except RecursionError:
        raise InvalidInput(f"the classifier rules {path} are nested too deeply, or contain themselves") from None
    except OSError as problem:
        raise InvalidInput(f"the classifier rules {path} cannot be read: {problem.strerror or problem}") from problem
    except (yaml.YAMLError, UnicodeDecodeError) as problem:
        mark = getattr(problem, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        what = getattr(problem, "problem", None) or problem
        raise InvalidInput(f"the classifier rules {path} are no YAML{where}: {what}") from problem


def _parse_rules(found: Any, place: str) -> tuple[Rule, ...]:
    if isinstance(found, str | Mapping) or not isinstance(found, Sequence):
        raise InvalidInput(f"{place.removesuffix(' rule').removesuffix(': rule')}: a list of rules is expected")
    return tuple(_rule(entry, number, f"{place} {number}") for number, entry in enumerate(found, 1))


def _rule(entry: Any, number: int, place: str) -> Rule:
    if not isinstance(entry, Mapping):
        raise InvalidInput(f"{place}: a rule is a mapping like {{text: card declined, category: validation}}")
    for key in entry:
        if key not in KEYS:
            near = difflib.get_close_matches(str(key), KEYS, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(KEYS)}"
            raise InvalidInput(f"{place}: unknown key {key!r}; {hint}")
    if "category" not in entry:
        raise InvalidInput(f"{place}: category is missing")
    if not any(key in entry for key in _CONDITIONS):
        raise InvalidInput(f"{place}: it would match everything; give one of {', '.join(_CONDITIONS)}")

    def read(key: str, reader: Callable[[Any], Any], default: Any = None) -> Any:
        if entry.get(key) is None:
            return default
        try:
            return reader(entry[key])
        except InvalidInput as problem:
            raise InvalidInput(f"{place}, {key}: {problem}") from None

    text = read("text", _text)
    return Rule(
        number,
        category=read("category", _category),
        exceptions=read("exception", _names, ()),
        match_subclasses=read("match_subclasses", _boolean, True),
        text=text,
        text_is_slow=text is not None and _is_regular(entry["text"]) and _repeats_unbounded(_parse(text)),
        statuses=read("status", _statuses, ()),
        adapters=read("adapter", _names, ()),
        policy=read("policy", policy),
        max_retries=read("max_retries", _count),
        retry_in=read("retry_in_seconds", delay),
        reason=read("reason", _one_text),
        runbook=read("runbook", _one_text),
        tags=read("tags", _names, ()),
    )


def _refuse(wanted: str, value: Any) -> NoReturn:
    raise InvalidInput(f"{wanted} is expected, not {value!r}")


def _category(value: Any) -> ErrorCategory:
    if isinstance(value, str) and value not in list(ErrorCategory):
        near = difflib.get_close_matches(value.lower(), [str(known) for known in ErrorCategory], 1)
        if near:
            raise InvalidInput(f"there is no error category {value!r}; did you mean {near[0]!r}?")
    return category(value)


def _one_text(value: Any) -> str:
    return value if isinstance(value, str) and value.strip() else _refuse("a text", value)


def _names(value: Any) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not names or not all(isinstance(name, str) and name for name in names):
        _refuse("a name or a list of names", value)
    return tuple(name.removeprefix("builtins.").strip() for name in names)


def _boolean(value: Any) -> bool:
    return value if isinstance(value, bool) else _refuse("true or false", value)


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        _refuse("a number from 0", value)
    return value


def _text(value: Any) -> re.Pattern[str]:
    """Plain words match as whole words in any case; a text with a special character is a regular expression."""
    text = _one_text(value)
    if not _is_regular(text):
        words = r"\s+".join(map(re.escape, text.split()))
        return re.compile(rf"(?<!\w){words}(?!\w)", re.IGNORECASE)
    try:
        pattern = re.compile(text, re.IGNORECASE)
    except re.error as problem:
        raise InvalidInput(f"{text!r} is no regular expression: {problem}") from None
    if _repeats_ambiguously(_parse(pattern)):
        raise InvalidInput(
            f"{text!r} has an unbounded repetition (+ or *) of a part that can match one text in several ways, as "
            "(a+)+ does: some error text would hold up the process for hours. Remove one of the two repetitions, or "
            "make the inner one possessive (a++)"
        )
    return pattern


def _is_regular(text: str) -> bool:
    return _REGULAR.search(text) is not None


def _parse(pattern: re.Pattern[str]) -> Any:
    return parser.parse(pattern.pattern, pattern.flags)


def _repeats_unbounded(items: Any) -> bool:
    return any(
        (code in _REPETITIONS and argument[1] >= _UNBOUNDED) or any(map(_repeats_unbounded, _parts(argument)))
        for code, argument in items
    )


def _repeats_ambiguously(items: Any, inside: bool = False) -> bool:
    """Return whether a repetition is ambiguous: its time may double with each character. `inside`: of another one."""
    for code, argument in items:
        within = inside
        if code in _REPETITIONS:
            least, most, _ = argument
            if inside and least != most and code is not op.POSSESSIVE_REPEAT:
                return True
            within = most >= _UNBOUNDED or (inside and code is not op.POSSESSIVE_REPEAT)
        elif code is op.BRANCH and inside and not _begin_differently(argument[1]):
            return True
        elif code in (op.ATOMIC_GROUP, op.ASSERT, op.ASSERT_NOT):  # what has matched is not tried in another way
            within = False
        if any(_repeats_ambiguously(part, within) for part in _parts(argument)):
            return True
    return False


def _begin_differently(branches: Any) -> bool:
    first = [chr(each[0][1]).casefold() for each in branches if len(each) and each[0][0] is op.LITERAL]
    return len(set(first)) == len(branches)


def _parts(argument: Any) -> Iterator[Any]:
    """Yield the patterns in an item's argument."""
    if isinstance(argument, parser.SubPattern):
        yield argument
    elif isinstance(argument, list | tuple):
        for each in argument:
            yield from _parts(each)


def _statuses(value: Any) -> tuple[range, ...]:
    found: list[range] = []
    for status in value if isinstance(value, list | tuple) else [value]:
        if isinstance(status, str) and _STATUS_CLASS.fullmatch(status):
            first = int(status[0]) * 100
            found.append(range(first, first + 100))
        elif isinstance(status, int) and not isinstance(status, bool) and 100 <= status <= 599:
            found.append(range(status, status + 1))
        else:
            _refuse("an HTTP status like 429, '5xx', or a list of those,", status)
    return tuple(found)
