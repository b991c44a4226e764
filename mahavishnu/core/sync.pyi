# Written by tools/write_sync_stub.py: run `make fix` after a change of a service.
import builtins
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from types import TracebackType
from typing import Any, Generic, ParamSpec, Self, TypeVar, Unpack, overload, type_check_only

from mahavishnu.alerts.rules import Alert, RuleReport
from mahavishnu.alerts.service import Alerts
from mahavishnu.archive.deletion import DeletedCase, Deletion
from mahavishnu.archive.partitions import ArchivedCase, ArchivePage
from mahavishnu.archive.rules import ArchiveResult
from mahavishnu.archive.service import Archive, PartitionView
from mahavishnu.archive.tasks import ArchivedTaskCase, ArchivedTaskPage
from mahavishnu.bulk.run import BulkRun, ItemState, RunState
from mahavishnu.bulk.service import BulkRuns, RunItems, RunPreview
from mahavishnu.capture.calls import CaptureBlock
from mahavishnu.capture.capture import CaptureOutcome, LetterIntake
from mahavishnu.capture.closing import Closing
from mahavishnu.capture.integration import DLQIntegration
from mahavishnu.capture.runner import WorkflowResult
from mahavishnu.core.app import MahavishnuApp
from mahavishnu.core.dead_letter_queue import DeadLetterQueue
from mahavishnu.encryption.service import EncryptionRenewal, RenewedLot
from mahavishnu.engine.audit import AuditLog
from mahavishnu.engine.context import Workflow
from mahavishnu.engine.moves import Act, BulkResult
from mahavishnu.engine.recorder import CaptureResult
from mahavishnu.engine.telemetry import MetricFamily
from mahavishnu.events.rules import EventPage, EventPosition, Outcome, Publication
from mahavishnu.events.service import DomainEvents
from mahavishnu.groups.rules import Group, GroupPage, GroupState, GroupView
from mahavishnu.groups.service import Groups, GroupSort
from mahavishnu.http.replies import Replies, Reply
from mahavishnu.letters.commonalities import GroupCommonalities, LetterContrasts
from mahavishnu.letters.reads import LetterList, ReasonLines
from mahavishnu.letters.requeue import Requeues
from mahavishnu.letters.service import EditPreview, LetterOperations
from mahavishnu.letters.transfer import Document, ImportResult, Transfer
from mahavishnu.model.events import AuditEntry, DeliveryMode, DomainEvent, PublicationCondition
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import DeadLetterStatus, DlqReason, ErrorCategory, RetryPolicy, Source, Unchanged
from mahavishnu.model.query import Many, Query
from mahavishnu.model.work import ItemOutcome
from mahavishnu.monitoring.dashboard import Dashboard, DashboardLines
from mahavishnu.monitoring.service import Integrity, Telemetry, UnreadableRecords
from mahavishnu.monitoring.statistics import LocalStoreList, Trend, Trends
from mahavishnu.queues.items import ImportResult as items_ImportResult
from mahavishnu.queues.items import ItemLease, ItemStatus, QueueItem
from mahavishnu.queues.rules import QueueDefinition
from mahavishnu.queues.service import NamedQueues
from mahavishnu.search.completion import Suggestions
from mahavishnu.search.rules import SavedView
from mahavishnu.search.service import LetterCount, NamespaceCount, Search
from mahavishnu.search.views import Views
from mahavishnu.stores.base import Cursor, Health, Page, Result
from mahavishnu.stores.retained import Revision
from mahavishnu.tasks.handover import HandedOver
from mahavishnu.tasks.service import Lifecycle
from mahavishnu.tasks.staleness_rules import StaleRow
from mahavishnu.tasks.task import OldTransition, StepRecord, TaskRecord, TaskState
from mahavishnu.values.payload import LetterRequest
from mahavishnu.workers.claims import Claim, Claims
from mahavishnu.workers.processing import Processing
from mahavishnu.workers.rules import AdapterLimit, WaitingLetters
from mahavishnu.workers.service import AdapterLimits, LimitChanges, WorkerList, Workers

S = TypeVar("S")
R = TypeVar("R")
P = ParamSpec("P")

def awaited_methods(service: type) -> list[str]: ...
def service_names(queue: type) -> list[str]: ...

class SyncService(Generic[S]):
    def __init__(self, app: MahavishnuApp, find: Callable[[], S], path: str, timeout: float | None = None) -> None: ...
    @property
    def service(self) -> S: ...

class SyncQueue(SyncService[DeadLetterQueue]):
    def open(self) -> DeadLetterQueue: ...
    def shutdown(self) -> None: ...
    def enqueue(
        self,
        task_id: str,
        task: Any,
        repos: Sequence[str],
        error: BaseException | str,
        retry_policy: RetryPolicy | str | None = None,
        max_retries: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        error_category: ErrorCategory | str | None = None,
        *,
        priority: int | None = None,
        depends_on: Sequence[str] = ...,
        namespace: str | None = None,
        queue: str = ...,
        reason: DlqReason | str = ...,
        source: Source | None = None,
        adapter: str | None = None,
        payload_types: Mapping[str, str] | None = None,
    ) -> DeadLetter: ...
    def get_task(
        self, task_id: str, *, include_archived: bool = False, namespace: str | None = None, queue: str = ...
    ) -> DeadLetter | None: ...
    def list_tasks(
        self,
        status: DeadLetterStatus | str | None = None,
        limit: int | None = None,
        *,
        query: Query | None = None,
        **filters: Any,
    ) -> LetterList: ...
    def get_statistics(self) -> dict[str, Any]: ...
    def get_statistics_by_reason(self) -> ReasonLines: ...
    def health(self) -> Health: ...
    def health_warnings(self, stats: Mapping[str, Any] | None = None) -> list[str]: ...
    def start_retry_processor(
        self,
        callback: Workflow | None = None,
        check_interval_seconds: float | None = None,
        *,
        queue: str | Iterable[str] | None = None,
    ) -> None: ...
    def stop_retry_processor(self) -> None: ...
    def run_due(self, *, queue: str | Iterable[str] | None = None) -> int: ...
    def retry_task(self, task_id: str, *, force: bool = False, **act: Unpack[Act]) -> dict[str, Any]: ...
    def archive_task(self, task_id: str, **act: Unpack[Act]) -> bool: ...
    def resurrect(self, task_id: str, **act: Unpack[Act]) -> DeadLetter: ...
    def archive_exhausted(self, older_than_days: float = 7, **options: Any) -> BulkResult: ...
    def requeue_from_dlq(
        self,
        task_id: str,
        max_dlq_retries: int | None = None,
        priority_boost: int | None = None,
        resolved_by: str = ...,
        *,
        notes: str | None = None,
        namespace: str | None = None,
        queue: str = ...,
    ) -> dict[str, Any]: ...
    def clear_all(self, *, by: str = ..., notes: str | None = None) -> int: ...
    @property
    def letters(self) -> SyncLetters: ...
    @property
    def groups(self) -> SyncGroups: ...
    @property
    def search(self) -> SyncSearch: ...
    @property
    def views(self) -> SyncViews: ...
    @property
    def alerts(self) -> SyncAlerts: ...
    @property
    def trends(self) -> SyncTrends: ...
    @property
    def claims(self) -> SyncClaims: ...
    @property
    def adapter_limits(self) -> SyncAdapterLimits: ...
    @property
    def requeues(self) -> SyncRequeues: ...
    @property
    def transfer(self) -> SyncTransfer: ...
    @property
    def runs(self) -> SyncRuns: ...
    @property
    def workers(self) -> SyncWorkers: ...
    @property
    def closing(self) -> SyncClosing: ...
    @property
    def queues(self) -> SyncQueues: ...
    @property
    def domain_events(self) -> SyncDomainEvents: ...
    @property
    def intake(self) -> SyncIntake: ...
    @property
    def processing(self) -> SyncProcessing: ...
    @property
    def archive(self) -> SyncArchive: ...
    @property
    def encryption(self) -> SyncEncryption: ...
    @property
    def dashboard(self) -> SyncDashboard: ...
    @property
    def integrity(self) -> SyncIntegrity: ...
    @property
    def replies(self) -> SyncReplies: ...
    @property
    def telemetry(self) -> SyncTelemetry: ...
    @property
    def deletion(self) -> SyncDeletion: ...
    @property
    def audit(self) -> SyncAudit: ...

class SyncIntegration(SyncService[DLQIntegration]):
    def should_enqueue(self, error: BaseException | str, error_category: ErrorCategory | str | None = None) -> bool: ...
    def determine_retry_policy(
        self, error: BaseException | str, error_category: ErrorCategory | str | None = None
    ) -> RetryPolicy | str: ...
    def capture(
        self, request: LetterRequest, error: BaseException | str, *, requested: bool = False, named: bool = True
    ) -> CaptureOutcome: ...
    def finish(self) -> None: ...
    def enqueue_failed_workflow(
        self,
        task_id: str,
        task: Any,
        repos: Sequence[str],
        error: BaseException | str,
        retry_policy: RetryPolicy | str | None = None,
        max_retries: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        *,
        adapter: str | None = None,
    ) -> DeadLetter | None: ...
    def execute_with_dlq(
        self, task: Any, adapter_name: str, repos: Sequence[str] | None = None
    ) -> Mapping[str, Any]: ...
    def get_statistics(self) -> dict[str, Any]: ...

class SyncLifecycle(SyncService[Lifecycle]):
    def step(self, name: str, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    def create(
        self,
        name: str,
        context: Any = None,
        *,
        template: str | None = None,
        template_version: str = "1",
        priority: int = 0,
        steps: Sequence[StepRecord] = ...,
        unique: bool = True,
    ) -> TaskRecord: ...
    def get(self, task_id: str) -> TaskRecord: ...
    def get_in_clear(self, task_id: str) -> TaskRecord: ...
    def list(
        self,
        state: TaskState | str | Sequence[str] | None = None,
        *,
        name: str | None = None,
        template: str | None = None,
        limit: int = ...,
        after: Cursor | str | None = None,
    ) -> Page[TaskRecord]: ...
    def transitions(self, task_id: str) -> Sequence[OldTransition]: ...
    def step_readiness(self, task_id: str) -> Mapping[str, str | None]: ...
    def next_ready_tasks(self, limit: int = ...) -> Sequence[TaskRecord]: ...
    def change(
        self, task_id: str, move: Callable[[TaskRecord], TaskRecord], *, known: TaskRecord = ...
    ) -> TaskRecord: ...
    def transition(
        self,
        task_id: str,
        state: TaskState | str,
        *,
        from_state: TaskState | str | None = None,
        reason: str | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> TaskRecord: ...
    def finalize(self, task_id: str) -> bool: ...
    def move_to_dlq(
        self,
        task_id: str,
        notes: str | None = None,
        *,
        by: str = ...,
        reason: DlqReason | str = ...,
        details: Mapping[str, Any] | None = None,
    ) -> HandedOver: ...
    def detect_and_transition_stale_tasks(
        self, dry_run: bool = True, batch_size: int = 100, *, by: str = ...
    ) -> Sequence[StaleRow]: ...
    def keep_alive(self, task_id: str) -> TaskRecord: ...
    def begin_step(self, task_id: str, step: str, *, take_over: bool = False) -> TaskRecord: ...
    def complete_step(self, task_id: str, step: str, result: Any = None) -> bool: ...
    def fail_step(self, task_id: str, step: str, error: BaseException | str, *, permanent: bool = False) -> bool: ...

class SyncApp(SyncService[MahavishnuApp]):
    def __init__(self, app: MahavishnuApp, timeout: float | None = None) -> None: ...
    @overload
    def call(self, function: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def call(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    def capture(self, name: str, /, **arguments: Any) -> CaptureBlock: ...
    @cached_property
    def lifecycle(self) -> SyncLifecycle: ...
    @cached_property
    def dlq(self) -> SyncQueue: ...
    @property
    def events(self) -> SyncDomainEvents: ...
    @property
    def telemetry(self) -> SyncTelemetry: ...
    @cached_property
    def dlq_integration(self) -> SyncIntegration: ...
    def within(self, seconds: float) -> SyncApp: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def capture_exception(
        self, error: BaseException, *, workflow: str, arguments: Mapping[str, Any] | None = None
    ) -> CaptureOutcome: ...
    def execute_workflow(
        self,
        task: Any,
        adapter_name: str = ...,
        repos: Sequence[str] | None = None,
        *,
        task_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        enqueue: bool | None = None,
        track: bool = False,
    ) -> WorkflowResult: ...
    def execute_workflow_parallel(
        self,
        task: Any,
        adapter_name: str = ...,
        repos: Sequence[str] | None = None,
        *,
        task_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        enqueue: bool | None = None,
    ) -> WorkflowResult: ...
    def run_again(self, task: Any, repos: list[str]) -> WorkflowResult: ...
    def start_dlq_processor(self, callback: Workflow | None = None) -> None: ...
    def stop_dlq_processor(self) -> None: ...
    def shutdown(self) -> None: ...

@type_check_only
class SyncLetters(SyncService[LetterOperations]):
    def find(
        self,
        query: Query,
        after: Cursor | None = None,
        *,
        offset: int = 0,
        most_bytes: int | None = None,
        payloads: bool = True,
    ) -> Page[DeadLetter]: ...
    def blocked_by(self, task_id: str, *, namespace: str | None = None, queue: str = ...) -> list[str]: ...
    def contrasts(
        self, task_id: str, *, namespace: str | None = None, queue: str = ..., sample: int = ...
    ) -> LetterContrasts: ...
    def archive(self, task_id: str, **act: Unpack[Act]) -> DeadLetter: ...
    def redrive(self, task_id: str, **act: Unpack[Act]) -> DeadLetter: ...
    def resurrect(self, task_id: str, **act: Unpack[Act]) -> DeadLetter: ...
    def resolve(self, task_id: str, **act: Unpack[Act]) -> DeadLetter: ...
    def fail(self, task_id: str, **act: Unpack[Act]) -> DeadLetter: ...
    def cancel(self, task_id: str, **act: Unpack[Act]) -> DeadLetter: ...
    def edit(
        self,
        task_id: str,
        *,
        by: str = ...,
        notes: str | None = None,
        base: DeadLetter | None = None,
        patch: Any = None,
        create: bool = False,
        redrive: bool = False,
        namespace: str | None = None,
        queue: str = ...,
        **changes: Any,
    ) -> DeadLetter: ...
    def preview_edit(
        self,
        task_id: str,
        *,
        patch: Any = None,
        create: bool = False,
        redrive: bool = False,
        namespace: str | None = None,
        queue: str = ...,
        **changes: Any,
    ) -> EditPreview: ...
    def revisions(
        self, task_id: str, *, entry_id: str | None = None, namespace: str | None = None, queue: str = ...
    ) -> list[Revision]: ...
    def reveal(self, task_id: str, **act: Unpack[Act]) -> dict[str, Any]: ...
    def restore(
        self, task_id: str, number: int | None = None, *, redrive: bool = False, **act: Unpack[Act]
    ) -> DeadLetter: ...
    def retry_many(
        self, query: Query | None = None, *, by: str = ..., notes: str | None = None, **options: Any
    ) -> BulkResult: ...
    def archive_many(
        self, query: Query | None = None, *, by: str = ..., notes: str | None = None, **options: Any
    ) -> BulkResult: ...
    def resolve_many(
        self, query: Query | None = None, *, by: str = ..., notes: str | None = None, **options: Any
    ) -> BulkResult: ...
    def cancel_many(
        self, query: Query | None = None, *, by: str = ..., notes: str | None = None, **options: Any
    ) -> BulkResult: ...
    def archive_exhausted(
        self, older_than_days: float = 7, *, by: str = ..., notes: str | None = None, **options: Any
    ) -> BulkResult: ...
    def reclassify(
        self,
        query: Query | None = None,
        *,
        dry_run: bool = True,
        by: str = "reclassify",
        notes: str | None = None,
        **filters: Any,
    ) -> BulkResult: ...

@type_check_only
class SyncGroups(SyncService[Groups]):
    def list(
        self,
        *,
        state: GroupState | str | Iterable[GroupState | str] | None = None,
        owner: str | None = None,
        on_hold: bool | None = None,
        quiet: bool = False,
        limit: int = 50,
        after: Cursor | str | None = None,
        sort: GroupSort = "count",
    ) -> GroupPage: ...
    def get(self, fingerprint: str) -> GroupView: ...
    def commonalities(self, fingerprint: str, *, sample: int = ...) -> GroupCommonalities: ...
    def update(
        self,
        fingerprint: str,
        *,
        by: str,
        state: GroupState | str | None = None,
        owner: str | Unchanged | None = ...,
        note: str | None = None,
        link: str | None = None,
        hold_until: datetime | Unchanged | None = ...,
        hold_release: str | Unchanged | None = ...,
        base: GroupView | Group | None = None,
    ) -> GroupView: ...
    def release_hold(self, release: str, *, by: str) -> Sequence[str]: ...
    def refresh(self) -> int: ...
    def regroup(
        self, query: Query | None = None, *, dry_run: bool = True, by: str = "regroup", **filters: Any
    ) -> BulkResult: ...
    def warnings(self) -> Sequence[str]: ...

@type_check_only
class SyncSearch(SyncService[Search]):
    def count(self, query: Query) -> LetterCount: ...
    def namespaces(self) -> Sequence[NamespaceCount]: ...
    def suggest(self, text: str, position: int | None = None, *, limit: int = ...) -> Suggestions: ...

@type_check_only
class SyncViews(SyncService[Views]):
    def save(
        self,
        name: str,
        text: str,
        *,
        by: str,
        sort: str = "newest",
        place: int = 0,
        base: SavedView | None = None,
        new: bool = False,
    ) -> SavedView: ...
    def get(self, name: str) -> SavedView: ...
    def list(self) -> list[SavedView]: ...
    def delete(self, name: str, *, by: str, base: SavedView | None = None) -> SavedView: ...

@type_check_only
class SyncAlerts(SyncService[Alerts]):
    def list(self, *, resolved: bool = False) -> Sequence[Alert]: ...
    def rules(self) -> Sequence[RuleReport]: ...
    def test(self, channel: str | None = None) -> Mapping[str, str | None]: ...
    def run(self) -> int: ...
    def look(self) -> None: ...
    def send(self) -> int: ...

@type_check_only
class SyncTrends(SyncService[Trends]):
    def by_hour(self, hours: int = ...) -> Trend: ...

@type_check_only
class SyncClaims(SyncService[Claims]):
    def claim(
        self,
        owner: str,
        *,
        limit: int = 1,
        lease_seconds: float | None = None,
        queue: str | None = None,
        namespace: str | None = None,
        adapters: Sequence[str] | None = None,
    ) -> list[Claim]: ...
    def renew(
        self,
        task_id: str,
        token: str,
        *,
        lease_seconds: float | None = None,
        namespace: str | None = None,
        queue: str = ...,
    ) -> datetime: ...
    def settle(
        self,
        task_id: str,
        token: str,
        outcome: str,
        *,
        error: BaseException | str | None = None,
        error_type: str | None = None,
        category: ErrorCategory | str | None = None,
        retry_in: timedelta | float | None = None,
        namespace: str | None = None,
        queue: str = ...,
    ) -> DeadLetter: ...

@type_check_only
class SyncAdapterLimits(SyncService[AdapterLimits]):
    def list(self) -> Sequence[AdapterLimit]: ...
    def limit(
        self, adapter: str, *, by: str = ..., notes: str | None = None, **changes: Unpack[LimitChanges]
    ) -> AdapterLimit: ...
    def reset(self, adapter: str, *, by: str = ..., notes: str | None = None) -> AdapterLimit: ...

@type_check_only
class SyncRequeues(SyncService[Requeues]):
    def requeue(
        self,
        task_id: str,
        max_dlq_retries: int | None = None,
        priority_boost: int | None = None,
        resolved_by: str = ...,
        *,
        notes: str | None = None,
        namespace: str | None = None,
        queue: str = ...,
    ) -> dict[str, Any]: ...
    def requeue_exhausted(self) -> int: ...
    def outcomes(self) -> dict[str, int]: ...

@type_check_only
class SyncTransfer(SyncService[Transfer]):
    def export(self, query: Query | None = None, **filters: Any) -> Generator[str]: ...
    def import_letter(
        self, document: Document, *, by: str = ..., even_deleted: bool = False, namespace: str | None = None
    ) -> str: ...
    def import_letters(
        self,
        documents: Sequence[Document],
        *,
        by: str = ...,
        notes: str | None = None,
        even_deleted: bool = False,
        namespace: str | None = None,
    ) -> ImportResult: ...

@type_check_only
class SyncRuns(SyncService[BulkRuns]):
    def preview(
        self,
        verb: str,
        query: Query | None = None,
        *,
        ramp: Sequence[int] | None = None,
        max_per_second: float | None = None,
        stop_percent: float | None = None,
        patch: Any = None,
        create: bool = False,
        redrive: bool = False,
        everything: bool = False,
        **filters: Any,
    ) -> RunPreview: ...
    def start(
        self,
        verb: str,
        query: Query | None = None,
        *,
        by: str,
        reason: str | None = None,
        ramp: Sequence[int] | None = None,
        max_per_second: float | None = None,
        stop_percent: float | None = None,
        patch: Any = None,
        create: bool = False,
        redrive: bool = False,
        everything: bool = False,
        **filters: Any,
    ) -> BulkRun: ...
    def get(self, run_id: str) -> BulkRun: ...
    def list(
        self,
        state: RunState | str | Iterable[RunState | str] | None = None,
        *,
        limit: int = 50,
        after: Cursor | str | None = None,
    ) -> Page[BulkRun]: ...
    def items(
        self,
        run_id: str,
        *,
        state: ItemState | str | None = None,
        outcome: ItemOutcome | str | None = None,
        limit: int = 100,
        after: Cursor | str | None = None,
    ) -> RunItems: ...
    def pause(self, run_id: str, *, by: str, reason: str | None = None) -> BulkRun: ...
    def resume(
        self, run_id: str, *, by: str, reason: str | None = None, stop_percent: float | Unchanged | None = ...
    ) -> BulkRun: ...
    def cancel(self, run_id: str, *, by: str, reason: str | None = None) -> BulkRun: ...
    def advance(self) -> bool: ...

@type_check_only
class SyncWorkers(SyncService[Workers]):
    def list(self) -> WorkerList: ...
    def waiting(self, overdue: timedelta | None = None) -> Sequence[WaitingLetters]: ...
    def numbers(self, *, some_unfit: bool = True) -> dict[str, Any]: ...
    def why_waiting(self, letter: DeadLetter) -> str | None: ...
    def why_each_waits(self, letters: Sequence[DeadLetter]) -> Sequence[str | None]: ...

@type_check_only
class SyncClosing(SyncService[Closing]):
    def flush(self) -> None: ...
    def finish(self) -> None: ...

@type_check_only
class SyncQueues(SyncService[NamedQueues]):
    def create(self, name: str, *, by: str = ..., notes: str | None = None, **options: Any) -> QueueDefinition: ...
    def update(self, name: str, *, by: str = ..., notes: str | None = None, **options: Any) -> QueueDefinition: ...
    def get(self, name: str) -> QueueDefinition: ...
    def list(self) -> builtins.list[QueueDefinition]: ...
    def delete(self, name: str, *, force: bool = False, by: str = ..., notes: str | None = None) -> QueueDefinition: ...
    def produce(self, queue: str, payload: Any, *, metadata: Mapping[str, Any] | None = None) -> QueueItem: ...
    def import_items(self, queue: str, items: Iterable[Mapping[str, Any] | QueueItem]) -> items_ImportResult: ...
    def lease(
        self, queue: str, owner: str, *, limit: int = 1, lease_seconds: float | None = None
    ) -> builtins.list[ItemLease]: ...
    def renew(self, queue: str, id: str, token: str, *, lease_seconds: float | None = None) -> datetime: ...
    def complete(self, queue: str, id: str, token: str) -> QueueItem: ...
    def retry(
        self,
        queue: str,
        id: str,
        token: str,
        *,
        error: str = "the worker gave it back",
        dead: bool = False,
        retry_in: timedelta | float | None = None,
    ) -> QueueItem: ...
    def item(self, queue: str, id: str) -> QueueItem: ...
    def items(
        self, queue: str, *, status: ItemStatus | str | None = None, limit: int = 100, after: Cursor | str | None = None
    ) -> Page[QueueItem]: ...
    def resurrect(self, queue: str, id: str, *, by: str = ..., notes: str | None = None) -> QueueItem: ...
    def drop(self, queue: str, id: str, *, by: str = ..., notes: str | None = None) -> QueueItem: ...
    def redrive(
        self,
        queue: str,
        *,
        ids: Sequence[str] | None = None,
        to: str | None = None,
        by: str = ...,
        notes: str | None = None,
        query: Query | None = None,
        **filters: Any,
    ) -> dict[str, Any]: ...
    def numbers(self, queue: str) -> dict[str, Any]: ...
    def names_with_items(self) -> Sequence[str]: ...
    def maintain(self) -> dict[str, int]: ...

@type_check_only
class SyncDomainEvents(SyncService[DomainEvents]):
    def publish(
        self,
        name: str,
        payload: Any = None,
        *,
        mode: DeliveryMode | str = ...,
        condition: PublicationCondition | str = ...,
        outcome: Outcome | str | None = None,
        task_id: str | None = None,
        step: str | None = None,
        event_id: str | None = None,
    ) -> Publication: ...
    def send(self, event: DomainEvent) -> Publication: ...
    def finish(self) -> None: ...
    def read(
        self,
        after: int | None = None,
        limit: int = 100,
        *,
        consumer: str | None = None,
        names: str | Sequence[str] = "*",
    ) -> EventPage: ...
    def acknowledge(self, consumer: str, number: int) -> EventPosition: ...
    def consumers(self) -> Sequence[EventPosition]: ...
    def forget(self, consumer: str) -> bool: ...
    def remove_old(self) -> int: ...
    def publish_missed(self) -> int: ...
    def deliver(self) -> int: ...

@type_check_only
class SyncIntake(SyncService[LetterIntake]):
    def enqueue(
        self, request: LetterRequest, error: BaseException | str, named: ErrorCategory | str | None = None
    ) -> CaptureResult: ...
    def record(self, letter: DeadLetter) -> CaptureResult: ...
    def record_many(self, letters: Sequence[DeadLetter]) -> list[Result[DeadLetter]]: ...
    def admit_waiting(self) -> int: ...

@type_check_only
class SyncProcessing(SyncService[Processing]):
    def start(
        self,
        callback: Workflow | None = None,
        check_interval_seconds: float | None = None,
        queue: str | Iterable[str] | None = None,
    ) -> None: ...
    def start_periodic_tasks(self) -> None: ...
    def stop(self) -> None: ...
    def run_due(self, queue: str | Iterable[str] | None = None) -> int: ...
    def retry(
        self,
        task_id: str,
        *,
        force: bool = False,
        by: str = ...,
        notes: str | None = None,
        namespace: str | None = None,
        queue: str = ...,
    ) -> dict[str, Any]: ...

@type_check_only
class SyncArchive(SyncService[Archive]):
    def archive_completed_tasks(
        self, retention_days: int = 30, batch_size: int = 1000, dry_run: bool = True, *, by: str = ...
    ) -> ArchiveResult: ...
    def run(self, *, dry_run: bool = True, by: str = ...) -> ArchiveResult: ...
    def maintain(self) -> None: ...
    def list(self, limit: int = 100, after: Cursor | str | None = None) -> ArchivePage: ...
    def search(
        self,
        *,
        task_id: str | None = None,
        category: str | None = None,
        resolution: str | None = None,
        fingerprint: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 100,
        after: Cursor | str | None = None,
    ) -> ArchivePage: ...
    def search_tasks(
        self,
        *,
        task_id: str | None = None,
        name: str | None = None,
        state: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 100,
        after: Cursor | str | None = None,
    ) -> ArchivedTaskPage: ...
    def show(self, name: str, *, queue: str | None = None) -> ArchivedCase: ...
    def show_task(self, task_id: str) -> ArchivedTaskCase: ...
    def begin_export(self, *, by: str = ...) -> int: ...
    def export(self, after: int, upto: int, form: str = "jsonl") -> Generator[str]: ...
    def restore(
        self, name: str, *, by: str = ..., notes: str | None = None, queue: str | None = None
    ) -> DeadLetter: ...
    def partitions(self) -> Sequence[PartitionView]: ...
    def detach(self, partition: str, *, by: str = ...) -> str: ...
    def attach(self, partition: str, *, by: str = ...) -> None: ...
    def drop(self, partition: str, *, by: str = ...) -> None: ...

@type_check_only
class SyncEncryption(SyncService[EncryptionRenewal]):
    def renew(
        self, *, dry_run: bool = True, scrub: bool = False, limit: int = 500, after: str | None = None, by: str = ...
    ) -> RenewedLot: ...
    def renew_all(self, *, dry_run: bool = True, scrub: bool = False, by: str = ...) -> RenewedLot: ...

@type_check_only
class SyncDashboard(SyncService[Dashboard]):
    def dlq(self) -> ReasonLines: ...
    def staleness(self) -> DashboardLines: ...
    def archive(self) -> DashboardLines: ...

@type_check_only
class SyncIntegrity(SyncService[Integrity]):
    def find_unreadable(self, limit: int = 1000) -> UnreadableRecords: ...
    def local_stores(self) -> LocalStoreList: ...
    def forget_local_store(self, name: str, *, by: str = ..., notes: str | None = None) -> None: ...

@type_check_only
class SyncReplies(SyncService[Replies]):
    def begin(self, key: str, asked: str) -> Reply | None: ...
    def finish(self, key: str, status: int, headers: str, body: str) -> None: ...
    def forget(self, key: str) -> None: ...
    def clean(self) -> None: ...

@type_check_only
class SyncTelemetry(SyncService[Telemetry]):
    def collect(self) -> Sequence[MetricFamily]: ...
    def collect_process(self) -> Sequence[MetricFamily]: ...

@type_check_only
class SyncDeletion(SyncService[Deletion]):
    def clear_all(self, *, by: str = ..., notes: str | None = None) -> int: ...
    def delete_task(
        self, task_id: str, *, by: str = ..., notes: str | None = None, namespace: str | None = None, queue: str = ...
    ) -> DeletedCase: ...
    def finish(self) -> None: ...

@type_check_only
class SyncAudit(SyncService[AuditLog]):
    def list(
        self,
        *,
        actor: Many | None = None,
        action: Many | None = None,
        subject: Many | None = None,
        outcome: Many | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 100,
        after: Cursor | str | None = None,
    ) -> Page[AuditEntry]: ...
    def record_denial(
        self, actor: str, role: str | None, action: str, subject: str, why: str, where: str | None = None
    ) -> AuditEntry: ...
    def require(self, action: str, subject: str, where: str | None = None, *, makes: Any = None) -> None: ...
