"""The policy for the archive's indices has the form that Index State Management takes, and means our indices only."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from mahavishnu.archive.records import ARCHIVE_PARTITIONS, ARCHIVED_LETTERS, archive_kind

PAGE = (Path(__file__).parents[2] / "docs/howto-opensearch.md").read_text(encoding="utf-8")
ACTIONS = {"force_merge": {"max_num_segments"}, "allocation": {"require", "wait_for"}}


def test_the_policy_has_the_form_that_the_plugin_takes() -> None:
    (text,) = re.findall(r"^```json\n(\{\n  \"policy\".*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    policy: dict[str, Any] = json.loads(text)["policy"]
    states = {state["name"]: state for state in policy["states"]}
    assert policy["default_state"] in states
    for state in states.values():
        assert set(state) == {"name", "actions", "transitions"}
        for action in state["actions"]:
            ((name, options),) = action.items()
            assert set(options) == ACTIONS[name], "neither closes nor deletes: the program would not know"
        for transition in state["transitions"]:
            assert transition["state_name"] in states
            assert re.fullmatch(r"\d+d", transition["conditions"]["min_index_age"])
    (template,) = policy["ism_template"]
    (pattern,) = template["index_patterns"]
    assert fnmatch(f"mahavishnu_{archive_kind(ARCHIVED_LETTERS, '2026_01').index}-1", pattern)
    assert not fnmatch(f"mahavishnu_{ARCHIVE_PARTITIONS.index}-1", pattern)
