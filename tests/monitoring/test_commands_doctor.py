"""`mahavishnu dlq doctor`."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from tests.support.command_line import Run


def test_it_lists_what_cannot_be_read_and_fails(run: Run, letters: Path) -> None:
    sound = run("dlq", "doctor")
    assert (sound.code, sound.out) == (0, "every record can be read\n")
    with closing(sqlite3.connect(letters)) as connection, connection:
        assert connection.execute("UPDATE letters SET _body = '{' WHERE _key = 'wf_1'").rowcount == 1
    found = run("dlq", "doctor")
    assert (found.code, found.out.splitlines()[1].split()[:2]) == (1, ["letters", "wf_1"])
    assert "1 record cannot be read" in found.err
    (line,) = run("dlq", "doctor", "--json").json
    assert (line["kind"], line["key"]) == ("letters", "wf_1")
