"""How letters, headers and entity tags are written."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mahavishnu.bulk.records import RUNS
from mahavishnu.engine.audit import AUDIT
from mahavishnu.http.responses import json_bytes, letter_json, letters_json, letters_shown
from mahavishnu.model.letter import DeadLetter
from mahavishnu.stores.base import Page
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.testing import make_letter
from tests.support.api import ApiHarness

DEEP: list[Any] = []
for _ in range(190):
    DEEP = [DEEP]
ODD: list[Any] = [None, {}, {"ä": "\x7f", "n": [1e16, -0.0, 2**200, True, {"deep": '"}]'}]}, "text", [[]], DEEP]


def decoded(letter: DeadLetter) -> DeadLetter:
    """The letter as a store gives it."""
    return LETTERS.decode(json.loads(LETTERS.encode(letter)), (1,))


async def test_a_json_response_ends_with_a_newline(api: ApiHarness) -> None:
    await api.keep("wf")
    for path in ("/dlq", "/dlq/wf", "/dlq/stats", "/groups", "/runs/nothing", "/dlq?limit=x", "/dlq/export"):
        content = (await api.get(path)).content
        assert content.endswith(b"\n") and not content.endswith(b"\n\n"), path
    key = {"Idempotency-Key": "k"}
    first, again = [await api.post("/dlq/wf/redrive", headers=key) for _ in range(2)]
    assert first.content == again.content and first.content.endswith(b"}\n")


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("status", ["pending", "retrying", "exhausted", "completed", "archived"])
def test_a_list_says_the_same_of_each_letter_as_a_single_response(status: str, whole: bool) -> None:
    for half in ("", "\ud800"):  # half a character is written by other means
        tasks = [*ODD, half]
        letters = [
            make_letter(status=status, task=task, metadata={"of": task}, error=f"hôte\n{half}") for task in tasks
        ]
        letters += [decoded(letter) for letter in letters]
        each = [json.loads(json_bytes(letter_json(letter, whole=whole))) for letter in letters]
        assert json.loads(letters_json(letters_shown(letters, whole=whole))) == each
    assert json.loads(letters_json([])) == []


def test_a_response_is_not_changed_by_a_later_change_of_the_task() -> None:
    letter = decoded(make_letter(task={"type": "sweep"}))
    before = letters_json(letters_shown([letter]))
    letter.task["type"] = "changed"
    assert letters_json(letters_shown([letter])) == before


async def test_task_ids_with_slashes_and_with_their_escapes_stay_apart(api: ApiHarness) -> None:
    names = ["a/b", "a\ue000b", "a\ue000sb", "a\ue000mb", "a\ue000/b"]
    for name in names:
        await api.keep(name)
    for name in names:
        path = name.replace("/", "%2F").replace("\ue000", "%EE%80%80")
        assert (await api.post(f"/dlq/{path}/archive")).json()["task_id"] == name


async def test_a_header_is_one_line_whatever_the_store_says(api: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    async def find(*_: object) -> Page[Any]:
        return Page((), degraded="away:\r\nX-Evil: 1 \x00 µ")

    monkeypatch.setattr(type(api.dlq.context.letters), "find", find)
    answer = await api.get("/dlq")
    assert (answer.headers["x-degraded"], "x-evil" in answer.headers) == ("away:  X-Evil: 1   ?", False)


@pytest.mark.parametrize(("path", "kind"), [("/runs", RUNS), ("/audit", AUDIT)])
async def test_a_list_that_may_be_incomplete_is_marked_degraded(
    api: ApiHarness, monkeypatch: pytest.MonkeyPatch, path: str, kind: Any
) -> None:
    async def find(*_: object) -> Page[Any]:
        return Page((), degraded="the primary store is away")

    monkeypatch.setattr(type(api.dlq.store.collection(kind)), "find", find)
    assert (await api.get(path)).headers["x-degraded"] == "the primary store is away"


async def test_a_weak_etag_matches_a_read_but_no_change(api: ApiHarness) -> None:
    await api.keep("wf")
    mark = (await api.get("/dlq/wf")).headers["etag"]
    for known in (mark, f"W/{mark}", f'"else", W/{mark}', "*"):
        assert (await api.get("/dlq/wf", headers={"If-None-Match": known})).status_code == 304, known
    for other in ('"else"', 'W/"else"', f"w/{mark}", mark.strip('"')):
        assert (await api.get("/dlq/wf", headers={"If-None-Match": other})).status_code == 200, other
    group = (await api.post("/dlq", {"task_id": "x", "error": "connection reset"})).json()["fingerprint"]
    said = await api.patch(f"/groups/{group}", {"note": "seen"})
    for path, change, current in (
        ("/dlq/wf", {"priority": 1}, mark),
        (f"/groups/{group}", {"note": "again"}, said.headers["etag"]),
    ):
        weak = await api.patch(path, change, headers={"If-Match": f'"else", W/{current}'})
        assert (weak.status_code, weak.json()["type"].rpartition(":")[2]) == (412, "changed-meanwhile")
        assert "weak" in weak.json()["detail"]
        late = await api.patch(path, change, headers={"If-Match": '"else"'})
        assert (late.status_code, "has changed since" in late.json()["detail"]) == (412, True)
        assert (await api.patch(path, change, headers={"If-Match": f'"else", {current}'})).status_code == 200
