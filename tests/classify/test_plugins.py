"""Plugins: found in four places, loaded one by one, reported on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import pytest

from mahavishnu import ErrorCategory, hookimpl
from mahavishnu.classify.chain import Chain
from mahavishnu.classify.plugins import PluginInfo, Plugins, PluginState
from mahavishnu.model.errors import InvalidInput

GOOD = """
    from mahavishnu import ErrorCategory, hookimpl
    __version__ = "1.2"

    @hookimpl
    def classify_error(error, context):
        return ErrorCategory.{category} if "{word}" in str(error) else None
"""


def write(directory: Path, name: str, text: str) -> Path:
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dedent(text))
    return path


def good(directory: Path, name: str, word: str = "odd", category: str = "RESOURCE") -> Path:
    return write(directory, name, GOOD.format(word=word, category=category))


def info_of(plugins: Plugins, name: str) -> PluginInfo:
    return next(info for info in plugins.report() if info.name == name)


@pytest.fixture(autouse=True)
def imports_are_undone() -> Iterator[None]:
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith(("mahavishnu_plugin_", "acme")):
            del sys.modules[name]


@pytest.fixture
def directory_plugins(tmp_path: Path) -> Plugins:
    return Plugins.discover(directory=tmp_path, entry_points=False)


def test_without_plugins_there_are_the_built_in_rules() -> None:
    (info,) = Plugins().report()
    assert (info.name, info.origin, info.hooks, info.state) == ("built-in", "mahavishnu", ("classify_error",), "ok")


def test_a_file_in_the_directory_is_a_plugin(tmp_path: Path) -> None:
    path = good(tmp_path, "stripe.py")
    plugins = Plugins.discover(directory=tmp_path, entry_points=False)
    assert info_of(plugins, "stripe") == PluginInfo("stripe", str(path), "1.2", ("classify_error",), PluginState.OK)
    assert Chain(plugins).classify("odd").author == "stripe"


def test_a_package_in_the_directory_is_a_plugin_too(tmp_path: Path) -> None:
    write(tmp_path, "shop/__init__.py", "from .rules import classify_error")
    good(tmp_path, "shop/rules.py", "shop")
    (tmp_path / "shop-data").mkdir()
    good(tmp_path, "_helper.py")
    good(tmp_path, ".hidden.py")
    write(tmp_path, "notes.txt", "no plugin")
    plugins = Plugins.discover(directory=tmp_path, entry_points=False)
    assert [info.name for info in plugins.report()] == ["shop", "built-in"]
    assert Chain(plugins).classify("shop").author == "shop"


def test_a_missing_directory_is_ignored(tmp_path: Path) -> None:
    assert len(Plugins.discover(directory=tmp_path / "none", entry_points=False).report()) == 1


def test_a_new_file_is_loaded_by_a_reload(tmp_path: Path, directory_plugins: Plugins) -> None:
    chain = Chain(directory_plugins)
    assert chain.classify("odd").author == "nobody"
    good(tmp_path, "late.py")
    assert chain.classify("odd").author == "nobody"
    directory_plugins.reload()
    assert chain.classify("odd").author == "late"
    good(tmp_path, "late.py", category="TRANSIENT")
    directory_plugins.reload()
    assert chain.classify("odd").category == "transient"
    (tmp_path / "late.py").unlink()
    directory_plugins.reload()
    assert chain.classify("odd").author == "nobody"


def test_a_reload_keeps_what_was_registered_and_ends_quarantines(directory_plugins: Plugins) -> None:
    directory_plugins.register(lambda error: "flaky", "fool")
    chain = Chain(directory_plugins, max_faults=1)
    chain.classify("x")
    assert info_of(directory_plugins, "fool").state == "quarantined"
    directory_plugins.reload()
    assert info_of(directory_plugins, "fool").state == "ok"


BROKEN = {
    "syntax": ("def classify_error(:\n", "SyntaxError: invalid syntax ({path}, line 1)"),
    "imports": ("\nimport no_such_module_anywhere\n", "No module named 'no_such_module_anywhere' ({path}, line 2)"),
    "raises": ("def f():\n    raise RuntimeError('not today')\nf()\n", "RuntimeError: not today ({path}, line 2)"),
    "exits": ("import sys\nsys.exit(3)\n", "SystemExit: 3 ({path}, line 2)"),
    "cancels": ("import asyncio\nraise asyncio.CancelledError\n", "asyncio.exceptions.CancelledError ({path}, line 2)"),
    "empty": ("", "it implements none of the hooks adapters, backoffs, classify_error, deliver, fingerprint_failure"),
    "unmarked": ("def classify_error(error, context): ...\n", "classify_error is not marked with @hookimpl"),
    "misnamed": (
        "from mahavishnu import hookimpl\n@hookimpl\ndef clasify_error(error): ...\n",
        "there is no hook clasify_error; did you mean classify_error?",
    ),
    "arguments": (
        "from mahavishnu import hookimpl\n@hookimpl\ndef classify_error(exception, context): ...\n",
        "classify_error asks for exception, but is called with error, context",
    ),
    "wraps": (
        "from mahavishnu import hookimpl\n@hookimpl(wrapper=True)\ndef classify_error(error):\n    return (yield)\n",
        "classify_error is a wrapper",
    ),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_plugin_is_reported_and_the_others_still_load(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    text, why = BROKEN[kind]
    path = write(tmp_path, "broken.py", text)
    good(tmp_path, "agood.py")
    good(tmp_path, "zgood.py", "other")
    plugins = Plugins.discover(directory=tmp_path, entry_points=False)
    info = info_of(plugins, "broken")
    assert info.state == "broken" and why.format(path=path) in info.why
    assert "broken" in caplog.text and why.format(path=path) in caplog.text
    assert Chain(plugins).classify("odd").author == "agood"
    assert Chain(plugins).classify("other").author == "zgood"


def test_an_unknown_hook_may_be_optional(tmp_path: Path) -> None:
    text = """
        from mahavishnu import hookimpl

        @hookimpl(optionalhook=True)
        def of_a_later_version(letter): ...

        @hookimpl
        def classify_error(error):
            return "resource"
    """
    write(tmp_path, "modern.py", text)
    plugins = Plugins.discover(directory=tmp_path, entry_points=False)
    assert info_of(plugins, "modern").hooks == ("classify_error",)


class Point(SimpleNamespace):
    """As much of an entry point as is looked at."""

    def load(self) -> Any:
        return self.loads()


@pytest.fixture
def entry_points(monkeypatch: pytest.MonkeyPatch) -> list[Point]:
    points: list[Point] = []
    monkeypatch.setattr(metadata, "entry_points", lambda group: points if group == "mahavishnu" else [])
    return points


def point(name: str, loads: Any, package: str = "acme", version: str = "2.0") -> Point:
    return Point(name=name, value=f"{package}:{name}", loads=loads, dist=SimpleNamespace(name=package, version=version))


class Acme:
    @hookimpl
    def classify_error(self, error: object) -> ErrorCategory | None:
        return ErrorCategory.RESOURCE if "acme" in str(error) else None


def broken_entry_point() -> Any:
    raise ImportError("libacme.so.3: cannot open shared object file")


def test_installed_packages_are_asked_by_name_and_a_broken_one_stops_nothing(entry_points: list[Point]) -> None:
    entry_points += [point("b", Acme), point("a", broken_entry_point), point("b", Acme), point("c", lambda: Acme)]
    plugins = Plugins.discover()
    assert [info.name for info in plugins.report()] == ["b", "c", "built-in", "a"]
    assert info_of(plugins, "b") == PluginInfo("b", "entry point of acme", "2.0", ("classify_error",), PluginState.OK)
    assert "libacme.so.3" in info_of(plugins, "a").why and f"({__file__}, line " in info_of(plugins, "a").why
    assert Chain(plugins).classify("acme").author == "b"


def test_dotted_names_are_asked_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good(tmp_path, "acme_one.py", "x", "RESOURCE")
    write(tmp_path, "acme_two.py", "class Two:\n    inner = staticmethod(lambda error: 'transient')\n")
    monkeypatch.syspath_prepend(tmp_path)
    names = ["acme_two:Two.inner", "acme_one", "acme_none", "acme_one:nothing"]
    plugins = Plugins.discover(names=names, entry_points=False)
    assert [info.name for info in plugins.report()] == [*names[:2], "built-in", *names[:1:-1]]
    assert Chain(plugins).classify("x").author == "acme_two:Two.inner"
    assert "No module named 'acme_none'" in info_of(plugins, "acme_none").why
    assert "has no attribute 'nothing'" in info_of(plugins, "acme_one:nothing").why


def test_plugins_nearer_to_the_operator_are_asked_earlier(
    tmp_path: Path, entry_points: list[Point], monkeypatch: Any
) -> None:
    entry_points += [point("package", Acme)]
    good(tmp_path / "plugins", "file.py", "acme")
    good(tmp_path, "acme_named.py", "acme")
    monkeypatch.syspath_prepend(tmp_path)
    rules = [{"text": "acme", "category": "network"}]
    plugins = Plugins.discover(directory=tmp_path / "plugins", names=["acme_named"], rules=rules)
    plugins.register(Acme(), "run time")
    order = [info.name for info in plugins.report()]
    assert order == ["yaml-rules", "run time", "acme_named", "file", "package", "built-in"]
    plugins.reload()
    assert [info.name for info in plugins.report()] == order
    assert Chain(plugins).classify("acme").author == "yaml-rules"


def test_the_second_plugin_of_a_name_is_reported_as_broken(tmp_path: Path, entry_points: list[Point]) -> None:
    entry_points += [point("acme", Acme)]
    path = good(tmp_path, "acme.py", "acme")
    plugins = Plugins.discover(directory=tmp_path)
    assert info_of(plugins, "acme").origin == str(path)
    clash = info_of(plugins, "acme (entry point of acme)")
    assert clash.state == "broken" and "the name is taken" in clash.why


def test_disabled_plugins_are_not_even_loaded(tmp_path: Path) -> None:
    write(tmp_path, "noisy.py", "raise SystemExit('I should not have been loaded')")
    plugins = Plugins.discover(directory=tmp_path, disabled=["noisy"], entry_points=False)
    assert info_of(plugins, "noisy").state == "disabled"


def test_even_the_built_in_rules_can_be_disabled() -> None:
    plugins = Plugins(disabled=["built-in"])
    assert Chain(plugins).classify(TimeoutError()).author == "nobody"
    plugins.enable("built-in")
    assert Chain(plugins).classify(TimeoutError()).author == "built-in"


def test_disabling_an_unknown_name_is_refused(directory_plugins: Plugins) -> None:
    with pytest.raises(InvalidInput, match="did you mean 'built-in'"):
        directory_plugins.disable("builtin")
    with pytest.raises(InvalidInput, match="there are built-in"):
        directory_plugins.enable("xyz")


@hookimpl(specname="classify_error")
def somehow(error: object) -> str:
    return "resource"


@pytest.mark.parametrize(
    "plugin",
    [
        Acme,
        Acme(),
        somehow,
        lambda error: "resource",
        lambda error, context: "resource",
        lambda error, context, more=3: "resource",
        lambda *anything: "resource",
        SimpleNamespace(classify_error=somehow),
    ],
)
def test_every_kind_of_plugin_can_be_registered(plugin: Any) -> None:
    plugins = Plugins()
    name = plugins.register(plugin, "it")
    assert Chain(plugins).classify("acme").author == name == "it"


def test_a_plugin_has_the_name_of_its_class_or_function() -> None:
    plugins = Plugins()
    assert plugins.register(Acme()) == "Acme"
    assert plugins.register(somehow) == "somehow"


def test_registering_nonsense_is_refused_and_changes_nothing() -> None:
    plugins = Plugins()
    with pytest.raises(InvalidInput, match="implements none of the hooks"):
        plugins.register(SimpleNamespace(), "nothing")
    with pytest.raises(InvalidInput, match="there is a plugin 'built-in' already, from mahavishnu"):
        plugins.register(Acme(), "built-in")
    assert [info.name for info in plugins.report()] == ["built-in"]
    plugins.register(Acme(), "nothing")


def test_a_plugin_can_be_unregistered() -> None:
    plugins = Plugins()
    plugins.register(Acme(), "acme")
    plugins.unregister("acme")
    plugins.reload()
    assert [info.name for info in plugins.report()] == ["built-in"]


def test_a_reload_with_wrong_rules_changes_nothing(tmp_path: Path) -> None:
    path = write(tmp_path, "rules.yaml", "- {text: odd, category: resource}")
    plugins = Plugins.discover(rules=path, entry_points=False)
    chain = Chain(plugins)
    assert chain.classify("odd").reason == "rule 1"
    path.write_text("- {text: odd, categroy: network}")
    with pytest.raises(InvalidInput, match="rule 1: unknown key 'categroy'"):
        plugins.reload()
    assert chain.classify("odd").category == "resource"
    path.write_text("- {text: odd, category: network}")
    plugins.reload()
    assert chain.classify("odd").category == "network"


def test_where_a_plugin_cannot_even_be_found_no_place_is_named() -> None:
    plugins = Plugins.discover(names=["nowhere.at:all"], entry_points=False)
    assert info_of(plugins, "nowhere.at:all").why == "ModuleNotFoundError: No module named 'nowhere'"
