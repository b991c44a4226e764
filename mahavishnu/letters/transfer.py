"""Exports and imports letters: each is one JSON document, and importing one twice changes nothing."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from mahavishnu.engine.audit import log_at_home
from mahavishnu.engine.context import DEFAULT_ACTOR, QueueContext
from mahavishnu.engine.moves import isolate_letter
from mahavishnu.engine.recorder import CaptureKind
from mahavishnu.letters import reads
from mahavishnu.model import lifecycle
from mahavishnu.model.clock import SystemClock, add_time, instant_text
from mahavishnu.model.errors import (
    AlreadyResolved,
    CorruptRecord,
    IllegalMove,
    ImportStopped,
    InvalidInput,
    InvalidPayload,
    LetterBusy,
    MahavishnuError,
    PermissionDenied,
    StoreMisconfigured,
    StoreUnavailable,
)
from mahavishnu.model.events import EventName
from mahavishnu.model.ids import entry_id_in
from mahavishnu.model.json_value import EMPTY, MAX_DEPTH, Json, is_plain_json, json_text, nesting_depth
from mahavishnu.model.letter import DeadLetter, evolve
from mahavishnu.model.letter_parts import Tallies
from mahavishnu.model.query import Query, require_namespace
from mahavishnu.model.tombstones import count_alone
from mahavishnu.model.work import place_keys
from mahavishnu.stores.base import home_of, is_home_away, scan
from mahavishnu.stores.kinds import LETTERS
from mahavishnu.stores.letter_codec import text_decoder
from mahavishnu.values.encryption import CIPHERTEXT
from mahavishnu.values.typed_edit import require_types

Document: TypeAlias = Mapping[str, Any] | str  #: a letter as a JSON object, or as the text of one

_SIMPLE = (str, bool, type(None))
_LARGEST = 2**31 - 1
_MOST_REVISIONS = 100_000  # each is a record of its own, which goes when the letter is deleted
_ENTRY_ID = re.compile(r"[\w.-]{1,200}", re.ASCII)
_COUNTS = ("retry_count", "max_retries", "total_attempts", "recoveries", "dlq_retry_count", "generation", "occurrences")
_counts_of = attrgetter(*_COUNTS, *(f"tallies.{tally}" for tally in Tallies.__struct_fields__))
_DATES = [name for name in DeadLetter.__struct_fields__ if name.endswith("_at") and name != "due_at"]
_dates_of = attrgetter(*_DATES)
_BECAME = {CaptureKind.CREATED: "new", CaptureKind.MERGED: "joined", CaptureKind.REOPENED: "succeeded"}
_AT_ONCE = 4000  # letters of one write: a store commits, and an index is touched, once for all of them
_WITHOUT_REST = 500  # letters that are read at a stretch
_NAMED_LETTERS = 50  # that an audit entry names
_AHEAD = timedelta(days=1)  # by which the clock of the machine that exported may be ahead
_IMPORTED_BY = " (imported by "


@dataclass(slots=True)
class ImportResult:
    """The fate of each imported letter, by its entry id: how it was taken in, or why it was refused.

    A document without an entry id is named by its task id, or else by its place, counted from 0. Of several documents
    with one name, each but the first is refused as `<name> at <place>`.
    """

    taken: dict[str, str] = field(default_factory=dict)
    refused: dict[str, MahavishnuError] = field(default_factory=dict)


class _Parsed(NamedTuple):
    name: str  # the entry id that it had
    label: str  # what it is called if it is refused
    letter: DeadLetter


class Transfer:
    """Export of letters, and import of exported ones, into the shared store alone: never into a local one."""

    def __init__(self, context: QueueContext) -> None:
        self._context, self._letters, self._clock = context, context.letters, context.clock
        self._home, self._recorder = home_of(context.store).collection(LETTERS), context.waiting.recorder

    async def export(self, query: Query | None = None, **filters: Any) -> AsyncGenerator[str, None]:
        """Yield letters as lines of JSON, by default the open ones; `import_letter` reads them back.

        Raise InvalidInput, and StoreError rather than leave some out.

        >>> import asyncio
        >>> from mahavishnu.core.dead_letter_queue import DeadLetterQueue
        >>> async def main():
        ...     async with DeadLetterQueue() as here, DeadLetterQueue() as there:
        ...         await here.enqueue("wf_1", {}, [], "connection reset")
        ...         lines = [line async for line in here.transfer.export()]
        ...         return [await there.transfer.import_letter(line) for line in lines]
        >>> asyncio.run(main())
        ['new']
        """
        await self._context.open()
        await self._context.require("export")
        await self._context.note_read("export", "queue")
        whole = replace(self._letters, with_items=True)  # what is taken elsewhere must not leave waiting work behind
        async for letter in scan(whole, reads.list_query(None, query, filters)):
            yield letter_as_line(letter)

    async def import_letter(
        self, document: Document, *, by: str = DEFAULT_ACTOR, even_deleted: bool = False, namespace: str | None = None
    ) -> str:
        """Take in a line of `export`: `new`, `joined` the open letter of its task, `succeeded` a closed one, or `same`.

        A letter that was deleted here is refused unless `even_deleted`, which makes it the next generation of itself. A
        running letter comes back as it was before. It stays in its namespace; in another `namespace` it is a letter
        with an entry id of its own. If `by` is given, the names of people who resolved or requeued it are marked with
        that: a document may name anybody. Raise InvalidInput for an unsound letter or a future date, AlreadyResolved
        for a deleted letter, IllegalMove while the letter that it would change is running, DLQFullError without room,
        StoreError.
        """
        taken = await self.import_letters([document], by=by, even_deleted=even_deleted, namespace=namespace)
        for problem in taken.refused.values():
            raise problem
        return next(iter(taken.taken.values()))

    async def import_letters(
        self,
        documents: Sequence[Document],
        *,
        by: str = DEFAULT_ACTOR,
        notes: str | None = None,
        even_deleted: bool = False,
        namespace: str | None = None,
    ) -> ImportResult:
        """Import many letters, as `import_letter` does each; a refused one does not stop the others.

        Raise ImportStopped where the store does not answer, which says how many letters are in, and StoreError.
        Repeating it is harmless.
        """
        result = ImportResult()
        if namespace is not None:
            require_namespace(namespace)
        try:
            await self._context.open()
            self._require_home()
            await self._import_into(documents, by, notes, even_deleted, namespace, result)
        except StoreUnavailable as problem:
            taken = Counter(result.taken.values())
            raise ImportStopped(taken, len(documents), maybe_written=problem.maybe_written) from problem
        return result

    async def _import_into(
        self,
        documents: Sequence[Document],
        by: str,
        notes: str | None,
        even_deleted: bool,
        namespace: str | None,
        result: ImportResult,
    ) -> None:
        audit = log_at_home(self._context.audit)
        async with audit.record("import", "queue", by=by, reason=notes, where=namespace) as record:
            names: set[str] = set()

            def label(name: str, place: int) -> str:
                if name in names:
                    return f"{name} at {place}"
                names.add(name)
                return name

            try:
                for start in range(0, len(documents), _AT_ONCE):
                    parsed: list[_Parsed] = []
                    latest = add_time(self._clock.now(), _AHEAD)
                    for place, document in enumerate(documents[start : start + _AT_ONCE], start):
                        try:
                            name, letter = self._parse(document, by, namespace, latest)
                            await self._context.require(
                                "import", f"letter:{letter.key}", letter.namespace, makes=letter
                            )
                            parsed.append(_Parsed(name, label(name, place), letter))
                        except Exception:
                            name = name_of(document, place)
                            try:
                                with isolate_letter(name):
                                    raise
                            except MahavishnuError as problem:
                                result.refused[label(name, place)] = problem
                        if place % _WITHOUT_REST == 0:
                            await SystemClock().sleep(0)  # others in this process are served meanwhile
                    self._require_home()
                    await self._import_some(parsed, by, even_deleted, result)
            finally:
                record.add(
                    taken=len(result.taken), refused=len(result.refused), letters=list(result.taken)[:_NAMED_LETTERS]
                )

    def _require_home(self) -> None:
        """Raise StoreUnavailable if the shared store is known to be away: asking it would take a time-out."""
        if is_home_away(self._context.store):
            raise StoreUnavailable("the store is away")

    async def _import_some(self, parsed: Sequence[_Parsed], by: str, even_deleted: bool, result: ImportResult) -> None:
        """Take in some letters: the new ones by one write, then the others one after the other."""
        created = await self._create_new([each.letter for each in parsed])
        for (name, label, letter), stored in zip(parsed, created, strict=True):
            if stored:
                self._context.announce(EventName.CAPTURED, letter, by=by, imported=True)
                result.taken.setdefault(name, "new")
                continue
            try:
                with isolate_letter(name):
                    became = await self._import(letter, by, even_deleted)
                result.taken.setdefault(name, became)  # one that is sent twice was new the first time
            except (StoreUnavailable, StoreMisconfigured):
                raise
            except MahavishnuError as problem:
                result.refused[label] = problem

    async def _create_new(self, letters: Sequence[DeadLetter]) -> list[bool]:
        """Create those of these letters that can meet no other one, neither here nor among these. Says which."""
        places = [place_keys(letter) for letter in letters]
        often = Counter(key for keys in places for key in set(keys))
        alone = [place for place, keys in enumerate(places) if all(often[key] == 1 for key in keys)]
        asked = [key for place in alone for key in places[place]]
        there = dict(zip(asked, await self._home.get(asked), strict=True)) if asked else {}
        created = [False] * len(letters)
        kinds: dict[tuple[str, bool], list[int]] = defaultdict(list)
        for place in alone:
            if all(there[key] is None for key in places[place]):
                kinds[letters[place].namespace, letters[place].is_open].append(place)
        for (_, is_open), chosen in kinds.items():
            fresh = [letters[place] for place in chosen]
            # A closed one needs no room.
            stored = await (self._recorder.record_new if is_open else self._home.write)(fresh)
            for place, one in zip(chosen, stored, strict=True):
                created[place] = isinstance(one, DeadLetter)
        return created

    def _parse(self, document: Document, by: str, namespace: str | None, latest: datetime) -> tuple[str, DeadLetter]:
        """Return the letter, and the entry id that it had. Raise what keeps it from being taken in."""
        parsed = parse_letter(document)
        ours = count_alone(parsed)
        encryption = self._context.letter_factory.encryption
        if namespace not in (None, ours.namespace):
            ours = encryption.move_letter(_move_to(ours, str(namespace)), self._require_revealable(ours))
        ours = encryption.encrypt_foreign(ours)
        self._context.letter_factory.check_size(ours)
        require_past(ours, latest)
        ours = without_lease(ours)
        return parsed.entry_id, _mark_names(ours if ours is parsed else require_sound(ours), by)

    def _require_revealable(self, letter: DeadLetter) -> DeadLetter:
        """Return a letter for another namespace. Raise PermissionDenied if the importer may not reveal its values."""
        who, text = self._context.principal, letter.payload.text + letter.labels.text
        why = who.why_not("reveal", letter.namespace) if who is not None and CIPHERTEXT in text else None
        if why is not None:
            raise PermissionDenied("revealing what it has encrypted", why)
        return letter

    async def _import(self, ours: DeadLetter, by: str, even_deleted: bool) -> str:
        try:
            taken = await self._recorder.take_in(ours, even_deleted=even_deleted)
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
    """Return the letter in another namespace, under new ids that are the same at each import."""
    return evolve(
        letter,
        namespace=namespace,
        entry_id=entry_id_in(letter.entry_id, namespace),
        absorbed=tuple(entry_id_in(each, namespace) for each in letter.absorbed),
        previous_entry_id=letter.previous_entry_id and entry_id_in(letter.previous_entry_id, namespace),
    )


def _mark_names(letter: DeadLetter, by: str) -> DeadLetter:
    """Return the letter with the names of people marked by the importer, if that is given."""

    def mark(name: str) -> str:
        name = name.partition(_IMPORTED_BY)[0]
        return name if name == by else f"{name}{_IMPORTED_BY}{by})"

    if by == DEFAULT_ACTOR:
        return letter
    changes: dict[str, Any] = {}
    if letter.resolution.by is not None:
        changes["resolution"] = replace(letter.resolution, by=mark(letter.resolution.by))
    if letter.requeue is not None:
        changes["requeue"] = replace(letter.requeue, by=mark(letter.requeue.by))
    return evolve(letter, **changes) if changes else letter


# --- letters as lines of JSON, and back


def letter_as_line(letter: DeadLetter) -> str:
    """Return a letter as one line of JSON; a running one as it was before: a reader gets no right to settle it."""
    return LETTERS.document(without_lease(letter))


def without_lease(letter: DeadLetter) -> DeadLetter:
    """Return the letter as it was before it was run; any other one, and an unsound one, as it is."""
    if letter.lease is None or lifecycle.violations(letter):
        return letter
    released = lifecycle.release(letter, token=letter.lease.token, now=letter.updated_at)
    return evolve(released, updated_at=letter.updated_at)  # a later state than that of the store would survive deletion


def documents_in(body: bytes) -> list[Document]:
    """Return the items of a JSON array, as texts for `parse_letter` to decode. Raise InvalidInput for anything else."""
    try:
        return [bytes(each).decode() for each in _items_of(body)]
    except (ValueError, RecursionError):  # such as an escaped lone surrogate, which json takes
        pass
    try:
        items = json.loads(body)
    except (ValueError, RecursionError) as problem:
        raise InvalidInput(f"the body is not JSON: {problem}") from None
    if not isinstance(items, list):
        raise InvalidInput("the body must be an array of letters, as export gives them")
    return [json.dumps(each) if isinstance(each, str) else each for each in items]


_items_of = msgspec.json.Decoder(list[msgspec.Raw]).decode


def name_of(document: Any, place: int) -> str:
    """Return the name of an unsound document: its entry id, its task id, or its place among the others."""
    if isinstance(document, str):
        try:
            document = json.loads(document)
        except (ValueError, RecursionError):
            return str(place)
    found = document.get("entry_id") or document.get("task_id") if isinstance(document, Mapping) else None
    return str(found or place)


def parse_letter(document: Document) -> DeadLetter:
    """Return the letter of a document, or of its text. Raise InvalidInput for what is none, or is not sound."""
    text = document if isinstance(document, str) else _encode(document)
    letter = None if text is None else _read_text(text)
    if letter is None:
        letter = _read_with_care(document)
    require_sound(letter)
    if letter.payload_types.text != EMPTY.text:
        require_types(letter.payload_types.value)
    return letter


def _encode(document: Any) -> str | None:
    """Return a document that is plain JSON as text; None for any other."""
    if type(document) is not dict or not is_plain_json(document):
        return None
    try:
        return json_text(document)
    except (TypeError, ValueError, RecursionError):  # a number that JSON does not have, or it is too deep
        return None


def _read_text(text: str) -> DeadLetter | None:
    """Return the letter of a text, decoded once, with users' values written anew; None if it is unusual."""
    if nesting_depth(text) > MAX_DEPTH or (letter := _decode_foreign(text, None)) is None:
        return None
    try:
        _ = letter.payload.digest  # while its value is at hand
        is_usable = bool(_ENTRY_ID.fullmatch(letter.entry_id) and letter.key and letter.payload.text)
        _ = letter.labels.text  # it cannot be encoded if it has a number that JSON does not have
    except (ValueError, RecursionError, InvalidInput):
        return None
    return letter if is_usable and _are_usual(letter) else None


_decode_foreign = text_decoder(DeadLetter, lambda data: Json.from_parsed(json.loads(data)))


def _are_usual(letter: DeadLetter) -> bool:
    """Return whether no number of the letter is beyond what `_require_range` allows."""
    counts = _counts_of(letter)
    if sent := letter.requeue:
        counts += (sent.boost, sent.automatic)
    in_range = min(counts) >= 0 and max(counts) <= _LARGEST and abs(letter.priority) <= _LARGEST
    return in_range and 0 <= letter.revision <= _MOST_REVISIONS


def _read_with_care(given: Document) -> DeadLetter:
    """Return the letter of a document. Raise InvalidInput that names what is wrong with it."""
    document = _parse(given) if isinstance(given, str) else given
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
    require_sound(letter)
    require_types(letter.payload_types.value)
    _require_range(document, key)
    return letter


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise InvalidPayload("letter", f"is nested deeper than {MAX_DEPTH}") from None
    except ValueError as problem:
        raise InvalidInput(f"this is not JSON: {problem}") from None


def _require_range(document: Mapping[str, Any], key: str) -> None:
    requeue = document.get("requeue") or {}
    for name, value in (*document.items(), *((f"requeue.{name}", each) for name, each in requeue.items())):
        lowest = -_LARGEST if name == "priority" else 0
        most = _MOST_REVISIONS if name == "revision" else _LARGEST  # statistics add them up
        if type(value) is int and name != "task" and not lowest <= value <= most:
            raise InvalidInput(f"{name} of letter {key!r:.80} cannot be {value!s:.80}: it goes from {lowest} to {most}")


def require_past(letter: DeadLetter, latest: datetime) -> None:
    """Raise InvalidInput for a date after the `latest` one, except its retry: later moves would come before it."""
    sent = letter.requeue and letter.requeue.at
    others = (letter.resolution.at, sent, *(failure.at for failure in letter.failures))
    if all(moment is None or moment <= latest for moment in (*_dates_of(letter), *others)):
        return
    names = (*_DATES, "resolution_timestamp", "requeue.at", *(f"failures[{n}].at" for n in range(len(letter.failures))))
    for name, moment in zip(names, (*_dates_of(letter), *others), strict=True):
        if moment is not None and moment > latest:
            raise InvalidInput(
                f"{name} of letter {letter.key!r:.80} is {instant_text(moment)}, which has not come yet: correct it, "
                "or the clock of this machine"
            )


def require_sound(letter: DeadLetter) -> DeadLetter:
    """Return the letter. Raise InvalidInput if it breaks an invariant, or is the tombstone of a deleted one."""
    if broken := lifecycle.violations(letter):
        raise InvalidInput(f"letter {letter.key!r} is not sound: {'; '.join(broken)}")
    if letter.is_deleted:
        raise InvalidInput(f"letter {letter.key!r} is what is left of a deleted one: there is nothing to import")
    return letter
