"""`mahavishnu plugins`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from mahavishnu.cli.output import Failed
from mahavishnu.cli.settings_file import with_list, write_list
from tests.unit.cli.conftest import Run

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


def test_disable_and_enable(run: Run, plugin: Callable[[str, str], Path]) -> None:
    path = plugin("good", PLUGIN)
    before = path.read_text()
    path.chmod(0o640)
    assert run("classify", "it is flaky", "--json").json["author"] == "good"

    done = run("plugins", "disable", "good")
    assert (done.code, done.err) == (0, "")
    assert "disabled_plugins in settings/mahavishnu.yaml is now [good]" in done.out
    assert path.read_text() == f"{before}disabled_plugins: [good]\n"
    assert path.stat().st_mode & 0o777 == 0o640
    assert run("classify", "it is flaky", "--json").json["author"] == "nobody"
    assert run("plugins", "check").code == 0
    assert run("plugins", "disable", "good").out == "plugin good is disabled already\n"

    assert run("plugins", "enable", "good").code == 0
    assert path.read_text() == f"{before}disabled_plugins: []\n"
    assert run("plugins", "enable", "good").out == "plugin good is not disabled\n"
    assert sorted(each.name for each in path.parent.iterdir()) == ["mahavishnu.yaml"]


def test_without_a_file_it_says_what_to_set(run: Run) -> None:
    done = run("plugins", "disable", "built-in")
    assert (done.code, done.out) == (1, "")
    assert "put `disabled_plugins: [built-in]` into settings/mahavishnu.yaml" in done.err
    assert "MAHAVISHNU_DISABLED_PLUGINS=built-in" in done.err


def test_a_variable_that_overrules_the_file(
    run: Run, plugin: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = plugin("good", PLUGIN)
    before = path.read_text()
    monkeypatch.setenv("MAHAVISHNU_DISABLED_PLUGINS", "other")
    done = run("plugins", "disable", "good")
    assert done.code == 1
    assert done.err == (
        "mahavishnu: MAHAVISHNU_DISABLED_PLUGINS overrules settings/mahavishnu.yaml: change it there, to other,good\n"
    )
    assert path.read_text() == before


# ------------------------------------------------------------------------------------------------ changing the file


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "names: [a, b]\n"),
        ("size: 5", "size: 5\nnames: [a, b]\n"),
        ("names: []\n", "names: [a, b]\n"),
        ("names: [x]  # why\nsize: 5\n", "names: [a, b]  # why\nsize: 5\n"),
        ("names: [\n  x,\n  y,\n]\nsize: 5\n", "names: [a, b]\nsize: 5\n"),
        ("names:\nsize: 5\n", "names: [a, b]\nsize: 5\n"),
        ("names:  # none yet\nsize: 5\n", "names: [a, b]  # none yet\nsize: 5\n"),
        ("names: null\nsize: 5\n", "names: [a, b]\nsize: 5\n"),
        ("names:\n  - x\n\n# of it\nsize: 5\n", "names:\n  - a\n  - b\n\n# of it\nsize: 5\n"),
        ("names:\n- x\n- y  # the last\nsize: 5\n", "names:\n- a\n- b  # the last\nsize: 5\n"),
        ("inner: {names: [x]}\n", "inner: {names: [x]}\nnames: [a, b]\n"),
        ("# only this\n", "# only this\nnames: [a, b]\n"),
    ],
)
def test_a_list_in_a_file_is_changed_and_nothing_else(text: str, expected: str) -> None:
    changed = with_list(text, "names", ["a", "b"])
    assert changed == expected
    assert yaml.safe_load(changed)["names"] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("names: [x]\n", "names: []\n"), ("names:\n  - x\n  - y\nsize: 5\n", "names: []\nsize: 5\n")],
)
def test_a_list_can_become_empty(text: str, expected: str) -> None:
    assert with_list(text, "names", []) == expected


@pytest.mark.parametrize(
    "name", ["on", "acme: shop", "a, b", "#1", "'quoted'", "ü", "1", "~", "torn (directory plugins)"]
)
def test_any_name_can_be_written(tmp_path: Path, name: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("names: [a]\n", encoding="utf-8")
    write_list(path, "names", [name, "b"])
    assert yaml.safe_load(path.read_text(encoding="utf-8")) == {"names": [name, "b"]}


def test_a_file_that_cannot_be_changed_safely_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    text = "base: &it [a]\nnames: *it\n"
    path.write_text(text)
    with pytest.raises(Failed, match="set names there by hand"):
        write_list(path, "names", ["b"])
    assert path.read_text() == text


def test_line_ends_and_links_are_kept(tmp_path: Path) -> None:
    (tmp_path / "real.yaml").write_bytes(b"names: [a]\r\nsize: 5\r\n")
    link = tmp_path / "link.yaml"
    link.symlink_to("real.yaml")
    write_list(link, "names", ["b"])
    assert link.is_symlink()
    assert (tmp_path / "real.yaml").read_bytes() == b"names: [b]\r\nsize: 5\r\n"
