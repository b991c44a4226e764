"""Models of requests and answers: requests are checked with them, and OpenAPI is made of them.

Here is what resources share, and what letters have. Other resources have theirs beside their routes.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from enum import Enum
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    create_model,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from mahavishnu.http.responses import URN
from mahavishnu.model import letter_parts
from mahavishnu.model.clock import LONGEST_SECONDS
from mahavishnu.model.ids import MAX_TASK_ID_BYTES
from mahavishnu.model.json_value import Json
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import DeadLetterStatus, DlqReason, ErrorCategory, ResolutionStatus
from mahavishnu.model.query import LONGEST_TEXT, MOST_LISTED, MOST_VALUES

Name = Annotated[StrictStr, Field(min_length=1, max_length=500)]
TaskId = Annotated[StrictStr, Field(min_length=1, max_length=MAX_TASK_ID_BYTES)]
Text = Annotated[StrictStr, Field(max_length=10_000)]
Int32 = Annotated[StrictInt, Field(ge=-(2**31), le=2**31 - 1)]
T = TypeVar("T")
Count = Annotated[StrictInt, Field(ge=0, le=1000)]
Seconds = Annotated[StrictFloat | StrictInt, Field(ge=0, le=LONGEST_SECONDS)]


def _parse_instant(given: Any) -> datetime:
    """Read only what is written as an instant: pydantic takes any number for one, and 20260101 for a day in 1970."""
    try:
        moment = datetime.fromisoformat(str.upper(given))  # RFC 3339 allows t and z
    except (TypeError, ValueError):
        raise PydanticCustomError("datetime_iso", "Input should be an instant of ISO 8601") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


Instant = Annotated[datetime, BeforeValidator(_parse_instant)]  # without a zone it is UTC


class _OneOrMany:
    """Marks a list for which one value may be sent as it is."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(_as_list, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        many = handler(schema)
        return {"anyOf": [many, many["items"]]}


def _as_list(given: Any) -> Any:
    return given if isinstance(given, list) else [given]


AnyOf = Annotated[list[T], _OneOrMany()]
AnyOfMany = Annotated[list[T], Field(max_length=MOST_VALUES), _OneOrMany()]  # what every store can look for at once
AnyOfFew = Annotated[list[T], Field(max_length=MOST_LISTED), _OneOrMany()]
Ending = Literal[  # nobody is shown a deleted letter, nor can ask for one
    ResolutionStatus.PENDING,
    ResolutionStatus.REQUEUED,
    ResolutionStatus.PERMANENTLY_FAILED,
    ResolutionStatus.MANUALLY_RESOLVED,
    ResolutionStatus.CANCELLED,
]


class RequestModel(BaseModel):
    """A request: what it does not know, it refuses."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    @classmethod
    def build_all(cls) -> None:
        """Build this model and those that inherit from it, for a server: then FastAPI does not defer its own either.

        It would build them later, where pydantic warns of the marks that FastAPI adds to bodies.
        """
        cls.model_config["defer_build"] = False
        cls.model_rebuild()
        for model in cls.__subclasses__():
            model.build_all()


NamespaceName = Annotated[str, Field(min_length=1, max_length=200, description="Another namespace, or `*` for all")]


class PageQuery(RequestModel):
    """Size of a page of a list, and its place."""

    limit: Annotated[int, Field(ge=1, le=1000)] = 50
    cursor: Annotated[str | None, Field(max_length=10_000, description="From the Link header of a page")] = None


class NamespacePageQuery(PageQuery):
    """The same of a list that is about one namespace, or about all."""

    namespace: NamespaceName | None = None


class ResponseModel(BaseModel):
    """An answer: it may grow. It is built when OpenAPI is asked for; no answer is checked by it."""

    model_config = ConfigDict(extra="allow", defer_build=True)


def fields_of(record: type, names: str) -> Callable[[type[ResponseModel]], type[Any]]:
    """Add these fields of a dataclass, or keys of a typed dict, to a response; types are those that `to_json` makes."""

    def extend(model: type[ResponseModel]) -> type[Any]:
        hints = get_type_hints(record)
        fields: Any = {name: (_json_type(hints[name]), ...) for name in names.split()}
        return create_model(model.__name__, __base__=model, __doc__=model.__doc__, **fields)

    return extend


def _json_type(hint: Any) -> Any:
    if get_origin(hint) in (Union, UnionType):
        return Union[tuple(map(_json_type, get_args(hint)))]  # noqa: UP007 - made from values
    if get_origin(hint) is tuple:
        return list[_json_type(get_args(hint)[0])]  # type: ignore[misc]
    if isinstance(hint, type) and issubclass(hint, (datetime, Enum)):
        return str
    return Any if hint is Json else hint


# --- problems


class Problem(BaseModel):
    """Problem document (RFC 9457)."""

    model_config = ConfigDict(extra="allow", defer_build=True)

    type: str = Field(examples=[f"{URN}no-such-letter"])
    title: str
    status: int
    detail: str = Field(description="What happened, and what can be done.")


# --- letters


@fields_of(
    DeadLetter,
    "task_id entry_id namespace queue error last_error error_category fingerprint repos depends_on retry_policy "
    "max_retries total_attempts dlq_retry_count priority occurrences generation revision runs failed_at "
    "created_at updated_at last_retry_at exhausted_at completed_at archived_at",
)
class Letter(ResponseModel):
    """One captured failure. The first eight names are those of an earlier API and say the same as others."""

    dlq_entry_uuid: str
    task_uuid: str
    original_state: str | None
    dlq_reason: str
    dlq_timestamp: str
    resolution_status: Ending
    task_snapshot: Any
    retry_count: int
    task: Any
    metadata: dict[str, Any]
    status: DeadLetterStatus
    next_retry_at: str | None
    requeue_outcome: str | None
    resolved_by: str | None
    resolution_notes: str | None


@fields_of(letter_parts.Failure, "at message type category traceback processor duration_seconds retry_in_seconds")
class Failure(ResponseModel):
    """One run that failed."""


class ClaimedLetter(Letter):
    """A letter that somebody has claimed, with what its payload is read by."""

    payload_types: dict[str, str]


class LetterDetail(Letter):
    """A letter with its failures and what is known of the classification, the requeue and the lease."""

    failures: list[Failure]
    verdict_reason: str | None
    verdict_author: str | None
    claim_owner: str | None
    due_at: str | None
    waiting_for: str | None = Field(
        default=None, description="In a single or `whole` letter that no live worker can run: what it waits for"
    )
    payload_types: dict[str, str]
    policy_by_verdict: bool
    former_fingerprints: list[str]


class NewLetter(RequestModel):
    """A failure to be kept."""

    task_id: TaskId
    task: Any = None
    repos: list[StrictStr] = []
    error: Text
    error_category: ErrorCategory | None = None
    retry_policy: Name | None = None
    max_retries: Count | None = None
    metadata: dict[str, Any] = {}
    priority: Int32 | None = None
    depends_on: list[StrictStr] = []
    namespace: Name | None = None
    queue: Name = "default"
    reason: DlqReason = DlqReason.WORKFLOW_FAILED
    adapter: Name | None = None
    payload_types: dict[str, StrictStr] = {}


class ActionRequest(RequestModel):
    """Reason of an act; `by` names the actor where no token does."""

    by: Name | None = None
    notes: Text | None = None


class LetterEdit(ActionRequest):
    """Changes to a letter: whole values, or a merge patch (RFC 7386) on its task. `redrive` runs it again."""

    task: Any = None
    patch: dict[str, Any] | None = None
    create: StrictBool = Field(default=False, description="The patch may make places that the task does not have")
    metadata: dict[str, Any] | None = None
    repos: list[StrictStr] | None = None
    depends_on: list[StrictStr] | None = None
    retry_policy: Name | None = None
    max_retries: Count | None = None
    priority: Int32 | None = None
    next_retry_at: Instant | None = None
    adapter: Name | None = None
    payload_types: dict[str, StrictStr] | None = None
    redrive: StrictBool = False


class RestoreRequest(ActionRequest):
    """Revision that a letter goes back to: the last one, unless another one is named. `redrive` runs it again."""

    revision: Count | None = None
    redrive: StrictBool = False


class Difference(ResponseModel):
    """One place where two versions differ."""

    path: str
    before: Any = None
    after: Any = None


class EditPreview(ResponseModel):
    """Preview of an edit; `refused` says why it would not be taken."""

    before: dict[str, Any]
    after: dict[str, Any] | None
    diff: list[Difference]
    refused: str | None


class Revision(ResponseModel):
    """Content of a letter before an edit."""

    number: int
    updated_at: str
    task: Any = None
    metadata: Any = None
    repos: list[str]


class RequeueRequest(RequestModel):
    """Options of a requeue."""

    max_retries: Count | None = None
    priority_boost: Count | None = None
    resolved_by: Name | None = None


class RequeueResult(ResponseModel):
    """A letter was sent back."""

    success: bool
    message: str
    new_state: str | None
    retry_count: int


class RetryResult(ResponseModel):
    """Result of the run."""

    success: bool
    error: str | None = None
    status: str | None = None


class ReasonLine(ResponseModel):
    """The letters that were written for one reason, in numbers."""

    dlq_reason: str
    total_entries: int
    pending: int
    requeued: int
    permanent_failures: int
    manually_resolved: int
    cancelled: int
    avg_retries: float
    oldest_entry: str | None
    newest_entry: str | None


class ClearRequest(ActionRequest):
    """A confirmation that every open letter is to be deleted."""

    confirm: Literal["delete every open letter"]


class ClearResult(ResponseModel):
    """Number of deleted letters."""

    cleared: int


class Deleted(ResponseModel):
    """Numbers of everything deleted of one task, and the partitions of the archive that could not be searched."""

    letters: int
    former: int
    copies: int
    waiting: int
    detached: list[str]


class ImportSummary(ResponseModel):
    """Outcome for each letter: `new`, `same`, `joined`, `succeeded`, or why it was refused."""

    taken: dict[str, str]
    refused: dict[str, str]


# --- what a query means


class Filter(RequestModel):
    """Conditions on letters, all of which hold. A list of values means any of them."""

    q: Annotated[StrictStr, Field(max_length=LONGEST_TEXT)] | None = Field(
        default=None,
        description="A query as text, which has to hold as well: see GET /query/suggest",
        examples=["status:exhausted age>2h -category:network"],
    )
    status: AnyOf[DeadLetterStatus] | None = None
    resolution_status: AnyOf[Ending] | None = None
    category: AnyOf[ErrorCategory] | None = None
    policy: AnyOfMany[Name] | None = None
    reason: AnyOf[DlqReason] | None = None
    namespace: AnyOfMany[Name] | None = None
    queue: AnyOfMany[Name] | None = None
    fingerprint: AnyOfMany[Name] | None = None
    task_id: AnyOfMany[TaskId] | None = None
    source_id: AnyOfMany[TaskId] | None = None
    adapter: AnyOfMany[Name] | None = Field(default=None, description="What runs them; `(none)`: those that name none")
    tags: AnyOfFew[Name] | None = None
    repo: AnyOfFew[Name] | None = None
    run: AnyOfFew[Name] | None = None
    text: Annotated[StrictStr, Field(max_length=1000)] | None = Field(
        default=None, description="Words, all of which occur in its errors, their types, its task id or its payload"
    )
    metadata: Annotated[list[Name], Field(max_length=100), _OneOrMany()] | None = Field(
        default=None, description="path=value in the metadata", examples=[["team=web"]]
    )
    failed_from: Instant | None = None
    failed_before: Instant | None = None
    created_from: Instant | None = None
    created_before: Instant | None = None
    updated_from: Instant | None = None
    updated_before: Instant | None = None


class LetterQuery(Filter, PageQuery):
    """Conditions on letters, with the size, place and order of a page."""

    offset: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    sort: Literal["newest", "oldest", "updated", "due", "priority"] = "newest"
    whole: Annotated[bool, Field(description="With failures and tracebacks, as a single letter has them")] = False
