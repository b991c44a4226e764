"""What is answered about what letters have in common, and what one lacks."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from mahavishnu.core.queue import commonalities as services
from mahavishnu.http.schemas import ResponseModel, fields_of
from mahavishnu.model import commonalities


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
