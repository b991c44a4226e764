"""The rules against whole catalogues of what systems say, each row a plain fact about one of them."""

from __future__ import annotations

from types import ModuleType

import pytest

from tests.unit.classify.catalogues import (
    clouds,
    contents,
    document_stores,
    everyday,
    everyday_last,
    everyday_later,
    go_rust_node,
    jvm_dotnet,
    machines,
    names_alone,
    ordinary,
    plain_words,
    protocols,
    python,
    relational,
    rows,
    strangers,
    strangers_again,
    strangers_last,
    strangers_later,
    tools,
    workflow_tools,
)
from tests.unit.classify.test_corpus import wrong

MODULES: tuple[ModuleType, ...] = (
    machines,
    python,
    jvm_dotnet,
    go_rust_node,
    relational,
    document_stores,
    clouds,
    workflow_tools,
    tools,
    protocols,
    contents,
    everyday,
    everyday_last,
    everyday_later,
    ordinary,
    plain_words,
    strangers,
    strangers_later,
    strangers_last,
    strangers_again,
)
CATALOGUES = {
    f"{module.__name__.rpartition('.')[2]}-{name.lower()}": text
    for module in MODULES
    for name, text in vars(module).items()
    if name.isupper()
}


@pytest.mark.parametrize("name", CATALOGUES)
def test_a_catalogue(name: str) -> None:
    table = rows(CATALOGUES[name])
    assert table
    assert wrong(table) == []


def test_no_row_is_in_two_places() -> None:
    texts = [text for catalogue in CATALOGUES.values() for _, text in rows(catalogue)]
    assert sorted({text for text in texts if texts.count(text) > 1}) == []
    assert len(texts) > 1000


def test_the_names_of_exceptions() -> None:
    table = [(category, type(name, (Exception,), {})()) for category, name in rows(names_alone.NAMES)]
    assert len(table) > 150
    assert wrong(table) == []
