"""Verb × role × scope of the pages: every form that changes something, sent by everybody who may and who may not."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

import mahavishnu
from mahavishnu.core.api import Access, create_app
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.core.rooms import pages
from mahavishnu.engine.audit import AUDIT
from mahavishnu.engine.context import QueueOptions
from mahavishnu.http.auth import Limit
from mahavishnu.http.responses import etag
from mahavishnu.model.permissions import Permission, Scope
from mahavishnu.stores.memory import MemoryStore
from mahavishnu.tasks.service import Lifecycle
from mahavishnu.testing import ManualClock

GRAVE = ("archive", "fail", "cancel")
RETRY, EDIT, DELETE, CONFIGURE = Permission.RETRY, Permission.EDIT, Permission.DELETE, Permission.CONFIGURE
TOKEN = "who-asks-1"
Known = Mapping[str, str]


@dataclass(frozen=True)
class Case:
    """One way to send a form: what it needs, and the fields as the page would have them."""

    path: str
    needs: frozenset[Permission]
    form: Mapping[str, str] = field(default_factory=dict)
    to: str = ""  #: the path with what there is, if it has parts
    owns: frozenset[str] = frozenset()  #: kinds of records that who sees nothing of this may still make

    @property
    def name(self) -> str:
        return " ".join(
            [self.to or self.path, *(f"{key}={self.form[key]}" for key in ("act", "verb") if key in self.form)]
        )


def case(path: str, /, *needs: Permission, to: str = "", owns: str = "", **form: str) -> Case:
    return Case(path, frozenset(needs), form, to, frozenset(owns.split()))


LETTER, GROUP, RUN = "/letters/{task_id}", "/groups/{fingerprint}", "/runs/{run_id}/{act}"
QUEUE, ITEM = "/queues/{queue}", "/queues/{queue}/items/{id}"
NOW = "2027-01-01T00:00:00+00:00"  # when the page was shown
CASES = [
    case(f"{LETTER}/edit", EDIT, act="edit", path="n", value="2", version="{version}"),
    case(f"{LETTER}/edit", EDIT, RETRY, act="redrive", path="n", value="2", version="{version}"),
    case(f"{LETTER}/restore", EDIT, Permission.VIEW_PAYLOAD, revision="0"),
    case(f"{LETTER}/retry", RETRY),
    case(f"{LETTER}/delete", DELETE, act="delete", typed="{task_id}"),
    case(f"{LETTER}/redrive", RETRY, act="redrive"),
    *(case(f"{LETTER}/{verb}", EDIT) for verb in ("resolve", "fail", "cancel", "archive")),
    case("/letters/views", EDIT, name="mine", q="adapter:orders", owns="views"),
    *(case(GROUP, EDIT, act=act, note="seen", version="{seen}") for act in ("take", "note", "resolved", "wont_fix")),
    case(GROUP, EDIT, act="save", owner="bob", version="{seen}"),
    case(f"{GROUP}/fix", RETRY, act="start", before=NOW, ramp="1"),
    case(f"{GROUP}/fix", RETRY, EDIT, act="start", before=NOW, path="n", value="2", ramp="1"),
    case("/selection", RETRY, verb="redrive", owns="runs"),
    *(case("/selection", EDIT, verb=verb, typed="1", matched="1", owns="runs") for verb in GRAVE),
    case("/selection", EDIT, verb="resolve", owns="runs"),
    *(case(RUN, RETRY, to=f"/runs/{{run_id}}/{act}") for act in ("pause", "cancel")),
    case(RUN, RETRY, to="/runs/{paused}/resume"),
    case(RUN, RETRY, to="/runs/{over}/fix", act="start", scope="rest", ramp="1"),
    case("/queues", EDIT, name="more", lease_timeout="60s"),
    case(QUEUE, EDIT, lease_timeout="90s"),
    case(f"{QUEUE}/redrive", RETRY, everything="yes", to="/queues/dead/redrive"),
    case(f"{QUEUE}/delete", DELETE, typed="spare", to="/queues/spare/delete"),
    case(f"{ITEM}/retry", RETRY, to="/queues/dead/items/{dead}/retry"),
    case(f"{ITEM}/drop", DELETE),
    case("/workers/limits", EDIT, adapter="orders", concurrency="3"),
    case("/workers/limits", EDIT, adapter="orders", reset="yes"),
    case("/tasks/detect", EDIT),
    case("/tasks/{task_id}/move", EDIT, to="/tasks/{task}/move"),
    case("/archive/months/{month}/{act}", CONFIGURE, to="/archive/months/{month}/detach"),
    case("/archive/letters/{name}/restore", EDIT, to="/archive/letters/{archived}/restore"),
]  # fmt: skip
HARMLESS = {"/login", "/logout", "/plugins"}  # they change nothing of what is kept
MAY: Mapping[str, frozenset[Permission]] = {
    "viewer": frozenset({Permission.VIEW, Permission.VIEW_PAYLOAD}),
    "operator": frozenset({Permission.VIEW, Permission.VIEW_PAYLOAD, RETRY, EDIT}),
    "admin": frozenset(Permission),
    **{f"admin with {each} only": frozenset({Permission.VIEW, each}) for each in (RETRY, EDIT, DELETE, CONFIGURE)},
}
OUTSIDE = {
    "another namespace": Scope(namespaces=frozenset({"elsewhere"})),
    "another queue": Scope(queues=frozenset({"elsewhere"})),
    "another adapter": Scope(adapters=frozenset({"elsewhere"})),
}


async def run_task(task: Any, repos: list[str]) -> None:
    """What a retry runs."""


@dataclass
class World:
    """A queue with one of everything, and a client of its pages."""

    dlq: DeadLetterQueue
    store: MemoryStore
    http: httpx.AsyncClient
    known: Known

    def records(self, without: frozenset[str] = frozenset()) -> dict[str, Any]:
        """What is kept, apart from the audit."""
        return {
            f"{kind.name} {key}": record
            for kind, collection in self.store._collections.items()
            if kind is not AUDIT and kind.name not in without
            for key, record in collection._records.items()
        }

    async def count_denials(self) -> int:
        """How many there are of who asks."""
        return len((await self.dlq.audit.list(action="denied", actor="ann", limit=1000)).items)

    @asynccontextmanager
    async def again(self) -> AsyncIterator[None]:
        """What is done inside is undone, for the next one."""
        kept = {kind: dict(collection._records) for kind, collection in self.store._collections.items()}
        yield
        for kind, collection in self.store._collections.items():
            collection._records = kept.get(kind, {})

    async def send(self, sent: Case) -> httpx.Response:
        path = (sent.to or sent.path).format_map(self.known)
        form = {name: value.format_map(self.known) for name, value in sent.form.items()}
        return await self.http.post(path, data=form, headers={"Accept": "text/html"})


@asynccontextmanager
async def world(role: str, limit: Limit) -> AsyncIterator[World]:
    clock, store = ManualClock(), MemoryStore()
    async with DeadLetterQueue(store=store, clock=clock, options=QueueOptions(callback=run_task)) as dlq:
        known = await fill(dlq, clock)
        tokens: dict[str, dict[str, str]] = {name: {} for name in ("viewer", "operator", "admin")} | {
            role: {"ann": TOKEN}
        }
        access = Access.of(tokens["viewer"], tokens["operator"], tokens["admin"], {"ann": limit})
        app = create_app(dlq, access=access)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as http:
            yield World(dlq, store, http, known)


async def fill(dlq: DeadLetterQueue, clock: ManualClock) -> Known:
    """One of everything that forms are about."""
    await dlq.enqueue("old-1", {"n": 1}, [], "connection refused", adapter="orders")
    await dlq.letters.resolve("old-1", by="eve")
    clock.advance(timedelta(days=31))
    await dlq.archive.run(dry_run=False)
    (archived,) = (await dlq.archive.search()).items
    await dlq.enqueue("o-1", {"n": 1}, [], "no such file", adapter="orders")
    await dlq.letters.edit("o-1", priority=3, by="eve")
    letter = await dlq.get_task("o-1")
    assert letter is not None and letter.fingerprint is not None
    runs = [await dlq.runs.start("redrive", everything=True, by="eve") for _ in range(3)]
    await dlq.runs.pause(runs[1].run_id, by="eve")
    await dlq.runs.cancel(runs[2].run_id, by="eve")
    for name in ("dead", "spare"):
        await dlq.queues.create(name, by="eve")
    await dlq.queues.create("items", by="eve", dead_queue="dead", max_attempts=1)
    item = await dlq.queues.produce("items", {"n": 1})
    await dlq.queues.produce("items", {"n": 2})
    (lease,) = await dlq.queues.lease("items", "w1")
    await dlq.queues.retry("items", lease.item.id, lease.token, dead=True)
    (dead,) = (await dlq.queues.items("dead")).items
    (item,) = (await dlq.queues.items("items")).items
    (dlq_lease,) = await dlq.queues.lease("dead", "w1")
    await dlq.queues.retry("dead", dlq_lease.item.id, dlq_lease.token, dead=True)
    lifecycle = Lifecycle(dlq.context)
    task = await lifecycle.create("import", {"n": 1})
    await lifecycle.transition(task.task_id, "initializing")
    await lifecycle.transition(task.task_id, "steps_in_process")
    clock.advance(timedelta(hours=3))
    return {
        "task_id": "o-1", "version": etag(letter.version), "fingerprint": letter.fingerprint,
        "seen": etag((await dlq.groups.get(letter.fingerprint)).version),
        "run_id": runs[0].run_id, "paused": runs[1].run_id, "over": runs[2].run_id,
        "queue": "items", "id": item.id, "dead": dead.id, "task": task.task_id, "name": archived.copy.entry_id,
        "archived": archived.copy.entry_id, "month": archived.partition, "act": "",
    }  # fmt: skip


def test_every_form_has_its_cases() -> None:
    """A new form, or another button of one, has to be named here with what it needs."""
    posted = {route.path for page in pages() for route in page.router.routes if route.method != "GET"}
    covered = {each.path for each in CASES}
    assert posted - HARMLESS == covered
    assert {route.method for page in pages() for route in page.router.routes} == {"GET", "POST"}
    package = Path(mahavishnu.__file__).parent
    buttons = {
        name
        for path in package.glob("*/templates/*.html")
        for name in re.findall(r'name="act" value="(\w+)"', path.read_text())
    }
    assert buttons - {each.form.get("act") for each in CASES} == {"preview"}


@pytest.mark.parametrize("who", MAY)
async def test_forms_are_done_by_who_may_and_refused_to_others(who: str) -> None:
    limit = Limit() if who in ("viewer", "operator", "admin") else Limit(MAY[who])
    wrong = []
    async with world(who.split()[0], limit) as made:
        for sent in CASES:
            async with made.again():
                before, denied = made.records(), await made.count_denials()
                answer = await made.send(sent)
                done, told = made.records() != before, await made.count_denials() - denied
                expected = (303, True, 0) if sent.needs <= MAY[who] else (403, False, 1)
                if (answer.status_code, done, told) != expected:
                    wrong.append((sent.name, answer.status_code, done, told))
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize("scope", OUTSIDE)
async def test_forms_change_nothing_outside_of_the_scope(scope: str) -> None:
    """It is not there, or what is about more than the scope is refused, and that is written down."""
    wrong = []
    async with world("admin", Limit(scope=OUTSIDE[scope])) as made:
        for sent in CASES:
            async with made.again():
                before, denied = made.records(sent.owns), await made.count_denials()
                answer = await made.send(sent)
                done, told = made.records(sent.owns) != before, await made.count_denials() - denied
                if done or answer.status_code not in (303, 403, 404) or (answer.status_code == 403) is not (told == 1):
                    wrong.append((sent.name, answer.status_code, done, told))
    assert not wrong, "\n".join(map(str, wrong))


async def test_forms_of_nobody_lead_to_the_login() -> None:
    async with world("admin", Limit()) as made:
        del made.http.headers["Authorization"]
        before = made.records()
        for sent in CASES:
            assert (await made.send(sent)).status_code in (303, 401), sent.name
        assert made.records() == before
