"""What a workflow says about its calls: the key that names the work, and how its failures are kept and retried."""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import Parameter
from typing import Any, Literal, TypeAlias

from mahavishnu.adapters.function import parameters_of
from mahavishnu.classify.verdict import policy
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.ids import DEFAULT_QUEUE, document_key

Key: TypeAlias = "str | Callable[..., Any]"
OnCancel: TypeAlias = Literal["ignore", "capture"]
ReadKey: TypeAlias = Callable[[tuple[Any, ...], dict[str, Any]], Any]
_NAMED = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


@dataclass(frozen=True, slots=True)
class CallOptions:
    """How failures of a workflow are kept. What is None is as usual.

    `key` names the work of a call: an argument's name, a text such as `"{customer}-{month}"`, or a function of the
    arguments. `redact` are patterns of names whose values are masked in the letter. `on_cancel` says whether a call
    that is cancelled becomes a letter. `track`: each call is a lifecycle task while it runs.
    """

    key: Key | None = None
    retry_policy: str | None = None
    max_retries: int | None = None
    queue: str = DEFAULT_QUEUE
    redact: tuple[str, ...] = ()
    on_cancel: OnCancel = "ignore"
    track: bool = False

    @classmethod
    def from_arguments(
        cls,
        *,
        key: Key | None,
        retry_policy: str | None,
        max_retries: int | None,
        queue: str | None,
        redact: Sequence[str],
        on_cancel: OnCancel,
        track: bool,
    ) -> CallOptions:
        """The options. Raises InvalidInput for what no letter could have."""
        named = queue if queue is not None else DEFAULT_QUEUE
        document_key("any", queue=named)
        if max_retries is not None and (type(max_retries) is not int or max_retries < 0):
            raise InvalidInput(f"max_retries must be a whole number from 0, not {max_retries!r:.80}")
        if isinstance(redact, str) or not all(isinstance(each, str) for each in redact):
            raise InvalidInput(f"redact must be a list of names or patterns, not {redact!r:.80}")
        if on_cancel not in ("ignore", "capture"):
            raise InvalidInput(f"on_cancel must be 'ignore' or 'capture', not {on_cancel!r:.80}")
        chosen = None if retry_policy is None else policy(retry_policy)
        return cls(key, chosen, max_retries, named, tuple(redact), on_cancel, track)


def key_reader(key: Key | None, function: Callable[..., Any]) -> ReadKey | None:
    """What reads the key off the arguments of a call; None without a key. Raises InvalidInput for an unknown name.

    >>> read = key_reader("{a}-{b.real}", lambda a, b=2: None)
    >>> read((1,), {}), key_reader("b", lambda a, b=2: None)((1,), {"b": 3})
    ('1-2', 3)
    """
    if key is None:
        return None
    if callable(key):
        return lambda args, kwargs: key(*args, **kwargs)
    if not isinstance(key, str) or not key:
        raise InvalidInput(
            f"key must be an argument's name, a text with arguments in braces or a function, not {key!r}"
        )
    if "{" not in key:
        return _argument_reader(key, key, function)
    try:
        names = [field for _, field, _, _ in string.Formatter().parse(key) if field is not None]
    except ValueError as problem:
        raise InvalidInput(f"the key {key!r} cannot be read: {problem}") from None
    readers = {}
    for field in names:
        name = field.partition(".")[0].partition("[")[0]
        readers[name] = _argument_reader(name, key, function)
    return lambda args, kwargs: key.format(**{name: read(args, kwargs) for name, read in readers.items()})


def _argument_reader(name: str, key: str, function: Callable[..., Any]) -> ReadKey:
    parameters = parameters_of(function)
    found = parameters.get(name)
    if found is None or found.kind not in _NAMED:
        known = ", ".join(each.name for each in parameters.values() if each.kind in _NAMED) or "none that has a name"
        raise InvalidInput(f"the key {key!r} needs an argument {name!r}; the function's are: {known}")
    default = None if found.default is Parameter.empty else found.default
    if found.kind is Parameter.KEYWORD_ONLY:
        return lambda args, kwargs: kwargs.get(name, default)
    place = list(parameters).index(name)
    return lambda args, kwargs: args[place] if len(args) > place else kwargs.get(name, default)
