"""What people do with letters: one by its task id, or all that a query means; and looking at them before."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from msgspec.structs import replace

from mahavishnu.capture.dependencies import blocked_by, refuse_circle
from mahavishnu.engine.context import DEFAULT_ACTOR, QueueContext
from mahavishnu.engine.moves import Act, BulkResult, bulk_summary, move_many
from mahavishnu.letters import reads
from mahavishnu.letters.verbs import (
    ARCHIVE,
    CANCEL,
    FAIL,
    REDRIVE,
    REDRIVE_THIS,
    RESOLVE,
    RESURRECT,
    Edit,
    Verb,
    edit_letter,
    reveal_letter,
)
from mahavishnu.model import lifecycle
from mahavishnu.model.errors import ChangedMeanwhile, IllegalMove, InvalidInput, NoSuchLetter
from mahavishnu.model.events import EventName
from mahavishnu.model.ids import DEFAULT_QUEUE
from mahavishnu.model.json_value import Difference, difference, same_json
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import DeadLetterStatus, RecordedVerdict
from mahavishnu.model.permissions import without_payload_of
from mahavishnu.model.query import Between, Is, Query, acting_namespace, filter_query, query_to_json, require_query
from mahavishnu.model.record import Value
from mahavishnu.stores.base import Cursor, Page, update_with_retry
from mahavishnu.stores.retained import Revision, forget_revisions, keep_revisions

if TYPE_CHECKING:
    from mahavishnu.letters.commonalities import LetterContrasts


class EditPreview(Value, frozen=True):
    """Editable fields before and after an edit, and their differences; or, without `after`, why it is `refused`."""

    before: dict[str, Any]
    after: dict[str, Any] | None
    diff: list[Difference]
    refused: str | None = None


class LetterOperations:
    """Finding, moving and editing letters.

    Methods that take a task id raise NoSuchLetter for a task without a letter, IllegalMove for what its state does not
    allow (naming both), and StoreError. Methods for many letters take a `query`, or filters as
    `mahavishnu.model.query.letter_query` has them; without either, they need `everything=True`. With `dry_run=True`
    they change nothing, and `cap` limits their number.
    """

    def __init__(self, context: QueueContext) -> None:
        self._context, self._letters, self._clock = context, context.letters, context.clock

    # --- looking at letters

    async def find(
        self,
        query: Query,
        after: Cursor | None = None,
        *,
        offset: int = 0,
        most_bytes: int | None = None,
        payloads: bool = True,
    ) -> Page[DeadLetter]:
        """Return one page of letters, and the cursor of the next one; an `offset` steps over the first ones.

        Without `payloads` their tasks and metadata are hidden, and the read is not audited. A page ends early, after at
        least one letter, when its letters have more than about `most_bytes`. Raise InvalidInput for an offset below 0,
        InvalidQuery for what letters cannot be searched by.
        """
        await self._context.open()
        page = await reads.page(self._letters, require_query(query), after, offset, most_bytes)
        if not payloads:
            return replace(page, items=[without_payload_of(letter) for letter in page.items])
        return replace(page, items=await self._context.hand_out_list(page.items, query))

    async def blocked_by(self, task_id: str, *, namespace: str | None = None, queue: str = DEFAULT_QUEUE) -> list[str]:
        """Return the tasks that the letter of this task waits for. Raise NoSuchLetter."""
        return await blocked_by(self._letters, await reads.require_letter(self._context, task_id, namespace, queue))

    async def contrasts(
        self, task_id: str, *, namespace: str | None = None, queue: str = DEFAULT_QUEUE, sample: int = reads.SAMPLE
    ) -> LetterContrasts:
        """Return the values that recent successful letters of its adapter have and it lacks. Raise NoSuchLetter."""
        from mahavishnu.letters.commonalities import letter_contrasts

        letter = await reads.require_payload(self._context, task_id, namespace, queue)
        found = await letter_contrasts(self._context, letter, sample)
        if found.items:
            await self._context.note_read("read", f"letter:{letter.key}", letter.namespace, contrasts=len(found.items))
        return found

    # --- one letter

    async def archive(self, task_id: str, **act: Unpack[Act]) -> DeadLetter:
        """Put a letter away."""
        return await self._move(ARCHIVE, task_id, **act)

    async def redrive(self, task_id: str, **act: Unpack[Act]) -> DeadLetter:
        """Give a letter fresh attempts, the first one due now, also if it is exhausted, closed or archived."""
        return await self._move(REDRIVE_THIS, task_id, **act)

    async def resurrect(self, task_id: str, **act: Unpack[Act]) -> DeadLetter:
        """Give an exhausted letter fresh attempts, the first one due now; take an archived one out for them."""
        return await self._move(RESURRECT, task_id, **act)

    async def resolve(self, task_id: str, **act: Unpack[Act]) -> DeadLetter:
        """Close the case: a person settled it otherwise."""
        return await self._move(RESOLVE, task_id, **act)

    async def fail(self, task_id: str, **act: Unpack[Act]) -> DeadLetter:
        """Close the case: it will never work, and is kept for analysis."""
        return await self._move(FAIL, task_id, **act)

    async def cancel(self, task_id: str, **act: Unpack[Act]) -> DeadLetter:
        """Close the case: nobody wants the work any more."""
        return await self._move(CANCEL, task_id, **act)

    async def edit(
        self,
        task_id: str,
        *,
        by: str = DEFAULT_ACTOR,
        notes: str | None = None,
        base: DeadLetter | None = None,
        patch: Any = None,
        create: bool = False,
        redrive: bool = False,
        namespace: str | None = None,
        queue: str = DEFAULT_QUEUE,
        **changes: Any,
    ) -> DeadLetter:
        """Change `task`, `metadata`, `repos`, `depends_on`, `retry_policy`, `max_retries`, `priority`, `next_retry_at`.

        A `patch` (a JSON merge patch, RFC 7386) changes names of the task and leaves the others alone. Values keep the
        types that the task has at their paths, or have those they are given with; `payload_types` replaces all of them.
        A path that the task does not have is refused as misspelled, unless `create` says that the patch makes it.
        `redrive` gives fresh attempts in the same write, the first one due now. `revisions` keeps what the letter was.

        With `base`, the letter as it was read, a change made by others since raises ChangedMeanwhile. Raise
        InvalidInput for other fields, for values that cannot be and for a task that a plugin objects to, NoSuchLetter,
        IllegalMove (while it is run, or when its case is closed) and StoreError.

            await dlq.letters.edit("wf_1", patch={"url": "https://new.example"}, redrive=True, by="ann")
        """
        if base is not None and not isinstance(base, DeadLetter):
            raise InvalidInput(f"base is the letter as it was read, not {base!r:.80}")
        edit = Edit.of(changes, patch, redrive=redrive, create=create, kinds=self._context.value_kinds)
        key = self._context.key(task_id, namespace, queue)
        kept: DeadLetter | None = None  # whose revision has been written

        def change(current: DeadLetter) -> DeadLetter:
            if base is not None and base.version != current.version:
                raise ChangedMeanwhile(key, "edit", f"{current.status} and changed at {current.updated_at.isoformat()}")
            return edit_letter(self._context, current, edit, self._clock.now())

        async def check(current: DeadLetter, after: DeadLetter) -> None:
            nonlocal kept
            if after.adapter != current.adapter:
                await self._context.require("edit", f"letter:{key}", namespace, makes=after)
            await self._require_acceptable(after, edit)
            for problem in await keep_revisions(self._context.revisions, [current]):
                if problem is not None:
                    raise problem
            kept = current

        if redrive:
            await self._context.audit.require("redrive", f"letter:{key}", namespace)
        async with self._context.audit.record("edit", f"letter:{key}", by=by, reason=notes, where=namespace) as record:
            done = await update_with_retry(self._letters, key, change, check=check)
            if done is None:
                if kept is not None:  # the letter was deleted meanwhile
                    await forget_revisions(self._context.revisions, self._context.history, [kept])
                raise NoSuchLetter(key)
            after = done.after
            changed = sorted({*changes, *(["task"] if edit.task else [])})
            self._context.announce(EventName.EDITED, after, by=by, notes=notes, changed=changed)
            if redrive:
                self._context.announce(EventName.REDRIVEN, after, by=by, notes=notes, was_open=True)
            record.add_change(done.before, after)
        return self._context.show(after)

    async def preview_edit(
        self,
        task_id: str,
        *,
        patch: Any = None,
        create: bool = False,
        redrive: bool = False,
        namespace: str | None = None,
        queue: str = DEFAULT_QUEUE,
        **changes: Any,
    ) -> EditPreview:
        """Return what `edit` would do. Raise NoSuchLetter and StoreError; other refusals of `edit` are in `refused`.

        Its `diff` has the path (a JSON pointer such as `/task/url`), and the values before and after.
        """
        letter = await reads.require_payload(self._context, task_id, namespace, queue)
        await self._context.hand_out(letter)
        before = Revision.of(letter).content()
        try:
            edit = Edit.of(changes, patch, redrive=redrive, create=create, kinds=self._context.value_kinds)
            after_edit = edit_letter(self._context, letter, edit, self._clock.now())
            await self._require_acceptable(after_edit, edit)
        except (InvalidInput, IllegalMove) as problem:
            return EditPreview(before, None, [], str(problem))
        after = Revision.of(after_edit).content()
        return EditPreview(before, after, difference(before, after))

    async def revisions(
        self, task_id: str, *, entry_id: str | None = None, namespace: str | None = None, queue: str = DEFAULT_QUEUE
    ) -> list[Revision]:
        """Return the states before each edit, or of a former letter, oldest first. Raise NoSuchLetter, StoreError."""
        return await reads.read_revisions(self._context, task_id, entry_id, namespace, queue)

    async def reveal(self, task_id: str, **act: Unpack[Act]) -> dict[str, Any]:
        """Return the task and metadata in clear; the audit names the reader. Raise CannotRestore for an unknown key."""
        where, queue = act.get("namespace"), act.get("queue", DEFAULT_QUEUE)
        by, notes, key = act.get("by", DEFAULT_ACTOR), act.get("notes"), self._context.key(task_id, where, queue)
        return await reveal_letter(self._context, key, by=by, notes=notes, where=where)

    async def restore(
        self, task_id: str, number: int | None = None, *, redrive: bool = False, **act: Unpack[Act]
    ) -> DeadLetter:
        """Make the letter what it was as this revision, by default the last one, through an edit.

        All that people may change comes back, except the date of the next retry. The present state becomes a revision
        too. Raise InvalidInput where there is no such revision, or nothing differs from it; and what `edit` raises.
        """
        namespace, queue = act.get("namespace"), act.get("queue", DEFAULT_QUEUE)
        revisions = await self.revisions(task_id, namespace=namespace, queue=queue)
        letter = await reads.require_letter(self._context, task_id, namespace, queue)
        changes = changes_back_to(letter, revisions, number)
        return await self.edit(task_id, base=letter, redrive=redrive, **act, **changes)

    # --- many letters

    async def retry_many(
        self, query: Query | None = None, *, by: str = DEFAULT_ACTOR, notes: str | None = None, **options: Any
    ) -> BulkResult:
        """Give every open letter that the query means fresh attempts, due now."""
        return await self._move_many(REDRIVE, query, options, by, notes)

    async def archive_many(
        self, query: Query | None = None, *, by: str = DEFAULT_ACTOR, notes: str | None = None, **options: Any
    ) -> BulkResult:
        """Put every letter that the query means away."""
        return await self._move_many(ARCHIVE, query, options, by, notes)

    async def resolve_many(
        self, query: Query | None = None, *, by: str = DEFAULT_ACTOR, notes: str | None = None, **options: Any
    ) -> BulkResult:
        """Close every case that the query means as settled otherwise."""
        return await self._move_many(RESOLVE, query, options, by, notes)

    async def cancel_many(
        self, query: Query | None = None, *, by: str = DEFAULT_ACTOR, notes: str | None = None, **options: Any
    ) -> BulkResult:
        """Close every case that the query means as no longer wanted."""
        return await self._move_many(CANCEL, query, options, by, notes)

    async def archive_exhausted(
        self, older_than_days: float = 7, *, by: str = DEFAULT_ACTOR, notes: str | None = None, **options: Any
    ) -> BulkResult:
        """Put away what has been exhausted for so long."""
        try:
            before = self._clock.now() - timedelta(days=older_than_days)
        except (TypeError, ValueError, OverflowError) as problem:
            raise InvalidInput(f"{older_than_days!r:.80} is no number of days: {problem}") from None
        query = Query((Is("status", (DeadLetterStatus.EXHAUSTED,)), Between("exhausted_at", below=before)))
        return await self._move_many(ARCHIVE, query, options, by, notes)

    async def reclassify(
        self,
        query: Query | None = None,
        *,
        dry_run: bool = True,
        by: str = "reclassify",
        notes: str | None = None,
        **filters: Any,
    ) -> BulkResult:
        """Classify open letters again, dry by default; `done` are those whose category, policy or budget changes."""
        from mahavishnu.classify.assess import Assessor

        await self._context.open()
        query = reads.list_query(None, query, filters)

        def change(letter: DeadLetter) -> DeadLetter:
            verdict = Assessor(self._context.chain).reconsider(letter)
            if verdict is None:  # the classifier says what it said before
                return letter
            return lifecycle.reclassify(
                letter,
                now=self._clock.now(),
                category=verdict.category,
                verdict=RecordedVerdict(verdict.reason, verdict.author),
                tags=verdict.tags,
                retry_policy=verdict.policy,
                max_retries=verdict.max_retries,
                backoffs=self._context.backoffs,
            )

        announce = partial(self._context.announce, EventName.EDITED, by=by)
        how: dict[str, Any] = {"everything": True, "dry_run": dry_run, "in_thread": True}
        return await self._audit_many(
            "reclassify", query, partial(move_many, self._letters, query, change, moved=announce, **how), how, by, notes
        )

    # --- inside

    async def _move(
        self,
        verb: Verb,
        task_id: str,
        by: str = DEFAULT_ACTOR,
        notes: str | None = None,
        namespace: str | None = None,
        queue: str = DEFAULT_QUEUE,
    ) -> DeadLetter:
        key = self._context.key(task_id, namespace, queue)
        audited = self._context.audit.record(verb.name, f"letter:{key}", by=by, reason=notes, where=namespace)
        async with audited as record:
            moved = await update_with_retry(
                self._letters, key, lambda letter: verb.change(letter, self._clock.now(), by, notes)
            )
            if moved is None:
                raise NoSuchLetter(key)
            before, after = moved.before, moved.after
            self._context.announce(verb.event, after, after.updated_at, by=by, notes=notes, was_open=before.is_open)
            record.add_change(before, after)
        return self._context.show(after)

    async def _move_many(
        self, verb: Verb, query: Query | None, options: Mapping[str, Any], by: str, notes: str | None
    ) -> BulkResult:
        await self._context.open()
        how = {name: options[name] for name in ("everything", "dry_run", "cap") if name in options}
        filters = {name: value for name, value in options.items() if name not in how}
        if query is not None and filters:
            raise InvalidInput(f"give a query or filters, not both: {', '.join(filters)}")
        query = require_query(query) if query is not None else filter_query(filters)
        move = partial(
            move_many,
            self._letters,
            query,
            lambda letter: verb.change(letter, self._clock.now(), by, notes),
            moved=partial(self._context.announce, verb.event, by=by, notes=notes),
            **how,
        )
        return await self._audit_many(verb.name, query, move, how, by, notes)

    async def _audit_many(
        self,
        action: str,
        query: Query,
        move: Callable[[], Awaitable[BulkResult]],
        how: Mapping[str, Any],
        by: str,
        notes: str | None,
    ) -> BulkResult:
        """Move letters, and audit that unless it is a dry run."""
        where = acting_namespace(query, self._context.namespace)
        if how.get("dry_run"):
            return await move()
        async with self._context.audit.record(action, "queue", by=by, reason=notes, where=where) as record:
            record.add(query=query_to_json(query)["where"], **{name: how[name] for name in ("cap",) if name in how})
            result = await move()
            record.add(**bulk_summary(result))
        return result

    async def _require_acceptable(self, after: DeadLetter, edit: Edit) -> None:
        """Raise InvalidInput for what only others can know: waiting in a circle, and what plugins object to."""
        if edit.fields.get("depends_on"):
            await refuse_circle(self._letters, after)
        if not edit.task:
            return
        from mahavishnu.classify.assess import Assessor

        plain = self._context.letter_factory.encryption.readable_letter(after)
        why = self._context.why_unrestorable(plain)
        if why := why or await Assessor(self._context.chain).objection(plain, self._clock.now()):
            why = self._context.letter_factory.mask_quotes(why, plain.payload.shared_value)
            raise InvalidInput(f"the task of letter {after.key!r} cannot be that: {why}")


def changes_back_to(letter: DeadLetter, revisions: Sequence[Revision], number: int | None) -> dict[str, Any]:
    """Return the edit back to this, or the last, revision. Raise InvalidInput if there is none, or no difference."""
    if not revisions:
        raise InvalidInput(f"letter {letter.key!r} was never edited: there is nothing to go back to")
    known = {each.number: each for each in revisions}
    wanted = max(known) if number is None else number
    if type(wanted) is not int or wanted not in known:
        numbers = f"{min(known)} to {max(known)}" if len(known) > 1 else str(min(known))
        raise InvalidInput(f"letter {letter.key!r} has no revision {wanted!r:.80}, but {numbers}")
    now, then = _editable(Revision.of(letter)), _editable(known[wanted])
    then["max_retries"] = max(then["max_retries"], letter.retry_count)  # those that were used up cannot be given back
    changes = {name: value for name, value in then.items() if not same_json(value, now[name])}
    if changes.get("adapter", "") is None:  # the revision is from before letters named their adapter
        del changes["adapter"]
    if not changes:
        raise InvalidInput(f"letter {letter.key!r} is what revision {wanted} says already")
    if "task" in changes or "payload_types" in changes:  # they belong together
        changes |= {"task": then["task"], "payload_types": then["payload_types"]}
    return changes


def _editable(revision: Revision) -> dict[str, Any]:
    """Return the restorable fields of a revision, by their documented names."""
    content = {"payload_types": {}, **revision.content()}
    del content["next_retry_at"]
    return content
