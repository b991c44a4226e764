"""What functions return: as plain JSON with its types, and back as it was, by the hint of the function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakKeyDictionary

from mahavishnu.adapters.arguments import Signature, WrittenValues
from mahavishnu.adapters.hints import NO_HINT, local_names, return_hint
from mahavishnu.model.json_value import EMPTY, Json
from mahavishnu.model.value_kinds import ValueKind

_NAME = "task"  # under which a value is written and read
_PARAMETERS = inspect.Signature([inspect.Parameter(_NAME, inspect.Parameter.POSITIONAL_OR_KEYWORD)])
_known: WeakKeyDictionary[Any, ResultForm] = WeakKeyDictionary()


class ResultForm:
    """How the results of a function are kept: values of classes only if its return hint names them.

    >>> from datetime import date
    >>> def bill() -> dict[str, date]: ...
    >>> form = ResultForm.of(bill)
    >>> kept = form.write({"due": date(2026, 11, 19)})
    >>> form.read(kept.payload, kept.types)
    {'due': datetime.date(2026, 11, 19)}
    """

    def __init__(self, function: Callable[..., Any], kinds: Iterable[ValueKind] = ()) -> None:
        names = local_names(function)
        hint, why_unknown = return_hint(function, names)
        label = getattr(function, "__qualname__", None) or f"{function!r:.80}"
        hints = {} if hint is NO_HINT else {_NAME: hint}
        unknown = {} if why_unknown is None else {_NAME: why_unknown}
        self._signature = Signature(label, _PARAMETERS, hints, unknown, kinds, names=names)

    @classmethod
    def of(cls, function: Callable[..., Any], kinds: Iterable[ValueKind] = ()) -> ResultForm:
        """The form of this function's results, made once."""
        try:
            known = _known.get(function)
            if known is None:
                known = _known[function] = cls(function, kinds)
        except TypeError:  # an object that nothing can refer to weakly
            return cls(function, kinds)
        return known

    def write(self, result: Any) -> WrittenValues:
        """The result as JSON; `lost` says what of it would not come back equal."""
        return self._signature.write_task(result)

    def read(self, payload: Json | None, types: Json | None) -> Any:
        """The result. Raises CannotRestore, naming the part."""
        plain = None if payload is None else payload.value
        return self._signature.restore_task(plain, (types or EMPTY).value)
