"""The pages speak of everything that is public, and of nothing that is not there."""

from __future__ import annotations

import re
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
from mahavishnu.workers.service import Workers

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "mahavishnu"
PAGES = {path: path.read_text(encoding="utf-8") for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]}
ARCHITECTURE = PAGES[ROOT / "docs/architecture.md"]
_LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")
_SPAN = re.compile(r"`([^`]+)`")
_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def public(thing: type) -> Iterator[str]:
    """What users may call or read."""
    return (name for name in dir(thing) if not name.startswith("_"))


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


def files(text: str) -> list[Path]:
    """The modules that are named in a cell; the folder of the first one counts for those after it."""
    found: list[Path] = []
    folder = Path()
    for span in _SPAN.findall(text):
        if not span.endswith(".py"):
            continue
        path = PACKAGE / span
        if here := sorted(path.parent.glob(path.name)):
            folder = Path(Path(span).parts[0])
        else:
            here = sorted((PACKAGE / folder).glob(span))
        assert here, f"there is no {span}"
        found += here
    return found


def test_the_map_has_every_folder_of_code() -> None:
    """And each that it names exists."""
    table = ARCHITECTURE.partition("## The house")[2].partition("\n## ")[0]
    mapped = {span.rstrip("/") for row in cells() if row[0] in table for span in _SPAN.findall(row[0])}
    every = {str(path.parent.relative_to(PACKAGE)) for path in PACKAGE.rglob("__init__.py")} - {"."}
    assert mapped == every


def test_what_the_steps_name_is_where_they_say() -> None:
    """Each function of "follow one letter", in the modules of its row, or of a row above it."""
    steps = ARCHITECTURE.partition("## Follow one letter")[2].partition("## Where to add things")[0]
    code: list[str] = []
    named = 0
    for row in cells():
        if len(row) != 2 or row[1] not in steps or not _SPAN.search(row[1]):
            continue
        code += [path.read_text(encoding="utf-8") for path in files(row[1])]
        for name in _SPAN.findall(row[1]):
            if not name.endswith(".py"):
                named += 1
                last = name.rpartition(".")[2]
                assert any(re.search(rf"\b(def|class) {last}\b", text) for text in code), f"there is no {name}"
    assert named > 30


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
