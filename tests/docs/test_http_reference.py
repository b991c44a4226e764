"""docs/reference-http.md says what the API does: routes, roles, fields, problems, events; its curl runs."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest

from mahavishnu.core.api import create_app
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.events import routes as events
from mahavishnu.http import responses as errors
from tests.http.test_auth import ROUTES, UNGUARDED
from tests.support.server import served

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference-http.md").read_text(encoding="utf-8")
API = "/api/v1"
DOCUMENT: dict[str, Any] = create_app(DeadLetterQueue()).openapi()


def below(path: str) -> str:
    """As the page writes it: below the API, if it is not the API itself."""
    return path.removeprefix(API) or path


OPERATIONS = {
    (method.upper(), below(path)): operation
    for path, operations in DOCUMENT["paths"].items()
    for method, operation in operations.items()
}
ROWS = re.findall(r"^\| `([A-Z]+) (/\S*)` \| (\w+) \| (.+) \|$", PAGE, re.MULTILINE)


def test_every_route_is_there_and_no_other() -> None:
    assert sorted((method, path) for method, path, _, _ in ROWS) == sorted(OPERATIONS)


def test_the_roles_are_those_that_the_api_asks_for() -> None:
    asked = {(method, below(path)): role.name.lower() for (method, path), role in ROUTES.items()}
    asked |= {(method, below(path)): "everybody" for method, path in UNGUARDED}
    asked["GET", "/events"] = "viewer"
    assert {(method, path): role for method, path, role, _ in ROWS} == asked


def fields(operation: dict[str, Any]) -> set[str]:
    """The parameters and the fields of the body."""
    names = {each["name"] for each in operation.get("parameters", ()) if each["in"] == "query"}
    for content in operation.get("requestBody", {}).get("content", {}).values():
        for kind in [content["schema"], *content["schema"].get("anyOf", ())]:
            schema = DOCUMENT["components"]["schemas"].get(kind.get("$ref", "").rpartition("/")[2], {})
            names |= set(schema.get("properties", ()))
    return names


@pytest.mark.parametrize(("method", "path"), sorted(OPERATIONS), ids=lambda part: part)
def test_what_a_route_takes_is_named_in_its_section(method: str, path: str) -> None:
    sections = [text for text in re.split(r"^## ", PAGE, flags=re.MULTILINE) if f"`{method} {path}`" in text]
    assert len(sections) == 1
    missing = {name for name in fields(OPERATIONS[method, path]) if not re.search(rf'[`"]{name}\b', sections[0])}
    assert not missing


def test_every_problem_is_there_with_its_status() -> None:
    told: dict[str, set[int]] = {}
    for types, statuses in re.findall(r"^\| ((?:`[\w-]+`(?:, )?)+) \| ([\d, ]+) \| .+ \|$", PAGE, re.MULTILINE):
        for name in re.findall(r"`([\w-]+)`", types):
            told.setdefault(name, set()).update(map(int, statuses.split(",")))
    known: dict[str, set[int]] = {"invalid-request": {400, 422}, "method-not-allowed": {405}}
    for _, status, name in errors._STATUSES:
        known.setdefault(name, set()).add(status)
    for path in (ROOT / "mahavishnu").rglob("*.py"):
        for status, name in re.findall(r'problem\(\s*(\d+),\s*"([\w-]+)"', path.read_text(encoding="utf-8")):
            known.setdefault(name, set()).add(int(status))
    known["store-error"].discard(500)  # of a requeue, which the row says in words
    assert told == known


def test_every_event_is_there_with_its_data() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (`\w+`.*) \|$", PAGE.partition("| event |")[2], re.MULTILINE))
    for name, shown in (("letter", events._LETTER), ("run", events._RUN), ("group", events._GROUP)):
        assert re.findall(r"`(\w+)`", rows.pop(name)) == list(shown)
    assert rows.keys() >= {"many", "degraded"}


def test_the_curl_examples_run_one_after_the_other(tmp_path: Path) -> None:
    """As a reader would paste them, against a real server; each has to succeed."""
    blocks = re.findall(r"^```bash\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) > 6
    with served(f"sqlite:///{tmp_path}/letters.db", tmp_path) as server:
        script = "set -eu\n" + "\n".join(blocks).replace("http://127.0.0.1:8080", server.url)
        environment = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
        done = subprocess.run(
            ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=120, env=environment
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        letter = httpx.get(f"{server.api}/dlq/order-1").json()
    assert letter["task"] == {"currency": "EUR"}
