"""Jobs that fail once, are kept, retried and succeed: ours and other systems, interleaved, one worker process each.

    python -m benchmarks.peers                      # all of them, 5,000 jobs, five rounds; writes docs/benchmarks.md
    python -m benchmarks.peers --jobs 300 --rounds 1 --no-kill arq huey-sqlite mahavishnu-sqlite

A part of the run is printed and not written. Each peer is installed into an environment of its own below build/peers.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.peers.servers import BUILD, SERVERS, Missing, Running

ROOT = Path(__file__).parent.parent.parent
PROGRAMS = Path(__file__).parent / "programs"
PAGE = ROOT / "docs" / "benchmarks.md"
CHART = ROOT / "docs" / "img" / "peers.svg"
BEGIN, END, HEADING = "<!-- peers -->", "<!-- end of peers -->", "## Other systems"
MOST_SECONDS = 900.0


@dataclass(frozen=True)
class Peer:
    """A system: what it is installed from, what it needs, how it is set, and what it promises."""

    program: str
    server: str
    packages: tuple[str, ...]
    settings: str
    promise: str


_OURS = (
    "200 submitted at once, concurrency 500, lease 5 s",
    "the failure is on the disk before its caller has an answer; every attempt and error is kept and searchable",
)
PEERS: Mapping[str, Peer] = {
    "mahavishnu-sqlite": Peer("with_mahavishnu", "folder", (), f"synchronous FULL, {_OURS[0]}", _OURS[1]),
    "mahavishnu-opensearch": Peer("with_mahavishnu", "opensearch", (), _OURS[0], _OURS[1]),
    "arq": Peer(
        "with_arq", "redis", ("arq",), "max_jobs 100, poll_delay 0.01, keep_result 0, job_timeout 5",
        "at least once after job_timeout; the error of an attempt is not kept",
    ),
    "taskiq": Peer(
        "with_taskiq", "redis", ("taskiq", "taskiq-redis"), "a stream, idle_timeout 5 s, SimpleRetryMiddleware",
        "at least once, after idle_timeout and when another task comes; the error of an attempt is not kept",
    ),
    "dramatiq": Peer(
        "with_dramatiq", "redis", ("dramatiq[redis]",), "8 threads, backoff 1 ms, heartbeat_timeout 5 s",
        "at least once after heartbeat_timeout; the last traceback is in the message",
    ),
    "rq": Peer(
        "with_rq", "redis", ("rq",), "SimpleWorker, Retry(3), job timeout 5 s, result_ttl 0",
        "at least once after the job's timeout and the next maintenance; the last traceback is kept",
    ),
    "celery": Peer(
        "with_celery", "redis", ("celery[redis]",), "solo pool, acks_late, prefetch 100, visibility_timeout 5 s",
        "at least once after visibility_timeout; the error of an attempt is not kept",
    ),
    "huey-sqlite": Peer(
        "with_huey", "folder", ("huey", "redis"), "4 threads, fsync, no results",
        "at most once: a task is deleted when it is taken; the error of an attempt is not kept",
    ),
    "huey-redis": Peer(
        "with_huey", "redis", ("huey", "redis"), "4 threads, no results",
        "at most once: a task is deleted when it is taken; the error of an attempt is not kept",
    ),
    "procrastinate": Peer(
        "with_procrastinate", "postgres", ("procrastinate", "psycopg[binary]"), "concurrency 50, heartbeat 1 s",
        "at least once, where the application retries stalled jobs; the events of a job are kept, not its errors",
    ),
    "dbos": Peer(
        "with_dbos", "folder", ("dbos",), "a queue polled every 50 ms, a step with retries",
        "at least once: a new process of the same version carries on; the attempts of a step are not kept",
    ),
}  # fmt: skip


@dataclass
class Result:
    """One round of one peer. Rates are jobs in a second; without a rate it did not come to its end."""

    peer: str
    jobs: int
    rate: float | None = None  #: from the first failure to the last success
    with_start: float | None = None  #: from the start of the worker to the last success
    enqueue_seconds: float = 0.0
    p50_ms: float | None = None  #: from the failure of a job to its success
    lost: int = 0  #: jobs without a success
    repeated: int = 0  #: successes beyond one for each job
    settled_seconds: float | None = None  #: after a kill, from the next start to the last success
    note: str = ""


class Round:
    """A peer with a server, for one round."""

    def __init__(self, name: str, jobs: int, running: Running, number: int, quiet: float) -> None:
        self._peer, self._jobs, self._quiet = PEERS[name], jobs, quiet
        self._folder = tempfile.TemporaryDirectory()
        self._log = Path(self._folder.name) / "log"
        self._log.touch()
        self.result = Result(name, jobs)
        own = {"PEER_JOBS": str(jobs), "PEER_URL": running.fresh(number), "PEER_LOG": str(self._log)}
        kept = {each: value for each, value in os.environ.items() if not each.upper().startswith("MAHAVISHNU_")}
        path = {"PYTHONPATH": str(PROGRAMS) if self._peer.packages else os.pathsep.join(map(str, (PROGRAMS, ROOT)))}
        self._environment = {**kept, **path, **own}
        own_python = self._peer.packages and environment_of(self._peer) / "bin" / "python"
        self._python = str(own_python or sys.executable)

    def run(self, *, kill: bool) -> Result:
        """Enqueue, work, and count; with `kill` the worker is killed when a third of the jobs have succeeded."""
        with self._folder:
            before = time.monotonic()
            subprocess.run(self._command("enqueue"), env=self._environment, cwd=PROGRAMS, check=True, timeout=300)
            self.result.enqueue_seconds = round(time.monotonic() - before, 2)
            start = time.time_ns()
            self._work(self._jobs // 3 if kill else self._jobs)
            if kill:
                start = time.time_ns()
                self._work(self._jobs)
            self._count(start, killed=kill)
        return self.result

    def _command(self, verb: str) -> list[str]:
        module = self._peer.program  # imported, so that its tasks have the same names in both processes
        return [self._python, "-c", f"import {module}; {module}.main({verb!r})"]

    def _work(self, enough: int) -> None:
        """Run a worker until so many jobs have succeeded, or until nothing happens any more; then kill it."""
        errors = self._log.with_name("errors")
        with errors.open("wb") as stream:
            worker = subprocess.Popen(
                self._command("work"), env=self._environment, cwd=PROGRAMS, stdout=stream, stderr=stream,
                start_new_session=True,
            )  # fmt: skip
            try:
                self._await_successes(enough, worker)
            finally:
                if worker.poll() is None:
                    os.killpg(worker.pid, signal.SIGKILL)  # the group of this worker, which has no other members
                worker.wait()
        if worker.returncode not in (0, -signal.SIGKILL):
            self.result.note = f"the worker ended with {worker.returncode}: {errors.read_text()[-300:]}"

    def _await_successes(self, enough: int, worker: subprocess.Popen[bytes]) -> None:
        succeeded: set[str] = set()
        end, changed, rest = time.monotonic() + MOST_SECONDS, time.monotonic(), ""
        with self._log.open() as log:
            while len(succeeded) < enough and worker.poll() is None and time.monotonic() < end:
                *lines, rest = (rest + log.read()).split("\n")
                succeeded.update(line.split()[1] for line in lines if line.startswith("S"))
                if lines:
                    changed = time.monotonic()
                if time.monotonic() - changed > self._quiet:
                    break
                time.sleep(0.05)

    def _count(self, start: int, *, killed: bool) -> None:
        failed: dict[int, int] = {}
        succeeded: dict[int, int] = {}
        successes = 0
        for line in self._log.read_text().splitlines():
            mark, number, at = line.split()
            if mark == "F":
                failed.setdefault(int(number), int(at))
            elif mark == "S":
                successes += 1
                succeeded.setdefault(int(number), int(at))
        self.result.lost, self.result.repeated = self._jobs - len(succeeded), successes - len(succeeded)
        if not succeeded:
            return
        last = max(succeeded.values())
        if killed:
            self.result.settled_seconds = max(0.0, round((last - start) / 1e9, 1))
        elif not self.result.lost:
            self.result.rate = round(self._jobs * 1e9 / (last - min(failed.values())))
            self.result.with_start = round(self._jobs * 1e9 / (last - start))
            waits = [at - failed[number] for number, at in succeeded.items() if number in failed]
            self.result.p50_ms = round(statistics.median(waits) / 1e6, 1)


def environment_of(peer: Peer) -> Path:
    """Return the environment of a peer, which is made and filled if it is not there."""
    folder = BUILD / re.sub(r"\W", "-", peer.packages[0].partition("[")[0]) / "venv"
    ready = folder / ".ready"
    wanted = "\n".join(peer.packages)
    if not ready.exists() or ready.read_text() != wanted:
        venv.create(folder, with_pip=True, clear=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *peer.packages], check=True)
        ready.write_text(wanted)
    return folder


def versions_of(name: str) -> str:
    """Return the versions of what a peer is installed from."""
    peer = PEERS[name]
    if not peer.packages:
        return "this commit"
    names = [each.partition("[")[0] for each in peer.packages]
    program = "import sys, importlib.metadata as m; print(*(f'{n} {m.version(n)}' for n in sys.argv[1:]), sep=', ')"
    try:
        python = str(environment_of(peer) / "bin" / "python")
        command = [python, "-c", program, *names]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return f"{', '.join(names)}, not installed"


def measure(names: Sequence[str], jobs: int, rounds: int, *, kill: bool, quiet: float) -> list[Result]:
    """Run the peers in turns, each round in another order; after them, if wanted, a round with a kill."""
    results: list[Result] = []
    with ExitStack() as stack:
        running: dict[str, Running | Missing] = {}
        for needed in dict.fromkeys(PEERS[name].server for name in names):
            try:
                running[needed] = stack.enter_context(SERVERS[needed]())
            except (Missing, OSError, subprocess.SubprocessError) as missing:
                running[needed] = Missing(str(missing))
        serial = 0
        for number in range(1 + rounds + kill):  # the first one warms the servers up, and does not count
            for name in (*names[number % len(names) :], *names[: number % len(names)]):
                server = running[PEERS[name].server]
                serial += 1
                if isinstance(server, Missing):
                    result = Result(name, jobs, note=str(server))
                else:
                    result = _one_round(name, jobs, server, serial, quiet, kill=number == 1 + rounds)
                if number:
                    results.append(result)
                print(json.dumps({"round": number, **asdict(result)}), flush=True)
    return results


def _one_round(name: str, jobs: int, server: Running, number: int, quiet: float, *, kill: bool) -> Result:
    try:
        return Round(name, jobs, server, number, quiet).run(kill=kill)
    except (OSError, subprocess.SubprocessError) as failed:
        return Result(name, jobs, note=f"{failed!r:.200}")


# --- the page


@dataclass(frozen=True)
class Row:
    """What a peer's rounds say: medians."""

    name: str
    rate: float | None
    with_start: float | None
    p50_ms: float | None
    killed: str
    notes: set[str] = field(default_factory=set)


def row_of(name: str, results: Sequence[Result]) -> Row:
    """Return the medians of a peer's rounds, and what a kill cost it."""
    own = [each for each in results if each.peer == name]
    after = next((each for each in own if each.settled_seconds is not None), None)
    killed = "–" if after is None else f"{after.lost} lost or stuck, {after.repeated} twice, {after.settled_seconds} s"
    rate, with_start, p50_ms = (
        statistics.median(known) if (known := [value for value in values if value is not None]) else None
        for values in zip(*((each.rate, each.with_start, each.p50_ms) for each in [*own, Result(name, 0)]), strict=True)
    )
    return Row(name, rate, with_start, p50_ms, killed, {each.note for each in own if each.note})


def table(rows: Sequence[Row]) -> str:
    """Return the table of the page: figures, settings and promises."""
    lines = [
        "| system | jobs/s | with the start | failure → success, p50 | after `kill -9` | settings | what it promises |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in sorted(rows, key=lambda row: -(row.rate or 0)):
        peer = PEERS[each.name]
        notes = f" ({'; '.join(sorted(each.notes))})" if each.notes else ""
        figures = [_shown(each.rate), _shown(each.with_start), "–" if each.p50_ms is None else f"{each.p50_ms:g} ms"]
        about = f"{versions_of(each.name)}: {peer.settings}{notes}".replace("\n", " ").replace("|", "/")
        lines.append(f"| {each.name} | {' | '.join(figures)} | {each.killed} | {about} | {peer.promise} |")
    return "\n".join(lines)


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def chart(rows: Sequence[Row]) -> str:
    """Return the rates as bars, as an SVG that reads in light and in dark."""
    known = sorted((each for each in rows if each.rate), key=lambda row: -(row.rate or 0))
    most = max((each.rate or 0 for each in known), default=1)
    bars = []
    for place, each in enumerate(known):
        top, width = 40 + 28 * place, 420 * (each.rate or 0) / most
        color = "#0f766e" if each.name.startswith("mahavishnu") else "#94a3b8"
        bars.append(
            f'<text x="190" y="{top + 14}" text-anchor="end">{each.name}</text>'
            f'<rect x="200" y="{top}" width="{width:.1f}" height="18" rx="2" fill="{color}"/>'
            f'<text x="{206 + width:.1f}" y="{top + 14}">{_shown(each.rate)}</text>'
        )
    height = 50 + 28 * len(known)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 700 {height}" role="img" '
        'font-family="sans-serif" font-size="13" fill="#64748b">'
        "<title>Jobs in a second that fail once, are kept, retried and succeed</title>"
        '<text x="200" y="24" font-size="15">Jobs per second: fail once, kept, retried, succeed</text>'
        f"{''.join(bars)}</svg>\n"
    )


_LEGEND = """\
*With the start*: from the start of the worker's process. *After `kill -9`*: the worker is killed when a third of the
jobs have succeeded, and started again; then these are the jobs without a success when nothing happened any more, the
successes beyond one for each job, and the seconds from the second start to the last success. Jobs are enqueued before
the worker starts; Mahavishnu's worker submits them itself, which is in its figure."""


def write_page(results: Sequence[Result], rows: Sequence[Row], page: Path = PAGE, image: Path = CHART) -> None:
    """Write the section of the page, between its markers, and the chart."""
    text = page.read_text()
    if BEGIN not in text:
        text = f"{text.rstrip()}\n\n{HEADING}\n\n{BEGIN}\n{END}\n"
    before, _, rest = text.partition(BEGIN)
    raw = "\n".join(json.dumps(asdict(each)) for each in results)
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    jobs = results[0].jobs
    page.write_text(
        f"{before}{BEGIN}\n{jobs:,} jobs that fail once, are kept durably, retried at once, and succeed, in one worker "
        f"process. Medians over the rounds, interleaved; {datetime.now(UTC).date()}, {machine}. `make bench-peers` "
        f"made this.\n\n![Jobs per second of each system](img/{image.name})\n\n{table(rows)}\n\n{_LEGEND}\n\n"
        f"```json\n{raw}\n```\n{END}{rest.partition(END)[2]}"
    )
    image.write_text(chart(rows))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("peers", nargs="*", metavar="PEER", help=f"some of {', '.join(PEERS)}; all without any")
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--quiet", type=float, default=60.0, help="seconds without an event after which a round is over"
    )
    parser.add_argument("--no-kill", action="store_true", help="without the round in which the worker is killed")
    parser.add_argument("--write", action="store_true", help="write a part of the run, too")
    given = parser.parse_args(arguments)
    if unknown := set(given.peers) - set(PEERS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    names = given.peers or list(PEERS)
    for name in names:
        print(f"{name}: {versions_of(name)}; {PEERS[name].settings}", flush=True)
    results = measure(names, given.jobs, given.rounds, kill=not given.no_kill, quiet=given.quiet)
    rows = [row_of(name, results) for name in names]
    print(table(rows))
    if given.write or not given.peers:
        write_page(results, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
