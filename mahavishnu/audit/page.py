"""The page of the audit: acts of people and rules, filtered by the address."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from itertools import chain
from typing import Annotated
from urllib.parse import quote, urlencode

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from mahavishnu.console.console import console_of, show
from mahavishnu.console.forms import FilterQuery
from mahavishnu.console.frame import Link
from mahavishnu.http.auth import OwnQueue, Viewer
from mahavishnu.http.routing import Query, Router
from mahavishnu.model.events import AuditEntry
from mahavishnu.model.ids import DEFAULT_NAMESPACE, DEFAULT_QUEUE
from mahavishnu.stores.base import Page

LINKS = (Link("audit", "Audit", "Record", 10, key="u"),)
router = Router(tag="audit_page", documented=False)
_PAGES = {"group": "groups", "run": "runs", "task": "tasks", "queue": "queues"}
Text = Annotated[str, Field(max_length=1000)]


class AuditPageQuery(FilterQuery):
    """The filters of the audit."""

    filters = ("actor", "action", "subject", "outcome", "since", "until")
    actor: Text = ""
    action: Text = ""
    subject: Text = ""
    outcome: Text = ""
    since: Text = ""
    until: Text = ""


@dataclass(frozen=True, slots=True)
class AuditView:
    """One page of the audit, as it was asked for."""

    page: Page[AuditEntry]
    params: AuditPageQuery

    @property
    def is_filtered(self) -> bool:
        return bool(self.params.given)

    @property
    def next(self) -> str:
        """The link to the next page."""
        return f"audit?{urlencode({**self.params.given, 'limit': self.params.limit, 'cursor': str(self.page.next)})}"

    @property
    def command(self) -> str:
        """The same list on the command line."""
        options = {f"--{name}": value for name, value in self.params.given.items()}
        return shlex.join(["mahavishnu", "audit", "list", *chain(*options.items())])

    @property
    def query(self) -> str:
        """The same list in the API."""
        return urlencode(self.params.given)

    def path_of(self, entry: AuditEntry) -> str | None:
        """Return the page of the act's subject, if it has one."""
        kind, _, name = entry.subject.partition(":")
        if kind == "letter":
            return _letter_path(name)
        if kind == "partition":
            return "archive/months"
        return f"{_PAGES[kind]}/{quote(name, safe='')}" if kind in _PAGES and name else None


@router.get("/audit")
async def audit_page(
    request: Request, dlq: OwnQueue, actor: Viewer, params: Annotated[AuditPageQuery, Query()]
) -> Response:
    """Show acts of people and rules, and those that were refused, newest first."""
    dlq = dlq.in_namespace(params.namespace or dlq.namespace)

    async def read() -> AuditView:
        return AuditView(await dlq.audit.list(**params.arguments), params)

    found = await console_of(request).share(request, dlq, "audit", read, params.model_dump_json())
    return await show(request, "audit.html", found.value, recent=found)


def _letter_path(key: str) -> str:
    """Return the page of the letter with this key.

    >>> _letter_path("wf_1"), _letter_path("eu/mail/a/b")
    ('letters/wf_1', 'letters/a%2Fb?namespace=eu&queue=mail')
    """
    parts = key.split("/", 2)
    if len(parts) < 3:
        return f"letters/{quote(key, safe='')}"
    namespace, queue, task_id = parts
    where = {"namespace": namespace, "queue": queue}
    usual = {"namespace": DEFAULT_NAMESPACE, "queue": DEFAULT_QUEUE}
    said = urlencode({name: value for name, value in where.items() if value != usual[name]})
    return f"letters/{quote(task_id, safe='')}{'?' + said if said else ''}"
