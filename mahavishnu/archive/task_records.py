"""What the archive keeps of lifecycle tasks: a task with all its moves as one record, in the partition of its month."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import ClassVar

from mahavishnu.archive.records import NOT_INTACT, bytes_of, checksum_of, read_document
from mahavishnu.model.errors import CorruptRecord
from mahavishnu.model.ids import derived_task_id
from mahavishnu.model.letter_parts import Version
from mahavishnu.stores.dataclass_codec import dataclass_kind
from mahavishnu.stores.kind import Field, FieldType, instant_text
from mahavishnu.tasks.letters import letter_ids_of
from mahavishnu.tasks.records import TASKS, TRANSITIONS
from mahavishnu.tasks.task import OldTransition, TaskRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedTask:
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
    version: Version | None = field(default=None, compare=False)

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


def _task_document_bytes(copy: ArchivedTask) -> int:
    return bytes_of(copy.task, *copy.transitions)


ARCHIVED_TASKS = dataclass_kind(
    ArchivedTask,
    name="archived_tasks",
    index="dlq_archive_{}_tasks",
    types=dict.fromkeys(("task", "transitions", "checksum"), FieldType.BLOB),
    indexes=[("namespace", "closed_at"), ("task_id",), ("left",)],
    more=[Field("document_bytes", FieldType.INTEGER, _task_document_bytes, derived=True)],
)
