"""`mahavishnu queue`: named queues, what they hold, and what people decide about items."""

from __future__ import annotations

import json as json_module
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

import typer

from mahavishnu.cli.client import Connection, path_part
from mahavishnu.cli.command import Converse, command
from mahavishnu.cli.options import Every, Limit, Reason
from mahavishnu.cli.output import AsJson, brief, count_of, print_block, print_line, print_notice, print_records
from mahavishnu.model.errors import InvalidInput

Queue: TypeAlias = Annotated[str, typer.Argument(metavar="QUEUE", help="The queue's name.")]
Item: TypeAlias = Annotated[str, typer.Argument(metavar="ITEM", help="The item's id, as queue items shows it.")]
Project: TypeAlias = Annotated[  # `choose_namespace` reads it, and no command does
    str | None, typer.Option("--project", metavar="NAME", help="The same as --namespace, by the name it has elsewhere.")
]
Token: TypeAlias = Annotated[str, typer.Option("--token", help="The token of the lease.")]
_NONE = "none"
_SHORT = 8  # characters of an id that a confirmation shows


@dataclass(frozen=True)
class QueueOptions:
    """The options of a queue's definition; `none` takes one away."""

    dead_queue: Annotated[
        str | None, typer.Option("--dead-queue", metavar="QUEUE", help="Where what dies goes; none: nowhere.")
    ] = None
    attempts: Annotated[
        int | None, typer.Option("--attempts", help="The failure that an item dies of; 0 and 1: the first one.")
    ] = None
    cooldown: Annotated[
        str | None, typer.Option("--cooldown", metavar="TIME", help="How long an item waits after a failure: 30s, 5m.")
    ] = None
    max_attempts: Annotated[
        int | None, typer.Option("--max-attempts", help="How many failures are allowed; one more, and the item dies.")
    ] = None
    expire: Annotated[
        str | None, typer.Option("--expire", metavar="TIME", help="How long an item can be leased; none: for ever.")
    ] = None
    lease: Annotated[
        str | None, typer.Option("--lease", metavar="TIME", help="How long a lease lasts of which nobody says it.")
    ] = None
    on_dead: Annotated[
        str | None, typer.Option("--on-dead", help="What becomes of dead items without a dead queue: retain or delete.")
    ] = None

    @property
    def body(self) -> dict[str, Any]:
        """The options that were given, as the API takes them."""
        retry = {"attempts": self.attempts, "cooldown": self.cooldown}
        given: dict[str, Any] = {
            "dead_queue": self.dead_queue,
            "max_attempts": self.max_attempts,
            "expire_timeout": self.expire,
            "lease_timeout": self.lease,
            "on_dead": self.on_dead,
            "retry": {name: value for name, value in retry.items() if value is not None} or None,
        }
        return {name: None if value == _NONE else value for name, value in given.items() if value is not None}


def _print_queues(found: list[dict[str, Any]]) -> None:
    columns = {
        "queue": "name",
        "dead queue": "dead_queue",
        **{name: name for name in ("attempts", "cooldown")},
        "max attempts": "max_attempts",
        "expires": "expire_timeout",
        "lease": "lease_timeout",
        "on dead": "on_dead",
    }
    empty = "no queue is defined: mahavishnu queue create NAME"
    print_records([each | each["retry"] for each in found], columns, empty=empty, spare=("lease", "on dead", "expires"))


@command(_print_queues)
async def list_queues(api: Connection, project: Project = None) -> Any:
    """List the queues and what is said of them."""
    return await api.get("/queues")


def _print_queue(queue: dict[str, Any]) -> None:
    retry, counts = queue["retry"], queue.get("status_breakdown")
    print_block(
        {
            "queue": queue["name"],
            "kind": queue["kind"],
            "dead queue": queue["dead_queue"],
            "retry": f"{retry['attempts']} attempts, cooldown {retry['cooldown']}",
            "max attempts": queue["max_attempts"],
            "expires": queue["expire_timeout"],
            "lease": queue["lease_timeout"],
            "on dead": queue["on_dead"],
            **({} if counts is None else {
                "pending": counts["pending"], "active": counts["retrying"], "dead": counts["exhausted"]
            }),
        }
    )  # fmt: skip


@command(_print_queue)
async def show(api: Connection, queue: Queue, project: Project = None) -> Any:
    """Show a queue: what is said of it, and its numbers."""
    return await api.get(f"/queues/{path_part(queue)}")


@command(lambda made: print_line(f"queue {made['name']} is defined"), new=True)
async def create(
    api: Connection,
    queue: Queue,
    options: QueueOptions,
    external: Annotated[bool, typer.Option("--external", help="Its items are elsewhere.")] = False,
    project: Project = None,
) -> Any:
    """Define a queue."""
    kind = {"kind": "external"} if external else {}
    return await api.post("/queues", {"name": queue, **options.body, **kind, **api.with_actor()})


@command(_print_queue)
def update(queue: Queue, options: QueueOptions, project: Project = None) -> Converse:
    """Change what is said of a queue; what is decided from now on is decided by it."""
    body = options.body
    if not body:
        raise InvalidInput("say what is to change: --dead-queue, --attempts, --cooldown, --max-attempts …")

    async def converse(api: Connection) -> Any:
        if "retry" in body:
            body["retry"] = (await api.get(f"/queues/{path_part(queue)}"))["retry"] | body["retry"]
        return (await api.ask("PATCH", f"/queues/{path_part(queue)}", body={**body, **api.with_actor()})).json()

    return converse


@command()
async def delete(
    api: Connection,
    queue: Queue,
    force: Annotated[bool, typer.Option("--force", help="Also if it is the dead queue of others.")] = False,
    project: Project = None,
) -> None:
    """Delete the definition of a queue; its items stay."""
    await api.post(f"/queues/{path_part(queue)}/delete", {"force": force, **api.with_actor()})
    print_line(f"queue {queue} is not defined any more")


@command(lambda made: print_line(f"pushed item {made['id'][:_SHORT]} to queue {made['queue']}: {made['id']}"))
def push(
    queue: Queue,
    payload: Annotated[str, typer.Argument(metavar="JSON", help="What is to be done.")],
    project: Project = None,
) -> Converse:
    """Put an item into a queue."""
    try:
        value = json_module.loads(payload)
    except ValueError as problem:
        raise InvalidInput(f"the item is no JSON: {problem}") from None

    async def converse(api: Connection) -> Any:
        return await api.post(f"/queues/{path_part(queue)}/items", {"payload": value})

    return converse


def _print_items(found: list[dict[str, Any]]) -> None:
    print_records(
        found,
        {
            "item": "id",
            "status": "status",
            "failure_count": "failure_count",
            "came": "created_at",
            "worker": "worker_name",
            "from": "source_queue",
            "why": lambda each: each["last_error"] or each["reason"],
            "payload": lambda each: brief(json_module.dumps(each["payload"], ensure_ascii=False)),
        },
        empty="no items",
        spare=("worker", "from", "came"),
    )


@command(_print_items)
async def items(
    api: Connection,
    queue: Queue,
    status: Annotated[
        str | None, typer.Option("--status", help="pending, active, failed, dead, completed or closed.")
    ] = None,
    limit: Limit = 50,
    everything: Every = False,
    project: Project = None,
) -> Any:
    """List the items of a queue in the order in which they came."""
    path = f"/queues/{path_part(queue)}/items"
    return await api.list(path, {"status": status}, None if everything else limit)


@command()
async def lease(
    api: Connection,
    queue: Queue,
    worker: Annotated[str | None, typer.Option("--worker", help="In whose name.")] = None,
    limit: Limit = 1,
    seconds: Annotated[float | None, typer.Option("--seconds", help="How long the lease lasts.")] = None,
    project: Project = None,
) -> Any:
    """Take the next items, as JSON with their tokens: for shell scripts."""
    body = {"worker": worker or api.session.user, "limit": limit, "lease_seconds": seconds}
    given = {name: value for name, value in body.items() if value is not None}
    return await api.post(f"/queues/{path_part(queue)}/lease", given)


@command()
async def ack(api: Connection, queue: Queue, item: Item, token: Token, project: Project = None) -> None:
    """Complete a leased item."""
    await api.post(f"{_item_path(queue, item)}/complete", {"token": token})
    print_line(f"completed item {item[:_SHORT]} of queue {queue}")


@command()
async def fail(
    api: Connection,
    queue: Queue,
    item: Item,
    token: Token,
    error: Annotated[str, typer.Option("--error", help="Why.")] = "the worker gave it back",
    dead: Annotated[bool, typer.Option("--dead", help="It is not to be tried again.")] = False,
    project: Project = None,
) -> None:
    """Fail a leased item."""
    body = {"token": token, "error": error, "dead": dead}
    after = await api.post(f"{_item_path(queue, item)}/fail", body)
    print_line(f"item {item[:_SHORT]} of queue {queue} failed: {after['status']}")


@command(lambda done: print_line(f"retried item {done['item_id'][:_SHORT]} of queue {done['queue_name']}"))
async def retry(api: Connection, queue: Queue, item: Item, reason: Reason = None, project: Project = None) -> Any:
    """Have a dead or failed item leased again, with no failure counted."""
    return await api.post(f"{_item_path(queue, item)}/retry", api.with_actor(notes=reason))


@command()
async def drop(api: Connection, queue: Queue, item: Item, reason: Reason = None, project: Project = None) -> None:
    """Delete an item; its number stays, and the audit says who did it."""
    await api.post(f"{_item_path(queue, item)}/drop", api.with_actor(notes=reason))
    print_line(f"dropped item {item[:_SHORT]} of queue {queue}")


@command()
def redrive(
    queue: Queue,
    item: Annotated[
        list[str] | None, typer.Option("--item", metavar="ITEM", help="Only this one; several times.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All that nobody has leased.")] = False,
    text: Annotated[
        str | None, typer.Option("--text", help="Only those that have all of these words, in the error or the payload.")
    ] = None,
    dlq_reason: Annotated[
        str | None, typer.Option("--dlq-reason", help="Only those that died for this reason, such as expired.")
    ] = None,
    where: Annotated[
        str | None, typer.Option("--where", metavar="QUERY", help="Only those that this query means.")
    ] = None,
    to: Annotated[str | None, typer.Option("--to", metavar="QUEUE", help="Not to where they came from.")] = None,
    reason: Reason = None,
    project: Project = None,
    json: AsJson = False,
) -> Converse:
    """Send the items of a dead queue back to the queues that they came from."""
    from mahavishnu.model.query_text import names_in

    names_in(where or "")  # raises what is wrong with it, and shows where
    given = {"text": text, "reason": dlq_reason and [dlq_reason], "q": (where or "").strip() or None}
    filters = {name: value for name, value in given.items() if value is not None}
    if sum((bool(item), everything, bool(filters))) != 1:
        raise InvalidInput("say which items: --item ITEM, --text, --dlq-reason or --where, or --all")

    async def converse(api: Connection) -> Any:
        body = api.with_actor(ids=item or None, filter=filters or None, to=to, notes=reason)
        done = await api.post(f"/queues/{path_part(queue)}/redrive", body)
        if json:
            return done
        left = f", {done['skipped']} left: leased, or on their way" if done["skipped"] else ""
        print_line(f"{count_of(done['redriven'], 'item')} sent back{left}")
        for id, why in done["refused"].items():
            print_notice(f"{id} was not sent: {why}")

    return converse


def _item_path(queue: str, item: str) -> str:
    return f"/queues/{path_part(queue)}/items/{path_part(item)}"
