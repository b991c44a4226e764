"""The API keeps to its own OpenAPI document, whatever it is sent: no 5xx, no answer that is not documented."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, assume, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS
from schemathesis.core.result import Ok

from tests.support.opensearch import Servers
from tests.support.server import Server, served

FEW, MANY = 2, 20  # examples for each operation
LONGEST_QUERY = 20_000
UNENDING = "/api/v1/events"
CHECKED = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)


@pytest.fixture(
    scope="module", params=["sqlite", pytest.param("opensearch", marks=[pytest.mark.opensearch, pytest.mark.prove])]
)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder: Path = tmp_path_factory.mktemp("server")
    url = f"sqlite:///{folder}/letters.db"
    if request.param == "opensearch":
        cluster: Servers = request.getfixturevalue("opensearch")
        url = cluster.urls[0].replace("http", "opensearch", 1) + "/schema?timeout=30"
    with served(url, folder) as server:
        for number in range(5):
            letter: Any = {"task_id": f"wf_{number}", "error": "ValueError: bad input", "task": {"n": number}}
            assert requests.post(f"{server.api}/dlq", json=letter, timeout=10).status_code == 201
        yield server


@pytest.mark.parametrize("examples", [FEW, pytest.param(MANY, marks=pytest.mark.prove)])
@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
def test_every_answer_is_a_documented_one(server: Server, mode: GenerationMode, examples: int) -> None:
    schema = schemathesis.openapi.from_url(f"{server.api}/openapi.json")
    checks = CHECKS.get_by_names(list(CHECKED))
    problems: list[str] = []
    tried = 0
    for found in schema.get_all_operations():
        assert isinstance(found, Ok), found
        operation = found.ok()
        if operation.path == UNENDING:
            continue

        @settings(
            max_examples=examples,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def conforms(case: Any) -> None:
            nonlocal tried
            assume(len(repr(case.query)) < LONGEST_QUERY)  # beyond that the server hangs up before the API sees it
            tried += 1
            case.call_and_validate(base_url=server.url, checks=checks, timeout=30)

        try:
            conforms()
        except schemathesis.errors.SchemathesisError as unusable:
            if mode is GenerationMode.POSITIVE or "negat" not in str(unusable).lower():
                problems.append(f"{operation.label}: {unusable}")
        except Exception as problem:
            problems.append(f"{operation.label}: {problem}")
    assert not problems, "\n\n".join(problems)
    assert tried > 2 * examples
    assert "Traceback" not in server.log.read_text()
