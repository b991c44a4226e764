"""What the archive keeps of lifecycle tasks: a task with all its moves as one record, in the partition of its month."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

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
    """A lifecycle task in the archive. A task made again under its id has another key: that says when it was made.

    `task` and `transitions` are documents as the queue stored them: the task with its steps and latest moves, and those
    of its moves that were records of their own. `letter_ids` are the task ids that a letter of it can have. `left` says
    how many of the moves are still to be removed from where they were.
    """

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
        """The copy of a task that has ended, and of its moves."""
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
        """Whether both are copies of the same state, whenever they were made."""
        return (self.checksum, self.task, self.transitions) == (other.checksum, other.task, other.transitions)

    def over(self, there: ArchivedTask) -> ArchivedTask:
        """This copy in the place of an earlier one; of the same state it keeps moves that only the earlier one has.

        Raises CorruptRecord where it cannot be known which these are.
        """
        moves = self.transitions
        if self.task == there.task and {*there.transitions} - {*moves}:
            there.require_intact()
            moves = tuple(dict.fromkeys((*moves, *there.transitions)))
        checksum = checksum_of(self.task, moves)
        return replace(self, transitions=moves, left=len(moves), checksum=checksum, version=there.version)

    def is_intact(self) -> bool:
        """Whether what it holds is what was put into it."""
        return self.checksum == checksum_of(self.task, self.transitions)

    def require_intact(self) -> None:
        """Raise CorruptRecord if it is not."""
        if not self.is_intact():
            raise CorruptRecord(self.key, NOT_INTACT)

    def read_task(self) -> TaskRecord:
        """The task as it was, without a version. Raises CorruptRecord."""
        self.require_intact()
        return replace(read_document(TASKS, self.task, self.key), version=None)

    def read_transitions(self) -> list[OldTransition]:
        """The moves that the task no longer had inside, without versions. Raises CorruptRecord."""
        return [replace(read_document(TRANSITIONS, text, self.key), version=None) for text in self.transitions]


def archived_task_key(task: TaskRecord) -> str:
    """The key of a task's copy: the same however often it is made."""
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
