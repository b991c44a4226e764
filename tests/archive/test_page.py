"""The pages of the archive."""

from __future__ import annotations

import html
import re
from datetime import timedelta

import pytest

from mahavishnu.archive.service import Archive
from mahavishnu.tasks.service import Lifecycle
from mahavishnu.tasks.task import StepRecord
from tests.console.test_forms import post
from tests.support.api import ApiHarness
from tests.support.pages import EVIL, HTML, away, read, require_inert


async def fill(api: ApiHarness, *names: str) -> list[str]:
    """Letters in the archive. Returns their entry ids."""
    for name in names:
        await api.dlq.enqueue(name, {"n": name}, [], f"connection refused {name}")
        await api.dlq.letters.edit(name, priority=3)
        await api.dlq.letters.resolve(name, by="ann")
        api.clock.advance(1)
    api.clock.advance(timedelta(days=31))
    await api.dlq.archive.run(dry_run=False)
    return [line.copy.entry_id for line in (await api.dlq.archive.search()).items][::-1]


async def test_an_empty_archive_says_what_comes_here(api: ApiHarness) -> None:
    assert "The archive is empty" in await read(api, "/archive")
    assert "No such letter" in await read(api, "/archive?task_id=x&category=&resolution=&since=&until=&fingerprint=")
    assert "No month yet" in await read(api, "/archive/months")
    assert "No task is archived" in await read(api, "/archive/tasks")
    await read(api, "/archive/letters/x", status=404)
    await read(api, "/archive?since=soon", status=422)


async def test_letters_are_found_page_by_page_shown_and_put_back(api: ApiHarness) -> None:
    first, _ = await fill(api, "wf_0", "wf_1")
    page = await read(api, "/archive?limit=1")
    assert "wf_1" in page and "wf_0" not in page and 'rel="next"' in page
    found = await read(api, "/archive?category=permanent&until=2020-01-01")
    assert "No such letter" in found
    assert f"archive/letters/{first}" in await read(api, "/archive?task_id=wf_0")
    one = await read(api, f"/archive/letters/{first}")
    assert "connection refused wf_0" in one and "Revision 0" in one and "by ann" in one
    done = await post(api, f"/archive/letters/{first}/restore", reason="OPS")
    assert (done.status_code, done.headers["location"]) == (303, "../../../letters/wf_0")
    assert "It is back in the queue" in await read(api, "/letters/wf_0")
    await read(api, f"/archive/letters/{first}", status=404)


async def test_one_that_failed_again_is_not_put_back(api: ApiHarness) -> None:
    (entry,) = await fill(api, "wf_0")
    await api.dlq.enqueue("wf_0", {}, [], "again")
    assert (await post(api, f"/archive/letters/{entry}/restore")).status_code == 409


async def test_months_say_how_many_letters_they_have(api: ApiHarness) -> None:
    await fill(api, "wf_0", "wf_1")
    shown = await read(api, "/archive/months")
    assert "1 month in the archive" in shown and ">2</td>" in shown and "months/2026_01/detach" in shown
    assert (await post(api, "/archive/months/2026_01/burn")).status_code == 422


async def test_months_are_detached_and_attached_by_admins(
    guarded_api: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(guarded_api, "wf_0")
    done: list[str] = []

    async def detach(self: Archive, name: str, *, by: str) -> str:
        done.append(f"detach {name} by {by}")
        return "/var/archive/2026_01.sqlite"

    monkeypatch.setattr(Archive, "detach", detach)  # memory has no files that could be moved away
    assert 'disabled title="admins may"' in await read(guarded_api, "/archive/months", "operator")
    for role, status in (("viewer", 403), ("operator", 403), ("admin", 303)):
        assert (await post(guarded_api, "/archive/months/2026_01/detach", role)).status_code == status
    assert done == ["detach 2026_01 by ada"]


async def test_viewers_look_and_operators_put_back(guarded_api: ApiHarness) -> None:
    (entry,) = await fill(guarded_api, "wf_0")
    assert 'disabled title="operators may"' in await read(guarded_api, f"/archive/letters/{entry}", "viewer")
    assert (await post(guarded_api, f"/archive/letters/{entry}/restore", "viewer")).status_code == 403
    assert (await post(guarded_api, f"/archive/letters/{entry}/restore", "operator")).status_code == 303


async def test_what_cannot_be_read_is_said(api: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Archive, "partitions", away)
    assert "The months are not known now" in await read(api, "/archive/months")


async def test_what_strangers_wrote_is_text(api: ApiHarness) -> None:
    (entry,) = await fill(api, EVIL)
    for path in ("/archive", f"/archive/letters/{entry}"):
        require_inert(await read(api, path))


async def test_archived_tasks_are_searched_and_shown_with_their_moves(api: ApiHarness) -> None:
    lifecycle = Lifecycle(api.dlq.context)
    ids = []
    for number, name in enumerate(("import", EVIL, "import")):
        task = await lifecycle.create(name, {"feed": EVIL, "n": number}, steps=[StepRecord("fetch")])
        await lifecycle.transition(task.task_id, "cancelled", reason=f"done with {EVIL}")
        ids.append(task.task_id)
        api.clock.advance(60)
    api.clock.advance(timedelta(days=400))
    await api.dlq.archive.run(dry_run=False)
    page = await read(api, "/archive/tasks")
    assert all(f"archive/tasks/{name}" in page for name in ids) and page.index(ids[2]) < page.index(ids[0])
    require_inert(page)
    first = await read(api, "/archive/tasks?name=import&limit=1")
    assert ids[2] in first and ids[0] not in first and "Next 1" in first
    assert "mahavishnu archive tasks --name import" in first
    (onward,) = re.findall(r'href="([^"]+)" rel="next"', first)
    assert ids[0] in await read(api, f"/archive/{html.unescape(onward).removeprefix('../archive/')}")
    assert "No such task" in await read(api, "/archive/tasks?task_id=x&name=&state=&since=&until=")
    one = await read(api, f"/archive/tasks/{ids[1]}")
    assert "fetch" in one and "none is known" in one and "done with &lt;script&gt;" in one
    require_inert(one)
    await read(api, "/archive/tasks/x", status=404)
    await read(api, "/archive/tasks?since=soon", status=422)


async def test_a_list_of_all_namespaces_leads_to_each_letter_in_its_own(api: ApiHarness) -> None:
    eu = api.dlq.in_namespace("eu")
    await eu.enqueue("wf_eu", {}, [], "connection refused in the eu")
    await eu.letters.resolve("wf_eu", by="ann")
    api.clock.advance(timedelta(days=31))
    await api.dlq.archive.run(dry_run=False)
    await eu.archive.run(dry_run=False)
    (line,) = (await eu.archive.search()).items
    assert f'href="archive/letters/{line.copy.entry_id}?namespace=eu"' in await read(api, "/archive?namespace=*")
    led = await api.client.get(
        f"/archive/letters/{line.copy.entry_id}?namespace=eu", headers=HTML, follow_redirects=True
    )
    assert led.status_code == 200 and "connection refused in the eu" in led.text
