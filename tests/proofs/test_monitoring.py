"""A real Prometheus scrapes a real server, and a real Alertmanager tells a webhook: firing, and resolved."""

from __future__ import annotations

import http.server
import json
import queue
import re
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.docs.test_monitoring import GROUPS
from tests.support.opensearch.tools import tool
from tests.support.server import served

WAIT = 60.0


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def receiver() -> Iterator[tuple[int, queue.Queue[dict[str, Any]]]]:
    """A webhook on a free port, and the alerts that it was sent."""
    heard: queue.Queue[dict[str, Any]] = queue.Queue()

    class Hook(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = json.loads(self.rfile.read(int(self.headers["content-length"])))
            for alert in sent["alerts"]:
                heard.put(alert)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port, heard
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def running(*command: str, log: Path) -> Iterator[None]:
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


def hurried_rules() -> dict[str, Any]:
    """The rules as they are shipped, with seconds instead of minutes."""

    def hurry(rule: dict[str, Any]) -> dict[str, Any]:
        expr = re.sub(r"\[\d+[mh]\]", "[5s]", rule["expr"])
        return {**rule, "expr": expr, **({"for": "1s"} if "for" in rule else {})}

    return {"groups": [{**group, "rules": [hurry(rule) for rule in group["rules"]]} for group in GROUPS]}


def wait_for_alert(heard: queue.Queue[dict[str, Any]], name: str, status: str) -> dict[str, Any]:
    while True:
        alert = heard.get(timeout=WAIT)
        if (alert["labels"]["alertname"], alert["status"]) == (name, status):
            return alert


@pytest.mark.prove
def test_an_alert_fires_and_is_resolved(tmp_path: Path) -> None:
    with receiver() as (hook, heard), served(f"sqlite:///{tmp_path}/letters.db", tmp_path) as server:
        prometheus_port, manager_port = free_port(), free_port()
        (tmp_path / "rules.yml").write_text(yaml.safe_dump(hurried_rules()))
        scrape = {"job_name": "dlq", "static_configs": [{"targets": [server.url.removeprefix("http://")]}]}
        manager = {"static_configs": [{"targets": [f"127.0.0.1:{manager_port}"]}]}
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": ["rules.yml"],
            "scrape_configs": [scrape],
            "alerting": {"alertmanagers": [manager]},
        }
        (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
        route = {"receiver": "hook", "group_by": ["alertname"], "group_wait": "0s", "group_interval": "1s"}
        hooks = [{"name": "hook", "webhook_configs": [{"url": f"http://127.0.0.1:{hook}/"}]}]
        (tmp_path / "manager.yml").write_text(
            yaml.safe_dump({"global": {"resolve_timeout": "5s"}, "route": route, "receivers": hooks})
        )
        with (
            running(
                tool("prometheus-alertmanager"),
                f"--config.file={tmp_path}/manager.yml",
                f"--storage.path={tmp_path}/manager",
                f"--web.listen-address=127.0.0.1:{manager_port}",
                "--cluster.listen-address=",
                log=tmp_path / "manager.log",
            ),
            running(
                tool("prometheus"),
                f"--config.file={tmp_path}/prometheus.yml",
                f"--storage.tsdb.path={tmp_path}/data",
                f"--web.listen-address=127.0.0.1:{prometheus_port}",
                log=tmp_path / "prometheus.log",
            ),
            httpx.Client(base_url=server.api) as api,
        ):
            for number in range(101):
                sent = {"task_id": f"wf_{number}", "error": "connection reset", "retry_policy": "never"}
                assert api.post("/dlq", json=sent).status_code < 300
            firing = wait_for_alert(heard, "DLQSizeHigh", "firing")
            assert firing["annotations"]["summary"] == "DLQ has 101 pending entries"
            assert firing["annotations"]["runbook_url"] == "/runbooks#dlqsizehigh"
            assert firing["labels"]["severity"] == "warning"
            assert api.post("/dlq/wf_0/resolve", json={}).status_code < 300
            resolved = wait_for_alert(heard, "DLQSizeHigh", "resolved")
            assert resolved["fingerprint"] == firing["fingerprint"]
