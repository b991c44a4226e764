"""Exports and imports letters: each is one JSON document, and importing one twice changes nothing."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import Any

from mahavishnu.core.queue import reads
from mahavishnu.engine.context import DEFAULT_ACTOR, QueueContext
from mahavishnu.engine.moves import isolate_letter
from mahavishnu.engine.recorder import CaptureKind
from mahavishnu.model import lifecycle
from mahavishnu.model.clock import add_time, instant_text
from mahavishnu.model.errors import (
    AlreadyResolved,
    CorruptRecord,
    IllegalMove,
    InvalidInput,
    LetterBusy,
    MahavishnuError,
    StoreMisconfigured,
    StoreUnavailable,
)
from mahavishnu.model.events import EventName
from mahavishnu.model.ids import entry_id_in
from mahavishnu.model.json_value import Json
from mahavishnu.model.letter import DeadLetter, evolve
from mahavishnu.model.namespaces import require_namespace
from mahavishnu.model.query import Query
from mahavishnu.model.tombstones import count_alone
from mahavishnu.model.typed_edit import require_types
from mahavishnu.model.work import places_of
from mahavishnu.stores.base import scan
from mahavishnu.stores.kinds import LETTERS

_BECAME = {CaptureKind.CREATED: "new", CaptureKind.MERGED: "joined", CaptureKind.REOPENED: "succeeded"}
_AT_ONCE = 500  # letters of one write
_NAMED_LETTERS = 50  # that an audit entry names
_SIMPLE = (str, bool, type(None))
_LARGEST = 2**31 - 1
_MOST_REVISIONS = 100_000  # each is a record of its own, which goes when the letter is deleted
_AHEAD = timedelta(days=1)  # by which the clock of the machine that exported may be ahead
_IMPORTED_BY = " (imported by "
_ENTRY_ID = re.compile(r"[\w.-]{1,200}", re.ASCII)


@dataclass(slots=True)
class ImportResult:
    """What became of each letter, by its entry id: how it was taken in, or why it was refused."""

    taken: dict[str, str] = field(default_factory=dict)
    refused: dict[str, MahavishnuError] = field(default_factory=dict)


class Transfer:
    """Exports letters, and imports what was exported."""

    def __init__(self, context: QueueContext) -> None:
        self._context, self._letters, self._clock = context, context.letters, context.clock

    async def export(self, query: Query | None = None, **filters: Any) -> AsyncGenerator[str, None]:
        """Letters as lines of JSON, open ones unless said otherwise; `import_letter` reads them back.

        Raises InvalidInput, and StoreError rather than leave some out.

        >>> import asyncio, json
        >>> from mahavishnu.core.dead_letter_queue import DeadLetterQueue
        >>> async def main():
        ...     async with DeadLetterQueue() as here, DeadLetterQueue() as there:
        ...         await here.enqueue("wf_1", {}, [], "connection reset")
        ...         lines = [line async for line in here.transfer.export()]
        ...         return [await there.transfer.import_letter(json.loads(line)) for line in lines]
        >>> asyncio.run(main())
        ['new']
        """
        await self._context.open()
        async for letter in scan(self._letters, reads.list_query(None, query, filters)):
            yield letter_as_line(letter)

    async def import_letter(
        self,
        document: Mapping[str, Any],
        *,
        by: str = DEFAULT_ACTOR,
        even_deleted: bool = False,
        namespace: str | None = None,
    ) -> str:
        """Take in what `export` gave: `new`, `joined` with the open letter of that task, `succeeded` a closed one,
        or `same` if it is here already.

        A letter that was deleted here is refused unless `even_deleted`, which makes it the next generation of itself. A
        letter that was being run comes back as it was before. It stays in its namespace; where another `namespace` is
        named, it is a letter of its own there, with an entry id of its own. If somebody imports it, the names of those
        who resolved or requeued it are marked with that: whoever writes the document may name anybody. Raises
        InvalidInput for what is no sound letter, or has a date that has not come yet, AlreadyResolved for a letter that
        was deleted, IllegalMove while the letter that it would change is being run, DLQFullError if there is no room,
        StoreError.
        """
        taken = await self.import_letters([document], by=by, even_deleted=even_deleted, namespace=namespace)
        for problem in taken.refused.values():
            raise problem
        return next(iter(taken.taken.values()))

    async def import_letters(
        self,
        documents: Sequence[Mapping[str, Any]],
        *,
        by: str = DEFAULT_ACTOR,
        notes: str | None = None,
        even_deleted: bool = False,
        namespace: str | None = None,
    ) -> ImportResult:
        """Take in many, as `import_letter` does each; one that is refused does not stop the others.

        Raises StoreError where the store cannot answer; those before it are taken in, and again is harmless.
        """
        result = ImportResult()
        if namespace is not None:
            require_namespace(namespace)
        async with self._context.audit.record("import", "queue", by=by, reason=notes, where=namespace) as record:
            try:
                for start in range(0, len(documents), _AT_ONCE):
                    parsed: list[tuple[str, DeadLetter]] = []
                    for place, document in enumerate(documents[start : start + _AT_ONCE], start):
                        name = _name(document, place)
                        try:
                            with isolate_letter(name):
                                parsed.append((name, self._parse(document, by, namespace)))
                        except MahavishnuError as problem:
                            result.refused[name] = problem
                    await self._import_some(parsed, by, even_deleted, result)
            finally:
                record.add(
                    taken=len(result.taken), refused=len(result.refused), letters=list(result.taken)[:_NAMED_LETTERS]
                )
        return result

    async def _import_some(
        self, parsed: Sequence[tuple[str, DeadLetter]], by: str, even_deleted: bool, result: ImportResult
    ) -> None:
        """Take in some letters: the new ones by one write, then the others one after the other."""
        created = await self._create_new([letter for _, letter in parsed])
        for (name, letter), stored in zip(parsed, created, strict=True):
            try:
                with isolate_letter(name):
                    if stored:
                        self._context.announce(EventName.CAPTURED, letter, by=by, imported=True)
                    became = "new" if stored else await self._import(letter, by, even_deleted)
                result.taken.setdefault(name, became)  # one that is sent twice was new the first time
            except (StoreUnavailable, StoreMisconfigured):
                raise
            except MahavishnuError as problem:
                result.refused[name] = problem

    async def _create_new(self, letters: Sequence[DeadLetter]) -> list[bool]:
        """Create those of these letters that can meet no other one, neither here nor among these. Says which."""
        places = [[each.key for each in places_of(letter)] for letter in letters]
        often = Counter(key for keys in places for key in set(keys))
        alone = [place for place, keys in enumerate(places) if all(often[key] == 1 for key in keys)]
        asked = [key for place in alone for key in places[place]]
        there = dict(zip(asked, await self._letters.records.get(asked), strict=True)) if asked else {}
        created = [False] * len(letters)
        kinds: dict[tuple[str, bool], list[int]] = defaultdict(list)
        for place in alone:
            if all(there[key] is None for key in places[place]):
                kinds[letters[place].namespace, letters[place].is_open].append(place)
        for (_, is_open), chosen in kinds.items():
            fresh = [letters[place] for place in chosen]
            # A closed one needs no room.
            stored = await (self._context.recorder.record_new if is_open else self._letters.records.write)(fresh)
            for place, one in zip(chosen, stored, strict=True):
                created[place] = isinstance(one, DeadLetter)
        return created

    def _parse(self, document: Mapping[str, Any], by: str, namespace: str | None) -> DeadLetter:
        ours = count_alone(parse_letter(document))
        if namespace not in (None, ours.namespace):
            ours = _move_to(ours, str(namespace))
        self._context.letter_factory.check_size(ours)
        _require_past(ours, self._clock.now())
        return _mark_names(_require_sound(_without_lease(ours)), by)

    async def _import(self, ours: DeadLetter, by: str, even_deleted: bool) -> str:
        try:
            taken = await self._context.recorder.take_in(ours, even_deleted=even_deleted)
        except LetterBusy:
            raise IllegalMove(
                ours.key, "take in another one for", "being run or deleted", "try again when that is over"
            ) from None
        if taken.stored is not None:
            self._context.announce(EventName.CAPTURED, ours, by=by, imported=True)
            return _BECAME[taken.kind]
        if taken.before is None or not taken.before.is_deleted:
            return "same"
        deleted = taken.before.resolution
        when = instant_text(deleted.at) if deleted.at else "before"
        raise AlreadyResolved(
            ours.key, "import", "deleted", f"at {when} by {deleted.by}: import it with even_deleted to bring it back"
        )


def _move_to(letter: DeadLetter, namespace: str) -> DeadLetter:
    """The letter in another namespace, with ids of its own: the one that it was made of may be in this store.

    The same letter has the same ids each time, so that importing it twice changes nothing.
    """
    return evolve(
        letter,
        namespace=namespace,
        entry_id=entry_id_in(letter.entry_id, namespace),
        absorbed=tuple(entry_id_in(each, namespace) for each in letter.absorbed),
        previous_entry_id=letter.previous_entry_id and entry_id_in(letter.previous_entry_id, namespace),
    )


def _name(document: Any, place: int) -> str:
    found = document.get("entry_id") or document.get("task_id") if isinstance(document, Mapping) else None
    return str(found or place)


def letter_as_line(letter: DeadLetter) -> str:
    """A letter as one line of JSON; one that is being run as it was before: who reads it gets no right to settle it."""
    return LETTERS.document(_without_lease(letter))


def _without_lease(letter: DeadLetter) -> DeadLetter:
    if letter.lease is None or lifecycle.violations(letter):  # an unsound letter is exported as it is
        return letter
    released = lifecycle.release(letter, token=letter.lease.token, now=letter.updated_at)
    return evolve(released, updated_at=letter.updated_at)  # a later state than that of the store would survive deletion


def parse_letter(document: Mapping[str, Any]) -> DeadLetter:
    """The letter of a document. Raises InvalidInput for what is none, or is not sound."""
    if not isinstance(document, Mapping):
        raise InvalidInput(f"a letter is a JSON object, not {document!r:.80}")
    for name, value in document.items():
        if type(value) not in _SIMPLE and not (type(value) is int and -_LARGEST <= value <= _LARGEST):
            Json.of(value, name)  # not too deep, and no number that JSON does not have
    try:
        letter = evolve(LETTERS.decode(document, ()), version=None)
        key = letter.key  # refuses names that no store could keep
        if not _ENTRY_ID.fullmatch(letter.entry_id):
            raise InvalidInput(f"letter {key!r:.80} has no entry_id that it can be found by: {letter.entry_id!r:.80}")
    except CorruptRecord as problem:
        raise InvalidInput(f"this is no exported letter: {problem.reason}") from None
    _require_sound(letter)
    require_types(letter.payload_types.value)
    requeue = document.get("requeue") or {}
    for name, value in (*document.items(), *((f"requeue.{name}", each) for name, each in requeue.items())):
        lowest = -_LARGEST if name == "priority" else 0
        most = _MOST_REVISIONS if name == "revision" else _LARGEST  # statistics add them up
        if type(value) is int and name != "task" and not lowest <= value <= most:
            raise InvalidInput(f"{name} of letter {key!r:.80} cannot be {value!s:.80}: it goes from {lowest} to {most}")
    return letter


def _require_past(letter: DeadLetter, now: datetime) -> None:
    """Raise InvalidInput for a date in the future: later moves would come before it. Only its retry may be due then."""
    dates = {name: getattr(letter, name) for name in _DATES}
    dates["resolution_timestamp"] = letter.resolution.at
    dates["requeue.at"] = letter.requeue and letter.requeue.at
    dates |= {f"failures[{place}].at": failure.at for place, failure in enumerate(letter.failures)}
    latest = add_time(now, _AHEAD)
    for name, moment in dates.items():
        if moment is not None and moment > latest:
            raise InvalidInput(
                f"{name} of letter {letter.key!r:.80} is {instant_text(moment)}, which has not come yet: correct it, "
                "or the clock of this machine"
            )


_DATES = [each.name for each in fields(DeadLetter) if each.name.endswith("_at") and each.name != "due_at"]


def _mark_names(letter: DeadLetter, by: str) -> DeadLetter:
    """The letter with the names of people in it marked by who imports it, unless that is nobody in particular."""

    def marked(name: str) -> str:
        name = name.partition(_IMPORTED_BY)[0]
        return name if name == by else f"{name}{_IMPORTED_BY}{by})"

    if by == DEFAULT_ACTOR:
        return letter
    if letter.resolution.by is not None:
        letter = evolve(letter, resolution=replace(letter.resolution, by=marked(letter.resolution.by)))
    if letter.requeue is not None:
        letter = evolve(letter, requeue=replace(letter.requeue, by=marked(letter.requeue.by)))
    return letter


def _require_sound(letter: DeadLetter) -> DeadLetter:
    if broken := lifecycle.violations(letter):
        raise InvalidInput(f"letter {letter.key!r} is not sound: {'; '.join(broken)}")
    if letter.is_deleted:
        raise InvalidInput(f"letter {letter.key!r} is what is left of a deleted one: there is nothing to import")
    return letter
