"""`mahavishnu plugins`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from mahavishnu.settings.commands import yaml_scalar
from tests.support.command_line import Run

Write = Callable[[str], Path]
GOOD = "def classify_error(error): return 'network' if 'flaky' in str(error) else None\n"
PLUGIN = f"from mahavishnu import hookimpl\n@hookimpl\n{GOOD}"
HASTY = "from mahavishnu import hookimpl\n@hookimpl\ndef classify_error(error): return error.amount > 100\n"


@pytest.fixture
def plugin(home: Path, settings_file: Write) -> Callable[[str, str], Path]:
    """Put a plugin into the plugin directory."""
    (home / "plugins").mkdir()
    path = settings_file("# ours\nplugin_directory: plugins  # here\n\ndlq_max_size: 500\n")

    def put(name: str, text: str) -> Path:
        (home / "plugins" / f"{name}.py").write_text(text)
        return path

    return put


def test_list(run: Run, plugin: Callable[[str, str], Path]) -> None:
    plugin("good", PLUGIN)
    plugin("torn", "def classify_error(error:\n")
    done = run("plugins", "list")
    assert (done.code, done.err) == (0, "")
    header, good, own, torn = done.out.splitlines()
    assert header.split() == ["name", "state", "hooks", "version", "from", "why"]
    assert good.split()[:3] == ["good", "ok", "classify_error"]
    assert own.split()[:2] == ["built-in", "ok"]
    assert torn.split()[:2] == ["torn", "broken"] and "SyntaxError" in torn

    found = run("plugins", "list", "--json").json["plugins"]
    assert [each["name"] for each in found] == ["good", "built-in", "torn"]
    assert {frozenset(each) for each in found} == {frozenset(("name", "state", "hooks", "version", "origin", "why"))}


def test_check_of_plugins_that_work(run: Run, plugin: Callable[[str, str], Path]) -> None:
    plugin("good", PLUGIN)
    assert run("plugins", "check").code == 0
    found = run("plugins", "check", "--json").json
    assert found["ok"] and [each["fault"] for each in found["plugins"]] == ["", ""]


def test_check_names_what_is_broken_and_what_stumbles(run: Run, plugin: Callable[[str, str], Path]) -> None:
    plugin("good", PLUGIN)
    plugin("torn", "import nothing_of_this_name\n")
    plugin("hasty", HASTY)
    done = run("plugins", "check")
    assert (done.code, done.err) == (1, "")
    faults = {line.split()[0]: line.split()[1] for line in done.out.splitlines()[1:]}
    assert faults == {"good": "ok", "built-in": "ok", "torn": "fault", "hasty": "fault"}
    assert "has no attribute 'amount'" in done.out and "nothing_of_this_name" in done.out
    assert run("plugins", "check", "good").code == 0
    assert run("plugins", "check", "hasty").code == 1


def test_one_that_there_is_not(run: Run, plugin: Callable[[str, str], Path]) -> None:
    plugin("good", PLUGIN)
    for verb in ("check", "disable"):
        done = run("plugins", verb, "god")
        assert (done.code, done.out) == (3, "")
        assert done.err == "mahavishnu: there is no plugin 'god'; did you mean good?\n"


def test_disabling_prints_the_line_that_does_it(run: Run, plugin: Callable[[str, str], Path]) -> None:
    path = plugin("good", PLUGIN)
    before = path.read_text()
    assert run("classify", "it is flaky", "--json").json["author"] == "good"
    done = run("plugins", "disable", "good")
    assert (done.code, done.out) == (0, "disabled_plugins: [good]\n")
    assert done.err.startswith("put this line into settings/mahavishnu.yaml; it counts for new processes, and for ")
    assert path.read_text() == before, "it was changed"
    assert run("plugins", "enable", "good").out == "plugin good is not disabled\n"

    path.write_text(before + done.out)
    assert run("classify", "it is flaky", "--json").json["author"] == "nobody"
    assert run("plugins", "check").code == 0
    assert run("plugins", "disable", "good").out == "plugin good is disabled already\n"
    back = run("plugins", "enable", "good")
    assert (back.code, back.out) == (0, "disabled_plugins: []\n")
    assert back.err.startswith("put this line into settings/mahavishnu.yaml, in the place of line 5; ")


def test_without_a_file_it_says_where_the_line_goes(run: Run) -> None:
    done = run("plugins", "disable", "built-in")
    assert (done.code, done.out) == (0, "disabled_plugins: [built-in]\n")
    assert done.err.startswith("put this line into settings/mahavishnu.yaml; ")


def test_a_variable_that_overrules_the_file_is_what_is_printed(
    run: Run, plugin: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin("good", PLUGIN)
    monkeypatch.setenv("MAHAVISHNU_DISABLED_PLUGINS", "other")
    done = run("plugins", "disable", "good")
    assert (done.code, done.out) == (0, "MAHAVISHNU_DISABLED_PLUGINS=other,good\n")
    assert done.err.startswith("set this variable, which overrules settings/mahavishnu.yaml; ")


@pytest.mark.parametrize(
    "name", ["on", "acme: shop", "a, b", "#1", "'quoted'", "ü", "1", "~", "torn (directory plugins)"]
)
def test_any_name_is_printed_as_yaml_reads_it(name: str) -> None:
    assert yaml.safe_load(f"disabled_plugins: [{yaml_scalar(name)}, b]") == {"disabled_plugins": [name, "b"]}
