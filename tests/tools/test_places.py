"""A test stands where its module stands, or `make check` names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.places import find_stray_tests, module_of, stray_tests

MODULES = {
    "tasks/staleness.py",
    "tasks/staleness_rules.py",
    "console/forms.py",
    "stores/base.py",
    "stores/sqlite/store.py",
}


@pytest.mark.parametrize(
    ("test", "module"),
    [
        ("tasks/test_staleness.py", "tasks/staleness.py"),
        ("tasks/test_staleness_in_batches.py", "tasks/staleness.py"),
        ("tasks/test_staleness_rules_at_edges.py", "tasks/staleness_rules.py"),
        ("tasks/test_stalenesses.py", None),
        ("tasks/test_forms.py", None),
        ("stores/sqlite/test_store_errors.py", "stores/sqlite/store.py"),
        ("stores/test_store.py", None),
        ("stores/sqlite/test_base.py", None),
        ("console/browser/test_forms.py", "console/forms.py"),
        ("garage/test_forms.py", None),
        ("test_forms.py", None),
    ],
)
def test_a_test_belongs_to_the_longest_module_of_its_room_with_which_its_name_begins(
    test: str, module: str | None
) -> None:
    assert module_of(test, MODULES) == module


def test_folders_of_tests_about_many_modules_are_named() -> None:
    tests = {"proofs/test_chaos.py", "unit/test_dead_letter_queue.py", "unit/test_forms.py", "tasks/test_letters.py"}
    assert list(stray_tests(tests, MODULES)) == ["tasks/test_letters.py", "unit/test_forms.py"]


def test_the_files_of_a_repository_are_looked_at(tmp_path: Path) -> None:
    tests = (
        "tests/tasks/test_stuck.py",
        "tests/tasks/test_loose.py",
        "test_stuck.py",
        "mahavishnu/tasks/test_stuck.py",
    )
    for each in ("mahavishnu/tasks/stuck.py", "plugins/one/test_one.py", ".venv/test_two.py", *tests):
        (tmp_path / each).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / each).touch()
    problems = [each.partition(": ")[0] for each in find_stray_tests(tmp_path)]
    assert problems == ["tests/tasks/test_loose.py", "mahavishnu/tasks/test_stuck.py", "test_stuck.py"]
