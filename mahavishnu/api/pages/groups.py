"""The list of groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from starlette.requests import Request
from starlette.responses import Response

from mahavishnu.api.pages.overview import needs_of, read_groups
from mahavishnu.api.routes.groups import GroupQuery
from mahavishnu.console.console import console_of, show
from mahavishnu.console.frame import Link, Number, NumberIn
from mahavishnu.console.recent_reads import Recent
from mahavishnu.http.auth import OwnQueue, Viewer
from mahavishnu.http.routing import Query as Parameters
from mahavishnu.http.routing import Router
from mahavishnu.model.attention import Attention, attention_of
from mahavishnu.model.group import GroupPage

router = Router(tag="groups", documented=False)


def count_needs(groups: Recent[GroupPage | None]) -> Number | None:
    """How many groups nobody has taken."""
    page = groups.value
    if page is None:
        return None
    needed = sum(need.attention is Attention.NEEDED for need in groups.derive(needs_of))
    if needed:
        return Number(needed, wanted=True, least=page.degraded is not None)
    return Number(page.total, least=page.degraded is not None)


LINK = Link("groups", "Groups", "Now", first=True, key="g", number=NumberIn(read_groups, count_needs))


@dataclass(frozen=True, slots=True)
class GroupsView:
    """One page of groups, as they were asked for."""

    page: GroupPage
    params: GroupQuery

    def is_wanted(self, place: int) -> bool:
        """Whether nobody has taken the group at this place."""
        return attention_of(self.page.items[place]) is Attention.NEEDED


@router.get("/groups")
async def groups_page(
    request: Request, dlq: OwnQueue, actor: Viewer, params: Annotated[GroupQuery, Parameters()]
) -> Response:
    """Groups of letters with one cause each."""
    here = dlq.in_namespace(params.namespace or dlq.namespace)
    found = await console_of(request).share(
        request, here, "groups", lambda: here.groups.list(**params.arguments()), params.model_dump_json()
    )
    return await show(request, "groups.html", GroupsView(found.value, params), recent=found)
