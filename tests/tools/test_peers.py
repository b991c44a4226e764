"""The comparison with other systems runs: the part of it that needs no other system."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

from benchmarks.peers.__main__ import BEGIN, END, Result, measure, row_of, table, write_page

OURS = "mahavishnu-sqlite"


def test_jobs_fail_once_are_kept_and_succeed(tmp_path: Path) -> None:
    (result,) = measure([OURS], 20, 1, kill=False, quiet=30)

    assert (result.note, result.lost, result.repeated) == ("", 0, 0)
    assert result.rate and result.with_start and result.p50_ms and result.with_start < result.rate

    page, image = tmp_path / "benchmarks.md", tmp_path / "peers.svg"
    page.write_text(f"# Benchmarks\n\n## Other systems\n\n{BEGIN}\nold\n{END}\n\n## After\n")
    write_page([result], [row_of(OURS, [result])], page, image)
    text = page.read_text()
    assert text.count(BEGIN) == text.count(END) == 1 and "old" not in text and text.endswith("## After\n")
    assert json.loads(text.partition("```json\n")[2].partition("\n")[0])["rate"] == result.rate
    assert OURS in "".join(ElementTree.fromstring(image.read_text()).itertext())


def test_a_kill_is_counted_and_a_missing_server_is_said() -> None:
    (result,) = [each for each in measure([OURS], 60, 0, kill=True, quiet=30) if each.settled_seconds is not None]
    assert result.lost == 0

    killed = Result("rq", 300, lost=7, repeated=2, settled_seconds=3.5)
    missing = Result("procrastinate", 300, note="no PostgreSQL in /usr/lib/postgresql")
    rows = [row_of(name, [killed, missing]) for name in ("rq", "procrastinate")]
    assert (rows[0].rate, rows[0].killed) == (None, "7 lost or stuck, 2 twice, 3.5 s")
    assert rows[1].notes == {missing.note} and table([]).startswith("| system |")
