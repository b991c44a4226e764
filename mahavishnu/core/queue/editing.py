"""Editing letters: what they were before is kept, and what an edit would do can be seen first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mahavishnu.classify.assess import Assessor
from mahavishnu.engine.context import DEFAULT_ACTOR, QueueContext
from mahavishnu.engine.dependencies import refuse_circle
from mahavishnu.engine.edits import Edit, edited
from mahavishnu.engine.moves import move
from mahavishnu.model.errors import ChangedMeanwhile, IllegalMove, InvalidInput, NoSuchLetter
from mahavishnu.model.events import EventName
from mahavishnu.model.ids import DEFAULT_NAMESPACE, DEFAULT_QUEUE, document_key
from mahavishnu.model.json_value import Difference, difference
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.query import Is, Query, Sort
from mahavishnu.stores.base import get_one, scan
from mahavishnu.stores.revisions import Revision, forget_revisions, keep_revisions


@dataclass(frozen=True, slots=True)
class EditPreview:
    """What an edit would do: the fields that people may change as they are and as they would be, and where they differ.

    `refused` says why it could not be done now; `after` is None then.
    """

    before: dict[str, Any]
    after: dict[str, Any] | None
    diff: list[Difference]
    refused: str | None = None


class Editing:
    """The part of `DeadLetterQueue` that changes what letters say."""

    context: QueueContext

    async def edit(
        self,
        task_id: str,
        *,
        by: str = DEFAULT_ACTOR,
        notes: str | None = None,
        base: DeadLetter | None = None,
        patch: Any = None,
        redrive: bool = False,
        namespace: str = DEFAULT_NAMESPACE,
        queue: str = DEFAULT_QUEUE,
        **changes: Any,
    ) -> DeadLetter:
        """Change `task`, `metadata`, `repos`, `depends_on`, `retry_policy`, `max_retries`, `priority`, `next_retry_at`.

        A `patch` (a JSON merge patch, RFC 7386) changes names of the task and leaves the others alone. `redrive` gives
        fresh attempts in the same write, the first one due now. What the letter was stays in its `revisions`.

        With `base`, the letter as it was read, a change made by others since raises ChangedMeanwhile. Raises
        InvalidInput for other fields, for values that cannot be and for a task that a plugin objects to, NoSuchLetter,
        IllegalMove (while it is run, or when its case is closed) and StoreError.

            await dlq.edit("wf_1", patch={"url": "https://new.example"}, redrive=True, by="ann", notes="they moved")
        """
        if base is not None and not isinstance(base, DeadLetter):
            raise InvalidInput(f"base is the letter as it was read, not {base!r:.80}")
        edit = Edit.of(changes, patch, redrive=redrive)
        key = document_key(task_id, namespace, queue)
        before: DeadLetter | None = None

        def change(current: DeadLetter) -> DeadLetter:
            nonlocal before
            before = current
            if base is not None and base.version != current.version:
                raise ChangedMeanwhile(key, "edit", f"{current.status} and changed at {current.updated_at.isoformat()}")
            return self._edited(current, edit)

        async def first(current: DeadLetter, after: DeadLetter) -> None:
            await self._refuse(after, edit)
            for problem in await keep_revisions(self.context.revisions, [current]):
                if problem is not None:
                    raise problem

        async with self.context.audit.record("edit", f"letter:{key}", by=by, reason=notes) as record:
            after = await move(self.context.letters, key, change, first=first)
            if after is None or before is None:
                if before is not None:  # it was deleted meanwhile, and what it was has been kept just now
                    await forget_revisions(self.context.revisions, [before.entry_id])
                raise NoSuchLetter(key)
            changed = sorted({*changes, *(["task"] if edit.task else [])})
            self.context.announce(EventName.EDITED, after, by=by, notes=notes, changed=changed)
            if redrive:
                self.context.announce(EventName.REDRIVEN, after, by=by, notes=notes, was_open=True)
            record.add_change(before, after)
        return after

    async def preview_edit(
        self,
        task_id: str,
        *,
        patch: Any = None,
        redrive: bool = False,
        namespace: str = DEFAULT_NAMESPACE,
        queue: str = DEFAULT_QUEUE,
        **changes: Any,
    ) -> EditPreview:
        """What `edit` would do. Raises NoSuchLetter and StoreError; what else `edit` would raise is told in `refused`.

        Its `diff` has the path (a JSON pointer such as `/task/url`), what was there before and what would be after.
        """
        await self.context.open()
        key = document_key(task_id, namespace, queue)
        letter = await get_one(self.context.letters, key)
        if letter is None:
            raise NoSuchLetter(key)
        before = Revision.of(letter).content()
        try:
            edit = Edit.of(changes, patch, redrive=redrive)
            edited_letter = self._edited(letter, edit)
            await self._refuse(edited_letter, edit)
        except (InvalidInput, IllegalMove) as problem:
            return EditPreview(before, None, [], str(problem))
        after = Revision.of(edited_letter).content()
        return EditPreview(before, after, difference(before, after))

    async def revisions(
        self,
        task_id: str,
        *,
        entry_id: str | None = None,
        namespace: str = DEFAULT_NAMESPACE,
        queue: str = DEFAULT_QUEUE,
    ) -> list[Revision]:
        """What the letter was before each of its edits, oldest first; those of a former generation by its `entry_id`.

        The audit says who made the edits, and why. Raises NoSuchLetter, and StoreError rather than omit some.
        """
        await self.context.open()
        key = document_key(task_id, namespace, queue)
        letter: DeadLetter | None = await get_one(self.context.letters, key)
        if entry_id is None and letter is None:
            raise NoSuchLetter(key)
        if entry_id is not None and (letter is None or letter.entry_id != entry_id):
            letter = await get_one(self.context.history, entry_id)
        named = entry_id or (letter.entry_id if letter else "")
        query = Query((Is("entry_id", (named,)), Is("letter_key", (key,))), (Sort("number"),))
        kept = [revision async for revision in scan(self.context.revisions, query)]
        # An edit that was prepared and then not done has kept what the letter still is.
        return [revision for revision in kept if letter is None or revision.number < letter.revision]

    def _edited(self, letter: DeadLetter, edit: Edit) -> DeadLetter:
        return edited(
            letter,
            edit,
            self.context.clock.now(),
            backoffs=self.context.backoffs,
            check=self.context.letter_factory.check_size,
        )

    async def _refuse(self, after: DeadLetter, edit: Edit) -> None:
        """Raise InvalidInput for what only others can know: waiting in a circle, and what plugins object to."""
        if edit.fields.get("depends_on"):
            await refuse_circle(self.context.letters, after)
        if edit.task and (why := await Assessor(self.context.chain).objection(after, self.context.clock.now())):
            raise InvalidInput(f"the task of letter {after.key!r} cannot be that: {why}")
