"""Entry ids and keys: ordered, unique, and no two letters under one key."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import RFC_4122, UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mahavishnu.model.errors import InvalidInput
from mahavishnu.model.ids import (
    MAX_KEY_BYTES,
    MAX_TASK_ID_BYTES,
    PARTITIONS,
    EntryIds,
    clock_mark,
    document_key,
    is_dated_by,
    new_entry_id,
    new_token,
    partition_of,
)
from tests.support.letters import NOON
from tests.support.strategies import moments, names, plain_names

TODAY = moments(2020, 2037)


# --------------------------------------------------------------------------------------------------------- entry ids


@given(now=TODAY)
def test_an_entry_id_is_a_uuid_of_version_7(now: datetime) -> None:
    """RFC 9562: 48 bits of Unix milliseconds, the version, random bits around the variant; canonical text."""
    text = EntryIds()(now)
    uuid = UUID(text)

    assert str(uuid) == text
    assert (uuid.version, uuid.variant) == (7, RFC_4122)
    assert uuid.int >> 80 == (now - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def test_an_entry_id_is_what_the_rfc_says_bit_by_bit() -> None:
    """The example of RFC 9562, appendix A.6."""
    random_bits = 0xCC3 << 62 | 0x18C4DC0C0C07398F
    ids = EntryIds(lambda bits: random_bits)

    assert ids(datetime(2022, 2, 22, 19, 22, 22, tzinfo=UTC)) == "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"


def test_an_entry_id_has_the_millisecond_of_its_instant() -> None:
    """Exactly, in any year."""
    now = datetime(2038, 6, 1, 0, 0, 0, 3000, tzinfo=UTC)
    wrong = [
        later
        for later in (now + timedelta(milliseconds=step) for step in range(2000))
        if UUID(EntryIds()(later)).int >> 80 != (later - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    ]

    assert wrong == []


@given(moments=st.lists(TODAY, min_size=2, max_size=30), seed=st.randoms())
def test_entry_ids_never_go_back(moments: list[datetime], seed: object) -> None:
    """In one process each is greater than the one before, wherever the clock jumps."""
    ids = EntryIds()
    made = [ids(moment) for moment in moments]

    assert made == sorted(set(made))


@pytest.mark.parametrize("bits", [lambda count: 0, lambda count: (1 << count) - 1], ids=["zeros", "ones"])
def test_entry_ids_count_on_whatever_the_dice_say(bits: object) -> None:
    """Also at the edge of a millisecond's random bits they stay well-formed and in order."""
    assert callable(bits)
    ids = EntryIds(bits)
    made = [ids(NOON) for _ in range(5)]

    assert made == sorted(set(made))
    assert all(UUID(text).version == 7 and UUID(text).variant == RFC_4122 for text in made)


@given(moments=st.lists(TODAY, min_size=2, max_size=30))
@example(moments=[NOON] * 30)
def test_marked_entry_ids_end_with_the_mark_and_never_go_back(moments: list[datetime]) -> None:
    ids = EntryIds(mark="00abcdef")
    made = [ids(moment) for moment in moments]

    assert made == sorted(set(made))
    assert all(is_dated_by(text, "00abcdef") and not is_dated_by(text, "00abcdee") for text in made)


def test_processes_of_one_machine_have_one_mark() -> None:
    code = "from mahavishnu.model.ids import new_entry_id; print(new_entry_id.mark)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.strip() == new_entry_id.mark == clock_mark()


def test_entry_ids_are_unique_across_threads() -> None:
    """And in order within each."""
    ids = EntryIds()

    def some(_: int) -> list[str]:
        return [ids(NOON) for _ in range(500)]

    with ThreadPoolExecutor(8) as pool:
        batches = list(pool.map(some, range(8)))

    assert len({text for batch in batches for text in batch}) == 4000
    assert all(batch == sorted(batch) for batch in batches)


def test_entry_ids_of_two_processes_differ() -> None:
    """74 random bits: nothing else keeps them apart."""
    assert EntryIds()(NOON) != EntryIds()(NOON)
    assert new_entry_id(NOON) != new_entry_id(NOON)


def test_a_token_cannot_be_guessed() -> None:
    """64 random bits as text."""
    tokens = {new_token() for _ in range(100)}

    assert len(tokens) == 100
    assert all(re.fullmatch("[0-9a-f]{16}", token) for token in tokens)


# --------------------------------------------------------------------------------------------------------------- keys


def test_the_key_of_an_ordinary_letter_is_its_task_id() -> None:
    """As the documentation shows it; namespace and queue come in front where they are not the defaults."""
    assert document_key("wf_1") == "wf_1"
    assert document_key("_wf/1 ü") == "_wf/1 ü"  # R165
    assert document_key("wf_1", namespace="eu") == "eu/default/wf_1"
    assert document_key("wf_1", queue="payments") == "default/payments/wf_1"
    assert document_key("a/b/c") == "default/default/a/b/c"


triples = st.tuples(st.text("ab/d", min_size=1, max_size=6), st.text("ab", min_size=1), st.text("ab", min_size=1))
defaults = st.tuples(st.text("/adefult", min_size=1, max_size=20), st.just("default"), st.just("default"))
anything = st.tuples(names, plain_names, plain_names)


@given(one=triples | defaults | anything, other=triples | defaults | anything)
@example(one=("default/default/a", "default", "default"), other=("a", "default", "default"))
@example(one=("eu/default/wf", "default", "default"), other=("wf", "eu", "default"))
@example(one=("a/b", "default", "default"), other=("b", "default", "a"))
@example(one=("sha256:" + "0" * 64, "default", "default"), other=("x" * 600, "default", "default"))
def test_two_letters_never_share_a_key(one: tuple[str, str, str], other: tuple[str, str, str]) -> None:
    """R403: the key says namespace, queue and task id, wherever the slashes are."""
    assert (document_key(*one) == document_key(*other)) == (one == other)


def test_a_long_key_is_hashed() -> None:
    """R165: at 512 bytes (not characters) it is itself, above it is a hash that nobody can forge as a task id."""
    longest = "ü" * (MAX_KEY_BYTES // 2)
    hashed = document_key(longest + "x")

    assert document_key(longest) == longest
    assert re.fullmatch("sha256:[0-9a-f]{64}", hashed)
    assert document_key(hashed) != hashed
    assert document_key(longest + "y") != hashed
    assert document_key("x" * 505, "eu", "q") == "eu/q/" + "x" * 505
    assert document_key("x" * 508, "eu", "q").startswith("sha256:")


@given(task_id=st.text(st.characters(codec="utf-8"), min_size=1, max_size=700))
def test_every_key_fits(task_id: str) -> None:
    """OpenSearch takes no longer document id."""
    assert len(document_key(task_id).encode()) <= MAX_KEY_BYTES


@pytest.mark.parametrize(
    ("triple", "complaint"),
    [
        (("", "default", "default"), "task_id must not be empty"),
        ((None, "default", "default"), "task_id must be text, not None"),
        ((b"wf_1", "default", "default"), "task_id must be text, not b'wf_1'"),
        (("wf_1", 5, "default"), "namespace must be text, not 5"),
        (("wf_1", "", "default"), "namespace '' of task 'wf_1' must not be empty nor contain '/'"),
        (("wf_1", "a/b", "default"), "namespace 'a/b' of task 'wf_1' must not be empty nor contain '/'"),
        (("wf_1", "default", ""), "queue '' of task 'wf_1' must not be empty"),
        (("wf_1", "default", "q/"), "queue 'q/' of task 'wf_1' must not be empty nor contain '/'"),
        (("\ud800", "default", "default"), "has a lone surrogate: it is not valid Unicode text"),
        (("x" * (MAX_TASK_ID_BYTES + 1), "default", "default"), "has 8192 bytes; at most 8191 are kept"),
    ],
)
def test_an_unusable_name_is_refused(triple: tuple[Any, Any, Any], complaint: str) -> None:
    """By a message that names it, in a readable length."""
    with pytest.raises(InvalidInput, match=complaint) as caught:
        document_key(*triple)

    assert len(str(caught.value)) < 250


def test_partitions_are_even_and_the_same_everywhere() -> None:
    """Workers on different machines agree, and share the keys about equally."""
    spread = Counter(partition_of(f"task-{number}") for number in range(PARTITIONS * 100))

    assert partition_of("wf_1") == 10  # pinned: stored in documents
    assert set(spread) == set(range(PARTITIONS))
    assert max(spread.values()) < 2 * 100
