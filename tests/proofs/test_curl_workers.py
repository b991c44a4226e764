"""Workers in another language: shells with curl share letters; who lost a lease is told so."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen, run
from typing import Any

import httpx
import pytest

from tests.support.marks import PROVED_ON_OPENSEARCH
from tests.support.node import CLOCK, until
from tests.support.server import Server, served

pytestmark = PROVED_ON_OPENSEARCH

SCRIPT = Path(__file__).with_name("curl_worker.sh")
LOST_LEASE = "urn:mahavishnu:problem:lost-lease"


@pytest.fixture(autouse=True)
def tools() -> None:
    missing = [tool for tool in ("sh", "curl", "sed", "grep") if shutil.which(tool) is None]
    assert not missing, f"this test needs {', '.join(missing)} on this machine: install it (apt install curl)"


def curl(url: str, body: dict[str, Any]) -> tuple[int, Any]:
    """The status and the document that curl prints."""
    command = ["curl", "-sS", "--max-time", "60", "-H", "Content-Type: application/json"]
    done = run([*command, "-w", r"\n%{http_code}", "-d", json.dumps(body), url], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    document, _, status = done.stdout.rpartition("\n")
    return int(status), json.loads(document)


async def fill(api: httpx.AsyncClient, names: list[str]) -> None:
    """Letters that are due at once."""
    places = asyncio.Semaphore(50)

    async def post(name: str) -> None:
        letter = {"task_id": name, "task": {"order": name}, "error": "it broke", "retry_policy": "immediate"}
        async with places:
            answer = await api.post("/dlq", json=letter)
        assert answer.status_code == 201, answer.text

    await asyncio.gather(*map(post, names))


@dataclass(frozen=True)
class Shell:
    """One worker, and what it ran."""

    process: Popen[str]
    diary: Path

    @property
    def ran(self) -> list[str]:
        return self.diary.read_text().splitlines() if self.diary.exists() else []

    @property
    def problems(self) -> list[str]:
        """What it was refused. A store that is away for a moment, on a busy machine, is none."""
        file = self.diary.with_suffix(".problems")
        lines = file.read_text().splitlines() if file.exists() else []
        return [line for line in lines if "store-unavailable" not in line]


@contextmanager
def shells(count: int, server: Server, folder: Path) -> Iterator[list[Shell]]:
    """Workers that end when there is a file `stop`; whatever is left of them at the end is killed."""
    running = []
    for number in range(count):
        diary = folder / f"shell-{number}"
        command = ["sh", str(SCRIPT), server.api, diary.name, str(diary), str(folder / "stop")]
        running.append(Shell(Popen(command, stderr=PIPE, text=True), diary))
    try:
        yield running
    finally:
        for shell in running:
            shell.process.kill()
            shell.process.communicate()


@pytest.mark.parametrize(("count", "letters"), [(8, 200), pytest.param(20, 1000, marks=pytest.mark.prove)])
async def test_shells_run_each_letter_once(store_url: str, tmp_path: Path, count: int, letters: int) -> None:
    names = [f"order-{number}" for number in range(letters)]
    with served(store_url, tmp_path) as server:
        async with httpx.AsyncClient(base_url=server.api, timeout=60) as api:
            await fill(api, names)
            with shells(count, server, tmp_path) as workers:

                async def done() -> bool:
                    lines = (await api.get("/dlq/stats")).json()
                    ended = any(worker.process.poll() is not None for worker in workers)
                    return ended or sum(line["requeued"] for line in lines) == letters

                await until(done, every=0.5)
                assert [problem for worker in workers for problem in worker.problems] == []
                (tmp_path / "stop").touch()
                for worker in workers:
                    _, errors = await asyncio.to_thread(worker.process.communicate, timeout=60)
                    assert (worker.process.returncode, errors) == (0, "")
            assert Counter(task for worker in workers for task in worker.ran) == Counter(names)
            assert sum(bool(worker.ran) for worker in workers) > count / 2, "the others had a share in it"
            seen = (await api.get("/dlq", params={"limit": 1000})).json()
            assert {(each["status"], each["resolution_status"], each["total_attempts"]) for each in seen} == {
                ("completed", "requeued", 1)
            }
            assert len(seen) == letters
    assert "Traceback" not in server.log.read_text()


async def test_a_lease_that_ran_out_is_refused_and_changes_nothing(store_url: str, tmp_path: Path) -> None:
    with served(store_url, tmp_path, DLQ_CLOCK_SKEW_GRACE_SECONDS="0") as server:
        async with httpx.AsyncClient(base_url=server.api, timeout=60) as api:
            await fill(api, ["slow"])
        status, (slow,) = curl(f"{server.api}/claims", {"worker": "slow", "lease_seconds": 1})
        assert status == 200

        def taken() -> Any:
            return curl(f"{server.api}/claims", {"worker": "quick", "lease_seconds": 600})[1]

        (quick,) = await until(taken)
        assert CLOCK.now() >= datetime.fromisoformat(slow["lease_until"]), "nobody gets it while the lease runs"
        assert quick["token"] != slow["token"]
        assert quick["idempotency_key"] == slow["idempotency_key"], "the handler sees that it is the same run again"

        before = letter(server)
        assert before["claim_owner"] == "quick"
        for path, said in (
            ("settle", {"outcome": "succeeded"}),
            ("settle", {"outcome": "failed", "error": "ValueError: no"}),
            ("settle", {"outcome": "released"}),
            ("renew", {}),
        ):
            mine = {"task_id": "slow", "token": slow["token"], **said}
            status, refused = curl(f"{server.api}/claims/{path}", mine)
            assert (status, refused["type"], refused["status"]) == (409, LOST_LEASE, 409), refused
            assert "slow" in refused["detail"] and slow["token"] not in refused["detail"]
        assert letter(server) == before

        yours = {"task_id": "slow", "token": quick["token"], "outcome": "succeeded"}
        status, settled = curl(f"{server.api}/claims/settle", yours)
        assert (status, settled["status"]) == (200, "completed")
        assert curl(f"{server.api}/claims/settle", yours) == (200, settled), "said twice, it counts once"
        status, refused = curl(f"{server.api}/claims/settle", {**yours, "token": slow["token"]})
        assert (status, refused["type"]) == (409, LOST_LEASE)
        assert letter(server) == settled


def letter(server: Server) -> Any:
    done = run(["curl", "-sS", "-f", f"{server.api}/dlq/slow"], stdout=PIPE, stderr=DEVNULL, text=True, check=True)
    return json.loads(done.stdout)


async def test_a_lease_that_ran_out_counts_while_nobody_else_could_take_it(store_url: str, tmp_path: Path) -> None:
    """The clocks of machines differ: for a while after its end a lease is nobody else's."""
    with served(store_url, tmp_path) as server:
        async with httpx.AsyncClient(base_url=server.api, timeout=60) as api:
            await fill(api, ["slow"])
        _, (slow,) = curl(f"{server.api}/claims", {"worker": "slow", "lease_seconds": 1})
        ends = datetime.fromisoformat(slow["lease_until"])
        await until(lambda: CLOCK.now() > ends)
        assert curl(f"{server.api}/claims", {"worker": "quick"}) == (200, [])
        mine = {"task_id": "slow", "token": slow["token"], "outcome": "succeeded"}
        status, settled = curl(f"{server.api}/claims/settle", mine)
        assert (status, settled["status"]) == (200, "completed")
