"""The form of a failed task in a letter: plain JSON with its types beside it, and masks in the place of secrets."""

from __future__ import annotations

import base64
import copy
import fnmatch
import json
import pickle
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache, partial
from types import MappingProxyType, NoneType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from urllib.parse import quote, quote_plus, unquote_plus
from uuid import UUID

from msgspec.structs import replace

from mahavishnu.model.events import TRACEPARENT
from mahavishnu.model.ids import DEFAULT_QUEUE
from mahavishnu.model.json_value import EMPTY, OPEN, Json, pointer_step, texts
from mahavishnu.model.letter_parts import LOST, MASK, WORKFLOW_SOURCE, DlqReason, Failure, Source

if TYPE_CHECKING:
    from mahavishnu.values.arguments import WrittenValues
    from mahavishnu.values.kinds import ValueKind

# Nothing that a function does changes a value of these, so no snapshot is taken of it.
_CONSTANT = frozenset([str, int, float, bool, NoneType, bytes, complex, Decimal, date, datetime, time, timedelta, UUID])
_PLAIN = _CONSTANT | {dict, list, tuple, set, frozenset}
_CONTAINERS = (list, dict, set, frozenset, tuple, bytearray)

Snapshot: TypeAlias = "bytes | _Parts"
# In the metadata of letters that are not retried automatically:
NOT_JSON = "dlq_not_json"  #: why: mostly because JSON cannot hold the task or the metadata
REDACTED = "dlq_redacted"  #: that arguments are masked
WriteValues: TypeAlias = "Callable[[Any], WrittenValues]"
"""Writes a task as JSON, with its type in the place of what cannot come back."""


# ------------------------------------------- the arguments of a run, in memory: a retry gets what the first run got


class TaskSnapshot:
    """A task as it was before a run that may change it."""

    __slots__ = ("_before", "_task")

    def __init__(self, task: Any) -> None:
        self._task, self._before = task, take_snapshot((task,), {})

    @property
    def task(self) -> Any:
        """The caller's task if the run did not change it (or it cannot be copied), else the copy from before it."""
        return self._task if self._before is None else restore_arguments(self._before, (self._task,), {})[0][0]


def take_snapshot(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Snapshot | None:
    """Return arguments, copied before a call, that it can change and a letter keep; None where there are none."""
    if _CONSTANT.issuperset(map(type, args)) and (not kwargs or _CONSTANT.issuperset(map(type, kwargs.values()))):
        return None
    if _PLAIN.issuperset(map(type, args)) and (not kwargs or _PLAIN.issuperset(map(type, kwargs.values()))):
        try:
            return pickle.dumps((args, kwargs), pickle.HIGHEST_PROTOCOL)
        except Exception:  # whatever is inside of them
            pass
    return _Parts(args, kwargs)


def restore_arguments(
    snapshot: Snapshot, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with copies in the place of those that were changed."""
    if isinstance(snapshot, _Parts):
        return snapshot.restore(args, kwargs)
    try:
        if pickle.dumps((args, kwargs), pickle.HIGHEST_PROTOCOL) == snapshot:
            return args, kwargs
    except Exception:  # it was changed to what cannot be copied
        pass
    try:
        before: tuple[tuple[Any, ...], dict[str, Any]] = pickle.loads(snapshot)
    except Exception:  # code of the user's own types
        return args, kwargs
    return before


class _Parts:
    """Copies of those arguments that are data, where others are not."""

    __slots__ = ("_before", "_values")

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._values = [each for each in (*args, *kwargs.values()) if type(each) not in _CONSTANT and _is_data(each)]
        self._before = _copy(self._values) if self._values else None

    def restore(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with copies in the place of those that were changed."""
        before = self._before
        if before is None or (isinstance(before, bytes) and _copy(self._values) == before):
            return args, kwargs
        try:
            copies = pickle.loads(before) if isinstance(before, bytes) else before
        except Exception:  # code of the user's own types
            return args, kwargs
        found = {id(value): copied for value, copied in zip(self._values, copies, strict=True)}
        return (
            tuple(found.get(id(each), each) for each in args),
            {name: found.get(id(each), each) for name, each in kwargs.items()},
        )


def _is_data(value: Any) -> bool:
    kind = type(value)
    return (
        isinstance(value, _CONTAINERS) or hasattr(kind, "__dataclass_fields__") or hasattr(kind, "__pydantic_fields__")
    )


def _copy(values: list[Any]) -> bytes | list[Any]:
    """A copy, as bytes where that is possible: it takes a tenth of the time. What cannot be copied is as it is."""
    try:
        return pickle.dumps(values, pickle.HIGHEST_PROTOCOL)
    except Exception:  # such as of a class inside of a function, or whatever the user's own types raise
        pass
    copies = []
    for each in values:  # one that cannot be copied does not keep the others from being as they were
        try:
            copies.append(copy.deepcopy(each))
        except Exception:
            copies.append(each)
    return copies


# --------------------------------------------------------------------------------------- the payload of a letter


class Payload(NamedTuple):
    """A task as a letter keeps it. `notes` for its metadata say why a run would be given something else."""

    payload: Json
    types: Json = EMPTY
    notes: Mapping[str, str] = MappingProxyType({})


def write_payload(request: LetterRequest, patterns: Sequence[str] = (), kinds: Iterable[ValueKind] = ()) -> Payload:
    """Return the request's task as a letter keeps it, noting lossy or masked values. Raises InvalidPayload."""
    from mahavishnu.values.typed_json import MASKED, plain_text

    is_usual = request.write is None and not patterns and not request.redact
    if is_usual and (text := plain_text(request.task)) is not None:  # nearly always
        return Payload(Json(text), request.payload_types)
    written = write_values(request, kinds)
    notes: dict[str, str] = {}
    if written.why_lost is not None:
        if request.write is None:
            Json.of(request.task)  # raises
        notes[NOT_JSON] = written.why_lost
    if not patterns and not request.redact:
        return Payload(written.payload, written.types, notes)
    plain, types = written.payload.value, written.types.value
    masked = redact(plain, (*request.redact, *patterns))
    own = {path for path, _ in _changed_places(plain, redact(plain, request.redact), "")}
    hides = partial(is_secret, patterns=(*request.redact, *patterns))
    for path, value in _changed_places(plain, masked, ""):
        below = [each for each in types if each == path or each.startswith(f"{path}/")]
        wanted = path in own
        if below or wanted or (isinstance(value, str) and holds_secret(value, hides)):  # nobody takes the mask for it
            types = {each: kind for each, kind in types.items() if each not in below} | {path: f"{LOST}:{MASKED}"}
        if wanted:
            names = ", ".join(request.redact)
            notes[REDACTED] = f"masked by {names}: give the values by an edit before it is run again"
    return Payload(Json.of(masked), Json.of(types) if types else EMPTY, notes)


def write_values(request: LetterRequest, kinds: Iterable[ValueKind]) -> WrittenValues:
    """The request's task with its types: by the hints of what runs it, if they are known here."""
    from mahavishnu.values.arguments import Signature, WrittenValues
    from mahavishnu.values.typed_json import plain_text

    if request.payload_types.text != EMPTY.text:  # it is written already
        return WrittenValues(Json.of(request.task), request.payload_types)
    if request.write is not None:
        return request.write(request.task)
    if (text := plain_text(request.task)) is not None:
        return WrittenValues(Json(text))
    return Signature.of_any_task(kinds).write_task(request.task)


def _changed_places(plain: Any, masked: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the paths of what is masked, with what it was."""
    if isinstance(plain, dict) and isinstance(masked, dict):
        for name, item in plain.items():
            yield from _changed_places(item, masked[name], f"{path}/{pointer_step(name)}")
    elif isinstance(plain, list) and isinstance(masked, list):
        for place, item in enumerate(plain):
            yield from _changed_places(item, masked[place], f"{path}/{place}")
    elif plain != masked:
        yield path, plain


def is_secret(key: str, patterns: Sequence[str]) -> bool:
    """Return True if values under this key are masked."""
    return _secrets(tuple(patterns)).match(key.lower()) is not None


@lru_cache(64)
def _secrets(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """All patterns as one: a payload may have a hundred thousand keys."""
    return re.compile("|".join(fnmatch.translate(each.lower()) for each in patterns) or r"(?!)")


Hides: TypeAlias = "Callable[[str], bool]"
"""Whether values under this name are secret."""


def redact(value: Any, patterns: Sequence[str]) -> Any:
    """`value` with the values under matching keys masked, at any depth. A masked payload may not run again as it is.

    Pairs, as of headers, are masked by their names, and so are texts and bytes that are JSON, a form, headers or a
    cookie with such a name in it: these as a whole.

    >>> redact({"user": "ann", "api_token": "s3cret", "headers": [["X-Token", "s3cret"]]}, ["*token*"])
    {'user': 'ann', 'api_token': '***', 'headers': [['X-Token', '***']]}
    >>> redact(["user=ann&token=s3cret"], ["*token*"])
    ['***']
    """
    return _redact(value, partial(is_secret, patterns=patterns)) if patterns else value


def _redact(value: Any, hides: Hides) -> Any:
    if isinstance(value, dict) or type(value) in OPEN:
        hidden = hidden_names(value, hides)
        return {key: MASK if key in hidden else _redact(value[key], hides) for key in value}
    if isinstance(value, list | tuple):
        hidden_places = hidden_items(value, hides)
        return [MASK if place in hidden_places else _redact(item, hides) for place, item in enumerate(value)]
    if isinstance(value, set | frozenset):
        return [_redact(item, hides) for item in sorted(value, key=str)]
    if isinstance(value, Enum):
        inner = _redact(value.value, hides)
        return value if inner is value.value else inner
    return MASK if isinstance(value, str | bytes | bytearray) and holds_secret(value, hides) else value


_NAME, _VALUE = frozenset(["name", "key", "header"]), "value"  # of the parts of a list that stand for pairs
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{4,}={0,2}")
_PART = r"[^\s=&;?]+=[^\s&;]*"
_FORM = re.compile(rf"(?:[^\s=&;?]*\?)?{_PART}(?:(?:&|;\s*|\s+){_PART})*;?")  # also a query, a cookie, a DSN
_FORM_NAME = re.compile(r"(?:^|[?&;\s])([^\s=&;?]+)=([^\s&;]*)")
_HEADER = re.compile(r"""^[ \t"']*([\w.-]+)["']?[ \t]*[:=][ \t]*(.+)$""", re.MULTILINE)
_MULTIPART = re.compile(
    r"""form-data;[^\n]{0,99}?name="?([^";\n]{1,99})[^\n]{0,299}\n(?:[^\n]+\n){0,9}?\r?\n([^\n]*)"""
)
_SCHEME = re.compile(r"(?:Bearer|Basic|Digest|Token|ApiKey)\s+(\S+)", re.IGNORECASE)


def hidden_names(value: Mapping[Any, Any], hides: Hides) -> set[Any]:
    """Return the keys whose values are secret; in an object that is a pair, such as a header, that is the value."""
    hidden = {key for key in value if _is_hidden(key, hides)}
    if _VALUE in value and any(name in value and _is_hidden(value[name], hides) for name in _NAME):
        hidden.add(_VALUE)
    return hidden


def hidden_items(value: Sequence[Any], hides: Hides) -> set[int]:
    """Return the places that are secret: of a named tuple those of its fields, of a pair the second one."""
    if (names := getattr(type(value), "_fields", None)) is not None:
        return {place for place, name in enumerate(names) if hides(str(name))}
    is_pair = len(value) == 2 and isinstance(value[0], str | bytes) and not isinstance(value[1], dict)
    if is_pair and any(map(str.isspace, str(value[0]))):  # a text, and no name
        return set()
    return {1} if is_pair and _is_hidden(value[0], hides) else set()


def _is_hidden(name: Any, hides: Hides) -> bool:
    """Return True for a secret name, also of bytes, or in Base64, as bytes are written."""
    text = name if isinstance(name, str) else name.decode("latin-1") if isinstance(name, bytes) else str(name)
    return hides(text) or ((plain := _from_base64(text)) is not None and hides(plain))


def _from_base64(text: str) -> str | None:
    """Return the text that this one stands for, if it is Base64 of any."""
    if len(text) % 4 or _BASE64.fullmatch(text) is None:
        return None
    try:
        return base64.b64decode(text, altchars=b"-_" if "-" in text or "_" in text else None, validate=True).decode()
    except ValueError:
        return None


def holds_secret(text: str | bytes | bytearray, hides: Hides) -> bool:
    """Return True for JSON, a form, a query, a cookie or headers that have a value under a secret name."""
    return any(True for _ in texts_in(text, hides))


def texts_in(text: str | bytes | bytearray, hides: Hides) -> Iterator[str]:
    """Yield the secrets that a text names: see `holds_secret`.

    >>> [*texts_in(b'{"pin": 1234, "to": "ann"}', lambda name: name == "pin")]
    ['1234']
    """
    plain = text if isinstance(text, str) else bytes(text).decode("utf-8", "replace")
    if plain.lstrip()[:1] in ("{", "[", '"'):
        with suppress(ValueError, RecursionError):
            yield from texts_under(json.loads(plain), hides)
            return
    if (inner := _from_base64(plain)) is not None:
        yield from texts_in(inner, hides)
    if "=" not in plain and ":" not in plain:
        return
    if _FORM.fullmatch(plain.strip()) is not None:
        found = [(unquote_plus(name), unquote_plus(value)) for name, value in _FORM_NAME.findall(plain)]
    elif "form-data;" in plain:
        found = _MULTIPART.findall(plain)
    else:
        lines = [line for line in plain.splitlines() if line.strip()]
        found = _HEADER.findall(plain)
        if len(found) < len(lines) - 1 or not found:  # the first one may be that of a request
            found = []
    for name, value in found:
        if hides(name):
            yield from _quotable(value.strip(" \t\r\"'"))


def texts_under(value: Any, hides: Hides, *, inside: bool = False) -> Iterator[str]:
    """Texts and numbers that stand under secret names, at any depth, as an error may quote them.

    >>> [*texts_under({"card": {"pin": 1234}, "to": "ann"}, lambda name: name == "card")]
    ['1234']
    """
    if isinstance(value, Mapping):
        hidden = hidden_names(value, hides)
        for name in value:
            yield from texts_under(value[name], hides, inside=inside or name in hidden)
    elif isinstance(value, list | tuple):
        places = hidden_items(value, hides)
        for place, item in enumerate(value):
            yield from texts_under(item, hides, inside=inside or place in places)
    elif isinstance(value, str | bytes | bytearray):
        if inside:
            yield from _quotable(value if isinstance(value, str) else bytes(value).decode("utf-8", "replace"))
        else:
            yield from texts_in(value, hides)
    elif inside and isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)


def _quotable(text: str) -> Iterator[str]:
    """Yield a secret, and the parts of it that are secret without the others."""
    yield text
    if (found := _SCHEME.fullmatch(text.strip())) is not None:
        yield found[1]
        text = found[1]
    elif "=" in text and _FORM.fullmatch(text.strip()) is not None:
        yield from (value for _, value in _FORM_NAME.findall(text))
    if (inner := _from_base64(text)) is not None:
        yield inner


class LetterRequest(NamedTuple):
    """Facts about a failure besides the failure itself. None means the default, for the namespace the queue's own."""

    task_id: str
    task: Any
    repos: Sequence[str] = ()
    retry_policy: str | None = None
    max_retries: int | None = None
    metadata: Mapping[str, Any] | None = None
    priority: int | None = None
    depends_on: Sequence[str] = ()
    namespace: str | None = None
    queue: str = DEFAULT_QUEUE
    reason: str = DlqReason.WORKFLOW_FAILED
    source: Source = WORKFLOW_SOURCE
    adapter: str | None = None
    payload_types: Json = EMPTY
    write: WriteValues | None = None  # writes the task by the hints of its function
    redact: tuple[str, ...] = ()  # patterns of keys whose values are masked, so that nothing retries it by itself
    advised_policy: str | None = None  # by a strategy: it counts where the caller named none

    def with_advice(self, retry_policy: str | None, max_retries: int | None) -> LetterRequest:
        """The request with this policy and budget where the caller named none."""
        if retry_policy is None and max_retries is None:
            return self
        return self._replace(
            advised_policy=retry_policy, max_retries=self.max_retries if self.max_retries is not None else max_retries
        )

    def with_traceparent(self, traceparent: str | None) -> LetterRequest:
        """The request with the caller's trace in its metadata, unless that says another one."""
        metadata = {} if self.metadata is None else self.metadata
        if traceparent is None or not isinstance(metadata, Mapping) or TRACEPARENT in metadata:
            return self
        return self._replace(metadata={**metadata, TRACEPARENT: traceparent})

    def readable_repos(self) -> tuple[str, ...]:
        """The repos, for those who judge the failure; none where they are no list of texts."""
        if type(self.repos) is tuple:  # the app has looked at them
            return self.repos
        try:
            return texts(self.repos, "repos")
        except Exception:
            return ()


# --- masks in the texts of errors: a value that a letter hides is hidden where an error quotes it, too

SHORTEST, SURE = 4, 8  # shorter values than SURE are masked only where they stand alone
_BLANKS = re.compile(r"[\s-]+")
_PLAIN_TEXT = re.compile(r"[A-Za-z0-9._~-]+")  # is written the same everywhere
_CUT = re.compile(r"\n  \[… of [0-9]+ characters the middle is cut …\]\n")  # as `classify.exceptions.cut` says it
_FEW = 50  # values that are looked for one by one
_TRIES = 20  # places where a form may be torn; a text that repeats itself has more, and is masked from there on
Span = tuple[int, int]


def mask_failure(failure: Failure, secrets: Iterable[str]) -> Failure:
    """The failure without these texts in its message and its traceback."""
    forms = _forms_of(secrets)
    message = _mask(failure.message, forms)
    traceback = failure.traceback and _mask(failure.traceback, forms)
    if message == failure.message and traceback == failure.traceback:
        return failure
    return replace(failure, message=message, traceback=traceback)


def mask_text(text: str, secrets: Iterable[str]) -> str:
    """The text without these."""
    return _mask(text, _forms_of(secrets))


def mask_texts(value: Any, secrets: Iterable[str]) -> Any:
    """The JSON value with masks where any text in it quotes one of these.

    >>> mask_texts({"why": ["no user 'ann smith'", 7]}, ["ann smith"])
    {'why': ["no user '***'", 7]}
    """
    forms = _forms_of(secrets)

    def walk(part: Any) -> Any:
        if isinstance(part, dict):
            return {name: walk(item) for name, item in part.items()}
        if isinstance(part, list):
            return [walk(item) for item in part]
        return _mask(part, forms) if isinstance(part, str) else part

    return walk(value) if forms else value


def _forms_of(secrets: Iterable[str]) -> set[str]:
    return {form for secret in set(secrets) for form in _spellings(secret.strip()) if len(form) >= SHORTEST}


def _spellings(secret: str) -> Iterator[str]:
    yield secret
    if _PLAIN_TEXT.fullmatch(secret) is None:
        data = secret.encode("utf-8", "surrogatepass")
        yield from (repr(secret)[1:-1], repr(data)[2:-1])
        yield from (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])
        yield from (quote(data), quote(data, safe=""), quote_plus(data))
    if sum(map(str.isdigit, secret)) >= SURE:
        yield _BLANKS.sub("", secret)


def _mask(text: str, forms: set[str]) -> str:
    if not forms:
        return text
    spans = [*_quotes_in(text, forms), *_torn_ends(text, forms)]
    if not spans:
        return text
    shown, kept, begin, end = list[str](), 0, *min(spans)
    for start, stop in sorted(spans):
        if start >= end:  # what overlaps is one
            shown += text[kept:begin], MASK
            kept, begin, end = end, start, stop
        end = max(end, stop)
    return "".join((*shown, text[kept:begin], MASK, text[end:]))


def _quotes_in(text: str, forms: set[str]) -> Iterator[Span]:
    """Yield the places of forms in the text; of those that begin at one place the longest."""
    if len(forms) <= _FEW:
        there = [form for form in forms if form in text]
    else:
        heads = {text[place : place + SHORTEST] for place in range(len(text) - SHORTEST + 1)}
        there = [form for form in forms if form[:SHORTEST] in heads]
    by_head: dict[str, dict[int, set[str]]] = {}
    for form in there:
        by_head.setdefault(form[:SHORTEST], {}).setdefault(len(form), set()).add(form)
    if not by_head:
        return
    longest_first = {head: sorted(lengths.items(), reverse=True) for head, lengths in by_head.items()}
    for place in range(len(text) - SHORTEST + 1):
        for length, same in longest_first.get(text[place : place + SHORTEST], ()):
            stop = place + length
            if text[place:stop] in same and (length >= SURE or _is_alone(text, place, stop)):
                yield place, stop
                break


def _is_alone(text: str, start: int, stop: int) -> bool:
    return not (_is_word(text[start - 1 : start]) or _is_word(text[stop : stop + 1]))


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _torn_ends(text: str, forms: set[str]) -> Iterator[Span]:
    """Yield the rest of a form whose middle, end or beginning is where a long text was cut."""
    for cut in _CUT.finditer(text):
        before, after = text[: cut.start()], text[cut.end() :]
        for form in forms:
            window = max(0, len(before) - len(form))
            if (place := _first(before, form[:SHORTEST], window, form.startswith)) >= 0:
                yield place, cut.start()
            if (place := _first(form, after[:SHORTEST], 0, after.startswith)) >= 0:
                yield cut.end(), cut.end() + len(form) - place


def _first(text: str, head: str, since: int, begins: Callable[[str], bool]) -> int:
    """The first place with this head from which on the text is what something begins with; -1 if there is none."""
    place = text.find(head, since) if len(head) == SHORTEST else -1
    for _ in range(_TRIES):
        if place < 0 or begins(text[place:]):
            break
        place = text.find(head, place + 1)
    return place
