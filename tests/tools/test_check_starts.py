"""`make check` holds commands to the modules that they import."""

from __future__ import annotations

from tools.check_starts import COMMANDS, IMPORT, imported_modules, slow_packages


def test_what_each_command_imports_is_known_and_nothing_of_it_is_slow() -> None:
    found = imported_modules()

    assert list(found) == [IMPORT, *COMMANDS]
    assert found[IMPORT] & {"mahavishnu", "mahavishnu.core"} == {"mahavishnu"}
    assert {"mahavishnu.letters.documents", "mahavishnu.stores.sqlite.store"} <= found["dlq list"]
    assert slow_packages(found) == []
    assert slow_packages({"dlq list": frozenset({"pydantic", "pydantic.main", "json"})}) == [
        "dlq list: it imports pydantic"
    ]
