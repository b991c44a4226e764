"""The list of groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from starlette.requests import Request
from starlette.responses import Response

from mahavishnu.api.auth import OwnQueue, Viewer
from mahavishnu.api.pages.console import show
from mahavishnu.api.pages.frame import Link, Number
from mahavishnu.api.pages.overview import MOST_RANKED
from mahavishnu.api.routes.groups import GroupQuery
from mahavishnu.api.routing import Query, Router
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.model.attention import Attention, attention_of, rank_needs
from mahavishnu.model.group import GroupPage

router = Router(tag="groups", documented=False)


async def count_needs(dlq: DeadLetterQueue) -> Number:
    """How many groups nobody has taken."""
    page = await dlq.groups.list(limit=MOST_RANKED)
    needed = sum(need.attention is Attention.NEEDED for need in rank_needs(page.items, dlq.clock.now()))
    if needed:
        return Number(needed, wanted=True, least=page.degraded is not None)
    return Number(page.total, least=page.degraded is not None)


LINK = Link("groups", "Groups", "Now", first=True, key="g", number=count_needs)


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
    request: Request, dlq: OwnQueue, actor: Viewer, params: Annotated[GroupQuery, Query()]
) -> Response:
    """Groups of letters with one cause each."""
    page = await dlq.in_namespace(params.namespace or dlq.namespace).groups.list(
        state=params.state,
        owner=params.owner,
        on_hold=params.on_hold,
        quiet=params.quiet or params.state is not None,
        sort=params.sort,
        limit=params.limit,
        after=params.cursor,
    )
    return await show(request, "groups.html", GroupsView(page, params))
