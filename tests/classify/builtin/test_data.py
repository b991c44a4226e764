"""The data files: every table loads, every phrase matches what it describes."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from mahavishnu.classify.builtin import data
from mahavishnu.classify.builtin.data import PRECEDENCE, WORD, Phrase, variants
from mahavishnu.model.letter_parts import ErrorCategory

ROOT = Path(__file__).parents[3]


def examples(phrase: Phrase) -> list[str]:
    """Texts that the phrase describes: each variant of each word once, with and without what may be left out."""
    tokens = [token for token in phrase.source.split() if token not in ("^", "$") and token[0] != "!"]
    needed = [token for token in tokens if token.strip(".") and token[-1] not in "?*"]
    found = []
    for at, token in enumerate(needed):
        found += [
            " ".join(word if place == at else first_variant(other) for place, other in enumerate(needed))
            for word in variants(token)
            if word != "$"
        ]
    found.append(" ".join("really" if not token.strip(".") else first_variant(token.rstrip("?*")) for token in tokens))
    return found


def first_variant(token: str) -> str:
    return next(word for word in variants(token) if word != "$")


def shortest(phrase: Phrase) -> str:
    """The shortest text of a phrase that may end early."""
    tokens = [token for token in phrase.source.split() if token not in ("^",) and token[0] != "!" and token.strip(".")]
    return " ".join(first_variant(token) for token in tokens if token[-1] not in "?*" and "|$" not in token)


def test_every_phrase_matches_its_examples() -> None:
    assert len(data.phrases()) > 1000
    missed = [
        f"{phrase.source!r} in {example!r}"
        for phrase in data.phrases()
        for example in examples(phrase)
        if not phrase.pattern.search(example)
    ]
    assert missed == []


def test_every_example_of_a_phrase_has_the_words_that_the_phrase_needs() -> None:
    missed = [
        f"{phrase.source!r} in {example!r}"
        for phrase in data.phrases()
        for example in examples(phrase)
        if not all(words & set(WORD.findall(example)) for words in phrase.needs)
    ]
    assert missed == []


def test_a_phrase_that_may_end_early_matches_at_the_end() -> None:
    ending = [phrase for phrase in data.phrases() if "|$" in phrase.source]
    assert ending
    assert [phrase.source for phrase in ending if not phrase.pattern.search(shortest(phrase))] == []


def test_the_phrases_are_well_formed() -> None:
    assert set(PRECEDENCE) == set(ErrorCategory) == {phrase.category for phrase in data.phrases()}
    lines = [phrase.source for phrase in data.phrases()]
    assert len(lines) == len(set(lines))
    tokens = {token.strip("?*") for line in lines for token in line.split()}
    named_sets = {part[1:] for token in tokens for part in token.split("|") if part.startswith("%")}
    assert named_sets == set(data.phrase_sets())


def test_no_word_has_to_try_many_phrases() -> None:
    assert max(map(len, data.phrases_by_word().values())) <= 25


def test_an_entry_that_is_in_a_table_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="twice"):
        data.read_tables([("mysql", ErrorCategory.NETWORK, "1 2"), ("mysql", ErrorCategory.RESOURCE, "2")])


def test_the_wheel_has_the_data_files(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    files = {path.name: path for path in (ROOT / "mahavishnu/classify/builtin/data").iterdir()}
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        packed = {name: wheel.read(f"mahavishnu/classify/builtin/data/{name}") for name in files}
    assert set(packed) == {"codes.tsv", "names.tsv", "phrases.txt", "types.tsv"}
    assert packed == {name: path.read_bytes() for name, path in files.items()}


def test_importing_the_classifier_reads_no_data_file() -> None:
    script = """
import mahavishnu.classify.chain
from mahavishnu.classify.builtin import data
tables = (data.types, data.codes, data.names, data.phrases, data.phrases_by_word)
print(sum(table.cache_info().currsize for table in tables))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"
