"""Letters that wait for others to succeed first."""

from __future__ import annotations

from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.ids import document_key
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import DeadLetterStatus, ResolutionStatus
from mahavishnu.stores.base import Collection

_SETTLED = (ResolutionStatus.REQUEUED, ResolutionStatus.MANUALLY_RESOLVED)


async def blocked_by(letters: Collection[DeadLetter], letter: DeadLetter) -> list[str]:
    """The tasks that the letter waits for: those whose own letter exists and has not succeeded."""
    if not letter.depends_on:
        return []
    found = await letters.get([document_key(name, letter.namespace, letter.queue) for name in letter.depends_on])
    return [
        name
        for name, other in zip(letter.depends_on, found, strict=True)
        if other is not None and not (isinstance(other, DeadLetter) and _has_succeeded(other))
    ]


def _has_succeeded(letter: DeadLetter) -> bool:
    """Whether the letter is completed, or was before it was archived."""
    return letter.status in (DeadLetterStatus.COMPLETED, DeadLetterStatus.ARCHIVED) and (
        letter.resolution.status in _SETTLED
    )


async def refuse_circle(letters: Collection[DeadLetter], fresh: DeadLetter) -> None:
    """Raise InvalidInput if `fresh` would wait for itself, directly or through others."""
    paths: dict[str, tuple[str, ...]] = {name: (fresh.task_id, name) for name in fresh.depends_on}
    frontier = list(paths)
    while frontier:
        if fresh.task_id in paths:
            circle = " → ".join(paths[fresh.task_id])
            raise InvalidInput(
                f"dependency_cycle_detected: {circle}; task {fresh.task_id!r} would wait for itself; it was refused"
            )
        found = await letters.get([document_key(name, fresh.namespace, fresh.queue) for name in frontier])
        beyond: list[str] = []
        for name, letter in zip(frontier, found, strict=True):
            for other in letter.depends_on if isinstance(letter, DeadLetter) else ():
                if other not in paths:
                    paths[other] = (*paths[name], other)
                    beyond.append(other)
        frontier = beyond
