"""What sets a letter apart from those that succeeded, over HTTP."""

from __future__ import annotations

from starlette.responses import Response

from mahavishnu.api.commonality_schemas import ContrastList
from mahavishnu.core.queue.reads import SAMPLE
from mahavishnu.http.auth import Queue, Viewer
from mahavishnu.http.errors import problem_responses
from mahavishnu.http.responses import ScopeQuery, decode_id, json_response, to_json
from mahavishnu.http.routing import Router

router = Router(tag="letters")


@router.get(
    "/dlq/{task_id}/contrasts",
    response_model=ContrastList,
    responses=problem_responses(404),
    summary="What a letter lacks that letters had that succeeded",
)
async def contrasts(dlq: Queue, actor: Viewer, where: ScopeQuery, task_id: str, sample: int = SAMPLE) -> Response:
    """Letters of its adapter whose work succeeded when it was run again."""
    found = await dlq.letters.contrasts(decode_id(task_id), sample=sample, **where.arguments)
    return json_response(to_json(found))
