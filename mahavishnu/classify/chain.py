"""Asks the plugins what kind of failure it was. There is always a verdict, whatever they do."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from time import perf_counter
from typing import Any, NamedTuple, TypeAlias

from msgspec.structs import replace

from mahavishnu.classify.fingerprint import fingerprint, fingerprint_of, named_fingerprint
from mahavishnu.classify.plugin_guard import Answer, Call, ask, ask_async
from mahavishnu.classify.plugins import Plugins, PluginState, Step, describe_problem
from mahavishnu.classify.verdict import NO_CONTEXT, NOBODY, Context, Verdict
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.letter_parts import ErrorCategory, Failure
from mahavishnu.model.record import Value

log = logging.getLogger(__name__)
MAX_FAULTS = 5
TIMEOUT = timedelta(milliseconds=250)
_UNKNOWN = Verdict(ErrorCategory.PERMANENT, "no rule and no plugin knows this error", NOBODY)


class PluginAnswer(Value, frozen=True):
    """Answer of one plugin. `counts`: its opinion became the verdict; `fault`: it did not answer properly."""

    plugin: str
    outcome: str
    verdict: Verdict | None = None
    seconds: float = 0.0
    counts: bool = False
    fault: bool = False


class Explanation(Value, frozen=True):
    """A verdict, and the answers of all plugins."""

    verdict: Verdict
    trail: tuple[PluginAnswer, ...]


class _Opinion(NamedTuple):
    """The opinion of a plugin, or the fault of its answer, or neither if it had none."""

    name: str
    seconds: float
    opinion: Any = None
    fault: str = ""


_Error: TypeAlias = "BaseException | str"
_Group: TypeAlias = "tuple[Step, ...]"


class _Hook(Value, frozen=True):
    """A hook, and how its answers are read. `read` returns the opinion, or raises InvalidInput for a wrong answer."""

    name: str
    read: Callable[[str, Any], Any]
    is_opinion: Callable[[Any], bool]
    wrap: Callable[[Call], Call] = lambda call: call  # adapts an implementation before it is called

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
        self._groups: dict[str, tuple[int, tuple[_Group, ...]]] = {}

    def use(self, other: Chain) -> None:
        """Take over the plugins and limits of `other`, and keep what was registered here at run time."""
        other.plugins.adopt(self.plugins)
        self.plugins, self.max_faults, self._timeout = other.plugins, other.max_faults, other._timeout
        self._groups = {}

    def classify(self, error: BaseException | str, context: Context | None = None) -> Verdict:
        """Return the verdict on a failure. Never raises; PERMANENT, by "nobody", for an unknown one.

        A plugin that hangs blocks the caller until the time-out: in an event loop, use `classify_async`.
        """
        return _verdict(self._ask(_CLASSIFY, _exception_or_text(error), context or NO_CONTEXT))

    async def classify_async(self, error: BaseException | str, context: Context | None = None) -> Verdict:
        """Like `classify`, without blocking the event loop."""
        error, context = _exception_or_text(error), context or NO_CONTEXT
        groups = self._steps(_CLASSIFY.name)
        if len(groups) == 1 and groups[0][0].trusted:  # only the built-in rules: there is nothing to wait for
            return _verdict(_ask_trusted(groups[0], (error, context)))
        return _verdict(await self._ask_async(_CLASSIFY, error, context))

    async def objection(self, task: Any, context: Context | None = None) -> str | None:
        """Return a plugin's objection to this task of a letter, with its name; None without one. Never raises."""
        opinions = await self._ask_async(_VALIDATE, task, context or NO_CONTEXT)
        return next((f"{each.name}: {each.opinion}" for each in opinions if each.opinion is not None), None)

    def explain(self, error: BaseException | str, context: Context | None = None) -> Explanation:
        """Return the verdict, and the answers of all plugins, even after the first opinion. No fault is counted."""
        opinions = self._ask(_CLASSIFY, _exception_or_text(error), context or NO_CONTEXT, everyone=True)
        first = next((index for index, each in enumerate(opinions) if each.opinion is not None), None)
        trail = [
            PluginAnswer(
                each.name,
                each.fault or (f"{each.opinion.category}: {each.opinion.reason}" if each.opinion else "no opinion"),
                each.opinion,
                each.seconds,
                counts=index == first,
                fault=bool(each.fault),
            )
            for index, each in enumerate(opinions)
        ]
        trail += [
            PluginAnswer(info.name, f"not asked, because it is {info.state}: {info.why}")
            for info in self.plugins.report()
            if info.state is not PluginState.OK
        ]
        return Explanation(_verdict(opinions), tuple(trail))

    @property
    def is_prompt(self) -> bool:
        """True if it answers at once, because there is no plugin to wait for."""
        groups = self._steps(_CLASSIFY.name)
        return len(groups) == 1 and groups[0][0].trusted and not self.names_causes

    @property
    def names_causes(self) -> bool:
        """True if a plugin is asked for fingerprints."""
        return bool(self._steps(_FINGERPRINT.name))

    def fingerprint(
        self, error: BaseException | str, context: Context | None = None, failure: Failure | None = None
    ) -> str:
        """Return the fingerprint, by a plugin or the usual one; `failure` is its record, if known. Never raises."""
        named = self.named_fingerprint(error, context)
        return named or (fingerprint_of(failure) if failure is not None else fingerprint(_exception_or_text(error)))

    def named_fingerprint(self, error: BaseException | str, context: Context | None = None) -> str | None:
        """The fingerprint by a plugin's name for the cause; None if no plugin names it. Never raises."""
        opinions = self._ask(_FINGERPRINT, _exception_or_text(error), context or NO_CONTEXT)
        return next((named_fingerprint(each.opinion) for each in opinions if each.opinion is not None), None)

    def _ask(self, hook: _Hook, error: _Error, context: Context, *, everyone: bool = False) -> list[_Opinion]:
        arguments = (error, context)
        trail: list[_Opinion] = []
        for group in self._steps(hook.name):
            if group[0].trusted:
                trail += _ask_trusted(group, arguments)
            else:
                is_enough = (lambda answer: False) if everyone else hook.is_enough
                answers = ask(_calls(hook, group), arguments, is_enough, self._timeout)
                is_trial = everyone or context.recalled
                trail += self._read_answers(hook, group, answers, is_trial=is_trial, everyone=everyone)
            if trail and trail[-1].opinion is not None and not everyone:
                break
        return trail

    async def _ask_async(self, hook: _Hook, subject: Any, context: Context) -> list[_Opinion]:
        arguments = (subject, context)
        trail: list[_Opinion] = []
        for group in self._steps(hook.name):
            if group[0].trusted:
                trail += _ask_trusted(group, arguments)
            else:
                answers = await ask_async(_calls(hook, group), arguments, hook.is_enough, self._timeout)
                trail += self._read_answers(hook, group, answers, is_trial=context.recalled)
            if trail and trail[-1].opinion is not None:
                break
        return trail

    def _read_answers(
        self, hook: _Hook, group: _Group, answers: list[Answer], *, is_trial: bool, everyone: bool = False
    ) -> list[_Opinion]:
        """The opinions and faults of a group. In a trial (or for a recalled error) faults are not counted."""
        trail: list[_Opinion] = []
        for answer in answers:
            step = group[answer.place]
            if not everyone and answer.value is None and answer.raised is None and not answer.hung:
                self.plugins.record_answer(step.name)
                continue  # no opinion, the usual case, kept cheap
            opinion = self._read_answer(hook, step.name, answer)
            trail.append(opinion)
            if is_trial:
                continue
            if opinion.fault:
                log.warning("plugin %s was passed over at %s: it %s", opinion.name, hook.name, opinion.fault)
                self.plugins.record_fault(opinion.name, opinion.fault, self.max_faults)
            else:
                self.plugins.record_answer(opinion.name)
        return trail

    def _read_answer(self, hook: _Hook, name: str, answer: Answer) -> _Opinion:
        if answer.hung:
            return _Opinion(name, answer.seconds, fault=f"took longer than {self._timeout * 1000:g} ms")
        if answer.raised is not None:
            return _Opinion(name, answer.seconds, fault=f"raised {describe_problem(answer.raised)}")
        if answer.value is None:
            return _Opinion(name, answer.seconds)
        try:
            return _Opinion(name, answer.seconds, hook.read(name, answer.value))
        except InvalidInput as problem:
            return _Opinion(name, answer.seconds, fault=str(problem))

    def _steps(self, hook: str) -> tuple[_Group, ...]:
        """The plugins in order; neighbours are grouped that are all trusted or all guarded."""
        revision = self.plugins.revision
        cached = self._groups.get(hook)
        if cached is None or cached[0] != revision:
            groups: list[_Group] = []
            for step in self.plugins.steps(hook):
                if groups and groups[-1][0].trusted is step.trusted:
                    groups[-1] += (step,)
                else:
                    groups.append((step,))
            cached = self._groups[hook] = (revision, tuple(groups))
        return cached[1]


def _exception_or_text(error: object) -> _Error:
    """The error itself, or its text if it is neither exception nor text."""
    return error if isinstance(error, BaseException | str) else "" if error is None else str(error)


def _ask_trusted(group: Sequence[Step], arguments: tuple[Any, Any]) -> list[_Opinion]:
    """Ask trusted plugins. They are called without a guard, and their answers are not checked."""
    trail: list[_Opinion] = []
    for step in group:
        started, opinion, fault = perf_counter(), None, ""
        try:
            opinion = step.call(*arguments)
        except BaseException as problem:  # an error's own `__str__` may raise anything
            fault = f"raised {describe_problem(problem)}"
        trail.append(_Opinion(step.name, perf_counter() - started, opinion, fault))
    return trail


def _calls(hook: _Hook, group: Sequence[Step]) -> list[Call]:
    return [hook.wrap(step.call) for step in group]


def _verdict(opinions: Sequence[_Opinion]) -> Verdict:
    for each in opinions:
        if each.opinion is not None:
            return each.opinion  # type: ignore[no-any-return]  # the hook's `read` has checked it
    return _UNKNOWN


def _read_verdict(name: str, value: Any) -> Verdict:
    if isinstance(value, Verdict):
        return value if value.author == name else replace(value, author=name)
    if isinstance(value, str):
        with suppress(Exception):  # no category, or a subclass of str that raises when compared
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


def _objection_from(call: Call) -> Call:
    """`call` with a ValueError as its objection: schema libraries raise them."""

    def call_or_object(task: Any, context: Any) -> Any:
        try:
            return call(task, context)
        except ValueError as problem:
            return str(problem) or type(problem).__name__

    return call_or_object


def _nonsense(value: Any, wanted: str) -> InvalidInput:
    if inspect.iscoroutine(value):
        value.close()
        return InvalidInput("is async; a hook has to be a plain function that answers at once")
    plain = type(value) in (str, int, float, bool)  # the code of any other may hang, and here nobody guards it
    shown = repr(value)[:200] if plain else f"something of type {type(value).__name__}"
    return InvalidInput(f"answered {shown}, which is not {wanted}")


_CATEGORIES = frozenset(ErrorCategory)
_CLASSIFY = _Hook("classify_error", _read_verdict, _is_verdict)
_FINGERPRINT = _Hook("fingerprint_failure", _read_text, _is_text)
_VALIDATE = _Hook("validate_task", _read_text, _is_text, _objection_from)
