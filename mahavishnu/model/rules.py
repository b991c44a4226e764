"""Rule sets: each field of one declares its default, its range and its description once.

The settings are built from rule sets, so that the names of the fields are the keys (`core.config.sections`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any, ClassVar

from mahavishnu.model.errors import InvalidInput

LONGEST_MINUTES = 10 * 366 * 1440


@dataclass(frozen=True, slots=True)
class RuleInfo:
    """The declaration of a field: see `rule`."""

    default: Any
    description: str
    least: Any = None
    most: Any = None
    allowed: str = ""
    secret: bool = False
    apart: bool = False
    zero: bool = False
    check: Callable[[Any, str], object] | None = None


def rule(default: Any, description: str, least: Any = None, most: Any = None, **more: Any) -> Any:
    """Declare a field of a rule set: a number from `least` to `most`, or a text of at least so many characters.

    `check` takes a value and the field's name, and raises InvalidInput with a text that begins with the name. `allowed`
    says in words what the type does not say. A `secret` is never printed. A field `apart` is a setting outside of the
    section that the other fields are in. `zero` allows programs a 0 that the settings refuse: it means at once.
    """
    info = RuleInfo(default, description, least, most, **more)
    given: dict[str, Any] = {"default_factory": default.copy} if isinstance(default, dict) else {"default": default}
    return field(repr=not info.secret, metadata={"rule": info}, **given)


def url_rule(default: str | None, description: str, *, secret: bool = False) -> Any:
    """Declare a field that is the URL of a web page or a webhook."""
    return rule(default, description, allowed="an http: or https: URL", secret=secret, check=require_web_url)


class Rules:
    """The base of rule sets, which are dataclasses that check their fields. Raises InvalidInput."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __post_init__(self) -> None:
        for name in rules_declared(type(self)):
            check_rule(type(self), name, getattr(self, name))
        self.check_together()

    def check_together(self) -> None:
        """Raise InvalidInput for fields that contradict one another."""


def rules_declared(kind: type[Rules]) -> Mapping[str, RuleInfo]:
    """Return the declarations of a rule set by the names of its fields, in their order."""
    return {each.name: each.metadata["rule"] for each in fields(kind) if "rule" in each.metadata}


def check_rule(kind: type[Rules], name: str, value: Any) -> None:
    """Raise InvalidInput if a field of this rule set cannot have this value."""
    declared = kind.__dataclass_fields__[name]
    info: RuleInfo = declared.metadata["rule"]
    given = str(declared.type)
    if value is None and "None" in given:
        return
    if info.least is not None:
        if given == "str":
            fits = isinstance(value, str) and len(value) >= info.least
        else:
            is_number = isinstance(value, int if "int" in given else int | float) and not isinstance(value, bool)
            fits = is_number and _least(info) <= value <= info.most
        if not fits:
            raise InvalidInput(f"{name} must be {_describe(info, given)}, not {value!r:.80}")
    if info.check is not None:
        info.check(value, name)


def _describe(info: RuleInfo, given: str) -> str:
    if given == "str":
        return f"a text of at least {info.least} characters"
    number = "a whole number" if "int" in given else "a number"
    return f"{number} from {_least(info)} to {info.most}" + (", or None" if "None" in given else "")


def _least(info: RuleInfo) -> Any:
    return 0 if info.zero else info.least


def require_web_url(value: str, name: str) -> None:
    """Raise InvalidInput for anything but the URL of a web page or a webhook."""
    if not value.startswith(("http://", "https://")):
        raise InvalidInput(f"{name} must begin with http:// or https://")
