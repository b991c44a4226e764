"""`mahavishnu dlq encrypt` says what it did, what it could not do, and what it does not look at."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from mahavishnu.values.encryption import new_key
from tests.support.command_line import Run, kept

KEYS = {name: new_key() for name in ("old", "new")}


def test_it_says_what_is_done_left_and_out_of_reach(
    run: Run, settings_file: Callable[[str], Path], tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'letters.db'}"
    kept(url, *({"task_id": f"wf_{number:02}", "task": {"card": "4111"}} for number in range(25)))

    def settings(*names: str) -> None:
        keys = "".join(f'    "{name}": "{KEYS[name]}"\n' for name in names)
        settings_file(f'dlq_store_url: "{url}"\nencryption:\n  fields: [card]\n  keys:\n{keys}')

    settings("old")
    looked = run("dlq", "encrypt")
    assert looked.code == 0 and "25 records of 25 would be encrypted by the newest key; --apply does it" in looked.out
    assert "not looked at: exports and backups: keep the keys that they were made with" in looked.out
    done = run("dlq", "encrypt", "--apply")
    assert done.code == 0 and "25 records of 25 encrypted by the newest key" in done.out
    assert "`mahavishnu dlq encrypt` has to find nothing any more" in done.out
    assert "0 records of 25 would be" in run("dlq", "encrypt").out
    settings("new")
    left = run("dlq", "encrypt")
    assert left.code == 1 and left.out.count("is encrypted with key 'old'") == 20
    assert "5 more cannot be encrypted anew; --json names them all" in left.out
    assert len(run("dlq", "encrypt", "--json").json["failed"]) == 25
