"""The live workers over HTTP."""

from __future__ import annotations

from tests.support.api import ApiHarness


async def test_live_workers_are_listed(api: ApiHarness) -> None:
    assert (await api.get("/workers")).json() == []
    await api.dlq.start_retry_processor(callback=lambda task, repos: None)
    (worker,) = (await api.get("/workers")).json()
    assert (worker["name"], worker["live"], worker["held"]) == (api.dlq.context.owner, True, 0)
    await api.dlq.stop_retry_processor()


async def test_a_letter_says_that_no_live_worker_can_run_it(api: ApiHarness) -> None:
    await api.dlq.enqueue("wf_1", {}, [], "connection refused", "immediate", adapter="invoice")
    assert (await api.get("/dlq/wf_1")).json()["waiting_for"] == "waiting for a worker that has 'invoice'"
    assert (await api.post("/claims", {"worker": "w", "adapters": ["mail"]})).json() == []
    (claim,) = (await api.post("/claims", {"worker": "w", "adapters": ["invoice"]})).json()
    assert claim["letter"]["adapter"] == "invoice"
    assert "waiting_for" not in (await api.get("/dlq/wf_1")).json()
    assert (await api.post("/claims", {"worker": "w", "adapters": []})).status_code == 422


async def test_letters_that_wait_for_a_worker_are_in_the_metrics(api: ApiHarness) -> None:
    for number in range(60):
        await api.dlq.enqueue(f"wf_{number}", {}, [], "connection refused", "immediate", adapter=f"a{number}")
    text = (await api.client.get("/metrics")).text
    assert "mahavishnu_dlq_live_workers 0.0" in text
    lines = [line for line in text.splitlines() if line.startswith("mahavishnu_dlq_waiting_for_worker{")]
    assert len(lines) == 51 and 'mahavishnu_dlq_waiting_for_worker{adapter="other"} 10.0' in lines


async def test_a_list_of_whole_letters_says_what_each_waits_for(api: ApiHarness) -> None:
    for name, adapter, policy in (
        ("a", "invoice", "immediate"),
        ("b", "mail", "immediate"),
        ("c", "invoice", "never"),
        ("d", None, "immediate"),
    ):
        await api.dlq.enqueue(name, {}, [], "connection refused", policy, adapter=adapter)
    await api.post("/claims", {"worker": "w", "adapters": ["mail"], "queue": "other"})
    await api.post("/claims", {"worker": "w2", "adapters": ["mail"], "queue": "default", "limit": 1})
    listed = {each["task_id"]: each for each in (await api.get("/dlq?whole=true")).json()}
    assert listed["a"]["waiting_for"] == "waiting for a worker that has 'invoice'"
    assert "--adapter NAME" in listed["d"]["waiting_for"]
    assert ["waiting_for" in listed[name] for name in "bc"] == [False, False]
    assert not any("waiting_for" in each for each in (await api.get("/dlq")).json())
