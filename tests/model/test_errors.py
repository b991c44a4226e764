"""The errors are the ones drawn at the top of their module, and say what happened."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Iterator

import pytest

from mahavishnu.model import errors
from mahavishnu.model.errors import (
    AlreadyResolved,
    CorruptRecord,
    IllegalMove,
    IllegalRunMove,
    InvalidInput,
    InvalidPayload,
    ItemFailed,
    LostLease,
    MahavishnuError,
    StoreUnavailable,
)
from mahavishnu.model.lifecycle import Move

_LINE = re.compile(r"(?P<indent>[│├└─ ]*)(?P<name>[A-Z]\w+)( \((?P<also>\w+)\))?(\s{2,}.*)?")


def drawn() -> dict[str, list[str]]:
    """Each class in the drawing with its parents."""
    parents: dict[str, list[str]] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines()[2:]:
        found = _LINE.fullmatch(line)
        assert found, f"this line is not part of a drawing: {line!r}"
        path = path[: len(found["indent"]) // 4]
        parents[found["name"]] = [*path[-1:], *filter(None, [found["also"]])]
        path.append(found["name"])
    return parents


def below(error: type[MahavishnuError]) -> Iterator[type[MahavishnuError]]:
    """The class and all that inherit from it in the same module."""
    yield error
    for child in error.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from below(child)


def test_the_drawing_is_the_truth() -> None:
    """Every error of the module is in it, under the parents that it has."""
    actual = {error.__name__: [base.__name__ for base in error.__bases__] for error in below(MahavishnuError)}

    assert drawn() == {**actual, "MahavishnuError": []}


def test_every_error_says_what_it_is_for() -> None:
    """A docstring for each."""
    assert all(error.__doc__ for error in below(MahavishnuError))


def test_a_refused_value_is_a_value_error() -> None:
    """So that callers who know nothing of this package treat it right."""
    assert issubclass(InvalidPayload, ValueError)
    assert issubclass(InvalidInput, MahavishnuError)


def test_a_refused_move_names_letter_state_and_move() -> None:
    """In the message and as attributes; the reason comes last."""
    error = LostLease("wf_1", "renew", "pending", "nobody holds it now")

    assert str(error) == "letter 'wf_1' is pending: cannot renew it, nobody holds it now"
    assert str(IllegalMove("wf_1", "edit", "retrying")) == "letter 'wf_1' is retrying: cannot edit it"
    assert str(IllegalMove("wf_1", Move.GIVE_UP, "archived")) == "letter 'wf_1' is archived: cannot give it up"
    assert (error.key, error.move, error.state) == ("wf_1", "renew", "pending")


def test_a_failed_record_is_named() -> None:
    """Bulk answers are per record."""
    failed, corrupt, refused = (
        ItemFailed("a", "too big"),
        CorruptRecord("b", "no status"),
        InvalidPayload("t.x", "is 1"),
    )

    assert (str(failed), failed.key, failed.reason) == ("record 'a' was refused: too big", "a", "too big")
    assert (str(corrupt), corrupt.key, corrupt.reason) == ("record 'b' cannot be read: no status", "b", "no status")
    assert (str(refused), refused.path) == ("t.x is 1", "t.x")


def test_an_outage_says_whether_the_write_may_have_landed() -> None:
    """A caller that cannot know must not be told that it does."""
    assert not StoreUnavailable("refused").maybe_written
    assert StoreUnavailable("timed out", maybe_written=True).maybe_written


@pytest.mark.parametrize(
    "error",
    [
        IllegalMove("k", "edit", "retrying", "why"),
        AlreadyResolved("k", "edit", "completed"),
        IllegalRunMove("r", "resume", "halted", "why"),
        InvalidPayload("task.x", "is NaN"),
        ItemFailed("k", "why"),
        CorruptRecord("k", "why"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_survives_a_process_pool(error: MahavishnuError) -> None:
    """Copied or pickled it is the same error with the same attributes."""
    for twin in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (type(twin), str(twin), vars(twin)) == (type(error), str(error), vars(error))
