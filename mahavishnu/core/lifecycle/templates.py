"""The templates of lifecycle tasks as they are now: of the settings, and of a directory, read when a file changed."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.staleness import StalenessRules
from mahavishnu.model.templates import LifecycleLimits, read_templates
from mahavishnu.model.yaml_size import MOST_NODES, is_too_large

log = logging.getLogger(__name__)
_Stamp = tuple[int, int]  # when a file was changed, and how long it is


class TemplateFiles:
    """Templates in a directory, a YAML file each. One that cannot be used any more counts as it was before."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[_Stamp, Mapping[str, LifecycleLimits]]] = {}

    def rules(self, rules: StalenessRules) -> StalenessRules:
        """The rules with the templates of their directory."""
        if rules.templates_directory is None:
            return rules
        return replace(rules, templates={**rules.templates, **self.read(Path(rules.templates_directory))})

    def read(self, directory: Path) -> dict[str, LifecycleLimits]:
        """The limits of each template in the directory, by its name: what the file says, else the file's own."""
        try:
            paths = sorted(path for path in directory.iterdir() if path.suffix in (".yaml", ".yml"))
        except OSError as problem:
            log.warning("the templates in %s cannot be read: %s", directory, problem.strerror)
            paths = list(self._known)
        self._known = {path: known for path, known in self._known.items() if path in paths}
        for path in paths:
            self._look_at(path)
        return {name: limits for _, found in self._known.values() for name, limits in found.items()}

    def _look_at(self, path: Path) -> None:
        try:
            status = path.stat()
            stamp = (status.st_mtime_ns, status.st_size)
            before = self._known.get(path)
            if before is not None and before[0] == stamp:
                return
            self._known[path] = (stamp, before[1] if before is not None else {})
            found = _read_file(path)
        except (OSError, InvalidInput) as problem:
            log.error("the template in %s cannot be used, and counts as it was before: %s", path, problem)
            return
        for name, limits in found.items():
            for warning in limits.warnings(name):
                log.warning("%s", warning)
        self._known[path] = (stamp, found)


def _read_file(path: Path) -> Mapping[str, LifecycleLimits]:
    try:
        loader = yaml.SafeLoader(path.read_text(encoding="utf-8"))
        node = loader.get_single_node()
        if node is not None and is_too_large(node):
            raise InvalidInput(f"it means more than {MOST_NODES} values, by its aliases")
        template: Any = None if node is None else loader.construct_document(node)
    except (yaml.YAMLError, ValueError, RecursionError) as problem:
        raise InvalidInput(f"it is not valid YAML: {problem}") from None
    name = template.get("name") if isinstance(template, Mapping) else None
    return read_templates({name if isinstance(name, str) and name else path.stem: template})
