"""What the archive keeps: a letter with all that belongs to it as one record, in the partition of a month."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Collection as Names
from dataclasses import replace as replace_dataclass
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256
from typing import ClassVar

from msgspec import field
from msgspec.structs import replace

from mahavishnu.model.errors import CorruptRecord
from mahavishnu.model.ids import derived_task_id, document_key
from mahavishnu.model.letter import DeadLetter, FormerLetter
from mahavishnu.model.record import Version, Versioned
from mahavishnu.stores.kind import Field, FieldType, Kind, T, instant_text
from mahavishnu.stores.kinds import HISTORY, LETTERS, REVISIONS
from mahavishnu.stores.record_codec import record_kind
from mahavishnu.stores.retained import Revision
from mahavishnu.tasks.letters import letter_ids_of
from mahavishnu.tasks.records import TASKS, TRANSITIONS
from mahavishnu.tasks.task import OldTransition, TaskRecord

NOT_INTACT = "the copy in the archive is not what was written: its checksum differs"


class ArchivedLetter(Versioned, frozen=True, kw_only=True):
    """A closed letter in the archive, under its entry id.

    `letter`, `former` and `revisions` are documents as the queue stored them, kept as text so that they come back
    unchanged; `checksum` verifies them. The other fields can be searched. `restored_at` is when the letter was last
    restored, `export` the step of the exports for analysis that it belongs to.
    """

    listed: ClassVar = (
        *("entry_id", "task_id", "namespace", "queue", "resolution_status", "reason", "error_category"),
        *("fingerprint", "adapter", "created_at", "closed_at", "archived_at"),
    )
    entry_id: str
    letter_key: str
    task_id: str
    namespace: str
    queue: str
    resolution_status: str
    reason: str
    error_category: str | None = None
    fingerprint: str | None = None
    adapter: str | None = None
    created_at: datetime
    closed_at: datetime
    archived_at: datetime
    letter: str
    former: tuple[str, ...] = ()
    revisions: tuple[str, ...] = ()
    checksum: str
    restored_at: datetime | None = None
    export: int | None = None
    version: Version | None = None

    @property
    def key(self) -> str:
        return self.entry_id

    @classmethod
    def of(
        cls, letter: DeadLetter, former: Sequence[FormerLetter], revisions: Sequence[Revision], now: datetime
    ) -> ArchivedLetter:
        """Return the copy of a closed letter and of what belongs to it."""
        text = LETTERS.document(letter)
        formers = tuple(HISTORY.document(each) for each in former)
        texts = tuple(REVISIONS.document(each) for each in revisions)
        return ArchivedLetter(
            entry_id=letter.entry_id,
            letter_key=letter.key,
            task_id=letter.task_id,
            namespace=letter.namespace,
            queue=letter.queue,
            resolution_status=str(letter.resolution.status),
            reason=str(letter.reason),
            error_category=letter.error_category and str(letter.error_category),
            fingerprint=letter.fingerprint,
            adapter=letter.adapter,
            created_at=letter.created_at,
            closed_at=letter.resolution.at or letter.updated_at,
            archived_at=now,
            letter=text,
            former=formers,
            revisions=texts,
            checksum=checksum_of(text, formers, texts),
        )

    def has_same_content(self, other: ArchivedLetter) -> bool:
        """Return whether both are copies of the same state."""
        held = self.checksum, self.letter, self.former, self.revisions
        return held == (other.checksum, other.letter, other.former, other.revisions)

    def over(self, there: ArchivedLetter) -> ArchivedLetter:
        """Return this copy in the place of an earlier one; an unchanged state keeps its export step.

        Of the same state of the letter, keep what only the earlier copy has: its maker may let the letter leave. Raise
        CorruptRecord where that cannot be known.
        """
        return self._over(there, keeps=self.letter == there.letter)

    def over_alone(self, there: ArchivedLetter, only_there: Names[str] = ()) -> ArchivedLetter:
        """Return this copy of a former letter in the place of an earlier one; a copy of a later state stays as it is.

        Of the letters that it succeeded itself, keep those of the earlier copy that are `only_there`, by their entry
        ids. The others were restored since: they are in the history, or have copies of their own.
        """
        kept = there.with_former(only_there)
        if there.is_intact() and there.read_letter().updated_at > self.read_letter().updated_at:
            return kept
        return self._over(kept, keeps=self.letter == kept.letter or bool(kept.former))

    def with_former(self, entry_ids: Names[str]) -> ArchivedLetter:
        """Return this copy with only these former letters. Raise CorruptRecord."""
        if not self.former:
            return self
        self.require_intact()
        pairs = zip(self.former, self.read_former(), strict=True)
        former = tuple(text for text, each in pairs if each.entry_id in entry_ids)
        return replace(self, former=former, checksum=checksum_of(self.letter, former, self.revisions))

    def _over(self, there: ArchivedLetter, *, keeps: bool) -> ArchivedLetter:
        former, revisions = self.former, self.revisions
        if keeps and {*there.former, *there.revisions} - {*former, *revisions}:
            there.require_intact()
            own = {each.entry_id for each in self.read_former()} if there.former else set()
            pairs = zip(there.former, there.read_former(), strict=True)
            former = (*former, *(text for text, each in pairs if each.entry_id not in own))
            revisions = tuple(dict.fromkeys((*revisions, *there.revisions)))
        checksum = checksum_of(self.letter, former, revisions)
        made = replace(self, former=former, revisions=revisions, checksum=checksum, version=there.version)
        return replace(made, export=there.export if made.has_same_content(there) else None)

    def is_intact(self) -> bool:
        """Return whether the checksum matches the contents."""
        return self.checksum == checksum_of(self.letter, self.former, self.revisions)

    def require_intact(self) -> None:
        """Raise CorruptRecord if it is not."""
        if not self.is_intact():
            raise CorruptRecord(self.key, NOT_INTACT)

    def read_letter(self) -> DeadLetter:
        """Return the letter as it was, without a version. Raise CorruptRecord."""
        return replace(read_document(LETTERS, self.letter, self.entry_id), version=None)

    def read_former(self) -> list[FormerLetter]:
        """Return the letters that it succeeded, without versions. Raise CorruptRecord."""
        return [replace(read_document(HISTORY, text, self.entry_id), version=None) for text in self.former]

    def read_revisions(self) -> list[Revision]:
        """Return the states before edits, without versions. Raise CorruptRecord."""
        return [replace(read_document(REVISIONS, text, self.entry_id), version=None) for text in self.revisions]


def letter_key(former: FormerLetter) -> str:
    """Return the key that the former letter had while it was in the queue."""
    return document_key(former.task_id, former.namespace, former.queue)


def checksum_of(document: str, *more: Sequence[str]) -> str:
    """Return the checksum of these documents."""
    texts = (document, *(text for each in more for text in each))
    return sha256("\n".join(texts).encode("utf-8", "surrogatepass")).hexdigest()


def read_document(kind: Kind[T], text: str, key: str) -> T:
    """Return the record of a document in the copy with this key. Raise CorruptRecord."""
    try:
        return kind.read(text, ())
    except CorruptRecord as problem:
        raise CorruptRecord(key, problem.reason) from problem
    except (TypeError, ValueError) as problem:
        raise CorruptRecord(key, f"the copy in the archive cannot be read: {problem}") from problem


class PartitionState(StrEnum):
    """The state of a partition: whether the archive reads and writes it."""

    ATTACHED = "attached"
    DETACHED = "detached"  #: it may be moved away as a whole; it is there again once somebody attaches it


class ArchivePartition(Versioned, frozen=True):
    """A partition of the archive: the letters whose cases ended in one month.

    Each batch counts in `batches` before its letters leave the queue: a detachment at that moment either loses to the
    batch, or keeps its letters in the queue. `kept`: a person attached it, so age does not detach it again.
    `has_tasks`: it has lifecycle tasks, or was about to get some. `exported` is the latest export step of each
    namespace that may have letters of it.
    """

    name: str
    month: str
    made_at: datetime
    state: PartitionState = PartitionState.ATTACHED
    batches: int = 0
    detached_at: datetime | None = None
    kept: bool = False
    has_tasks: bool = False
    exported: Mapping[str, int] = field(default_factory=dict)
    version: Version | None = None

    @property
    def key(self) -> str:
        return self.name


def _document_bytes(documents_of: Callable[[T], tuple[str, ...]]) -> Field[T]:
    """Return the field for the size of a copy's documents in bytes."""

    def bytes_of(copy: T) -> int:
        documents = documents_of(copy)
        return sum(len(text if text.isascii() else text.encode("utf-8", "surrogatepass")) for text in documents)

    return Field("document_bytes", FieldType.INTEGER, bytes_of, derived=True)


ARCHIVED_LETTERS = record_kind(
    ArchivedLetter,
    name="archive",
    index="dlq_archive_{}",
    key="entry_id",
    types=dict.fromkeys(("letter", "former", "revisions", "checksum"), FieldType.BLOB),
    indexes=[("namespace", "closed_at"), ("task_id",)],
    more=[
        Field("former_count", FieldType.INTEGER, lambda copy: len(copy.former), derived=True),
        _document_bytes(lambda copy: (copy.letter, *copy.former, *copy.revisions)),
    ],
)


@lru_cache(1000)
def archive_kind(kind: Kind[T], partition: str) -> Kind[T]:
    """Return the kind of these records in this partition, whose name fills the gap in the kind's `index`."""
    return replace_dataclass(
        kind, index=kind.index.format(partition), partition=f"archive-{partition.replace('_', '-')}"
    )


ARCHIVE_PARTITIONS = record_kind(
    ArchivePartition, name="archive_partitions", index="dlq_archive_partitions", key="name"
)

# --- what the archive keeps of lifecycle tasks


class ArchivedTask(Versioned, frozen=True, kw_only=True):
    """A lifecycle task in the archive. Its key includes when the task was made: its id may be used again.

    `task` and `transitions` are documents as the queue stored them: the task with its steps and latest moves, and the
    moves that were records of their own, of which `left` are still to be removed. `letter_ids` are the task ids that a
    letter of it can have.
    """

    listed: ClassVar = ("task_id", "namespace", "name", "state", "queue", "created_at", "closed_at", "archived_at")
    key: str
    task_id: str
    namespace: str
    name: str
    state: str
    queue: str
    letter_ids: tuple[str, ...]
    created_at: datetime
    closed_at: datetime
    archived_at: datetime
    task: str
    transitions: tuple[str, ...] = ()
    checksum: str
    left: int = 0
    version: Version | None = None

    @classmethod
    def of(cls, task: TaskRecord, moves: Sequence[OldTransition], now: datetime) -> ArchivedTask:
        """Return the copy of a task that has ended, and of its moves."""
        text = TASKS.document(task)
        transitions = tuple(TRANSITIONS.document(each) for each in moves)
        return cls(
            key=archived_task_key(task),
            task_id=task.task_id,
            namespace=task.namespace,
            name=task.name,
            state=str(task.state),
            queue=task.queue,
            letter_ids=letter_ids_of(task),
            created_at=task.created_at,
            closed_at=task.state_entered_at,
            archived_at=now,
            task=text,
            transitions=transitions,
            checksum=checksum_of(text, transitions),
            left=len(transitions),
        )

    def has_same_content(self, other: ArchivedTask) -> bool:
        """Return whether both are copies of the same state."""
        return (self.checksum, self.task, self.transitions) == (other.checksum, other.task, other.transitions)

    def over(self, there: ArchivedTask) -> ArchivedTask:
        """Return this copy in the place of an earlier one, with moves that only that one has. Raise CorruptRecord."""
        moves = self.transitions
        if self.task == there.task and {*there.transitions} - {*moves}:
            there.require_intact()
            moves = tuple(dict.fromkeys((*moves, *there.transitions)))
        checksum = checksum_of(self.task, moves)
        return replace(self, transitions=moves, left=len(moves), checksum=checksum, version=there.version)

    def is_intact(self) -> bool:
        """Return whether the checksum matches the contents."""
        return self.checksum == checksum_of(self.task, self.transitions)

    def require_intact(self) -> None:
        """Raise CorruptRecord if it is not."""
        if not self.is_intact():
            raise CorruptRecord(self.key, NOT_INTACT)

    def read_task(self) -> TaskRecord:
        """Return the task as it was, without a version. Raise CorruptRecord."""
        self.require_intact()
        return replace(read_document(TASKS, self.task, self.key), version=None)

    def read_transitions(self) -> list[OldTransition]:
        """Return the moves that the task no longer had inside, without versions. Raise CorruptRecord."""
        return [replace(read_document(TRANSITIONS, text, self.key), version=None) for text in self.transitions]


def archived_task_key(task: TaskRecord) -> str:
    """Return the key of a task's copy: the same however often it is made."""
    return derived_task_id(task.task_id, instant_text(task.created_at))


ARCHIVED_TASKS = record_kind(
    ArchivedTask,
    name="archived_tasks",
    index="dlq_archive_{}_tasks",
    types=dict.fromkeys(("task", "transitions", "checksum"), FieldType.BLOB),
    indexes=[("namespace", "closed_at"), ("task_id",), ("left",)],
    more=[_document_bytes(lambda copy: (copy.task, *copy.transitions))],
)
