"""`mahavishnu view`: saved queries, shared by all who see the same letters."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, TypeAlias

import typer

from mahavishnu.cli.client import Connection, path_part
from mahavishnu.cli.command import Converse, command
from mahavishnu.cli.output import Conflict, NotFound, print_line, print_records

Name: TypeAlias = Annotated[str, typer.Argument(metavar="NAME", help="The view's name.")]


_VIEW = {"view": "name", "query": "text", "sort": "sort", "saved by": "saved_by", "saved": "saved_at"}


@command(partial(print_records, columns=_VIEW, empty="no views are saved", texts=("view", "query")))
async def list_views(api: Connection) -> Any:
    """List the saved views."""
    return await api.get("/views")


@command(lambda saved: print_line(f"{saved['name']}: {saved['text']}"))
def save(
    name: Name,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Such as 'adapter:orders age>2h'.")],
    sort: Annotated[str, typer.Option("--sort", help="newest, oldest, updated, due or priority.")] = "newest",
    place: Annotated[int, typer.Option("--place", metavar="N", help="Where it stands in the list.")] = 0,
    new: Annotated[bool, typer.Option("--new", help="Refuse a name that is taken.")] = False,
) -> Converse:
    """Save a query under a name, in the place of what has the name."""
    from mahavishnu.model.query_text import names_in

    names_in(query)  # raises what is wrong with it, and shows where

    async def converse(api: Connection) -> Any:
        if new:
            try:
                taken = await api.get(f"/views/{path_part(name)}")
            except NotFound:
                pass
            else:
                raise Conflict(f"view {name!r} was saved by {taken['saved_by']}")
        return await api.post(f"/views/{path_part(name)}", api.with_actor(text=query, sort=sort, place=place))

    return converse


@command(lambda gone: print_line(f"{gone['name']} is deleted; it was: {gone['text']}"))
async def delete(api: Connection, name: Name) -> Any:
    """Delete a view."""
    return (await api.ask("DELETE", f"/views/{path_part(name)}", body=api.with_actor())).json()
