"""A YAML file as a tree of values that know their lines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import yaml

from mahavishnu.core.config.values import Given, Tree

_QUOTE = "a value that begins with * & or ! has to be put in quotes"


class _Refused(Exception):
    """One problem, complete with its place."""


def read(path: Path, label: str, *, required: bool) -> tuple[Tree, bool, tuple[str, ...]]:
    """The content of the file, whether there is one, and its problems, one line each.

    A file with a problem of its form gives no values: half a file would be another configuration. No problem quotes a
    value, which might be a password.
    """
    try:
        return _parse(path.read_bytes(), label), True, ()
    except FileNotFoundError:
        return {}, False, (f"{label}: there is no such file",) if required else ()
    except OSError as problem:
        return {}, True, (f"{label}: cannot be read: {problem.strerror}",)
    except _Refused as problem:
        return {}, True, tuple(str(problem).splitlines())


def _parse(content: bytes, label: str) -> Tree:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = content.count(b"\n", 0, problem.start) + 1
        raise _Refused(f"{label}:{line}: is not UTF-8") from None
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is None or (isinstance(node, yaml.ScalarNode) and not node.value):
            return {}
        if not isinstance(node, yaml.MappingNode):
            raise _Refused(f"{label}:{_line(node)}: must be a list of `key: value` lines")
        if twice := list(_twice(node, label, set())):
            raise _Refused("\n".join(twice))
        return _tree(loader, node, label)
    except yaml.reader.ReaderError as problem:
        line = text.count("\n", 0, problem.position) + 1
        raise _Refused(f"{label}:{line}: holds a character that YAML does not allow") from None
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        raise _Refused(f"{label}:{mark.line + 1 if mark else 1}: is not valid YAML: {_reason(problem)}") from None
    except RecursionError:
        raise _Refused(f"{label}:1: is nested too deeply, or contains itself") from None


def _tree(loader: yaml.SafeLoader, node: yaml.MappingNode, label: str) -> Tree:
    tree: Tree = {}
    for key, value in node.value:
        where = f"{label}:{_line(key)}"
        if isinstance(value, yaml.MappingNode) and value.value:
            tree[key.value] = _tree(loader, value, label)
            continue
        try:
            tree[key.value] = Given(loader.construct_object(value, deep=True), where)
        except ValueError:  # 2026-02-31 looks like a date; the error would quote it
            raise _Refused(f"{where}: {key.value} cannot be read; put the value in quotes") from None
    return tree


def _twice(node: yaml.Node, label: str, seen: set[int]) -> Iterator[str]:
    """Keys that are no text, and keys that are given twice: YAML would silently take the last."""
    if id(node) in seen:  # an alias
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _twice(item, label, seen)
    if isinstance(node, yaml.MappingNode):
        first: dict[str, int] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                yield f"{label}:{_line(key)}: has a key that is no text"
            elif key.value in first:
                yield f"{label}:{_line(key)}: {key.value!r} is given twice, first in line {first[key.value]}"
            else:
                first[key.value] = _line(key)
            yield from _twice(value, label, seen)


def _reason(problem: yaml.MarkedYAMLError) -> str:
    reason = problem.problem or "it cannot be understood"
    if any(word in reason for word in ("alias", "anchor", "tag")):  # these quote what may be a value
        return _QUOTE
    return f"{reason} ({problem.context})" if problem.context else reason


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
