"""Judge words: names of functions and first words of docstrings. Rules for texts that people read belong here, too."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

Function = ast.FunctionDef | ast.AsyncFunctionDef
IRREGULAR = (
    "begun|bound|broken|brought|built|caught|chosen|done|drawn|driven|fallen|felt|forgotten|found|frozen|given|gone|grown|"
    "heard|held|hidden|hung|kept|known|laid|led|left|lent|lost|made|meant|met|overridden|overtaken|paid|proven|risen|said|"
    "seen|sent|shown|shut|sold|sought|spent|spoken|stolen|stood|struck|stuck|swept|taken|taught|thought|thrown|told|torn|"
    "understood|withheld|woken|won|worn|written"
)
PARTICLES = "about|again|anew|apart|aside|away|back|by|down|for|in|into|of|off|on|out|over|to|up|with"
BARE = re.compile(rf"_*(?:{IRREGULAR}|[a-z]{{3,}}ed)(?:_(?:{PARTICLES}))*")
FIXED = frozenset({"blocked_by", "misconfigured"})  # a field of the HTTP API; a fault beside `unavailable`
VERBS = frozenset({"embed", "exceed", "feed", "heed", "need", "proceed", "seed", "shed", "speed", "succeed"})
RELATIVE = re.compile(r"(What|Whether|Which|Those|Who|Where|How)\b")


def is_bare_participle(name: str) -> bool:
    """Return whether a name is a participle, alone or with particles; underscores before it do not count.

    >>> [is_bare_participle(name) for name in ("settled", "_given_back", "moved_on", "failed_repos", "proceed")]
    [True, True, True, False, False]
    """
    return bool(BARE.fullmatch(name)) and name.strip("_").split("_")[0] not in VERBS and name not in FIXED


def participles(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the problem of each function that is named so: also private and inner ones, no properties."""
    for node in ast.walk(tree):
        if isinstance(node, Function) and is_bare_participle(node.name) and not _is_property(node):
            yield node.lineno, f"{node.name} is a bare participle: name it by a verb or by what it returns"


def relative_docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the problem of each docstring that opens with a relative word."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | Function):
            word = RELATIVE.match(ast.get_docstring(node) or "")
            if word:
                yield node.body[0].lineno, f"a docstring opens with {word[1]}: open it with a verb"


def _is_property(function: Function) -> bool:
    return any(re.search(r"property|setter|overload", ast.unparse(each)) for each in function.decorator_list)
