"""What was answered to a request that carries an idempotency key: a repetition gets the same, and has no effect."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from mahavishnu.model.letter_parts import Version
from mahavishnu.stores.kind import FieldType
from mahavishnu.stores.plain import plain_kind


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to the first request with this key; no `status` means that it has begun and no more is known."""

    key: str
    asked: str  #: a digest of the request
    at: datetime
    status: int | None = None
    headers: str = "{}"
    body: str = ""
    version: Version | None = field(default=None, compare=False)


REPLIES = plain_kind(
    Reply, name="replies", index="dlq_replies", types={"headers": FieldType.BLOB, "body": FieldType.BLOB}
)
