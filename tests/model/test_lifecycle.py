"""The state machine, square by square.

What is expected here was written down from the requirements, not read off the code: a wrong table fails.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from mahavishnu.model.errors import AlreadyResolved, IllegalMove, LostLease, NotDue
from mahavishnu.model.json_value import EMPTY
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import DeadLetterStatus
from mahavishnu.model.lifecycle import (
    TABLE,
    Move,
    archive,
    cancel,
    claim,
    close_by_success,
    edit,
    exhaust,
    fail,
    give_up,
    merge,
    redrive,
    release,
    renew,
    requeue,
    resolve,
    restore,
    succeed,
    violations,
)
from mahavishnu.model.tombstones import delete, retire
from mahavishnu.model.work import Success
from mahavishnu.queues import items as queue_items
from mahavishnu.queues.items import withdraw
from tests.support.letters import BY, NOON, STANDINGS, TOKEN, captured, claimed, failure, noon

exhausted = STANDINGS["exhausted"]
DONE = Success(EMPTY, None, (), NOON)
MOVES: dict[str, Callable[[DeadLetter], DeadLetter]] = {
    "claim": lambda letter: claim(letter, owner="w", token="token-2", until=noon(5), now=NOON),
    "claim_by_hand": lambda letter: claim(letter, owner="w", token="token-2", until=noon(5), now=NOON, manual=True),
    "renew": lambda letter: renew(letter, token=TOKEN, until=noon(9), now=NOON),
    "release": lambda letter: release(letter, token=TOKEN, now=NOON),
    "succeed": lambda letter: succeed(letter, token=TOKEN, now=NOON),
    "fail": lambda letter: fail(letter, token=TOKEN, failure=failure(), now=NOON),
    "exhaust": lambda letter: exhaust(letter, token=TOKEN, failure=failure(), now=NOON),
    "redrive": lambda letter: redrive(letter, now=NOON),
    "edit": lambda letter: edit(letter, now=NOON, priority=7),
    "merge": lambda letter: merge(letter, failure(), NOON),
    "requeue": lambda letter: requeue(letter, **BY),
    "resolve": lambda letter: resolve(letter, **BY),
    "close_by_success": lambda letter: close_by_success(letter, DONE, now=NOON),
    "close_by_success_in_part": lambda letter: close_by_success(
        replace(letter, repos=("api", "web")), replace(DONE, repos=("api",)), now=NOON
    ),
    "cancel": lambda letter: cancel(letter, **BY),
    "give_up": lambda letter: give_up(letter, **BY),
    "archive": lambda letter: archive(letter, **BY),
    "restore": lambda letter: restore(letter, now=NOON),
    "delete": lambda letter: delete(letter, **BY),
    "retire": lambda letter: retire(letter, **BY, partition="2026_01"),
    "withdraw": lambda letter: withdraw(letter, now=NOON, reason="expired"),
    "move": lambda letter: queue_items.move(letter, now=NOON, by="rule", to="dead"),
}
ERRORS = {error.__name__: error for error in (IllegalMove, AlreadyResolved, NotDue, LostLease)}
# Who is refused, and why, or where the move leads. No run is ever stolen: what a person may do, he may not do to
# a letter in `running` or `crashed`, except delete it, and run the work elsewhere; and what is closed stays closed but
# for `redrive`, `archive`, `restore`, `delete` and `retire`.
SQUARES = """
              due       waiting   running     crashed     exhausted   given_up        completed       archived
claim         retrying  NotDue    IllegalMove retrying    NotDue      AlreadyResolved AlreadyResolved AlreadyResolved
claim_by_hand retrying  retrying  IllegalMove retrying    retrying    AlreadyResolved AlreadyResolved AlreadyResolved
renew         LostLease LostLease retrying    retrying    LostLease   LostLease       LostLease       LostLease
release       LostLease LostLease pending     pending     LostLease   LostLease       LostLease       LostLease
succeed       LostLease LostLease completed   completed   LostLease   LostLease       LostLease       LostLease
fail          LostLease LostLease pending     pending     LostLease   LostLease       LostLease       LostLease
exhaust       LostLease LostLease exhausted   exhausted   LostLease   LostLease       LostLease       LostLease
redrive       pending   pending   IllegalMove IllegalMove pending     pending         AlreadyResolved AlreadyResolved
edit          pending   pending   IllegalMove IllegalMove exhausted   AlreadyResolved AlreadyResolved AlreadyResolved
merge         pending   pending   retrying    retrying    exhausted   AlreadyResolved AlreadyResolved AlreadyResolved
requeue       pending   pending   IllegalMove IllegalMove pending     AlreadyResolved AlreadyResolved AlreadyResolved
resolve       completed completed IllegalMove IllegalMove completed   AlreadyResolved AlreadyResolved AlreadyResolved
close_by_success completed completed completed completed completed AlreadyResolved AlreadyResolved AlreadyResolved
close_by_success_in_part pending pending retrying retrying exhausted AlreadyResolved AlreadyResolved AlreadyResolved
cancel        archived  archived  IllegalMove IllegalMove archived    AlreadyResolved AlreadyResolved AlreadyResolved
give_up       exhausted exhausted IllegalMove IllegalMove exhausted   AlreadyResolved AlreadyResolved AlreadyResolved
archive       archived  archived  IllegalMove IllegalMove archived    archived        archived        AlreadyResolved
restore     IllegalMove IllegalMove IllegalMove IllegalMove IllegalMove AlreadyResolved AlreadyResolved pending
delete        archived  archived  archived    archived    archived    archived        archived        archived
retire      IllegalMove IllegalMove IllegalMove IllegalMove IllegalMove archived        archived        archived
withdraw   exhausted exhausted IllegalMove IllegalMove IllegalMove AlreadyResolved AlreadyResolved AlreadyResolved
move       IllegalMove IllegalMove IllegalMove IllegalMove archived AlreadyResolved AlreadyResolved AlreadyResolved
"""
_columns, *_rows = (line.split() for line in SQUARES.strip().splitlines())
EXPECTED = [(row[0], standing, outcome) for row in _rows for standing, outcome in zip(_columns, row[1:], strict=True)]


def name_of(row: str) -> str:
    """The move that a row is about."""
    return row.removesuffix("_by_hand").removesuffix("_in_part").replace("_", " ")


def test_the_squares_are_all_there() -> None:
    """Every move in every standing, and every status among the standings."""
    assert set(_columns) == set(STANDINGS)
    assert [row[0] for row in _rows] == list(MOVES)
    assert set(map(name_of, MOVES)) == set(Move)
    assert {letter.status for letter in STANDINGS.values()} == set(DeadLetterStatus)


@pytest.mark.parametrize(("move", "standing", "outcome"), EXPECTED, ids=lambda value: str(value))
def test_a_square(move: str, standing: str, outcome: str) -> None:
    """The move leads where it should, to a sound letter, or is refused by name; the letter given never changes."""
    letter = STANDINGS[standing]
    before = copy.deepcopy(letter)
    if outcome not in ERRORS:
        after = MOVES[move](letter)
        assert after.status == outcome
        assert violations(after) == []
        assert after.updated_at > letter.updated_at or move in ("delete", "retire")
    else:
        with pytest.raises(IllegalMove) as caught:
            MOVES[move](letter)
        refusal = caught.value
        assert type(refusal) is ERRORS[outcome]
        assert (refusal.key, refusal.move) == ("wf_1", name_of(move))
        said = re.findall(r"[a-z]+", str(refusal))
        assert set(re.findall(r"[a-z]+", refusal.move)) <= {*said}  # "give it up", not "give up it"
        assert letter.status in str(refusal) or "already being retried" in str(refusal)
        assert "'wf_1'" in str(refusal)
    assert letter == before


def test_the_table_says_what_the_moves_do() -> None:
    """No row of it promises what no move does, and no move does what it does not promise."""
    last = captured(retry_policy="immediate", max_retries=1)
    by_hand = [
        claimed(letter, manual=True, minutes=minutes) for letter in (exhausted, captured()) for minutes in (5, 0)
    ]
    thrice = [replace(claimed(letter), due_at=NOON, recoveries=2) for letter in (captured(), last)]
    too_often = [replace(letter, dlq_retry_count=3) for letter in (captured(), exhausted)]
    wanted = [replace(claimed(letter), more_repos=("web",)) for letter in (captured(), replace(last, max_retries=0))]
    more = [claimed(last), *by_hand, *thrice, *too_often, *wanted]
    seen: dict[DeadLetterStatus, dict[str, set[DeadLetterStatus]]] = {status: {} for status in DeadLetterStatus}
    for letter in [*STANDINGS.values(), *more]:
        for name, move in MOVES.items():
            try:
                after = move(letter)
            except IllegalMove:
                continue
            seen[letter.status].setdefault(name_of(name), set()).add(after.status)

    assert seen == {status: {move: set(goals) for move, goals in row.items()} for status, row in TABLE.items()}


def test_a_refusal_says_how_a_closed_case_ended() -> None:
    """So that nobody has to look it up."""
    with pytest.raises(AlreadyResolved, match=r"letter 'wf_1' is exhausted, given up as permanently failed"):
        cancel(STANDINGS["given_up"], **BY)


@pytest.mark.parametrize(("move", "standing"), [square[:2] for square in EXPECTED if square[2] not in ERRORS])
def test_updated_at_never_goes_back(move: str, standing: str) -> None:
    """R178: every move moves it, also on a machine whose clock is an hour behind."""
    ahead = replace(STANDINGS[standing], updated_at=noon(60))

    after = MOVES[move](ahead).updated_at

    assert after == ahead.updated_at if move in ("delete", "retire") else after > ahead.updated_at
