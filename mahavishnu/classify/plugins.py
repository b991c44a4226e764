"""Plugins: found, loaded each on its own, ordered with pluggy, and quarantined if they fail too often."""

from __future__ import annotations

import difflib
import importlib
import importlib.metadata
import importlib.util
import inspect
import logging
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Self

import pluggy
from msgspec import Struct
from msgspec.structs import replace

from mahavishnu.classify import hookspecs
from mahavishnu.classify.hookspecs import PROJECT, hookimpl
from mahavishnu.classify.verdict import BUILT_IN, Context, Verdict
from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.record import Value

if TYPE_CHECKING:
    from mahavishnu.classify.yaml_rules import YamlRules


log = logging.getLogger(__name__)
YAML = "yaml-rules"
GROUP = PROJECT
_LONGEST_PROBLEM = 500  # characters
_IMPL = f"{PROJECT}_impl"  # what pluggy's marker leaves on a function


class Candidate(Value, frozen=True):
    """A plugin that was found, and how to load it."""

    name: str
    origin: str
    load: Callable[[], Any]
    version: str | None = None


def from_entry_points() -> Iterator[Candidate]:
    """The plugins in the entry-point group `mahavishnu` of installed packages, each once, by name."""
    found = {(point.name, point.value): point for point in importlib.metadata.entry_points(group=GROUP)}
    for (name, _), point in sorted(found.items()):
        package = point.dist.name if point.dist else "an unknown package"
        yield Candidate(name, f"entry point of {package}", point.load, point.dist.version if point.dist else None)


def from_directory(directory: Path) -> Iterator[Candidate]:
    """The Python files and packages directly in the directory, by name, but none that begins with `_` or `.`."""
    for path in sorted(directory.iterdir()) if directory.is_dir() else ():
        if path.name.startswith(("_", ".")):
            continue
        if path.suffix == ".py":
            yield Candidate(path.stem, str(path), _file_loader(path, None))
        elif (path / "__init__.py").is_file():
            yield Candidate(path.name, str(path), _file_loader(path / "__init__.py", path))


def from_dotted_name(name: str) -> Candidate:
    """`package.module`, or `package.module:name` for a function, class or object in it."""

    def load() -> Any:
        module, _, attribute = name.partition(":")
        found: Any = importlib.import_module(module)
        for part in attribute.split(".") if attribute else ():
            found = getattr(found, part)
        return found

    return Candidate(name, "settings", load)


def _file_loader(path: Path, package: Path | None) -> Callable[[], ModuleType]:
    def load() -> ModuleType:
        name = f"mahavishnu_plugin_{(package or path).stem}"
        for loaded in [each for each in sys.modules if each == name or each.startswith(f"{name}.")]:
            del sys.modules[loaded]  # so that a changed file is loaded again
        places = [str(package)] if package else None
        spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=places)
        if spec is None or spec.loader is None:
            raise ImportError(f"{path} cannot be imported")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            # Cached bytecode is not used: a file changed twice within a second would seem unchanged.
            exec(compile(path.read_bytes(), str(path), "exec", dont_inherit=True), module.__dict__)
        except BaseException:
            del sys.modules[name]
            raise
        return module

    return load


def as_plugin(thing: Any) -> Any:
    """Return what pluggy can register: modules and objects unchanged, an instance of a class, a function as a hook."""
    if inspect.isclass(thing):
        return thing()
    if not inspect.isroutine(thing) and not callable(thing):
        return thing
    if not inspect.isroutine(thing) and any(hasattr(getattr(thing, name, None), _IMPL) for name in dir(thing)):
        return thing
    if hasattr(thing, _IMPL):
        name = getattr(thing, _IMPL).get("specname") or thing.__name__
        return SimpleNamespace(**{name: thing})
    if len(required_arguments(thing)) >= 2:
        return SimpleNamespace(classify_error=hookimpl(lambda error, context: thing(error, context)))
    return SimpleNamespace(classify_error=hookimpl(lambda error, context: thing(error)))


def required_arguments(function: Callable[..., Any]) -> list[str]:
    """The names of the arguments without a default."""
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return [each.name for each in parameters if each.kind in positional and each.default is each.empty]


def describe_problem(problem: BaseException) -> str:
    """The problem in one line, with the file and line where it was raised.

    >>> describe_problem(SyntaxError("invalid syntax", ("plugins/stripe.py", 3, 1, "def")))
    'SyntaxError: invalid syntax (plugins/stripe.py, line 3)'
    """
    if isinstance(problem, SyntaxError) and problem.filename:
        return f"{type(problem).__name__}: {problem.msg} ({problem.filename}, line {problem.lineno})"
    text = "".join(traceback.format_exception_only(problem)).strip().splitlines()[-1][:_LONGEST_PROBLEM]
    files = [(frame.filename.replace("\\", "/"), frame) for frame in traceback.extract_tb(problem.__traceback__)]
    machinery = ("<frozen", __file__.replace("\\", "/"))
    frames = [frame for file, frame in files if not file.startswith(machinery) and "importlib/" not in file]
    return f"{text} ({frames[-1].filename}, line {frames[-1].lineno})" if frames else text


class PluginState(StrEnum):
    """State of a plugin: only those that are `ok` are asked."""

    OK = "ok"
    BROKEN = "broken"  #: it could not be loaded, or its hooks do not fit
    DISABLED = "disabled"  #: by the settings or at run time
    QUARANTINED = "quarantined"  #: it failed too often in a row


class PluginInfo(Value, frozen=True):
    """The state of one plugin. `faults` counts how often it was passed over."""

    name: str
    origin: str
    version: str | None
    hooks: tuple[str, ...]
    state: PluginState
    why: str = ""
    faults: int = 0


class _Member(Struct):
    candidate: Candidate
    plugin: Any = None
    hooks: tuple[str, ...] = ()
    state: PluginState = PluginState.OK
    why: str = ""
    faults: int = 0
    streak: int = 0

    def info(self) -> PluginInfo:
        found = self.candidate
        version = found.version or getattr(self.plugin, "__version__", None)
        return PluginInfo(found.name, found.origin, version, self.hooks, self.state, self.why, self.faults)


class Step(Value, frozen=True):
    """One plugin's implementation of one hook, ready to be called. Trusted ones are called without a guard."""

    name: str
    call: Callable[[Any, Any], Any]
    trusted: bool


class BuiltInRules:
    """The built-in rules as a plugin, asked last but for `trylast` ones. Their tables load at the first failure."""

    @cached_property
    def _classify(self) -> Callable[[BaseException | str, datetime | None], Verdict | None]:
        from mahavishnu.classify.builtin import rules

        return rules.classify

    @hookimpl(trylast=True)
    def classify_error(self, error: BaseException | str, context: Context) -> Verdict | None:
        return self._classify(error, context.now)


class Plugins:
    """The plugins of one process. Without arguments there are only the built-in rules.

    Asked first are those registered at run time, the latest first; then those of the settings, of the directory and
    of installed packages, each in their own order; then the built-in rules. `tryfirst` and `trylast` overrule that,
    and the rules from YAML are asked before all others.

    >>> plugins = Plugins()
    >>> plugins.register(lambda error: "transient" if "flaky" in str(error) else None, "flaky")
    'flaky'
    >>> [info.name for info in plugins.report()]
    ['flaky', 'built-in']
    """

    def __init__(self, *, disabled: Sequence[str] = ()) -> None:
        self.revision = 0  # goes up whenever the plugins or their order change
        self._disabled = set(disabled)
        self._sources: Callable[[], Iterator[Candidate]] = lambda: iter(())
        self._rules: Callable[[], YamlRules | None] = lambda: None
        self._at_run_time: list[Candidate] = []
        self._lock = threading.RLock()
        self._load()

    @classmethod
    def discover(
        cls,
        *,
        directory: Path | str | None = None,
        names: Sequence[str] = (),
        rules: Sequence[Mapping[Any, Any]] | Path | str = (),
        disabled: Sequence[str] = (),
        entry_points: bool = True,
    ) -> Self:
        """Find the plugins of installed packages, of a directory, of dotted `names`, and rules (a list or a YAML file).

        A plugin that cannot be loaded is listed as broken in the report. Raises InvalidInput for rules that are wrong.
        """

        def sources() -> Iterator[Candidate]:
            yield from map(from_dotted_name, names)
            if directory is not None:
                yield from from_directory(Path(directory))
            if entry_points:
                yield from from_entry_points()

        self = cls(disabled=disabled)
        self._sources = sources
        if rules:
            from mahavishnu.classify.yaml_rules import YamlRules  # with tables of the built-in rules

            self._rules = lambda: YamlRules.of(rules)
        self.reload()
        return self

    def reload(self) -> None:
        """Load everything again, and end quarantines; plugins of run time stay. Raises InvalidInput for wrong rules."""
        with self._lock:
            self._load()

    def register(self, plugin: Any, name: str | None = None) -> str:
        """Add a plugin now: an object, module or class with hooks, or a function `(error)` or `(error, context)`.

        Returns its name. Raises InvalidInput if it has no fitting hook or the name is taken.
        """
        name = name or getattr(plugin, "__name__", None) or type(plugin).__name__
        candidate = Candidate(name, "registered at run time", lambda: plugin)
        with self._lock:
            if name in self._members:
                raise InvalidInput(f"there is a plugin {name!r} already, from {self._members[name].candidate.origin}")
            member = self._add(candidate)
            if member.state is PluginState.BROKEN:
                del self._members[name]
                raise InvalidInput(f"plugin {name!r} cannot be registered: {member.why}")
            self._at_run_time.append(candidate)
            self.revision += 1
        return name

    def adopt(self, other: Plugins) -> None:
        """Register the run-time plugins of `other` here too."""
        with self._lock:
            for candidate in other._at_run_time:
                if candidate.name not in self._members:
                    self._add(candidate)
                    self._at_run_time.append(candidate)
            self.revision += 1

    def unregister(self, name: str) -> None:
        """Remove a plugin; the next `reload` brings it back unless it was registered at run time."""
        with self._lock:
            self._withdraw(self._member(name))
            self._faulty.discard(name)
            del self._members[name]
            self._at_run_time = [candidate for candidate in self._at_run_time if candidate.name != name]
            self.revision += 1

    def disable(self, name: str) -> None:
        """Stop asking this plugin."""
        with self._lock:
            member = self._member(name)
            self._disabled.add(name)
            self._withdraw(member)
            member.state, member.why = PluginState.DISABLED, "disabled at run time"
            self.revision += 1

    def enable(self, name: str) -> None:
        """Ask this plugin again: it is no longer disabled or quarantined."""
        with self._lock:
            member = self._member(name)
            self._disabled.discard(name)
            if member.state in (PluginState.DISABLED, PluginState.QUARANTINED):
                self._withdraw(member)
                self._add(member.candidate)
                self.revision += 1

    def report(self) -> tuple[PluginInfo, ...]:
        """Every plugin: first those that are asked, in their order, then the others, each with the reason."""
        with self._lock:
            asked = [step.name for hook in self._hooks() for step in self.steps(hook)]
            order = {name: place for place, name in reversed(list(enumerate(asked)))}
            members = sorted(self._members.values(), key=lambda each: order.get(each.candidate.name, len(order)))
            return tuple(member.info() for member in members)

    def steps(self, hook: str) -> tuple[Step, ...]:
        """The implementations of a hook, in the order in which they are asked."""
        with self._lock:
            caller = getattr(self._manager.hook, hook)
            if caller.spec is None:  # an optional hook, which is never called
                return ()
            return tuple(
                Step(each.plugin_name, _adapt(each, caller.spec.argnames), each.plugin_name == BUILT_IN)
                for each in reversed(caller.get_hookimpls())
                if self._members[each.plugin_name].state is PluginState.OK
            )

    def offers(self, hook: str) -> list[tuple[str, str, Any]]:
        """Return what plugins offer through such a hook, as (plugin, name, thing), in order; log broken offers."""
        found: list[tuple[str, str, Any]] = []
        for step in self.steps(hook):
            try:
                found += [(step.name, str(name), thing) for name, thing in dict(step.call(None, None)).items()]
            except Exception as problem:
                log.warning("plugin %s was passed over at %s: it raised %s", step.name, hook, describe_problem(problem))
        return found

    def record_answer(self, name: str) -> None:
        """Note that a plugin answered properly: with an opinion, or with None for no opinion."""
        if name in self._faulty:
            self._faulty.discard(name)
            if (member := self._members.get(name)) is not None:
                member.streak = 0

    def record_fault(self, name: str, why: str, limit: int) -> None:
        """Note that a plugin was passed over. After `limit` faults in a row it is quarantined."""
        with self._lock:
            member = self._members.get(name)
            if member is None or name == BUILT_IN:
                return
            self._faulty.add(name)
            member.faults += 1
            member.streak += 1
            if member.streak >= limit and member.state is PluginState.OK:
                member.state = PluginState.QUARANTINED
                member.why = f"{member.streak} faults in a row, the last one: {why}"
                self.revision += 1
                log.warning("plugin %s is quarantined after %s", name, member.why)

    def _load(self) -> None:
        yaml = self._rules()  # first, because it may raise
        self._manager = pluggy.PluginManager(PROJECT)
        self._manager.add_hookspecs(hookspecs)
        self._members: dict[str, _Member] = {}
        self._faulty: set[str] = set()  # names of plugins whose last answer was a fault
        # pluggy asks the last one registered first.
        self._add(Candidate(BUILT_IN, "mahavishnu", BuiltInRules))
        origins = {
            BUILT_IN: "mahavishnu",
            YAML: "the settings",
            **{each.name: each.origin for each in self._at_run_time},
        }
        found = [*self._sources()]
        chosen = [each for each in found if origins.setdefault(each.name, each.origin) == each.origin]
        for candidate in [*reversed(chosen), *self._at_run_time]:
            self._add(candidate)
        if yaml is not None:
            self._add(Candidate(YAML, yaml.origin, lambda: yaml))
        for candidate in found:
            if candidate not in chosen:
                self._report_clash(candidate, origins[candidate.name])
        self.revision += 1

    def _report_clash(self, candidate: Candidate, taken_by: str) -> None:
        known_as = f"{candidate.name} ({candidate.origin})"
        why = f"the name is taken by the plugin from {taken_by}"
        self._members[known_as] = _Member(replace(candidate, name=known_as), state=PluginState.BROKEN, why=why)
        log.warning("plugin %s is not used: %s", known_as, why)

    def _add(self, candidate: Candidate) -> _Member:
        member = self._members[candidate.name] = _Member(candidate)
        if candidate.name in self._disabled:
            member.state, member.why = PluginState.DISABLED, "named in disabled_plugins"
            return member
        try:
            member.plugin = as_plugin(candidate.load())
            member.hooks = self._check_hooks(member.plugin)
            self._manager.register(member.plugin, candidate.name)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as problem:  # whatever it raises, the others must still be loaded
            self._withdraw(member)
            why = str(problem) if isinstance(problem, InvalidInput) else describe_problem(problem)
            member.state, member.why = PluginState.BROKEN, why
            log.warning("plugin %s from %s is broken: %s", candidate.name, candidate.origin, why)
        return member

    def _withdraw(self, member: _Member) -> None:
        if self._manager.has_plugin(member.candidate.name):
            self._manager.unregister(name=member.candidate.name)

    def _check_hooks(self, plugin: Any) -> tuple[str, ...]:
        """Return the hooks that the plugin implements. Raises InvalidInput if one is unknown or cannot be called."""
        hooks = self._hooks()
        found: list[str] = []
        for name in dir(plugin):
            options = self._manager.parse_hookimpl_opts(plugin, name)
            if options is None:
                if name in hooks and callable(getattr(plugin, name)):
                    raise InvalidInput(f"{name} is not marked with @hookimpl")
                continue
            hook = options.get("specname") or name
            if hook not in hooks:
                if not options.get("optionalhook"):
                    near = difflib.get_close_matches(hook, hooks, 1)
                    hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(hooks)}"
                    raise InvalidInput(f"there is no hook {hook}{hint}")
                continue
            if options.get("wrapper") or options.get("hookwrapper"):
                raise InvalidInput(f"{name} is a wrapper; each plugin is asked for itself, so there is nothing to wrap")
            given = getattr(self._manager.hook, hook).spec.argnames
            unknown = [argument for argument in required_arguments(getattr(plugin, name)) if argument not in given]
            if unknown:
                raise InvalidInput(f"{name} asks for {', '.join(unknown)}, but is called with {', '.join(given)}")
            found.append(hook)
        if not found:
            raise InvalidInput(f"it implements none of the hooks {', '.join(hooks)}")
        return tuple(found)

    def _hooks(self) -> tuple[str, ...]:
        return tuple(sorted(vars(self._manager.hook)))

    def _member(self, name: str) -> _Member:
        if name not in self._members:
            near = difflib.get_close_matches(name, self._members, 1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(self._members)}"
            raise InvalidInput(f"there is no plugin {name!r}{hint}")
        return self._members[name]


def _adapt(implementation: pluggy.HookImpl, given: Sequence[str]) -> Callable[[Any, Any], Any]:
    """The implementation as a function of all arguments `given` to the hook; it may take fewer, in any order."""
    function, names = implementation.function, implementation.argnames
    if len(names) == 2 and names == tuple(given):
        return function
    if len(names) == 1 and names == tuple(given[:1]):
        return lambda error, context: function(error)
    places = [list(given).index(name) for name in names]
    return lambda *arguments: function(*(arguments[place] for place in places))
