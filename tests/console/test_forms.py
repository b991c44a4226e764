"""What people do on pages, by plain forms: each is answered with 303, in their name, once, and by the role that may."""

from __future__ import annotations

import json
import re

import httpx
import pytest

from tests.support.api import ApiHarness, bearer

HTML = {"Accept": "text/html"}


async def post(api: ApiHarness, path: str, role: str | None = None, /, **form: str) -> httpx.Response:
    return await api.client.post(path, data=form, headers={**HTML, **(bearer(role) if role else {})})


async def keep(api: ApiHarness, task_id: str = "order-1", **changes: object) -> None:
    error = ValueError("unknown currency 'EURO'")
    await api.dlq.enqueue(task_id, {"currency": "EURO", "lines": [1]}, [], error, "never", 0, **changes)  # type: ignore[arg-type]


def field(page: str, name: str) -> str:
    found = re.search(rf'name="{name}" value="([^"]*)"', page)
    assert found, name
    return found[1].replace("&#34;", '"')


async def test_an_edit_is_shown_and_then_done(api: ApiHarness) -> None:
    await keep(api)
    page = (await api.client.get("/letters/order-1", headers=HTML)).text
    form = {"path": "currency", "value": '"EUR"', "version": field(page, "version")}
    shown = await post(api, "/letters/order-1/edit", act="preview", **form)
    assert "<del>/task/currency: &#34;EURO&#34;</del><ins>/task/currency: &#34;EUR&#34;</ins>" in shown.text
    letter = await api.dlq.get_task("order-1")
    assert letter is not None and letter.task["currency"] == "EURO"
    done = await post(api, "/letters/order-1/edit", act="redrive", reason="OPS-1", **form)
    assert (done.status_code, done.headers["location"]) == (303, "../../letters/order-1")
    letter = await api.dlq.get_task("order-1")
    assert letter is not None and letter.task == {"currency": "EUR", "lines": [1]} and letter.due_at is not None
    after = (await api.client.get("/letters/order-1", headers=HTML)).text
    assert "Edited, and it gets fresh attempts" in after and "OPS-1" in after and "Revision 0" in after
    assert "Edited, and it gets" not in (await api.client.get("/letters/order-1", headers=HTML)).text


async def test_an_edit_of_what_somebody_else_changed_is_refused_and_kept_in_the_form(api: ApiHarness) -> None:
    await keep(api)
    old = field((await api.client.get("/letters/order-1", headers=HTML)).text, "version")
    await api.dlq.letters.edit("order-1", patch={"currency": "SEK"}, by="bo")
    refused = await post(api, "/letters/order-1/edit", act="edit", path="currency", value='"EUR"', version=old)
    assert refused.status_code == 412 and "Somebody changed the letter" in refused.text
    assert 'value="&#34;EUR&#34;"' in refused.text


@pytest.mark.parametrize(
    ("form", "why"),
    [
        ({"path": "currency", "value": "EUR"}, "a text has quotes"),
        ({"path": "curency", "value": '"EUR"'}, "curency"),
        ({"path": "", "value": '"EUR"'}, "a value without a path"),
        ({"task": "{", "task_before": ""}, "is no json"),
        ({}, "nothing was changed"),
    ],
)
async def test_a_wrong_edit_says_why_and_changes_nothing(api: ApiHarness, form: dict[str, str], why: str) -> None:
    await keep(api)
    version = field((await api.client.get("/letters/order-1", headers=HTML)).text, "version")
    refused = await post(api, "/letters/order-1/edit", act="edit", version=version, **form)
    assert refused.status_code == 422 and why in refused.text.lower()
    letter = await api.dlq.get_task("order-1")
    assert letter is not None and letter.revision == 0


async def test_a_form_that_is_sent_twice_is_done_once(api: ApiHarness) -> None:
    await keep(api)
    page = (await api.client.get("/letters/order-1", headers=HTML)).text
    form = {"act": "edit", "path": "currency", "value": '"EUR"', "version": field(page, "version")}
    key = field(page, "idempotency_key")
    first, second = [await post(api, "/letters/order-1/edit", idempotency_key=key, **form) for _ in range(2)]
    assert first.status_code == second.status_code == 303
    assert second.headers["location"] == first.headers["location"] and "idempotent-replayed" in second.headers
    letter = await api.dlq.get_task("order-1")
    assert letter is not None and letter.revision == 1


async def test_a_form_that_was_refused_is_corrected_with_the_same_key(api: ApiHarness) -> None:
    await keep(api)
    page = (await api.client.get("/letters/order-1", headers=HTML)).text
    form = {"act": "edit", "path": "currency", "version": field(page, "version"), "idempotency_key": "k1"}
    assert (await post(api, "/letters/order-1/edit", value="EUR", **form)).status_code == 422
    assert (await post(api, "/letters/order-1/edit", value='"EUR"', **form)).status_code == 303


@pytest.mark.parametrize(
    ("verb", "status"), [("resolve", "manually_resolved"), ("fail", "permanently_failed"), ("cancel", "cancelled")]
)
async def test_a_verb_is_done_in_the_name_of_who_asks(guarded_api: ApiHarness, verb: str, status: str) -> None:
    await keep(guarded_api)
    refused = await post(guarded_api, f"/letters/order-1/{verb}", "viewer")
    assert refused.status_code == 403 and "text/html" in refused.headers["content-type"]
    done = await post(guarded_api, f"/letters/order-1/{verb}", "operator", reason="OPS-2")
    assert done.status_code == 303
    letter = await guarded_api.dlq.get_task("order-1", include_archived=True)
    assert letter is not None
    assert (letter.resolution.status, letter.resolution.by, letter.resolution.notes) == (status, "olga", "OPS-2")


async def test_a_letter_is_deleted_by_who_types_its_id_and_may(guarded_api: ApiHarness) -> None:
    await keep(guarded_api)
    assert (await post(guarded_api, "/letters/order-1/delete", "operator", typed="order-1")).status_code == 403
    await post(guarded_api, "/letters/order-1/delete", "admin", typed="order-2")
    assert await guarded_api.dlq.get_task("order-1") is not None
    done = await post(guarded_api, "/letters/order-1/delete", "admin", typed="order-1")
    assert done.headers["location"] == "../../letters"
    assert await guarded_api.dlq.get_task("order-1") is None


async def version_of(api: ApiHarness, path: str) -> str:
    return field((await api.client.get(path, headers=HTML)).text, "version")


@pytest.mark.parametrize("act", ["save", "take", "resolved", "wont_fix"])
async def test_what_somebody_else_recorded_of_a_group_is_not_overwritten(api: ApiHarness, act: str) -> None:
    await keep(api)
    (group,) = (await api.dlq.groups.list()).items
    path = f"/groups/{group.fingerprint}"
    shown = await version_of(api, path)
    await api.dlq.groups.update(group.fingerprint, by="bo", owner="bo", state="investigating")
    refused = await post(api, path, act=act, version=shown, state="new", owner="")
    assert refused.status_code == 412 and "Somebody changed the group" in refused.text
    view = await api.dlq.groups.get(group.fingerprint)
    assert (view.owner, view.state) == ("bo", "investigating")
    done = await post(api, path, act=act, version=field(refused.text, "version"), state="new", owner="")
    assert done.status_code == 303


async def test_who_takes_a_group_that_got_a_note_meanwhile_has_it(api: ApiHarness) -> None:
    await keep(api)
    (group,) = (await api.dlq.groups.list()).items
    path = f"/groups/{group.fingerprint}"
    shown = await version_of(api, path)
    await api.dlq.groups.update(group.fingerprint, by="bo", note="iOS 9.2 sends EURO")
    assert (await post(api, path, act="take", version=shown)).status_code == 303
    assert (await api.dlq.groups.get(group.fingerprint)).owner == "api_user"


async def test_a_closed_group_says_who_closed_it_when_and_how_its_letters_ended(api: ApiHarness) -> None:
    for number in range(3):
        await keep(api, f"order-{number}")
    (group,) = (await api.dlq.groups.list()).items
    path = f"/groups/{group.fingerprint}"
    await post(api, path, act="resolved", version=await version_of(api, path))
    page = (await api.client.get(path, headers=HTML)).text
    assert "It is resolved, says api_user." in page and "3 letters are still open; 3 wait for a person" in page
    for number in range(3):
        await post(api, f"/letters/order-{number}/resolve")
    page = (await api.client.get(path, headers=HTML)).text
    assert "Of 3 letters ever, 3 resolved by people." in page and "still open" not in page
    listed = (await api.client.get("/groups?state=resolved", headers=HTML)).text
    assert "unknown currency" in listed and ", by api_user" in listed and "no adapter" not in listed


async def test_a_group_whose_last_letter_is_closed_says_that_it_is_resolved(api: ApiHarness) -> None:
    await keep(api)
    (group,) = (await api.dlq.groups.list()).items
    await api.dlq.letters.resolve("order-1", by="bo")
    page = (await api.client.get(f"/groups/{group.fingerprint}", headers=HTML)).text
    assert "It is resolved: no letter of it is open any more." in page and "there is nothing to redrive" in page


async def test_a_group_is_taken_noted_held_and_resolved(api: ApiHarness) -> None:
    await keep(api)
    (group,) = (await api.dlq.groups.list()).items
    path = f"/groups/{group.fingerprint}"
    assert (await post(api, path, act="take")).status_code == 303
    await post(api, path, act="note", note="iOS 9.2 sends EURO", link="https://ops.example/231")
    version = await version_of(api, path)
    await post(
        api,
        path,
        act="save",
        version=version,
        state="waiting_for_fix",
        owner="bo",
        hold_until="2026-02-01",
        hold_release="2.4.1",
    )
    view = await api.dlq.groups.get(group.fingerprint)
    assert (view.owner, view.state, view.on_hold, view.group.hold_release) == ("bo", "waiting_for_fix", True, "2.4.1")
    assert [note.text for note in view.group.notes] == ["iOS 9.2 sends EURO"]
    version = await version_of(api, path)
    await post(api, path, act="save", version=version, state="investigating", owner="", hold_until="", hold_release="")
    view = await api.dlq.groups.get(group.fingerprint)
    assert (view.owner, view.state, view.on_hold) == (None, "investigating", False)
    page = await api.client.get(path, headers=HTML)
    assert "iOS 9.2 sends EURO" in page.text and 'href="https://ops.example/231"' in page.text
    assert (await post(api, path, act="note", link="javascript:alert(1)")).status_code == 422


async def test_a_fix_of_a_group_is_shown_and_begun_for_the_letters_that_were_there(api: ApiHarness) -> None:
    for number in range(8):
        await keep(api, f"order-{number}")
    (group,) = (await api.dlq.groups.list()).items
    page = (await api.client.get(f"/groups/{group.fingerprint}", headers=HTML)).text
    api.clock.advance(60)
    await keep(api, "order-later")
    form = {"path": "currency", "value": '"EUR"', "ramp": "1, 5", "stop_percent": "20", "before": field(page, "before")}
    shown = await post(api, f"/groups/{group.fingerprint}/fix", act="preview", **form)
    assert "<b>8</b> of 8 letters can be moved" in shown.text and "<ins>" in shown.text
    begun = await post(api, f"/groups/{group.fingerprint}/fix", act="start", reason="OPS-3", **form)
    (run,) = (await api.dlq.runs.list()).items
    assert begun.headers["location"] == f"../../runs/{run.run_id}"
    assert (run.verb, run.ramp, run.stop_percent, run.reason) == ("redrive", (1, 5), 20, "OPS-3")
    assert run.patch is not None and run.patch.value == {"currency": "EUR"}


async def test_a_selection_is_what_was_marked_or_all_that_matches(api: ApiHarness) -> None:
    for number in range(4):
        await keep(api, f"order-{number}")
    letter = await api.dlq.get_task("order-2")
    assert letter is not None
    one = await api.client.get(f"/selection?verb=resolve&q=is:open&entry_id={letter.entry_id}", headers=HTML)
    every = await api.client.get("/selection?verb=redrive&q=is:open", headers=HTML)
    assert "Resolve would move 1 of 1 letter" in one.text and "Redrive would move 4 of 4 letters" in every.text
    begun = await post(
        api, "/selection", verb="resolve", q="is:open", entry_id=letter.entry_id, matched="1", reason="x"
    )
    assert begun.status_code == 303
    (run,) = (await api.dlq.runs.list()).items
    assert "order-2" not in json.dumps(run.query.value) and letter.entry_id in json.dumps(run.query.value)


async def test_a_grave_verb_wants_the_number(api: ApiHarness) -> None:
    for number in range(3):
        await keep(api, f"order-{number}")
    refused = await post(api, "/selection", verb="cancel", q="is:open", matched="3", typed="2")
    assert refused.status_code == 422 and "The number is not the one above" in refused.text
    assert not (await api.dlq.runs.list()).items
    assert (await post(api, "/selection", verb="cancel", q="is:open", matched="3", typed="3")).status_code == 303
    assert [run.verb for run in (await api.dlq.runs.list()).items] == ["cancel"]


async def test_a_query_that_is_wrong_says_what_was_meant(api: ApiHarness) -> None:
    page = await api.client.get("/letters?q=statsu:pending", headers=HTML)
    assert page.status_code == 422 and "did you mean status" in page.text and 'value="statsu:pending"' in page.text


async def test_a_view_is_saved_for_everybody_and_deleted(guarded_api: ApiHarness) -> None:
    refused = await post(guarded_api, "/letters/views", "viewer", name="Orders", q="adapter:orders")
    assert refused.status_code == 403
    saved = await post(guarded_api, "/letters/views", "operator", name="Orders", q="adapter:orders age>1h")
    assert saved.headers["location"] == "../letters?q=adapter%3Aorders+age%3E1h"
    page = (await guarded_api.client.get("/letters", headers={**HTML, **bearer("viewer")})).text
    assert re.search(r'<a href="letters\?q=adapter%3Aorders%20age%3E1h"\s*>Orders</a>', page)
    assert (await post(guarded_api, "/letters/views", "operator", name="Orders", q="statsu:x")).status_code == 422
    await post(guarded_api, "/letters/views", "operator", name="Orders", q="", act="delete")
    assert await guarded_api.dlq.views.list() == []


async def test_the_next_page_keeps_the_query(api: ApiHarness) -> None:
    for number in range(5):
        await keep(api, f"order-{number}")
    seen: list[str] = []
    path = "/letters?q=is%3Aopen&limit=2"
    while path:
        page = (await api.client.get(path, headers=HTML)).text
        seen += re.findall(r'aria-label="Select (order-\d)"', page)
        found = re.search(r'href="([^"]*)" rel="next"', page)
        path = "/" + found[1].replace("&amp;", "&") if found else ""
        assert not path or "q=is%3Aopen" in path
    assert sorted(seen) == [f"order-{number}" for number in range(5)]


async def test_json_is_answered_to_who_does_not_want_pages(api: ApiHarness) -> None:
    plain = await api.client.get("/")
    assert json.loads(plain.text)["name"] == "mahavishnu" and plain.headers["vary"] == "Accept"
    assert (await api.client.get("/", headers=HTML)).headers["content-type"].startswith("text/html")
    missing = await api.client.get("/letters/none", headers=HTML)
    assert missing.status_code == 404 and "text/html" in missing.headers["content-type"]
    probe = await api.client.get("/readyz", headers=HTML)
    assert probe.headers["content-type"] == "application/json"


async def test_static_files_are_kept_by_their_digest(api: ApiHarness) -> None:
    page = (await api.client.get("/", headers=HTML)).text
    href = page.partition('rel="stylesheet" href="')[2].partition('"')[0]
    styles = await api.client.get(href.removeprefix("."))
    assert "immutable" in styles.headers["cache-control"] and styles.headers["content-type"].startswith("text/css")
    again = await api.client.get("/static/console.css", headers={"If-None-Match": styles.headers["etag"]})
    assert again.status_code == 304 and again.headers["cache-control"] == "no-cache"
    for name in ("..%2Flogin.py", "htmx-2.0.11.LICENSE", "none.css"):
        assert (await api.client.get(f"/static/{name}")).status_code == 404


async def test_a_large_task_is_no_page_of_megabytes(api: ApiHarness) -> None:
    rows = [{"n": number, "text": "x" * 100} for number in range(3000)]
    task = {"rows": rows, "text": "y" * 500_000, "names": {f"n{number}": number for number in range(5000)}}
    await api.dlq.enqueue("large", task, [], ValueError("large"), "never", 0)
    page = (await api.client.get("/letters/large", headers=HTML)).text
    assert len(page) < 200_000 and "too many to be edited as a whole" in page
    assert "and 2800 more" in page and "and 498,000 more characters" in page and "and 4800 more" in page
