"""The settings file that is shipped and the reference page say what the model says."""

from __future__ import annotations

import json
import re
from pathlib import Path

from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.settings.schema import describe_allowed, fields, schema_at, variable

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "settings/mahavishnu.yaml"
REFERENCE = ROOT / "docs/reference-settings.md"


def reference() -> list[str]:
    """The rows of the table as they have to be."""
    return [
        f"| `{key}` | `{variable(key)}` | `{json.dumps(field.default)}` "
        f"| {describe_allowed(schema_at(MahavishnuSettings, key.split('.')))} | {field.description} |"
        for key, field in fields(MahavishnuSettings).items()
    ]


def test_the_shipped_file_gives_every_default() -> None:
    """Whoever starts from it starts from the defaults, and sees all there is."""
    shipped = MahavishnuSettings.load(SHIPPED)

    assert shipped.model_dump() == MahavishnuSettings.load().model_dump()
    assert tuple(shipped.origins()) == tuple(fields(MahavishnuSettings))
    assert {key for key, origin in shipped.origins().items() if not origin.startswith(str(SHIPPED))} == set()


def test_the_shipped_file_explains_every_key() -> None:
    """In the line above it, in the words of the model."""
    lines = SHIPPED.read_text(encoding="utf-8").splitlines()
    above, sections = dict[str, str](), list[str]()
    for at, line in enumerate(lines):
        name, colon, _ = line.strip().partition(":")
        if colon and not name.startswith("#"):
            sections = [*sections[: (len(line) - len(line.lstrip())) // 2], name]
            above[".".join(sections)] = lines[at - 1].strip()

    for key, field in fields(MahavishnuSettings).items():
        assert above[key] == f"# {field.description}"


def test_the_reference_has_every_setting() -> None:
    """If this fails after a change of the model, put these rows into the table."""
    rows = re.findall(r"^\| `.*$", REFERENCE.read_text(encoding="utf-8"), re.MULTILINE)

    assert rows == reference(), "\n".join(["", *reference()])


def test_every_setting_has_a_description() -> None:
    """A reference without one would be a list of names."""
    assert all(field.description for field in fields(MahavishnuSettings).values())
