"""What letters have in common, and what one lacks, over HTTP."""

from __future__ import annotations

from typing import Any

from pydantic import Field
from starlette.responses import Response

from mahavishnu.api.auth import Queue, Viewer
from mahavishnu.api.errors import problem_responses
from mahavishnu.api.responses import ScopeQuery, decode_id, json_response, to_json
from mahavishnu.api.routing import Router
from mahavishnu.api.schemas import ResponseModel, fields_of
from mahavishnu.core.queue import commonalities as services
from mahavishnu.core.queue.commonalities import SAMPLE
from mahavishnu.model import commonalities

router = Router(tag="commonalities")


@fields_of(commonalities.Commonality, "kind name letters others query")
class Commonality(ResponseModel):
    """Something that so many `letters` of the sample have, and so many `others` of those beside them."""

    value: Any


@fields_of(services.GroupCommonalities, "fingerprint letters sampled others others_sampled too_large degraded")
class CommonalityList(ResponseModel):
    """Of `letters` and of `others` the newest `sampled` and `others_sampled` were looked at."""

    adapters: list[str]
    items: list[Commonality]


@fields_of(commonalities.Contrast, "name is_missing succeeded")
class Contrast(ResponseModel):
    """A value that the letter lacks, or that none of those that succeeded has."""

    value: Any
    usual: list[Any] = Field(description="The most frequent values of those that succeeded, and how many have each")


@fields_of(services.LetterContrasts, "task_id adapter succeeded sampled too_large degraded")
class ContrastList(ResponseModel):
    """Of the letters that `succeeded` the newest `sampled` were looked at."""

    items: list[Contrast]


@router.get(
    "/groups/{fingerprint}/commonalities",
    response_model=CommonalityList,
    responses=problem_responses(404),
    summary="What the letters of a group have in common, and others do not have",
)
async def of_group(dlq: Queue, actor: Viewer, fingerprint: str, sample: int = SAMPLE) -> Response:
    """Values inside of tasks and metadata, repos, workers, hours: the most telling first. Masked ones are not there."""
    found = await dlq.groups.commonalities(decode_id(fingerprint), sample=sample)
    return json_response(to_json(found))


@router.get(
    "/dlq/{task_id}/contrasts",
    response_model=ContrastList,
    responses=problem_responses(404),
    summary="What a letter lacks that letters had that succeeded",
)
async def of_letter(dlq: Queue, actor: Viewer, where: ScopeQuery, task_id: str, sample: int = SAMPLE) -> Response:
    """Letters of its adapter whose work succeeded when it was run again."""
    found = await dlq.letters.contrasts(decode_id(task_id), sample=sample, **where.arguments)
    return json_response(to_json(found))
