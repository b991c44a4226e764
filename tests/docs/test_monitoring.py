"""Rules, dashboard and pages about monitoring speak of metrics that there are, and promtool accepts all of them."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from mahavishnu.core.commands import GROUPS as COMMAND_GROUPS
from mahavishnu.core.commands import verbs_of
from mahavishnu.core.rooms import pages
from mahavishnu.engine.telemetry import METRICS, MetricKind
from mahavishnu.model.events import LOG_EVENTS
from tests.support.opensearch.tools import tool

ROOT = Path(__file__).parents[2]
RULES = ROOT / "config/alerts/dlq.yml"
GROUPS: list[dict[str, Any]] = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
ALERTS: dict[str, dict[str, Any]] = {rule["alert"]: rule for group in GROUPS for rule in group["rules"]}
DASHBOARD: dict[str, Any] = json.loads((ROOT / "config/grafana/dlq.json").read_text(encoding="utf-8"))
PANELS: list[dict[str, Any]] = DASHBOARD["panels"]
RUNBOOKS = (ROOT / "docs/production/runbooks.md").read_text(encoding="utf-8")
# Names of series: a histogram has three.
SERIES = {
    series
    for each in METRICS.values()
    for series in (
        [f"{each.name}_{part}" for part in ("bucket", "sum", "count")]
        if each.kind is MetricKind.HISTOGRAM
        else [each.name]
    )
}


def expressions() -> Iterator[str]:
    """Every expression of the dashboard, with its variables as Grafana fills them in."""
    for panel in PANELS:
        for target in panel.get("targets", ()):
            yield target["expr"].replace("$job", ".*")


def promtool(*arguments: str | Path) -> str:
    done = subprocess.run([tool("promtool"), *map(str, arguments)], capture_output=True, text=True, cwd=RULES.parent)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_promtool_accepts_the_rules_and_their_tests_pass() -> None:
    assert f"{len(ALERTS)} rules found" in promtool("check", "rules", RULES)
    promtool("test", "rules", RULES.with_name("dlq_test.yml"))
    tested = RULES.with_name("dlq_test.yml").read_text(encoding="utf-8")
    assert [name for name in ALERTS if f"alertname: {name}" not in tested and f'"{name}"' not in tested] == []


def test_promtool_accepts_every_expression_of_the_dashboard(tmp_path: Path) -> None:
    rules = [{"record": f"panel:{number}", "expr": each} for number, each in enumerate(expressions())]
    assert len(rules) > 30
    (tmp_path / "panels.yml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    promtool("check", "rules", tmp_path / "panels.yml")


def test_rules_and_dashboard_name_metrics_that_there_are() -> None:
    for text in (*expressions(), *(rule["expr"] for rule in ALERTS.values())):
        named = set(re.findall(r"mahavishnu_\w+", text))
        assert named and named <= SERIES, named - SERIES


def test_the_pages_name_metrics_that_there_are() -> None:
    tables = set[str]()
    for page in [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]:
        if page.name == "howto-opensearch.md" or "archive_20" in page.name:
            continue  # indices are called alike
        for name in re.findall(r"`(mahavishnu_\w+)", page.read_text(encoding="utf-8")):
            if not name.startswith("mahavishnu_dlq_archive_2"):
                assert name in SERIES | {*METRICS}, (page.name, name)
                tables |= {name} if page.name == "reference-metrics.md" else set()
    assert tables == {*METRICS}


def test_the_reference_says_what_the_catalogue_says() -> None:
    page = (ROOT / "docs/reference-metrics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(mahavishnu_\w+)` \| (.*) \|$", page, re.MULTILINE)
    assert dict(rows) == {
        each.name: f"{each.kind} | {', '.join(f'`{label}`' for label in each.labels)} | {each.meaning}"
        for each in METRICS.values()
    }


def test_names_keep_to_the_conventions() -> None:
    """Of Prometheus: a prefix, base units, `_total` for counters only; and no label that could name a letter."""
    for each in METRICS.values():
        assert each.name.startswith("mahavishnu_")
        assert each.name.endswith("_total") is (each.kind is MetricKind.COUNTER)
        assert not re.search(r"_(ms|minutes|millis|hours)(_|$)", each.name)
        assert {*each.labels} <= {"adapter", "category", "outcome", "queue", "status", "state"}


TASK_LIFECYCLE = {
    "DLQSizeHigh": ("15m", "warning", "DLQ has {{ $value }} pending entries", "systemic issue"),
    "StalenessDetectionFailing": ("10m", "critical", "Staleness detection is failing", "not detected, and not moved"),
    "ArchivalFailing": ("30m", "warning", "Task archival is failing", "main store keeps growing"),
    "PartitionCreationFailed": (None, "critical", "Failed to create next partition", "cannot be inserted"),
    "HighStaleTaskRate": ("30m", "warning", "{{ $value }}% of tasks are becoming stale", "infrastructure"),
}


@pytest.mark.parametrize("name", TASK_LIFECYCLE)
def test_the_rules_of_tasks_are_as_they_were_asked_for(name: str) -> None:
    rule = ALERTS[name]
    seconds, severity, summary, explained = TASK_LIFECYCLE[name]
    assert (rule.get("for"), rule["labels"]["severity"], rule["annotations"]["summary"]) == (seconds, severity, summary)
    assert explained in rule["annotations"]["description"]
    assert GROUPS[0]["name"] == "task_lifecycle" and name in [each["alert"] for each in GROUPS[0]["rules"]]


@pytest.mark.parametrize("name", ALERTS)
def test_every_alert_explains_itself_and_has_a_runbook(name: str) -> None:
    rule = ALERTS[name]
    assert rule["labels"]["severity"] in ("critical", "warning")
    notes = rule["annotations"]
    assert len(notes["description"].split(".")) > 2, "a summary alone explains nothing"
    assert notes["runbook_url"] == f"/runbooks#{name.lower()}"
    section = RUNBOOKS.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    for part in ("**It means**", "**Look**", "**Do**", "**It is over**"):
        assert part in section


def test_every_alert_leads_to_a_page_of_the_console() -> None:
    paths = {f"/{link.path}" for page in pages() for link in getattr(page, "LINKS", ())}
    assert {rule["annotations"]["console_path"] for group in GROUPS for rule in group["rules"]} <= paths


def test_every_runbook_is_of_an_alert_and_names_commands_that_there_are() -> None:
    assert re.findall(r"^## (\w+)$", RUNBOOKS, re.MULTILINE) == [*ALERTS]
    for group, verb in re.findall(r"`mahavishnu (\w+)(?: ([a-z]\w*))?", RUNBOOKS):
        assert group in {each.name for each in COMMAND_GROUPS}
        assert not verb or verb in verbs_of(group), f"mahavishnu {group} {verb}"


def test_the_panels_of_the_dashboard_do_not_lie_on_one_another() -> None:
    taken = dict[tuple[int, int], str]()
    for panel in PANELS:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert (x, y) not in taken, (panel["title"], taken.get((x, y)))
                taken[x, y] = panel["title"]
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)


def test_the_names_of_log_lines_are_on_the_page() -> None:
    page = (ROOT / "docs/howto-monitoring.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([\w.]+)` \| (.+) \|$", page, re.MULTILINE))
    assert rows == LOG_EVENTS
