"""Canaries: a secret that is masked or encrypted is in no file, index, log, page, export, metric, trace or alert."""

from __future__ import annotations

import base64
import json
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.requests import Request

from mahavishnu.alerts.service import LOOK_SECONDS
from mahavishnu.core.api import Access, create_app
from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.core.dead_letter_queue import KINDS
from mahavishnu.engine.telemetry import OpenTelemetryTracing
from mahavishnu.stores.base import Store
from mahavishnu.stores.opensearch import OpenSearchStore
from mahavishnu.stores.sqlite import SQLiteStore
from mahavishnu.testing import Faults, FaultyStore, ManualClock
from mahavishnu.values.encryption import new_key
from tests.support.receivers import HttpReceiver

KEY = new_key()
HTML = {"Accept": "text/html"}
PLAIN = "plain-and-searchable-91"  # what is not secret is there, or nothing was looked at


def secret(place: str) -> str:
    """A text of its own for each place, that no other text contains."""
    return f"cnry{place}7f3a".replace(" ", "")


class Login(NamedTuple):
    user: str
    password: str


@dataclass
class Config:
    """Arguments of the user's own class."""

    host: str
    db_password: str
    card: str


class Session:
    """Has what it was made with, and says so."""

    def __init__(self, token: str) -> None:
        self.token = token

    def __repr__(self) -> str:
        return f"Session(token={self.token!r})"


class Environment(Mapping[str, str]):
    """A mapping that nobody knows, such as `os.environ` or a request."""

    def __getitem__(self, name: str) -> str:
        return {"DB": secret("environment")}[name]

    def __iter__(self) -> Iterator[str]:
        return iter(["DB"])

    def __len__(self) -> int:
        return 1


def request_of() -> Request:
    headers = [(b"authorization", f"Bearer {secret('bearer')}".encode()), (b"cookie", b"s=" + secret("crumb").encode())]
    return Request({"type": "http", "method": "POST", "path": "/pay", "headers": headers, "query_string": b""})


def arguments() -> dict[str, Any]:
    """All the ways in which a call is given a secret."""
    return {
        "order": "A-1",
        "note": PLAIN,
        "card": secret("card"),
        "password": secret("password"),
        "request": request_of(),
        "session": Session(secret("repr")),
        "environment": Environment(),
        "config": Config("db", secret("dataclass"), secret("cardinclass")),
        "login": Login("ann", secret("namedtuple")),
        "headers": [("Accept", "*/*"), ("Authorization", f"Bearer {secret('pair')}")],
        "raw_headers": [(b"accept", b"*/*"), (b"cookie", secret("rawpair").encode())],
        "by_bytes": {b"authorization": secret("byteskey").encode()},
        "variables": [{"name": "DB_PASSWORD", "value": secret("variable")}],
        "body": json.dumps({"to": "ann", "deep": [{"password": secret("jsonbytes")}]}).encode(),
        "form": f"to=ann&password={secret('form')}",
        "text": json.dumps({"card": {"number": secret("jsontext")}}),
        "address": f"https://x.example/cb?code=1&password={secret('query')}",
        "nested": [[{"deep": ({"card": secret("nested")},)}]],
    }


PLACES = (
    *("card", "password", "bearer", "crumb", "repr", "environment", "dataclass", "cardinclass", "namedtuple", "pair"),
    *("rawpair", "byteskey", "variable", "jsonbytes", "form", "jsontext", "query", "nested", "label", "labelpair"),
    *("result", "context", "contextpair", "move", "report", "event", "eventcard", "item", "itemlabel", "edited"),
    *("config", "stepcard"),
)


@asynccontextmanager
async def opened(store: Store, clock: ManualClock, **settings: Any) -> AsyncIterator[MahavishnuApp]:
    given = MahavishnuSettings(
        dlq_store_url="memory:",
        encryption={"fields": ["*card*"], "keys": {"k1": KEY}},
        redact_keys=["*password*", "*authorization*", "*cookie*"],
        events={"durable_names": ["*"]},
        **settings,
    )
    app = MahavishnuApp(given, store=store, clock=clock)
    try:
        yield app
    finally:
        await app.dlq.shutdown()


async def drive(app: MahavishnuApp, clock: ManualClock, faults: Faults) -> dict[str, str]:
    """Capture, retry, edit, archive, export, alert, page, metrics. Returns what was told, by its place."""
    dlq, told = app.dlq, dict[str, str]()
    given = arguments()
    assert app.dlq_integration is not None

    @app.workflow("charge", key="order", max_retries=2)
    async def charge(
        order: str, note: str, card: str, password: str, request: Any, session: Any, environment: Any, config: Config,
        login: Any, headers: Any, raw_headers: Any, by_bytes: Any, variables: Any, body: bytes, form: str, text: str,
        address: str, nested: Any,
    ) -> None:  # fmt: skip
        quoted = [
            card, config.card, config.db_password, password, nested[0][0]["deep"][0]["card"],
            raw_headers[1][1].decode(),
            headers[1][1].split()[1], json.loads(body)["deep"][0]["password"], json.loads(text)["card"]["number"],
            variables[0]["value"], login[1],
        ]  # fmt: skip
        problem = ConnectionError(f"refused {quoted}", body)
        problem.add_note(f"for {form} from {config!r}")
        raise problem

    @app.workflow("track", key="order", track=True, max_retries=1)
    async def track(order: str, card: str) -> None:
        await app.lifecycle.step("look", look, card)
        await app.lifecycle.step("fail", refuse, card)

    async def look(card: str) -> dict[str, str]:
        return {"card": secret("stepcard"), "note": PLAIN}

    async def refuse(card: str) -> None:
        raise ConnectionError(f"no answer for {card}")

    for call, values in ((charge, given), (track, {"order": "T-1", "card": secret("card")})):
        with pytest.raises(ConnectionError):
            await call(**values)
        faults.unavailable()
        with pytest.raises(ConnectionError):
            await call(**{**values, "order": f"{values['order']}-outage"})
        faults.clear()
    await app.dlq_integration.finish()
    labels = {"card": secret("label"), "headers": [["X-Password", secret("labelpair")]]}
    await dlq.enqueue("wf_1", {"card": secret("card"), "note": PLAIN}, [], f"no {secret('card')}", metadata=labels)
    config = {"db_password": secret("config")}
    await dlq.enqueue("wf_2", {"config": config}, [], KeyError(secret("config")), max_retries=1)
    clock.advance(3600)
    await dlq.retry_task("charge:A-1")
    await dlq.retry_task("track:T-1")
    await dlq.letters.edit("wf_1", patch={"card": secret("edited")}, by="ann")
    with suppress(Exception):
        await dlq.letters.edit("charge:A-1", patch={"config": {"card": [secret("card")]}}, by="ann")

    context = {"card": secret("context"), "headers": [["Authorization", secret("contextpair")]], "note": PLAIN}
    task = await app.lifecycle.create("theirs", context)
    await app.lifecycle.transition(task.task_id, "initializing", metadata={"password": secret("move")})
    await app.lifecycle.transition(task.task_id, "steps_in_process", metadata={"card": secret("move")})
    await app.lifecycle.begin_step(task.task_id, "one")
    await app.lifecycle.complete_step(task.task_id, "one", {"card": secret("result"), "password": secret("report")})
    await app.lifecycle.begin_step(task.task_id, "two")
    await app.lifecycle.fail_step(task.task_id, "two", ValueError(secret("context")), permanent=True)
    clear = await app.lifecycle.get_in_clear(task.task_id)
    assert clear.context.member("card") == secret("context"), "who does its work gets it"
    await dlq.domain_events.publish("paid", {"password": secret("event"), "card": secret("eventcard")}, mode="durable")

    await dlq.queues.create("morgue")
    await dlq.queues.create("mail", dead_queue="morgue", max_attempts=1)
    await dlq.queues.produce(
        "mail", {"card": secret("item"), "note": PLAIN}, metadata={"password": secret("itemlabel")}
    )
    (lease,) = await dlq.queues.lease("mail", "w1")
    assert lease.item.payload["card"] == secret("item")
    await dlq.queues.retry("mail", lease.item.id, lease.token, error=f"no {secret('item')}", dead=True)
    (lease,) = await dlq.queues.lease("morgue", "w1")
    assert lease.item.payload["card"] == secret("item"), "encrypted anew for its new place"

    told["export"] = "\n".join([line async for line in dlq.transfer.export()])
    told.update(await ask_all(app))
    for name in ("wf_1", "charge:A-1", "track:T-1"):
        await dlq.letters.resolve(name, by="ann")
    clock.advance(100 * 86400)
    await dlq.archive.archive_completed_tasks(dry_run=False)
    told.update({f"{name} later": text for name, text in (await ask_all(app)).items()})
    clock.advance(LOOK_SECONDS + 1)
    await dlq.alerts.run()
    await dlq.encryption.renew_all(dry_run=False, by="ann")
    return told


async def ask_all(app: MahavishnuApp) -> dict[str, str]:
    """What each route and page says."""
    dlq, told = app.dlq, dict[str, str]()
    api = create_app(dlq, access=Access.of({}, {}, {"ada": "t-1"}))
    groups = (await dlq.groups.list()).items
    tasks = (await app.lifecycle.list("all")).items
    transport, headers = httpx.ASGITransport(api), {"Authorization": "Bearer t-1"}
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as http:
        document = (await http.get("/api/v1/openapi.json")).json()
        reads = [
            path
            for path, found in document["paths"].items()
            if "get" in found and not path.endswith(("/stream", "/events"))
        ]
        names = [("charge:A-1", tasks[0].task_id), ("wf_1", tasks[-1].task_id), ("wf_2", "x"), ("track:T-1", "x")]
        for letter, task in names:
            for group in groups[:2]:
                known = {"task_id": letter, "fingerprint": group.fingerprint, "queue": "mail", "name": "mail"}
                for path in reads:
                    if "{task_id}" in path and "tasks" in path.split("/")[3:4]:
                        known = {**known, "task_id": task}
                    url = path.format_map(defaultdict(lambda: "x", known))
                    if url not in told:
                        told[url] = (await http.get(url)).text
            for page in (f"/letters/{letter}", f"/tasks/{task}"):
                told[f"page {page}"] = (await http.get(page, headers=HTML)).text
        pages = ["/", "/groups", "/letters", "/runs", "/audit", "/archive", "/workers", "/queues", "/queues/mail"]
        pages += ["/tasks", "/alerts", "/settings", *(f"/groups/{each.fingerprint}" for each in groups)]
        for page in pages:
            told[f"page {page}"] = (await http.get(page, headers=HTML)).text
        told["metrics"] = (await http.get("/metrics")).text
    return told


def spellings(place: str) -> list[str]:
    """A canary as it is, and in Base64 from each of its three places."""
    data = secret(place).encode()
    inside = [base64.b64encode(b"x" * shift + data)[4 : -4 if len(data) > 8 else None].decode() for shift in range(3)]
    return [secret(place), base64.b64encode(data).decode()[:16], *inside]


def found_in(told: Mapping[str, str | bytes]) -> list[tuple[str, str]]:
    """The canaries in texts and files, each with where it is."""
    texts = {name: text if isinstance(text, bytes) else text.encode() for name, text in told.items()}
    assert any(PLAIN.encode() in text for text in texts.values()), "nothing was looked at"
    return [
        (place, name)
        for name, text in texts.items()
        for place in PLACES
        if any(each.encode() in text for each in spellings(place))
    ]


async def run(store: Store, caplog: pytest.LogCaptureFixture) -> dict[str, str]:
    """Drive one app on this store; returns what it told anyone."""
    caplog.set_level(logging.DEBUG)
    clock, faults, spans = ManualClock(), Faults(), InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    listened: list[Any] = []
    async with HttpReceiver.serve() as hook:
        alerts = {"webhook_url": hook.url, "webhook_secret": "hush"}
        async with opened(FaultyStore(store, faults), clock, alerts=alerts) as app:
            app.dlq.context.tracing = OpenTelemetryTracing(provider)
            app.dlq.listen(listened.append)
            told = await drive(app, clock, faults)
        told["alerts"] = repr(hook.bodies)
    records = [each for each in caplog.records if not each.name.startswith(("httpx", "httpcore", "asyncio", "urllib"))]
    plain = logging.Formatter()
    told["log"] = "\n".join(f"{plain.format(each)} {each.__dict__}" for each in records)
    told["spans"] = "\n".join(span.to_json() for span in spans.get_finished_spans())
    told["listeners"] = repr(listened)
    assert hook.bodies and spans.get_finished_spans(), "alerts and traces were seen"
    return told


async def test_no_canary_is_told_or_in_any_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    told = await run(SQLiteStore(tmp_path / "letters.db", kinds=KINDS), caplog)
    assert found_in(told) == []
    assert found_in(files_of(tmp_path)) == []


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.opensearch
async def test_no_canary_is_told_or_in_any_index(
    opensearch_url: str, opensearch_prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    told = await run(OpenSearchStore(opensearch_url, prefix=opensearch_prefix, timeout=60), caplog)
    async with httpx.AsyncClient(base_url=opensearch_url, timeout=60, verify=False) as http:
        await http.post(f"/{opensearch_prefix}*/_refresh")
        names = (await http.get(f"/_cat/indices/{opensearch_prefix}*?format=json&h=index&expand_wildcards=all")).json()
        indexes = {
            each["index"]: (await http.get(f"/{each['index']}/_search?size=1000")).text
            + (await http.get(f"/{each['index']}/_mapping")).text
            for each in names
        }
    assert found_in(told) == []
    assert found_in(indexes) == []
