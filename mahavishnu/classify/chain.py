"""Asking the plugins what kind of failure it was. The answer always comes, whatever they do."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from time import perf_counter
from typing import Any, NamedTuple, TypeAlias

from mahavishnu.classify.fingerprint import fingerprint, fingerprint_of, named_fingerprint
from mahavishnu.classify.plugin_guard import Answer, Call, ask, ask_async
from mahavishnu.classify.plugin_loader import where_it_broke
from mahavishnu.classify.plugins import Plugins, PluginState, Step
from mahavishnu.classify.verdict import NO_CONTEXT, NOBODY, Context, Verdict
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.letter_parts import ErrorCategory, Failure

log = logging.getLogger(__name__)
MAX_FAULTS = 5
TIMEOUT = timedelta(milliseconds=250)
_UNKNOWN = Verdict(ErrorCategory.PERMANENT, "no rule and no plugin knows this error", NOBODY)


@dataclass(frozen=True, slots=True)
class Said:
    """What came of asking one plugin. `counts`: its opinion became the verdict; `fault`: it did not answer properly."""

    plugin: str
    outcome: str
    verdict: Verdict | None = None
    seconds: float = 0.0
    counts: bool = False
    fault: bool = False


@dataclass(frozen=True, slots=True)
class Explanation:
    """A verdict, and how it came about."""

    verdict: Verdict
    trail: tuple[Said, ...]


class _Heard(NamedTuple):
    """A plugin's opinion, or what was wrong with its answer, or neither."""

    name: str
    seconds: float
    opinion: Any = None
    fault: str = ""


_Error: TypeAlias = "BaseException | str"
_Group: TypeAlias = "tuple[Step, ...]"


@dataclass(frozen=True, slots=True)
class _Hook:
    """How answers to a hook are read. `read` returns the opinion, or raises InvalidInput for nonsense."""

    name: str
    read: Callable[[str, Any], Any]
    is_opinion: Callable[[Any], bool]
    asked: Callable[[Call], Call] = lambda call: call  # how an implementation is called

    def is_enough(self, answer: Answer) -> bool:
        return answer.value is not None and self.is_opinion(answer.value)


class Chain:
    """Asks one plugin after the other; the first opinion counts.

    A plugin that raises, takes longer than `timeout` or answers nonsense is passed over, named in the log and counted;
    after `max_faults` such times in a row it is quarantined. One chain can be used by many threads and tasks.

    >>> verdict = Chain().classify(ConnectionResetError("peer went away"))
    >>> verdict.category, verdict.reason, verdict.author
    (<ErrorCategory.NETWORK: 'network'>, 'ConnectionResetError', 'built-in')
    """

    def __init__(
        self, plugins: Plugins | None = None, *, timeout: timedelta = TIMEOUT, max_faults: int = MAX_FAULTS
    ) -> None:
        if timeout <= timedelta(0) or max_faults < 1:
            raise InvalidInput("a chain needs a timeout above zero, and max_faults of at least 1")
        self.plugins = plugins or Plugins()
        self.max_faults = max_faults
        self._timeout = timeout.total_seconds()
        self._known: dict[str, tuple[int, tuple[_Group, ...]]] = {}

    def use(self, other: Chain) -> None:
        """Ask the plugins of `other` from now on, as patiently, and those that were registered here at run time."""
        other.plugins.adopt(self.plugins)
        self.plugins, self.max_faults, self._timeout = other.plugins, other.max_faults, other._timeout
        self._known = {}

    def classify(self, error: BaseException | str, context: Context | None = None) -> Verdict:
        """What kind of failure it was. Never raises; PERMANENT, by "nobody", if nobody knows.

        Every plugin that hangs holds up the caller for the timeout: where an event loop is, use `classify_async`.
        """
        return _verdict(self._hear(_CLASSIFY, _taken(error), context or NO_CONTEXT))

    async def classify_async(self, error: BaseException | str, context: Context | None = None) -> Verdict:
        """As `classify`, without holding up the event loop for plugins."""
        taken, context = _taken(error), context or NO_CONTEXT
        groups = self._asked(_CLASSIFY.name)
        if len(groups) == 1 and groups[0][0].trusted:  # nobody has given us a plugin: there is nothing to wait for
            return _verdict(_own(groups[0], (taken, context)))
        return _verdict(await self._hear_async(_CLASSIFY, taken, context))

    async def objection(self, task: Any, context: Context | None = None) -> str | None:
        """Why a plugin thinks that this should not be a letter's task, naming it; None if none does. Never raises."""
        heard = await self._hear_async(_VALIDATE, task, context or NO_CONTEXT)
        return next((f"{each.name}: {each.opinion}" for each in heard if each.opinion is not None), None)

    def explain(self, error: BaseException | str, context: Context | None = None) -> Explanation:
        """The verdict, and what every plugin says, also after the one whose opinion counts. No fault is counted."""
        heard = self._hear(_CLASSIFY, _taken(error), context or NO_CONTEXT, everyone=True)
        first = next((index for index, each in enumerate(heard) if each.opinion is not None), None)
        trail = [
            Said(
                each.name,
                each.fault or (f"{each.opinion.category}: {each.opinion.reason}" if each.opinion else "no opinion"),
                each.opinion,
                each.seconds,
                counts=index == first,
                fault=bool(each.fault),
            )
            for index, each in enumerate(heard)
        ]
        trail += [
            Said(info.name, f"not asked, because it is {info.state}: {info.why}")
            for info in self.plugins.report()
            if info.state is not PluginState.OK
        ]
        return Explanation(_verdict(heard), tuple(trail))

    @property
    def is_prompt(self) -> bool:
        """Whether it answers at once: nobody has given us a plugin that would have to be waited for."""
        groups = self._asked(_CLASSIFY.name)
        return len(groups) == 1 and groups[0][0].trusted and not self.names_causes

    @property
    def names_causes(self) -> bool:
        """Whether a plugin is asked for fingerprints."""
        return bool(self._asked(_FINGERPRINT.name))

    def fingerprint(
        self, error: BaseException | str, context: Context | None = None, failure: Failure | None = None
    ) -> str:
        """What failures of the same cause have in common: a plugin's name for it, or the usual one. Never raises.

        `failure` is the record of the error, where it has been made already.
        """
        named = self.named_fingerprint(error, context)
        return named or (fingerprint_of(failure) if failure is not None else fingerprint(_taken(error)))

    def named_fingerprint(self, error: BaseException | str, context: Context | None = None) -> str | None:
        """The fingerprint by a plugin's name for the cause; None if no plugin names it. Never raises."""
        heard = self._hear(_FINGERPRINT, _taken(error), context or NO_CONTEXT)
        return next((named_fingerprint(each.opinion) for each in heard if each.opinion is not None), None)

    def _hear(self, hook: _Hook, error: _Error, context: Context, *, everyone: bool = False) -> list[_Heard]:
        arguments = (error, context)
        trail: list[_Heard] = []
        for group in self._asked(hook.name):
            if group[0].trusted:
                trail += _own(group, arguments)
            else:
                is_enough = _never if everyone else hook.is_enough
                answers = ask(_calls(hook, group), arguments, is_enough, self._timeout)
                trail += self._heard(hook, group, answers, is_trial=everyone or context.recalled, everyone=everyone)
            if trail and trail[-1].opinion is not None and not everyone:
                break
        return trail

    async def _hear_async(self, hook: _Hook, subject: Any, context: Context) -> list[_Heard]:
        arguments = (subject, context)
        trail: list[_Heard] = []
        for group in self._asked(hook.name):
            if group[0].trusted:
                trail += _own(group, arguments)
            else:
                answers = await ask_async(_calls(hook, group), arguments, hook.is_enough, self._timeout)
                trail += self._heard(hook, group, answers, is_trial=context.recalled)
            if trail and trail[-1].opinion is not None:
                break
        return trail

    def _heard(
        self, hook: _Hook, group: _Group, answers: list[Answer], *, is_trial: bool, everyone: bool = False
    ) -> list[_Heard]:
        """What the answers of a group come to. In a trial, as of an error that lost its attributes, faults are none."""
        trail: list[_Heard] = []
        for answer in answers:
            step = group[answer.place]
            if not everyone and answer.value is None and answer.raised is None and not answer.hung:
                self.plugins.answered(step.name)
                continue  # no opinion, as usual: nothing is made of it, because this is done for every plugin
            heard = self._read(hook, step.name, answer)
            trail.append(heard)
            if is_trial:
                continue
            if heard.fault:
                log.warning("plugin %s was passed over at %s: it %s", heard.name, hook.name, heard.fault)
                self.plugins.faulted(heard.name, heard.fault, self.max_faults)
            else:
                self.plugins.answered(heard.name)
        return trail

    def _read(self, hook: _Hook, name: str, answer: Answer) -> _Heard:
        if answer.hung:
            return _Heard(name, answer.seconds, fault=f"took longer than {self._timeout * 1000:g} ms")
        if answer.raised is not None:
            return _Heard(name, answer.seconds, fault=f"raised {where_it_broke(answer.raised)}")
        if answer.value is None:
            return _Heard(name, answer.seconds)
        try:
            return _Heard(name, answer.seconds, hook.read(name, answer.value))
        except InvalidInput as problem:
            return _Heard(name, answer.seconds, fault=str(problem))

    def _asked(self, hook: str) -> tuple[_Group, ...]:
        """The plugins in order, those next to each other that need no guard, or do, together."""
        revision = self.plugins.revision
        known = self._known.get(hook)
        if known is None or known[0] != revision:
            groups: list[_Group] = []
            for step in self.plugins.steps(hook):
                if groups and groups[-1][0].trusted is step.trusted:
                    groups[-1] += (step,)
                else:
                    groups.append((step,))
            known = self._known[hook] = (revision, tuple(groups))
        return known[1]


def _taken(error: object) -> _Error:
    """The error as it came, or its text if it is neither text nor exception."""
    return error if isinstance(error, BaseException | str) else "" if error is None else str(error)


def _own(group: Sequence[Step], arguments: tuple[Any, Any]) -> list[_Heard]:
    """What our own rules say: they are not guarded, and what they answer needs no check."""
    trail: list[_Heard] = []
    for step in group:
        started, opinion, fault = perf_counter(), None, ""
        try:
            opinion = step.call(*arguments)
        except BaseException as problem:  # an error's own `__str__` may raise anything
            fault = f"raised {where_it_broke(problem)}"
        trail.append(_Heard(step.name, perf_counter() - started, opinion, fault))
    return trail


def _calls(hook: _Hook, group: Sequence[Step]) -> list[Call]:
    return [hook.asked(step.call) for step in group]


def _never(answer: Answer) -> bool:
    return False


def _verdict(heard: Sequence[_Heard]) -> Verdict:
    for each in heard:
        if each.opinion is not None:
            return each.opinion  # type: ignore[no-any-return]  # the hook's own `read` has made it
    return _UNKNOWN


def _read_verdict(name: str, value: Any) -> Verdict:
    if isinstance(value, Verdict):
        return value if value.author == name else replace(value, author=name)
    if isinstance(value, str):
        with suppress(Exception):  # no category, or a text of a kind that runs code when it is compared
            return Verdict(ErrorCategory(value), f"{name} says so", name)
    raise _nonsense(value, f"a category ({', '.join(ErrorCategory)}), a Verdict or None")


def _is_verdict(value: Any) -> bool:
    return isinstance(value, Verdict) or (isinstance(value, str) and value in _CATEGORIES)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _read_text(name: str, value: Any) -> str:
    if isinstance(value, str) and value:
        return value
    raise _nonsense(value, "a text or None")


def _objecting(call: Call) -> Call:
    """Schema libraries raise what they object to."""

    def asked(task: Any, context: Any) -> Any:
        try:
            return call(task, context)
        except ValueError as problem:
            return str(problem) or type(problem).__name__

    return asked


def _nonsense(value: Any, wanted: str) -> InvalidInput:
    if inspect.iscoroutine(value):
        value.close()
        return InvalidInput("is async; a hook has to be a plain function that answers at once")
    try:
        shown = repr(value)[:200]
    except Exception:
        shown = f"something of type {type(value).__name__}"
    return InvalidInput(f"answered {shown}, which is not {wanted}")


_CATEGORIES = frozenset(ErrorCategory)
_CLASSIFY = _Hook("classify_error", _read_verdict, _is_verdict)
_FINGERPRINT = _Hook("fingerprint_failure", _read_text, _is_text)
_VALIDATE = _Hook("validate_task", _read_text, _is_text, _objecting)
