"""OpenSearch is away for the whole life of a process: that starts, works, says so, and the next one brings it home."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.proofs.life import DOWN, FLAKY, ITEMS, LATER
from tests.support.node import PATIENCE_SECONDS, ROOT
from tests.support.opensearch import Cluster

pytestmark = [pytest.mark.opensearch, pytest.mark.faults]
STARTS_WITHIN_SECONDS = 10  # half of it for a busy machine: a store that is waited for again and again takes longer


def live(part: str, home: Path, url: str) -> dict[str, Any]:
    """What a process saw that had only the environment to go by."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAHAVISHNU_")}
    environment |= {
        "HOME": str(home),
        "PYTHONPATH": str(ROOT),
        "MAHAVISHNU_DLQ_STORE_URL": url.replace("http", "opensearch", 1),
        "MAHAVISHNU_DLQ_LOCAL_URL": f"sqlite:///{home}/local.db",
        "MAHAVISHNU_DLQ_AUTOMATIC_POLICY": "default",
        "MAHAVISHNU_DLQ_DEFAULT_RETRY_POLICY": "immediate",
        "MAHAVISHNU_CIRCUIT__FAILURE_THRESHOLD": "1000",
        "MAHAVISHNU_QUEUES": '{"orders": {"max_attempts": 2}}',
    }
    command = [sys.executable, "-m", "tests.proofs.life", part]
    done = subprocess.run(
        command, env=environment, cwd=home, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    seen: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return seen


@pytest.mark.parametrize("outage", ["refused", pytest.param("silent", marks=pytest.mark.prove)])
def test_a_whole_life_without_opensearch(outage: str, tmp_path: Path) -> None:
    """The server is down, or takes connections and never answers.

    Each letter is in the index exactly once afterwards, in the state that it had, and nothing was run again.
    """
    expected = {f"flaky-{number}": ["completed", 1] for number in range(FLAKY)}
    expected |= {f"down-{number}": ["exhausted", 3] for number in range(DOWN)}
    expected |= {f"later-{number}": ["pending", 0] for number in range(LATER)}

    with Cluster() as cluster:
        node = cluster.nodes[0]
        node.stop() if outage == "refused" else node.pause()
        first = live("work", tmp_path, cluster.urls[0])
        assert first["started"] < STARTS_WITHIN_SECONDS
        assert first["letters"] == expected
        assert first["runs"] == 2 * FLAKY + 4 * DOWN
        assert first["list"]
        assert first["statistics"]
        assert (first["mode"], first["health"]) == ("degraded", ["degraded", len(expected) + ITEMS])
        assert any("DLQ is degraded" in warning for warning in first["warnings"])

        node.start() if outage == "refused" else node.resume()
        cluster.wait()
        second = live("go-home", tmp_path, cluster.urls[0])
        cluster.request("POST", "/mahavishnu_dlq/_refresh")
        status, answer = cluster.request("POST", "/mahavishnu_dlq/_search?size=1000", {"query": {"match_all": {}}})

    assert (second["letters"], second["runs"]) == (expected, 0)
    assert (second["list"], second["statistics"], second["health"]) == (None, None, ["ok", 0])
    assert status == 200, answer
    waiting = [[number, "pending"] for number in range(1, ITEMS)]
    assert (first["items"], second["items"]) == (waiting, waiting)
    kept = [hit["_source"] for hit in answer["hits"]["hits"]]
    items = sorted([each["task"], each["status"]] for each in kept if each["queue"] == "orders")
    assert items == [[0, "completed"], *waiting]
    documents = [each for each in kept if each["queue"] != "orders"]
    assert len(documents) == len(expected)
    assert {each["task_id"]: [each["status"], each["total_attempts"]] for each in documents} == expected
