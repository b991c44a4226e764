"""`mahavishnu queue`."""

from __future__ import annotations

import json

from tests.support.command_line import Run


def test_a_queue_from_its_beginning_to_its_dead_queue_and_back(run: Run) -> None:
    assert run("queue", "create", "dead").out == "queue dead is defined\n"
    assert run("queue", "create", "q", "--dead-queue", "dead", "--attempts", "2").code == 0
    assert [each["name"] for each in run("queue", "list", "--json").json] == ["dead", "q"]
    pushed = run("queue", "push", "q", '{"n": 1}', "--json").json
    for status in ("pending", "dead"):
        (lease,) = run("queue", "lease", "q", "--worker", "w").json
        done = run("queue", "fail", "q", pushed["id"], "--token", lease["token"], "--error", "boom")
        assert done.out == f"item {pushed['id'][:8]} of queue q failed: {status}\n"
    (moved,) = run("queue", "items", "dead", "--json").json
    assert (moved["source_id"], moved["failure_count"]) == (pushed["id"], 0)
    table = run("queue", "items", "dead").out
    assert "boom" in table and moved["id"] in table and "pending" in table
    assert run("queue", "redrive", "dead").code == 2
    assert run("queue", "redrive", "dead", "--text", "nothing of it").out == "0 items sent back\n"
    assert run("queue", "redrive", "dead", "--dlq-reason", "expired", "--text", "boom").out == "0 items sent back\n"
    assert run("queue", "redrive", "dead", "--where", " ").code == 2
    assert run("queue", "redrive", "dead", "--where", "text:boom -text:boom").out == "0 items sent back\n"
    assert run("queue", "redrive", "dead", "--where", "statsu:x").code == 2
    assert run("queue", "redrive", "dead", "--text", "boom", "--where", "age<1d").out == "1 item sent back\n"
    (lease,) = run("queue", "lease", "q").json
    assert run("queue", "ack", "q", lease["item"]["id"], "--token", lease["token"]).code == 0
    shown = run("queue", "show", "q").out
    assert "dead queue    dead\n" in shown and "pending       0\n" in shown


def test_a_dead_item_is_retried_once(run: Run) -> None:
    run("queue", "create", "q")
    item = run("queue", "push", "q", "1", "--json").json["id"]
    assert run("queue", "retry", "q", item).code == 4
    (lease,) = run("queue", "lease", "q").json
    run("queue", "fail", "q", item, "--token", lease["token"])
    assert json.loads(run("queue", "items", "q", "--status", "dead", "--json").out)[0]["id"] == item
    assert "  dead  " in run("queue", "items", "q").out
    done = run("queue", "retry", "q", item, "--project", "default")
    assert (done.code, done.out) == (0, f"retried item {item[:8]} of queue q\n")
    again = run("queue", "retry", "q", item)
    assert again.code == 4
    assert "only what is dead or failed" in again.err
    assert run("queue", "items", "q", "--json").json[0]["status"] == "pending"
    run("queue", "create", "elsewhere", "--external")
    codes = [run("queue", "retry", name, item).code for name in ("unknown", "elsewhere")]
    assert [*codes, run("queue", "retry", "q", "unknown").code] == [3, 2, 3]
    assert run("queue", "drop", "q", item).out == f"dropped item {item[:8]} of queue q\n"
    assert run("queue", "items", "q").out.startswith("no items\n")


def test_options_that_cannot_be(run: Run) -> None:
    done = run("queue", "create", "q", "--dead-queue", "q")
    assert (done.code, done.err) == (2, "mahavishnu: dead_queue cannot reference itself\n")
    assert "cooldown" in run("queue", "create", "q", "--attempts", "2", "--cooldown", "30").err
    run("queue", "create", "q", "--attempts", "2", "--max-attempts", "5")
    assert run("queue", "update", "q").code == 2
    assert run("queue", "update", "q", "--cooldown", "5s", "--max-attempts", "7", "--json").json["retry"] == {
        "attempts": 2, "cooldown": "5s",
    }  # fmt: skip
    assert run("queue", "push", "q", "{").code == 2
    assert run("queue", "delete", "q").code == 0
    assert run("queue", "list").out.startswith("no queue is defined")
