"""Loads plugins from files, dotted names and entry points, each on its own, so that one cannot break another."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from mahavishnu.classify.hookspecs import PROJECT, hookimpl

GROUP = PROJECT
_LONGEST_PROBLEM = 500  # characters
_IMPL = f"{PROJECT}_impl"  # what pluggy's marker leaves on a function


@dataclass(frozen=True, slots=True)
class Candidate:
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
    """What pluggy can register: modules and objects as they are, an instance of a class, a function as a classifier."""
    if inspect.isclass(thing):
        return thing()
    if not inspect.isroutine(thing) and not (callable(thing) and not _has_hooks(thing)):
        return thing
    if hasattr(thing, _IMPL):
        name = getattr(thing, _IMPL).get("specname") or thing.__name__
        return SimpleNamespace(**{name: thing})
    return SimpleNamespace(classify_error=hookimpl(_classifier(thing)))


def _has_hooks(thing: Any) -> bool:
    return any(hasattr(getattr(thing, name, None), _IMPL) for name in dir(thing))


def _classifier(function: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """A plain function of `(error)` or `(error, context)` in the shape of the hook."""
    if len(required_arguments(function)) >= 2:
        return lambda error, context: function(error, context)
    return lambda error, context: function(error)


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
    frames = [frame for frame in traceback.extract_tb(problem.__traceback__) if not _is_machinery(frame.filename)]
    return f"{text} ({frames[-1].filename}, line {frames[-1].lineno})" if frames else text


def _is_machinery(filename: str) -> bool:
    if filename.startswith("<frozen") or f"importlib{'/'}" in filename.replace("\\", "/"):
        return True
    return filename in (__file__, str(Path(__file__).with_name("plugins.py")))
