"""Workflows behind a URL: what is posted, what counts as failed, and what a retry brings along."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
import respx

from mahavishnu.capture.adapters import HttpAdapter
from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.model.errors import InvalidInput
from mahavishnu.testing import ManualClock

URL = "https://runner.example/sweep"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def app(clock: ManualClock) -> MahavishnuApp:
    app = MahavishnuApp(MahavishnuSettings(dlq_store_url="memory:", dlq_strategy="automatic"), clock=clock)
    app.register_adapter("http", HttpAdapter(URL, headers={"X-Team": "payments"}))
    return app


def queue(app: MahavishnuApp) -> DeadLetterQueue:
    return app.dlq


@respx.mock
async def test_the_task_and_its_repos_are_posted_and_the_answer_is_the_result(app: MahavishnuApp) -> None:
    route = respx.post(URL).respond(json={"swept": 3})
    result = await app.execute_workflow({"type": "sweep"}, "http", ["api", "web"])
    assert (result["status"], result["result"]) == ("completed", {"swept": 3})
    request = route.calls.last.request
    assert json.loads(request.content) == {"task": {"type": "sweep"}, "repos": ["api", "web"]}
    assert request.headers["x-team"] == "payments"
    assert "idempotency-key" not in request.headers, "the first run is no retry"


@respx.mock
async def test_a_description_of_what_was_lost_is_not_posted(app: MahavishnuApp) -> None:
    route = respx.post(URL).respond(json={})
    types = {"/to": "lost:socket", "/day": "date"}
    task = {"to": "<socket>", "day": "2026-11-19"}
    await queue(app).enqueue("wf_1", task, [], "refused", adapter="http", payload_types=types)
    answer = await queue(app).retry_task("wf_1")
    assert "to was of type socket, which cannot come back: give a value by an edit" in answer["error"]
    assert not route.called
    await queue(app).letters.edit("wf_1", patch={"to": "ann"})
    assert (await queue(app).retry_task("wf_1"))["success"]
    assert json.loads(route.calls.last.request.content)["task"] == {"to": "ann", "day": "2026-11-19"}


@respx.mock
async def test_a_retry_says_that_it_is_one(app: MahavishnuApp, clock: ManualClock) -> None:
    route = respx.post(URL)
    route.side_effect = [httpx.Response(503), httpx.Response(503), httpx.Response(200, text="done")]
    result = await app.execute_workflow({"id": "wf_1"}, "http", ["api"])
    assert (result["error_category"], result["dlq_enqueued"]) == ("transient", True)
    for _ in range(2):
        clock.advance(timedelta(minutes=3))
        assert await queue(app).run_due() == 1
    first, second = (call.request.headers for call in list(route.calls)[1:])
    letter = await queue(app).get_task("wf_1")
    assert letter is not None
    assert letter.status == "completed"
    assert [first["idempotency-key"], second["idempotency-key"]] == [f"{letter.entry_id}-0", f"{letter.entry_id}-1"]
    assert (first["mahavishnu-attempt-number"], second["mahavishnu-attempt-number"]) == ("1", "2")
    assert first["mahavishnu-attempt-id"] != second["mahavishnu-attempt-id"]


@respx.mock
@pytest.mark.parametrize(
    ("answer", "category"),
    [
        (httpx.Response(429, headers={"Retry-After": "120"}), "transient"),
        (httpx.Response(401), "permission"),
        (httpx.Response(422), "validation"),
        (httpx.Response(504), "network"),
        (httpx.ConnectError("refused"), "network"),
        (httpx.ReadTimeout("slow"), "network"),
    ],
)
async def test_what_the_target_answers_is_classified(
    app: MahavishnuApp, clock: ManualClock, answer: Any, category: str
) -> None:
    respx.post(URL).mock(side_effect=[answer])
    result = await app.execute_workflow({"id": "wf_1"}, "http")
    assert (result["status"], result["error_category"]) == ("failed", category)
    letter = await queue(app).get_task("wf_1")
    assert letter is not None
    if isinstance(answer, httpx.Response) and "retry-after" in answer.headers:
        assert letter.next_retry_at == clock.now() + timedelta(seconds=120)


@respx.mock
@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ({"status": "failed", "error": "no such branch"}, "no such branch"),
        ({"success": False, "errors": ["a"]}, "['a']"),
    ],
)
async def test_an_answer_may_say_that_it_failed(app: MahavishnuApp, answer: dict[str, Any], error: str) -> None:
    respx.post(URL).respond(json=answer)
    result = await app.execute_workflow({}, "http")
    assert (result["status"], result["error"]) == ("failed", error)


@respx.mock
async def test_a_redirect_is_not_followed(app: MahavishnuApp) -> None:
    respx.post(URL).respond(302, headers={"Location": "https://elsewhere.example/"})
    result = await app.execute_workflow({}, "http")
    assert (result["status"], result["error_type"]) == ("failed", "HTTPStatusError")


@pytest.mark.parametrize("url", ["runner.example", "ftp://runner.example", ""])
def test_what_is_no_http_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="is not an HTTP URL"):
        HttpAdapter(url)


class Target(BaseHTTPRequestHandler):
    """A server that fails the first time it sees a task."""

    seen: dict[str, list[str | None]]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        runs = self.seen.setdefault(body["task"]["id"], [])
        runs.append(self.headers["Idempotency-Key"])
        answer = json.dumps({"status": "completed" if len(runs) > 1 else "failed", "error": "cold"}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def target() -> Iterator[ThreadingHTTPServer]:
    Target.seen = {}
    with ThreadingHTTPServer(("127.0.0.1", 0), Target) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


async def test_a_workflow_behind_a_real_server_is_retried_until_it_works(
    app: MahavishnuApp, clock: ManualClock, target: ThreadingHTTPServer
) -> None:
    app.register_adapter("http", HttpAdapter(f"http://127.0.0.1:{target.server_port}/"))
    assert (await app.execute_workflow({"id": "wf_1"}, "http", ["api"], enqueue=True))["dlq_enqueued"]
    answer = await queue(app).retry_task("wf_1")
    assert answer["success"] is True
    letter = await queue(app).get_task("wf_1")
    assert letter is not None
    assert Target.seen == {"wf_1": [None, f"{letter.entry_id}-0"]}


async def test_a_target_that_is_gone_is_a_failed_run(app: MahavishnuApp, target: ThreadingHTTPServer) -> None:
    port = target.server_port
    target.server_close()
    app.register_adapter("http", HttpAdapter(f"http://127.0.0.1:{port}/", timeout_seconds=5))
    result = await app.execute_workflow({}, "http")
    assert (result["status"], result["error_category"]) == ("failed", "network")
