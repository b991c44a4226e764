"""The YAML of a settings file: a module of its own, since importing yaml takes longer than to find no file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from mahavishnu.model.json_value import MOST_NODES, is_too_large
from mahavishnu.settings.sources import FormError, Keys, SourcedValue, Values

_QUOTE = "a value that begins with * & or ! has to be put in quotes"


class _Loader(yaml.SafeLoader):
    """Refuses keys that are no text, and keys that are given twice: YAML would silently take the last."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        first: dict[str, int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise FormError(_line(key), "has a key that is no text")
            if key.value in first:
                raise FormError(_line(key), f"{key.value!r} is given twice, first in line {first[key.value]}")
            first[key.value] = _line(key)
        return node


def parse_yaml(content: bytes, label: str) -> Values:
    """Return the values of a settings file, each with its line. Raises `FormError`."""
    try:
        text = content.decode("utf-8-sig")
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None or (isinstance(node, yaml.ScalarNode) and not node.value):
            return {}
        if not isinstance(node, yaml.MappingNode):
            raise FormError(_line(node), "must be a list of `key: value` lines")
        if is_too_large(node):
            raise FormError(_line(node), f"means more than {MOST_NODES} values, by its aliases")
        return dict(_values_in(loader, node, label))
    except UnicodeDecodeError as problem:
        line, reason = content.count(b"\n", 0, problem.start) + 1, "is not UTF-8"
    except yaml.reader.ReaderError as problem:
        line, reason = text.count("\n", 0, problem.position) + 1, "holds a character that YAML does not allow"
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        line, reason = mark.line + 1 if mark else 1, f"is not valid YAML: {_reason(problem)}"
    except RecursionError:
        line, reason = 1, "is nested too deeply, or contains itself"
    raise FormError(line, reason)


def _values_in(
    loader: yaml.SafeLoader, node: yaml.MappingNode, label: str, above: Keys = ()
) -> Iterator[tuple[Keys, SourcedValue]]:
    for key, value in node.value:
        keys = (*above, key.value)
        if isinstance(value, yaml.MappingNode) and value.value:
            yield from _values_in(loader, value, label, keys)
            continue
        try:
            yield keys, SourcedValue(loader.construct_object(value, deep=True), f"{label}:{_line(key)}")
        except ValueError:  # 2026-02-31 looks like a date; the error would quote it
            raise FormError(_line(key), f"{key.value} cannot be read; put the value in quotes") from None


def _reason(problem: yaml.MarkedYAMLError) -> str:
    reason = problem.problem or "it cannot be understood"
    if any(word in reason for word in ("alias", "anchor", "tag")):  # these quote what may be a value
        return _QUOTE
    return f"{reason} ({problem.context})" if problem.context else reason


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
