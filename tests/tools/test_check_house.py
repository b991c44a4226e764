"""`make check` refuses what is against the rules of the house, and limits only fall."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import walks
from tools import check_house, ratchets
from tools.check_house import findings, problems
from tools.imports import ORDER, Source, package_of, source
from tools.words import is_bare_participle

SHORT = '"""A subject."""\n'
LIMITS = """\
[house]
participles = 3 # a reason
"two words" = 4

[walks]
participles = 3
"""


def count(name: str, *sources: Source) -> list[str]:
    return list(findings(sources)[name])


@pytest.mark.parametrize(
    ("name", "is_bare"),
    [
        ("settled", True),
        ("_given_back", True),
        ("moved_on", True),
        ("told", True),
        ("failed_repos", False),
        ("settle", False),
        ("need", False),
        ("red", False),
        ("__await__", False),
    ],
)
def test_a_participle_is_bare_where_nothing_follows_it_but_particles(name: str, is_bare: bool) -> None:
    assert is_bare_participle(name) is is_bare


def test_private_inner_and_async_functions_count_and_properties_do_not() -> None:
    module = source(
        "core/sample.py",
        "class _Hidden:\n"
        "    @property\n"
        "    def settled(self): ...\n"
        "    async def _taken(self):\n"
        "        def kept(): ...\n"
        "def find(): ...\n",
    )
    assert [each.split(" is ")[0] for each in count("bare_participles", module)] == [
        "mahavishnu/core/sample.py:4: _taken",
        "mahavishnu/core/sample.py:5: kept",
    ]


def test_docstrings_that_open_with_a_relative_word_count() -> None:
    module = source(
        "core/sample.py",
        '"""What it is."""\n'
        'class Whole:\n    """Whole."""\n'
        'def find():\n    """Whether there is one."""\n'
        'def look():\n    """However."""\n',
    )
    assert [each.split(": ")[0] for each in count("relative_docstrings", module)] == [
        "mahavishnu/core/sample.py:1",
        "mahavishnu/core/sample.py:5",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "from mahavishnu.core.app import App\n",
        "import mahavishnu.core.app\n",
        "from mahavishnu.core import app\n",
        "if TYPE_CHECKING:\n    from mahavishnu.core.app import App\n",
        "def load():\n    from mahavishnu.core.app import App\n",
        'def load():\n    return import_module("mahavishnu.core.app")\n',
    ],
)
def test_an_import_that_points_up_counts_also_for_types_and_in_functions(text: str) -> None:
    above = [source("core/app.py", SHORT), source("core/__init__.py", "")]
    [found] = count("upward_imports", source("stores/base.py", text), *above)
    assert found.startswith("mahavishnu/stores/base.py:") and "mahavishnu.core.app" in found
    assert count("upward_imports", source("testing/kit.py", text), *above) == []


def test_imports_that_point_down_or_to_neighbours_do_not_count() -> None:
    reader = source("core/app.py", "from mahavishnu.stores import base\nfrom mahavishnu.core.other import Other\n")
    assert count("upward_imports", reader, source("stores/base.py", SHORT), source("core/other.py", SHORT)) == []


def test_a_short_module_with_one_reader_is_a_fragment() -> None:
    slice_, reader = (
        source("groups/slice.py", SHORT),
        source("groups/service.py", "from mahavishnu.groups import slice"),
    )
    [found] = count("fragments", slice_, reader)
    assert found.startswith("mahavishnu/groups/slice.py:1: 1 lines, and only groups/service.py")


@pytest.mark.parametrize(
    ("path", "text", "readers"),
    [
        ("groups/slice.py", SHORT, 2),  # two modules share it
        ("groups/slice.py", SHORT, 0),  # a documented path, or dead: another tool's concern
        ("groups/slice.py", SHORT + "\n" * 80, 1),  # long enough to be a subject
        ("groups/records.py", SHORT, 1),  # a layer of the room
        ("groups/__init__.py", SHORT, 1),
    ],
)
def test_these_are_no_fragments(path: str, text: str, readers: int) -> None:
    name = source(path, text).name
    others = [source(f"groups/reader{number}.py", f"import {name}\n") for number in range(readers)]
    assert count("fragments", source(path, text), *others) == []


def test_the_frame_is_a_reader_of_what_a_registration_names() -> None:
    slice_ = source("groups/slice.py", SHORT)
    frame = source("core/rooms.py", 'ROUTES = (Routes("groups", "mahavishnu.groups.slice:router"),)\n')
    reader = source("groups/service.py", "import mahavishnu.groups.slice\n")
    assert count("fragments", slice_, frame, reader) == []
    assert len(count("fragments", slice_, frame)) == 1


def test_a_long_module_needs_a_reason_and_a_reason_needs_a_long_module() -> None:
    long = source("core/long.py", SHORT + "\n" * 600)
    [found] = problems([long], {}, "")
    assert found.startswith("mahavishnu/core/long.py:1: 601 lines")
    assert list(problems([long], {"core/long.py": "one table"}, "")) == []
    [found] = problems([source("core/long.py", SHORT)], {"core/long.py": "one table"}, "")
    assert "remove its entry" in found


def test_a_package_without_a_place_and_a_class_without_a_word_are_refused() -> None:
    [found] = problems([source("elsewhere/sample.py", SHORT)], {}, "")
    assert found == "mahavishnu/elsewhere: has no place in the order of packages in pyproject.toml"
    letter = source("model/sample.py", "class Sample: ...\nclass SampleError(ValueError): ...\nclass _Part: ...\n")
    [found] = problems([letter], {}, "| `Other` |")
    assert "Sample is not in docs/glossary.md" in found
    assert list(problems([letter], {}, "| `Sample` |")) == []


def test_every_package_that_exists_has_a_place() -> None:
    folders = {path.parent.name for path in (check_house.ROOT / "mahavishnu").glob("*/__init__.py")}
    assert folders - {"testing"} <= set(ORDER)
    assert package_of("mahavishnu.__main__") is package_of("mahavishnu") is None


def test_a_value_above_its_limit_and_one_below_are_told() -> None:
    limits = {"participles": 3}
    assert list(ratchets.above({"participles": 4}, limits, {"participles": "look"})) != []
    assert list(ratchets.above({"participles": 3}, limits, {"participles": "look"})) == []
    assert list(ratchets.below({"participles": 2}, limits, "lower")) != []
    assert list(ratchets.below({"participles": 3}, limits, "lower")) == []


def test_limits_are_lowered_in_their_section_and_never_raised(tmp_path: Path) -> None:
    file = tmp_path / "limits.toml"
    file.write_text(LIMITS)
    assert ratchets.lower({"participles": 2, "two words": 5}, "house", file) == {"participles": 2}
    assert file.read_text() == LIMITS.replace("participles = 3 #", "participles = 2 #")
    assert ratchets.lower({"two words": 0}, "house", file) == {"two words": 0}
    assert ratchets.lower({"participles": 1}, "walks", file) == {"participles": 1}
    read = ratchets.read(file)
    assert read == {"house": {"participles": 2, "two words": 0}, "walks": {"participles": 1}}


def test_the_command_fails_for_a_broken_rule_and_lowers_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "glossary.md").write_text("")
    (tmp_path / "mahavishnu" / "core").mkdir(parents=True)
    (tmp_path / "mahavishnu" / "core" / "sample.py").write_text("def settled(): ...\n")
    names = findings([]).keys()
    file = tmp_path / "ratchets.toml"
    monkeypatch.setattr(check_house, "ROOT", tmp_path)
    monkeypatch.setattr(check_house, "GLOSSARY", tmp_path / "docs" / "glossary.md")

    def set_limits(number: int) -> None:
        file.write_text("[house]\n" + "".join(f"{name} = {number}\n" for name in names) + "[long_modules]\n")

    set_limits(0)
    assert check_house.main([], file) == 1
    assert "bare_participles: 1, and at most 0" in capsys.readouterr().err
    set_limits(7)
    assert check_house.main([], file) == 1
    assert "bare_participles: 1, and the limit is 7: lower it" in capsys.readouterr().err
    assert check_house.main(["--write"], file) == 0
    assert ratchets.read(file)["house"]["bare_participles"] == 1
    assert check_house.main(["--participles"], file) == 0
    assert "settled is a bare participle" in capsys.readouterr().out


def test_a_walk_above_its_limit_fails_and_one_below_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    name = "statistics"
    assert walks.check({f"{name}: modules": 1, f"{name}: changes": 9_999}) == 1
    error = capsys.readouterr().err
    assert f"{name}: modules" in error and "at most 1 are allowed" in error
    assert f"{name}: changes" in error and "the limit is 9999" in error
    assert walks.check({f"{name}: modules": 9_999, f"{name}: changes": 9_999}) == 0


def test_every_limit_of_a_walk_has_a_walk_and_a_goal() -> None:
    file = ratchets.read()
    assert file["walks"].keys() == file["goals"].keys()
    assert {each.partition(": ")[0] for each in file["walks"]} <= walks.WALKS.keys()
