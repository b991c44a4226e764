"""The pages speak of everything that is public, and of nothing that is not there."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from mahavishnu.alerts.service import Alerts
from mahavishnu.archive.service import Archive
from mahavishnu.bulk.service import BulkRuns
from mahavishnu.capture.integration import DLQIntegration
from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.engine.audit import AuditLog
from mahavishnu.events.service import DomainEvents
from mahavishnu.groups.service import Groups
from mahavishnu.letters.requeue import Requeues
from mahavishnu.letters.service import LetterOperations
from mahavishnu.letters.transfer import Transfer
from mahavishnu.monitoring.dashboard import Dashboard
from mahavishnu.monitoring.service import Integrity
from mahavishnu.monitoring.statistics import Trends
from mahavishnu.queues.service import NamedQueues
from mahavishnu.search.service import Search
from mahavishnu.search.views import Views
from mahavishnu.settings.schema import fields
from mahavishnu.tasks.service import Lifecycle
from mahavishnu.workers.claims import Claims
from mahavishnu.workers.service import AdapterLimits, Workers

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "mahavishnu"
PAGES = {path: path.read_text(encoding="utf-8") for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]}
ARCHITECTURE = PAGES[ROOT / "docs/architecture.md"]
_LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")
_SPAN = re.compile(r"`([^`]+)`")
_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def public(thing: type) -> Iterator[str]:
    """Yield the names that users may call or read: not `for_queue`, by which a queue makes its services."""
    return (name for name in dir(thing) if not name.startswith("_") and name != "for_queue")


@pytest.mark.parametrize("thing", [MahavishnuApp, DeadLetterQueue, DLQIntegration], ids=lambda thing: thing.__name__)
def test_every_method_is_on_some_page(thing: type) -> None:
    """In code, not by chance in a sentence."""
    text = "\n".join(PAGES.values())
    missing = [name for name in public(thing) if not re.search(rf"[`.]{name}\b", text)]
    assert not missing


@pytest.mark.parametrize("thing", [MahavishnuApp, DeadLetterQueue], ids=lambda thing: thing.__name__)
def test_the_reference_lists_every_method(thing: type) -> None:
    """Those of the two classes that users hold in their hands."""
    reference = PAGES[ROOT / "docs/reference-api.md"]
    assert [name for name in public(thing) if not re.search(rf"`{name}\b", reference)] == []


SERVICES = {
    "letters": LetterOperations,
    "groups": Groups,
    "search": Search,
    "views": Views,
    "trends": Trends,
    "alerts": Alerts,
    "claims": Claims,
    "requeues": Requeues,
    "transfer": Transfer,
    "archive": Archive,
    "dashboard": Dashboard,
    "integrity": Integrity,
    "audit": AuditLog,
    "runs": BulkRuns,
    "workers": Workers,
    "adapter_limits": AdapterLimits,
    "queues": NamedQueues,
    "lifecycle": Lifecycle,
    "events": DomainEvents,
}


@pytest.mark.parametrize(("name", "service"), SERVICES.items(), ids=SERVICES)
def test_the_reference_lists_every_method_of_a_service(name: str, service: type) -> None:
    """As users write it: the service, then the method."""
    reference = PAGES[ROOT / "docs/reference-api.md"]
    assert [each for each in public(service) if not re.search(rf"`{name}\.{each}\b", reference)] == []


def test_every_setting_is_explained_somewhere_besides_the_reference() -> None:
    """The reference page is held against the model elsewhere; one line there tells nobody when to use a setting."""
    reference = ROOT / "docs/reference-settings.md"
    prose = PAGES[reference].partition("## All settings")[0]
    text = "\n".join([prose, *(page for path, page in PAGES.items() if path != reference)])

    def names(key: str) -> list[str]:
        return [key, f"MAHAVISHNU_{key.upper().replace('.', '__')}", f"{key.rpartition('.')[2]}:"]

    assert [key for key in fields(MahavishnuSettings) if not any(name in text for name in names(key))] == []


def cells() -> Iterator[list[str]]:
    """The table rows of the architecture page, without headings and rules."""
    for line in ARCHITECTURE.splitlines():
        if line.startswith("|") and "---" not in line:
            yield [cell.strip() for cell in line.strip("|").split("|")]


def test_the_map_has_every_folder_of_code() -> None:
    """Name each package in the tree once, and no other."""
    table = ARCHITECTURE.partition("## The tree")[2].partition("\n## ")[0]
    mapped = {span.rstrip("/") for row in cells() if row[0] in table for span in _SPAN.findall(row[0])}
    every = {str(path.parent.relative_to(PACKAGE)) for path in PACKAGE.rglob("__init__.py")} - {"."}
    assert mapped == every


def test_the_tree_is_in_the_order_of_imports() -> None:
    """A reader takes the order of the table for the order that import-linter enforces."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    layers = next(each["layers"] for each in contracts if each["id"] == "house")
    order = [name.strip() for layer in layers for name in layer.split("|") if name != "__main__"]
    table = ARCHITECTURE.partition("## The tree")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)/`", table, re.MULTILINE) == order


def test_the_steps_name_functions_of_the_module_before_them() -> None:
    """Each walk has at most ten steps, each with a function or class that is in the module named just before it."""
    walks = ARCHITECTURE.partition("## Five walks")[2].partition("## Where to add things")[0].split("\n### ")[1:]
    assert len(walks) == 5
    for walk in walks:
        steps = [row for row in cells() if len(row) == 2 and row[1] != "where" and " | ".join(row) in walk]
        assert 5 < len(steps) <= 10
        for step in steps:
            spans, code = _SPAN.findall(step[1]), ""
            assert not spans[-1].endswith(".py"), f"no function in {step[1]}"
            for span in spans:
                if span.endswith(".py"):
                    code = (PACKAGE / span).read_text(encoding="utf-8")
                else:
                    last = span.rpartition(".")[2]
                    assert re.search(rf"\b(def|class) {last}\b", code), f"there is no {span} in {step[1]}"


def test_where_to_add_things_names_what_is_there() -> None:
    """Each constant and function in code of one of the modules that its line names."""
    advice = ARCHITECTURE.partition("## Where to add things")[2].split("\n- ")[1:]
    for each in advice:
        spans = _SPAN.findall(each)
        paths = [PACKAGE / span for span in spans if span.endswith(".py")]
        code = "".join(path.read_text(encoding="utf-8") for path in paths if path.exists())
        names = {span for span in spans if re.fullmatch(r"_?[A-Z][A-Z_]+|[a-z]+_[a-z_]+", span) and code} - {"ROOM"}
        assert [name for name in names if not re.search(rf"^(def )?{name}\b", code, re.MULTILINE)] == [], each


def test_each_module_that_the_page_names_exists() -> None:
    """Also beside the walks, where a path has its folder."""
    named = {span for span in _SPAN.findall(ARCHITECTURE) if re.fullmatch(r"[\w/]+/\w+\.(py|html)", span)}
    assert named
    assert [each for each in named if not (PACKAGE / each).exists() and not (ROOT / each).exists()] == []


def test_the_site_lists_every_page_once() -> None:
    """The build of the site warns of no page that its navigation lacks, nor of one that stands in it twice."""
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    docs = ROOT / "docs"
    pages = sorted(page.relative_to(docs).as_posix() for page in docs.rglob("*.md"))
    assert sorted(re.findall(r": (\S+\.md)$", navigation, re.MULTILINE)) == pages


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    """To a file that is there, and to a heading of it."""
    for target, anchor in _LINK.findall(_FENCED.sub("", PAGES[page])):
        path = (page.parent / target).resolve() if target else page
        assert path.exists(), f"{page.name} links to {target}"
        if anchor:
            text = _FENCED.sub("", path.read_text(encoding="utf-8"))
            headings = {slug(line.lstrip("# ")) for line in text.splitlines() if line.startswith("#")}
            assert anchor in headings, f"{page.name} links to {target}#{anchor}"


def slug(heading: str) -> str:
    """As the code hosts make them."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
