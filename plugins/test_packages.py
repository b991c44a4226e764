"""The packages of this directory, built and installed: they are found by their entry points, as a user's would be."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
PACKAGES = sorted(path.parent for path in HERE.glob("*/pyproject.toml"))
ASK = """
import json, sys
from mahavishnu.classify.chain import Chain
from mahavishnu.classify.plugins import Plugins
import httpx

plugins = Plugins.discover()
request = httpx.Request("GET", "http://shop.example")
limited = httpx.Response(403, headers={"X-RateLimit-Remaining": "0", "Retry-After": "7"}, request=request)
errors = [RuntimeError("the card was declined"), httpx.HTTPStatusError("no", request=request, response=limited)]
verdicts = [Chain(plugins).classify(error) for error in errors]
print(json.dumps({
    "report": [[each.name, each.origin, each.version, each.state] for each in plugins.report()],
    "authors": [each.author for each in verdicts],
    "categories": [each.category for each in verdicts],
    "seconds": verdicts[1].retry_in.total_seconds(),
}))
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the packages installed. Nothing is fetched: what builds them is here already."""
    directory = tmp_path_factory.mktemp("site")
    offline = ["--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", "--quiet", *offline, "--target", str(directory)]
    done = subprocess.run([*command, *map(str, PACKAGES)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return directory


def python(site: Path, *arguments: str) -> Any:
    environment = {**os.environ, "PYTHONPATH": str(site)}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=site)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_there_are_packages() -> None:
    assert [path.name for path in PACKAGES] == ["mahavishnu-classify-http", "mahavishnu-classify-template"]


def test_installed_plugins_are_found_and_asked(site: Path) -> None:
    found = python(site, "-c", ASK)
    assert found["report"] == [
        ["http", "entry point of mahavishnu-classify-http", "0.1.0", "ok"],
        ["template", "entry point of mahavishnu-classify-template", "0.1.0", "ok"],
        ["built-in", "mahavishnu", None, "ok"],
    ]
    assert found["authors"] == ["template", "http"]
    assert found["categories"] == ["validation", "transient"]
    assert found["seconds"] == 7


def test_nothing_is_left_in_the_sources(site: Path) -> None:
    assert not [path for path in HERE.rglob("*") if path.name in ("build", "dist") or path.suffix == ".egg-info"]
