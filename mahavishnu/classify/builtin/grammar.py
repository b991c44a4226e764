"""Phrases made into patterns. The grammar is described where it is used, in `mahavishnu.classify.builtin.phrases`."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cache, cached_property

from mahavishnu.classify.builtin.phrases import PHRASES, PRECEDENCE, SETS
from mahavishnu.model.letter_parts import ErrorCategory

WORD = re.compile(r"[a-z0-9]+")
_ANY = r"[^\s;]+"
_ENDS = r"(?=\s*(?:$|[.,;:!?)\]}(\[\"'|>/]| - ))"
_BEGINS = r"(?:^|(?<=[:;,(\[\"'>|=] )|(?<=[:(\[\"'>=])|(?<=error )|(?<=exception )|(?<=failed ))"


@dataclass(frozen=True)
class Phrase:
    """A wording that tells a category. `on`: it cannot be in a clause that has none of the words of one of these."""

    category: ErrorCategory
    order: tuple[int, int]
    source: str
    on: tuple[frozenset[str], ...]

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Made when it is first needed: most phrases never are."""
        return re.compile(_pattern(self.source.split()))


@cache
def by_word() -> dict[str, tuple[Phrase, ...]]:
    """The phrases to try for each word of a clause."""
    sources = [
        (category, rank, line)
        for category, blocks in PHRASES.items()
        for rank, block in blocks.items()
        for line in _lines(block)
    ]
    choices = [_choices(line.split()) for _, _, line in sources]
    common = Counter(word for sets in choices for words in sets for word in words)
    found: dict[str, list[Phrase]] = {}
    for (category, rank, line), sets in zip(sources, choices, strict=True):
        on = sorted(sets, key=lambda words: sum(common[word] for word in words))
        phrase = Phrase(category, (rank, PRECEDENCE.index(category)), line, tuple(on))
        for word in on[0]:
            found.setdefault(word, []).append(phrase)
    return {word: tuple(phrases) for word, phrases in found.items()}


def _lines(block: str) -> list[str]:
    joined = re.sub(r"\|\n\s+", "|", block)  # a long line goes on after a bar
    return [line.strip() for line in joined.splitlines() if line.strip() and not line.lstrip().startswith("#")]


def _words(token: str) -> list[str]:
    """What a token may be, each written with blanks."""
    found: list[str] = []
    for word in token.split("|"):
        plain = word.replace("_", " ")
        if word.startswith("%"):
            found += _words(SETS[word[1:]])
        elif word.endswith("~"):
            found += [plain[:-1] + ending for ending in ("", "s", "d", "ed", "ing")]
        else:
            found.append(plain)
    return found


def _is_needed(token: str) -> bool:
    return token not in ("^", "$") and token.strip(".") != "" and token[0] != "!" and token[-1] not in "?*"


def _choices(tokens: list[str]) -> list[frozenset[str]]:
    """For each word that may not be left out: one word of each of its variants."""
    needed = [_words(token) for token in tokens if _is_needed(token)]
    sets = [[WORD.findall(variant) for variant in variants] for variants in needed]
    return [frozenset(max(words, key=len) for words in variants) for variants in sets if all(variants)]


def _pattern(tokens: list[str]) -> str:
    """The blanks belong to what may be left out: after it until the first word that may not be, and before it then."""
    pattern, blank = "", ""
    while not tokens[-1].strip("."):
        tokens.pop()  # what may follow must stay in sight: "invalid entries: 0"
    for index, token in enumerate(tokens):
        if token == "^":
            pattern += _BEGINS
        elif token == "$":
            pattern += _ENDS
        elif token[0] == "!" and index == 0:
            pattern += "".join(rf"(?<!\b{re.escape(word)} )" for word in _words(token[1:]))
        elif token[0] == "!":
            pattern += rf"(?!\s(?:{_either(token[1:])})(?!\w))"
        elif "$" in token.split("|"):  # one of these words, or nothing more
            pattern += f"(?:{blank}(?:{_either(token)})|{_ENDS})"
        elif _is_needed(token):
            pattern += f"{blank}(?:{_either(token)})"
            blank = " "
        else:
            word, often = (_ANY, f"{{0,{len(token)}}}") if not token.strip(".") else (_either(token[:-1]), token[-1])
            pattern += f"(?: (?:{word})){often}" if blank else f"(?:(?:{word}) ){often}"
    return rf"(?:(?<!\w)|(?=\W)){pattern}(?:(?!\w)|(?<=\W))"


def _either(token: str) -> str:
    words = sorted(_words(token), key=len, reverse=True)
    return "|".join(re.escape(word).replace(r"\ ", " ") for word in words if word != "$")
