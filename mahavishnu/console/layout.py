"""The layout of templates: line breaks and indentation that make one readable do not become spaces on the page.

A line break is a space beside words and between two expressions, as in HTML. It is nothing at the inner edge of an
element or of a `{% block %}`, nor where elements, blocks and expressions follow each other. A space that is wanted
there is written without a line break, or as `{{ " " }}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum

from jinja2.ext import Extension
from jinja2.lexer import Token, TokenStream

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
OPENING = {"autoescape", "block", "call", "elif", "else", "filter", "for", "if", "macro", "with"}
_PART = re.compile(r"\s*\n\s*|</?[A-Za-z][\w-]*|<!|/?>|[\"']|(?:(?!\s*\n)[^<>\"'/])+|.", re.DOTALL)


class _Edge(Enum):
    INSIDE = "after what opens, or before what closes"
    MARKUP = "outside of an element or a block"
    EXPRESSION = "beside an expression"
    WORDS = "beside text"


class Layout(Extension):
    """Drop the line breaks of templates that are layout only."""

    def filter_stream(self, stream: TokenStream) -> Iterator[Token]:
        return iter(_Layout(_join_texts(stream)))


def _join_texts(stream: TokenStream) -> list[Token]:
    """The tokens; texts that only a comment separates are one."""
    tokens: list[Token] = []
    for token in stream:
        if tokens and token.type == tokens[-1].type == "data":
            tokens[-1] = Token(tokens[-1].lineno, "data", tokens[-1].value + token.value)
        else:
            tokens.append(token)
    return tokens


class _Layout:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._left = _Edge.INSIDE
        self._tag = ""  # in which tag the text is, and in which quotes there
        self._quote = ""

    def __iter__(self) -> Iterator[Token]:
        tokens = self._tokens
        for at, token in enumerate(tokens):
            following = tokens[at + 1 : at + 3]
            if token.type == "data":
                text = "".join(self._parts(token.value, following))
                if text:
                    yield Token(token.lineno, "data", text)
                continue
            yield token
            if self._tag:
                continue
            if token.type == "variable_end":
                self._left = _Edge.EXPRESSION
            elif token.type == "block_begin":
                self._left = _Edge.INSIDE if following[0].value in OPENING else _Edge.MARKUP

    def _parts(self, text: str, following: list[Token]) -> Iterator[str]:
        for found in _PART.finditer(text):
            part = found[0]
            if "\n" in part and part.isspace() and not self._quote:
                right = text[found.end() : found.end() + 2]
                yield self._space(right, following)
                continue
            yield part
            if self._tag:
                self._go_through_tag(part)
            elif part.startswith("<") and len(part) > 1:
                self._tag = part
            else:
                self._left = _Edge.WORDS

    def _go_through_tag(self, part: str) -> None:
        if self._quote:
            self._quote = "" if part == self._quote else self._quote
        elif part in ("'", '"'):
            self._quote = part
        elif part in (">", "/>"):
            outside = part == "/>" or self._tag[1] in "/!" or self._tag[1:] in VOID
            self._left, self._tag = (_Edge.MARKUP if outside else _Edge.INSIDE), ""

    def _space(self, right: str, following: list[Token]) -> str:
        """Return the text that a line break becomes on the page, given the text that follows it."""
        if self._tag:
            return "" if right.startswith((">", "/>")) else " "
        edges = (self._left, _edge(right, following))
        if _Edge.INSIDE in edges:
            return ""
        return " " if _Edge.WORDS in edges or edges == (_Edge.EXPRESSION, _Edge.EXPRESSION) else ""


def _edge(right: str, following: list[Token]) -> _Edge:
    """Return the edge that a line break comes to."""
    if right:
        if right[0] == "<" and right != "<":
            return _Edge.INSIDE if right[1] == "/" else _Edge.MARKUP
        return _Edge.WORDS
    if not following:
        return _Edge.INSIDE
    if following[0].type == "variable_begin":
        return _Edge.EXPRESSION
    name = following[1].value
    return _Edge.INSIDE if name.startswith("end") or name in ("elif", "else") else _Edge.MARKUP
