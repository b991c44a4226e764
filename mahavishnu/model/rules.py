"""Rule sets: each field declares its default, range and description once, for the settings of the same name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any, ClassVar

from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.letter_parts import ResolutionStatus
from mahavishnu.model.record import Value

LONGEST_MINUTES = 10 * 366 * 1440


class RuleInfo(Value, frozen=True):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRules(Rules):
    """For how many days records are kept in the queue after their end; None for as long as the store lives.

    Letters go to the archive after that, former ones too, and lifecycle tasks; other records are deleted. Partitions of
    the archive are detached when `archive_months` are over. With `enabled` all of it is done in the background, every
    `interval_minutes`. `analytics_export` allows exports of the archive for analysis.
    """

    enabled: bool = rule(True, "Archive closed letters in the background when their time is over")
    completed_days: int | None = rule(30, "How long letters stay that were retried or resolved; null: always", 0, 36500)
    cancelled_days: int | None = rule(None, "How long cancelled letters stay; null: always", 0, 36500)
    permanently_failed_days: int | None = rule(None, "How long permanently failed letters stay; null: always", 0, 36500)
    history_days: int | None = rule(
        90, "How long former letters stay whose task failed again; null: as long as the letter", 0, 36500
    )
    archive_months: int | None = rule(
        6, "Detach a month of the archive after so many months; null: never", 1, 1200, zero=True
    )
    audit_days: int | None = rule(400, "How long audit entries are kept; null: always", 1, 36500, zero=True)
    runs_days: int | None = rule(90, "How long bulk runs are kept after their end; null: always", 1, 36500, zero=True)
    tasks_days: int | None = rule(
        30, "How long lifecycle tasks are kept after their end; null: always", 1, 36500, zero=True
    )
    revisions_days: int | None = rule(
        None, "How long it is kept what letters were before edits; null: as long as the letter", 1, 36500, zero=True
    )
    replies_days: int = rule(1, "How long answers to requests with an idempotency key are kept", 1, 30)
    batch_size: int = rule(1000, "How many letters are archived at once", 1, 10000)
    interval_minutes: int = rule(60, "How often it is looked for what is to be archived", 1, 1440)
    analytics_export: bool = rule(False, "Allow exports of the archive for analysis, step by step")

    def days(self, resolution: ResolutionStatus) -> int | None:
        """For how many days letters are kept whose case ended so.

        >>> rules = RetentionRules(completed_days=7)
        >>> rules.days(ResolutionStatus.REQUEUED), rules.days(ResolutionStatus.CANCELLED)
        (7, None)
        """
        if resolution not in _CLOSED:
            return None
        days: int | None = getattr(self, _KEPT_BY.get(resolution, "completed_days"))
        return days


BY_RETENTION = "retention"  # who acts where nobody asked for it

_CLOSED = tuple(
    status for status in ResolutionStatus if status not in (ResolutionStatus.PENDING, ResolutionStatus.DELETED)
)

_KEPT_BY = {
    ResolutionStatus.CANCELLED: "cancelled_days",
    ResolutionStatus.PERMANENTLY_FAILED: "permanently_failed_days",
}  # all others by `completed_days`
