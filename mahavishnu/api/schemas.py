"""What is sent and answered, for OpenAPI and for checking requests."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypeVar

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
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from mahavishnu.model.ids import MAX_TASK_ID_BYTES
from mahavishnu.model.letter_parts import DeadLetterStatus, DlqReason, ErrorCategory, ResolutionStatus

Name = Annotated[StrictStr, Field(min_length=1, max_length=500)]
TaskId = Annotated[StrictStr, Field(min_length=1, max_length=MAX_TASK_ID_BYTES)]
Text = Annotated[StrictStr, Field(max_length=10_000)]
Int32 = Annotated[StrictInt, Field(ge=-(2**31), le=2**31 - 1)]
T = TypeVar("T")
Seconds = Annotated[StrictFloat | StrictInt, Field(ge=0, le=30 * 86400)]


def _parse_instant(given: Any) -> datetime:
    """Only what is written as an instant: pydantic takes any number for one, and 20260101 for a day in 1970."""
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
AnyOfMany = Annotated[list[T], Field(max_length=10_000), _OneOrMany()]  # what every store can look for at once


class RequestModel(BaseModel):
    """A request: what it does not know, it refuses."""

    model_config = ConfigDict(extra="forbid")


class PageQuery(RequestModel):
    """How much of a list, and from where."""

    limit: Annotated[int, Field(ge=1, le=1000)] = 50
    cursor: Annotated[str | None, Field(max_length=10_000, description="From the Link header of a page")] = None


class ResponseModel(BaseModel):
    """An answer: it may grow."""

    model_config = ConfigDict(extra="allow")


# --- letters


class Letter(ResponseModel):
    """One captured failure. The first eight names are those of an earlier API and say the same as others."""

    dlq_entry_uuid: str
    task_uuid: str
    original_state: str | None
    dlq_reason: str
    dlq_timestamp: str
    resolution_status: ResolutionStatus
    task_snapshot: Any
    retry_count: int
    task_id: str
    entry_id: str
    namespace: str
    queue: str
    status: DeadLetterStatus
    error: str
    last_error: str
    error_category: str | None
    fingerprint: str | None
    task: Any
    repos: list[str]
    depends_on: list[str]
    metadata: dict[str, Any]
    retry_policy: str
    max_retries: int
    total_attempts: int
    dlq_retry_count: int
    requeue_outcome: str | None
    priority: int
    occurrences: int
    generation: int
    revision: int
    runs: list[str]
    failed_at: str
    created_at: str
    updated_at: str
    next_retry_at: str | None
    last_retry_at: str | None
    exhausted_at: str | None
    completed_at: str | None
    archived_at: str | None
    resolved_by: str | None
    resolution_notes: str | None


class Failure(ResponseModel):
    """One run that failed."""

    at: str
    message: str
    type: str | None
    category: str | None
    traceback: str | None
    processor: str | None
    duration_seconds: float | None


class LetterDetail(Letter):
    """A letter with its failures and what is known of the classification, the requeue and the lease."""

    failures: list[Failure]
    verdict_reason: str | None
    verdict_author: str | None
    claim_owner: str | None
    due_at: str | None


class NewLetter(RequestModel):
    """A failure to be kept."""

    task_id: TaskId
    task: Any = None
    repos: list[StrictStr] = []
    error: Text
    error_category: ErrorCategory | None = None
    retry_policy: Name | None = None
    max_retries: Annotated[StrictInt, Field(ge=0, le=1000)] | None = None
    metadata: dict[str, Any] = {}
    priority: Int32 | None = None
    depends_on: list[StrictStr] = []
    namespace: Name = "default"
    queue: Name = "default"
    reason: DlqReason = DlqReason.WORKFLOW_FAILED


class ActionRequest(RequestModel):
    """Why somebody does something; `by` is who, where there are no tokens that say it."""

    by: Name | None = None
    notes: Text | None = None


class LetterEdit(ActionRequest):
    """Changes to a letter: whole values, or a merge patch (RFC 7386) on its task. `redrive` runs it again."""

    task: Any = None
    patch: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    repos: list[StrictStr] | None = None
    depends_on: list[StrictStr] | None = None
    retry_policy: Name | None = None
    max_retries: Annotated[StrictInt, Field(ge=0, le=1000)] | None = None
    priority: Int32 | None = None
    next_retry_at: Instant | None = None
    redrive: StrictBool = False


class Difference(ResponseModel):
    """One place where two versions differ."""

    path: str
    before: Any = None
    after: Any = None


class EditPreview(ResponseModel):
    """What an edit would do; `refused` says why it would not be taken."""

    before: dict[str, Any]
    after: dict[str, Any] | None
    diff: list[Difference]
    refused: str | None


class Revision(ResponseModel):
    """What a letter was before an edit."""

    number: int
    updated_at: str
    task: Any = None
    metadata: Any = None
    repos: list[str]


class RequeueRequest(RequestModel):
    """How a letter is sent back."""

    max_retries: Annotated[StrictInt, Field(ge=0, le=1000)] | None = None
    priority_boost: Annotated[StrictInt, Field(ge=0, le=1000)] | None = None
    resolved_by: Name | None = None


class RequeueResult(ResponseModel):
    """A letter was sent back."""

    success: bool
    message: str
    new_state: str | None
    retry_count: int


class RetryResult(ResponseModel):
    """How the run went."""

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


class ClearRequest(RequestModel):
    """A confirmation that every open letter is to be deleted."""

    confirm: Literal["delete every open letter"]
    by: Name | None = None
    notes: Text | None = None


class ClearResult(ResponseModel):
    """How many letters were deleted."""

    cleared: int


class ImportSummary(ResponseModel):
    """What became of each letter: `new`, `same`, `joined`, `succeeded`, or why it was refused."""

    taken: dict[str, str]
    refused: dict[str, str]


# --- what a query means


class Filter(RequestModel):
    """Which letters are meant: those for which all of these hold. A list of values means any of them."""

    status: AnyOf[DeadLetterStatus] | None = None
    resolution_status: AnyOf[ResolutionStatus] | None = None
    category: AnyOf[ErrorCategory] | None = None
    policy: AnyOfMany[Name] | None = None
    reason: AnyOf[DlqReason] | None = None
    namespace: AnyOfMany[Name] | None = None
    queue: AnyOfMany[Name] | None = None
    fingerprint: AnyOfMany[Name] | None = None
    task_id: AnyOfMany[TaskId] | None = None
    repo: AnyOfMany[Name] | None = None
    run: AnyOfMany[Name] | None = None
    text: Annotated[StrictStr, Field(max_length=1000)] | None = Field(
        default=None, description="Words of the error, all of which occur"
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


# --- bulk runs

Verb = Literal["redrive", "archive", "resolve", "cancel", "fail", "edit", "regroup"]


class NewRun(RequestModel):
    """A bulk run: which letters, and what is to become of them. A preview takes it as it is."""

    verb: Verb
    filter: Filter = Field(default_factory=Filter)
    everything: StrictBool = Field(default=False, description="Every letter is meant: needed where there is no filter")
    patch: dict[str, Any] | None = Field(default=None, description="A merge patch (RFC 7386) on each letter's task")
    redrive: StrictBool = Field(default=False, description="After an edit, run again")
    ramp: Annotated[list[Annotated[StrictInt, Field(ge=1, le=1_000_000)]], Field(max_length=20)] | None = Field(
        default=None,
        description="Sizes of the first waves, then all the rest; where there is a stop rule 1, 5, 25; []: all at once",
    )
    max_per_second: Annotated[StrictFloat | StrictInt, Field(gt=0, le=1_000_000)] | None = None
    stop_percent: Annotated[StrictFloat | StrictInt, Field(ge=0, le=100)] | None = Field(
        default=None, description="Halt when more than so many percent fail again; for redrives"
    )
    reason: Text | None = None
    by: Name | None = None


class RunAction(RequestModel):
    """Why a run is paused, resumed or cancelled."""

    reason: Text | None = None
    by: Name | None = None


class ResumeRequest(RunAction):
    """How a run goes on: with the stop rule that it has, another one, or none (null)."""

    stop_percent: Annotated[StrictFloat | StrictInt, Field(ge=0, le=100)] | None = None


class Run(ResponseModel):
    """A bulk run as it stands."""

    run_id: str
    verb: str
    state: str
    by: str
    reason: str | None
    created_at: str
    updated_at: str
    finished_at: str | None
    halted_because: str | None
    counts: dict[str, int]
    ramp: list[int]
    max_per_second: float | None
    stop_percent: float | None


class RunItem(ResponseModel):
    """One member of a run and what became of it."""

    key: str
    entry_id: str
    state: str
    why: str | None
    outcome: str | None


class RunPreview(ResponseModel):
    """What a run would do."""

    matched: int
    eligible: int
    ineligible: dict[str, int]
    ramp: list[int]


# --- groups


class Group(ResponseModel):
    """Letters with one fingerprint."""

    fingerprint: str
    state: str
    regression: bool
    on_hold: bool
    owner: str | None
    count: int
    total: int
    first_seen: str | None
    last_seen: str | None
    last_hour: int
    last_day: int
    day_before: int


class GroupEdit(RequestModel):
    """What is said of a group. Leave out what stays; null takes an owner or a hold away."""

    state: Literal["new", "investigating", "waiting_for_fix", "ready_to_redrive", "resolved", "wont_fix"] | None = None
    owner: Name | None = None
    note: Text | None = None
    link: Annotated[StrictStr, Field(min_length=1, max_length=2000)] | None = None
    hold_until: Instant | None = None
    hold_release: Name | None = None
    by: Name | None = None


class ReleaseHold(RequestModel):
    """The release is out."""

    by: Name | None = None


class ReleaseResult(ResponseModel):
    """The fingerprints of the groups that waited for it."""

    released: list[str]


# --- claims


class ClaimRequest(RequestModel):
    """A worker asks for letters."""

    worker: Name
    limit: Annotated[StrictInt, Field(ge=1, le=500)] = 1
    lease_seconds: Annotated[StrictFloat | StrictInt, Field(ge=1, le=86400)] | None = None
    namespace: Name | None = None
    queue: Name | None = None


class Claim(ResponseModel):
    """The right to run a letter until `lease_until`. Send the token with whatever you say of it."""

    token: str
    attempt_id: str
    idempotency_key: str
    lease_until: str
    letter: Letter


class RenewRequest(RequestModel):
    """The run goes on."""

    task_id: TaskId
    token: Name
    lease_seconds: Annotated[StrictFloat | StrictInt, Field(ge=1, le=86400)] | None = None
    namespace: Name = "default"
    queue: Name = "default"


class RenewResult(ResponseModel):
    """When the lease ends now."""

    lease_until: str


class SettleRequest(RequestModel):
    """How the run went."""

    task_id: TaskId
    token: Name
    outcome: Literal["succeeded", "failed", "released"]
    error: Text | None = None
    error_type: Name | None = None
    category: ErrorCategory | None = None
    retry_in: Seconds | None = None
    namespace: Name = "default"
    queue: Name = "default"


# --- audit, health


class AuditLine(ResponseModel):
    """Who did what, or tried to."""

    entry_id: str
    at: str
    actor: str
    action: str
    subject: str
    outcome: str


class ServerInfo(ResponseModel):
    """What this server is, and the paths to begin with."""

    name: str
    version: str
    api: str
    openapi: str
    health: str


class HealthReport(ResponseModel):
    """How the queue is."""

    status: Literal["ok", "degraded", "down"]
    detail: str
    kept_locally: int
