"""Format the templates of the console: `make fix` rewrites them, `make check` refuses those that are not formatted.

One element stands on a line; what it holds is indented below it, unless it is a few words. Attributes and arguments
that do not fit stand on lines of their own. Formatting keeps what a template says: it adds and removes a line break
only where `mahavishnu/console/layout.py` makes the same of both, and compares the two before it writes.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import jinja2

from mahavishnu.console.layout import OPENING, VOID, Layout

ROOT = Path(__file__).parents[1]
WIDTH = 120  # what is longer is broken where it can be
LIMIT = 160  # no line is longer
STEP = "  "
# These may stand in a line of text, and white space between them shows.
INLINE = re.compile("a|b|bdi|br|code|em|i|input|kbd|label|q|s|small|span|strong|sub|sup|svg|text|time|title|use")
VERBATIM = ("pre", "textarea")  # where a line break shows
CLOSING = ("close", "middle", "end")
BRACKETS = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}
ENVIRONMENT = jinja2.Environment(extensions=[Layout])
_PIECE = re.compile(r"\s+|</?[A-Za-z][\w-]*|<!|/?>|[\"']|[^\s<>\"'/]+|.")


class Refusal(Exception):
    """A template that cannot be formatted."""


@dataclass
class Node:
    """A tag, a statement, an expression or a word, and what it holds: up to its end, with each `{% else %}`."""

    kind: str  # open, close, void, begin, middle, end, statement, comment, expression, words
    text: str
    name: str = ""
    pieces: Sequence[str] = ()  # attributes, or what Jinja sees
    spaced: bool = False  # a space stands before it
    after_gap: bool = False  # an empty line stands before it
    inside: list[Node] = field(default_factory=list)

    @property
    def flat(self) -> str:
        return self.text + "".join(" " * node.spaced + node.flat for node in self.inside)

    @property
    def fits_in_a_line(self) -> bool:
        apart = any(_always_breaks(*pair) for pair in pairwise(self.inside))
        return not apart and all(node.is_inline for node in self.inside)

    @property
    def is_inline(self) -> bool:
        """Whether it may stand in a line with others."""
        is_block = self.kind in ("open", "void") and not INLINE.fullmatch(self.name)
        return not is_block and self.kind not in ("statement", "comment") and self.fits_in_a_line


def _always_breaks(left: Node, right: Node) -> bool:
    kinds = {left.kind, right.kind}
    if right.spaced or "words" in kinds or kinds.intersection(CLOSING):
        return False
    return "expression" not in kinds or not kinds.isdisjoint(("open", "void"))


def _is_a_space(left: Node, right: Node) -> bool:
    """Whether a line break between the two is one, by the rule of `Layout`."""
    if left.kind == "middle" or right.kind in CLOSING:
        return False
    return "words" in (left.kind, right.kind) or left.kind == right.kind == "expression"


def parts_of(source: str) -> Iterator[Node]:
    """The parts of a template, and the white space between them; a tag has the expressions in it."""
    tag, quote, depth = [""], "", 0
    for part in _jinja_parts(source):
        if part.kind != "data" and not tag[0]:
            yield part
            continue
        for piece in _PIECE.findall(part.text) if part.kind == "data" else [part.text]:
            if not tag[0]:
                if piece.startswith("<") and len(piece) > 1:
                    tag = [piece]
                else:
                    yield Node("space" if piece.isspace() else "words", piece)
            elif part.kind != "data":
                tag[-1] += piece
                depth += {"begin": 1, "end": -1}.get(part.kind, 0)
            elif piece.isspace() and not quote and not depth:
                tag.append("")
            elif piece in (">", "/>") and not quote:
                yield _tag([attribute for attribute in tag if attribute], piece)
                tag = [""]
            else:
                tag[-1] += piece
                if piece in ("'", '"') and quote in ("", piece):
                    quote = "" if quote else piece


def _tag(attributes: list[str], end: str) -> Node:
    name = attributes[0].lstrip("</!")
    kind = "close" if attributes[0].startswith("</") else "open"
    if name in VOID or end == "/>" or attributes[0].startswith("<!"):
        kind = "void"
    return Node(kind, " ".join(attributes) + end, name, (*attributes, end))


def _jinja_parts(source: str) -> Iterator[Node]:
    """Text, and whole comments, statements and expressions; white space in these is one space."""
    tokens: list[str] = []
    for _, kind, text in ENVIRONMENT.lex(source):
        if kind == "data":
            yield Node("data", text)
            continue
        tokens.append(" " if kind == "whitespace" else text)
        if kind == "comment_end":
            yield Node("comment", "".join(tokens))
        elif kind in ("variable_end", "block_end"):
            begin, *code, end = tokens
            around = zip([" ", *code], code, [*code[1:], " "], strict=False)
            code = [each for left, each, right in around if each != " " or _separates(left, right)]
            kind, name = "expression", code[0]
            if begin.startswith("{%"):
                kind = "end" if name.startswith("end") else "begin" if name in OPENING else "statement"
                kind = "middle" if name in ("elif", "else") else kind
            yield Node(kind, f"{begin} {''.join(code)} {end}", name, code)
        else:
            continue
        tokens = []


def _separates(left: str, right: str) -> bool:
    return " " not in (left, right) and BRACKETS.get(left) != 1 and BRACKETS.get(right) != -1


def tree_of(source: str) -> Node:
    """The nodes of a template; an element or a block that is not closed where it should be is refused."""
    path = [Node("begin", "")]
    space = ""
    for part in parts_of(source):
        if part.kind == "space":
            space += part.text
            if "\n" in space and path[-1].name in VERBATIM:
                raise Refusal(f'a line break in <{path[-1].name}>: write it as {{{{ "\\n" }}}}')
            continue
        siblings = path[-1].inside
        line_break = bool(siblings) and _is_a_space(siblings[-1], part)
        part.spaced, part.after_gap = (line_break if "\n" in space else bool(space)), space.count("\n") > 1
        name = part.name.removeprefix("end") if part.kind == "end" else part.name
        if part.kind in CLOSING and (len(path) == 1 or (part.kind != "middle" and name != path[-1].name)):
            raise Refusal(f"{part.text} closes nothing")
        siblings.append(part)
        if part.kind in ("close", "end"):
            path.pop()
        elif part.kind in ("open", "begin"):
            path.append(part)
        space = ""
    if len(path) > 1:
        raise Refusal(f"{path[-1].text} is not closed")
    return path[0]


class Writer:
    """Lines that grow."""

    def __init__(self) -> None:
        self.lines = [""]

    def begin_line(self, depth: int) -> None:
        self.lines.append(STEP * depth)

    def has_room(self, text: str) -> bool:
        return len(self.lines[-1]) + len(text) <= WIDTH

    def write(self, text: str) -> None:
        self.lines[-1] += text

    def write_inside(self, parent: Node, depth: int) -> None:
        """Write what a node holds: an element on a line, and as many words in a line as fit."""
        left, broken = parent, True
        for chunk in _chunks(parent):
            first, text = chunk[0], "".join(" " * node.spaced + node.flat for node in chunk)
            flat = all(node.is_inline for node in chunk)
            beside = first.spaced and not broken and flat and self.has_room(text)
            if not beside and left.text and _may_break(left, first, parent):
                if first.after_gap and not depth:
                    self.lines.append("")
                self.begin_line(depth - (first.kind in CLOSING))
            broken = not flat or not self.has_room(text)
            for node in chunk:
                at_edge = not self.lines[-1].strip()
                self.write(" " * (node.spaced and not at_edge))
                self.write_node(node, depth)
            left = chunk[-1]

    def write_node(self, node: Node, depth: int) -> None:
        if node.fits_in_a_line and self.has_room(node.flat):
            self.write(node.flat)
            return
        self.write_head(node, depth - (node.kind in CLOSING))
        if node.name in VERBATIM or (node.kind == "open" and len(node.inside) == 1):
            self.write(node.flat.removeprefix(node.text))
        else:
            self.write_inside(node, depth + 1)

    def write_head(self, node: Node, depth: int) -> None:
        if node.kind == "comment":
            self.write(re.sub(r"\s*\n\s*", "\n" + STEP * depth + "   ", node.text))
        elif not node.pieces or self.has_room(node.text):
            self.write(node.text)
        elif node.kind in ("open", "void"):
            self.write(node.pieces[0])
            for attribute in node.pieces[1:-1]:
                self.begin_line(depth + 1)
                self.write(attribute)
            self.begin_line(depth)
            self.write(node.pieces[-1])
        else:
            self.write(node.text[:3])
            self.write_code(node.pieces, depth, node.text[-3:])
            self.write(node.text[-3:])

    def write_code(self, tokens: Sequence[str], depth: int, behind: str = "") -> None:
        """Write code: if it does not fit, with each argument of its longest brackets on a line of its own."""
        begin, end = _longest_brackets(tokens)
        if self.has_room("".join(tokens) + behind):
            self.write("".join(tokens))
        elif begin == end:
            for word in _words(tokens):
                if not self.has_room(word) and self.lines[-1].strip():
                    self.begin_line(depth + 1)
                self.write(word if self.lines[-1].strip() else word.lstrip())
        else:
            self.write("".join(tokens[: begin + 1]))
            for argument in _arguments(tokens[begin + 1 : end]):
                self.begin_line(depth + 1)
                self.write_code(argument, depth + 1)
            self.begin_line(depth)
            self.write_code(tokens[end:], depth, behind)


def _may_break(left: Node, right: Node, parent: Node) -> bool:
    """Whether a line break between the two says what stands there now."""
    return right.spaced == (left is not parent and _is_a_space(left, right))


def _chunks(parent: Node) -> Iterator[list[Node]]:
    """The nodes that a node holds, those together between which no line can break."""
    chunk: list[Node] = []
    for node in parent.inside:
        if chunk and _may_break(chunk[-1], node, parent):
            yield chunk
            chunk = []
        chunk.append(node)
    if chunk:
        yield chunk


def _longest_brackets(tokens: Sequence[str]) -> tuple[int, int]:
    found, depth, begin = [(0, 0)], 0, 0
    for at, token in enumerate(tokens):
        depth = max(depth + BRACKETS.get(token, 0), 0)
        if depth == 1 and BRACKETS.get(token) == 1:
            begin = at
        elif not depth and BRACKETS.get(token) == -1 and at:
            found.append((begin, at))
    return max(found, key=lambda each: len("".join(tokens[slice(*each)])))


def _arguments(tokens: Sequence[str]) -> Iterator[Sequence[str]]:
    begin = depth = 0
    for at, token in enumerate(tokens):
        depth += BRACKETS.get(token, 0)
        if token == "," and not depth:
            yield tokens[begin : at + 1]
            begin = at + 1 + (list(tokens[at + 1 : at + 2]) == [" "])
    if begin < len(tokens):
        yield tokens[begin:]


def _words(tokens: Sequence[str]) -> Iterator[str]:
    """The tokens between two spaces as one, with the first of the spaces."""
    word = ""
    for token in tokens:
        if token == " " and word:
            yield word
            word = ""
        word += token
    yield word


def formatted(source: str) -> str:
    """A template as it should stand."""
    writer = Writer()
    writer.write_inside(tree_of(source), 0)
    text = "\n".join(line.rstrip() for line in writer.lines) + "\n"
    if ENVIRONMENT.parse(text) != ENVIRONMENT.parse(source):
        raise Refusal("formatting would change what it says; look for two spaces in a row")
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > LIMIT:
            raise Refusal(f"line {number} has {len(line)} characters when formatted, more than {LIMIT}: {line[:60]}…")
    return text


def main(arguments: Sequence[str]) -> int:
    """Rewrite the templates, or with --check only say which would be."""
    problems = []
    for path in sorted((ROOT / "mahavishnu").glob("**/templates/**/*.html")):
        source = path.read_text(encoding="utf-8")
        try:
            text = formatted(source)
        except (Refusal, jinja2.TemplateSyntaxError) as problem:
            problems.append(f"{path.relative_to(ROOT)}: {problem}\n")
            continue
        if text != source and "--check" in arguments:
            problems.append(f"{path.relative_to(ROOT)}: not formatted; `make fix` does it\n")
        elif text != source:
            path.write_text(text, encoding="utf-8")
    sys.stderr.writelines(problems)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
