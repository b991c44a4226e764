"""The errors of many libraries fall into groups by their causes; no text is too odd or too costly for it."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.groups import SETS, LabelledError, labelled_errors, score
from mahavishnu.classify.fingerprint import fingerprint, fingerprint_of, normalize, title
from mahavishnu.model.letter_parts import ErrorCategory, Failure
from mahavishnu.testing.clock import START

FLOOR = 0.97
IDS = (
    "DE-1001",
    "FR-2002",
    "77",
    "ord_9f3bc2",
    "cus_NffrFeUfNV2Hib",
    "0198c6f2-7a1e-7cc3-98c4-dc0c0c07398f",
    "SKU12345",
)


@pytest.mark.parametrize("name", SETS)
def test_errors_of_libraries_are_grouped_by_cause(name: str) -> None:
    found = score(labelled_errors(name))
    assert found.precision >= FLOOR and found.recall >= FLOOR, found


def test_a_score_counts_pairs() -> None:
    def error(label: str, text: str) -> LabelledError:
        return LabelledError("shop", label, "shop.Odd", text, "jobs.run")

    errors = [error("a", "lost"), error("a", "lost"), error("b", "lost"), error("b", "late")]
    assert score(errors) == (1, 2, 1)


@pytest.mark.parametrize(
    "text",
    [
        "no stock for order {}",
        "order {} has no address",
        "Client error '404 Not Found' for url 'http://bank/charge/{}'",
        "customer={} was not found",
        "upload of {}.csv failed",
        'Key (id)=({}) already exists.',
        'Failing row contains ({}, ann, null).',
    ],
)  # fmt: skip
def test_ids_of_any_form_are_one_cause(text: str) -> None:
    assert len({fingerprint(ValueError(text.format(each))) for each in IDS}) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("pod web-7d9f8b6c5d-x2x9z was evicted", "pod web-5c4b7f9d88-qrbcf was evicted"),
        ("1 row was rejected", "17 rows were rejected"),
        ("1 entry of batch 3 is empty", "2 entries of batch 4 are empty"),
        ("no such column: vat\n[SQL: select vat from a where id = 1]", "no such column: vat\n[SQL: select 1, vat]"),
        ("boom (Background on this error at: https://sqlalche.me/e/20/e3q8)", "boom"),
        ("bad amount\nFor further information visit https://errors.pydantic.dev/2.5/v/int", "bad amount"),
        ("no field colour. Did you mean 'color'?", "no field colour."),
        ("2 validation errors\nitems.0.qty\nitems.7.qty", "1 validation error\nitems.3.qty"),
        ('column "vat" does not exist\nLINE 1: select vat\n               ^', 'column "vat" does not exist'),
    ],
)
def test_rows_advice_and_number_are_no_cause(one: str, other: str) -> None:
    assert fingerprint(one) == fingerprint(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Client error '404 Not Found' for url 'http://b/1'", "Client error '409 Conflict' for url 'http://b/1'"),
        ("the bank answered 429", "the bank answered 503"),
        ("(1062, 'Duplicate entry')", "(1205, 'Lock wait timeout')"),
        ("ORA-00942: no", "ORA-00904: no"),
        ('column "vat" does not exist', 'column "tax" does not exist'),
        ("'amount' is a required property", "'id' is a required property"),
        ("Duplicate entry 'a' for key 'users.email'", "Duplicate entry 'a' for key 'users.phone'"),
        ("command returned non-zero exit status 1.", "command returned non-zero exit status 137."),
        ('{"error": {"code": "card_declined"}}', '{"error": {"code": "expired_card"}}'),
        ("see 'customer_id'", "see 'order_total'"),
    ],
)
def test_codes_and_names_of_schemas_are_causes(one: str, other: str) -> None:
    assert fingerprint(ValueError(one)) != fingerprint(ValueError(other))


@pytest.mark.parametrize(
    ("type_", "one", "other"),
    [
        (AttributeError, "'Order' object has no attribute 'vat'", "'Order' object has no attribute 'tax'"),
        (KeyError, "amount", "currency"),
        (TypeError, "pay() got an unexpected keyword argument 'a'", "pay() got an unexpected keyword argument 'b'"),
        (ModuleNotFoundError, "No module named 'billing'", "No module named 'ledger'"),
    ],
)
def test_names_of_the_code_are_causes(type_: type[Exception], one: str, other: str) -> None:
    assert fingerprint(type_(one)) != fingerprint(type_(other))


def test_values_in_quotes_are_none() -> None:
    assert fingerprint(LookupError("unknown currency 'EURO'")) == fingerprint(LookupError("unknown currency 'YEN'"))
    assert fingerprint(KeyError("DE-1001")) == fingerprint(KeyError("ord_9f3a17"))


def test_the_category_counts() -> None:
    failure = Failure(START, "row 17 is broken", "ValueError", ErrorCategory.VALIDATION)
    assert fingerprint_of(failure) == fingerprint_of(replace(failure, message="row 4 is broken"))
    assert fingerprint_of(failure) != fingerprint_of(replace(failure, category=ErrorCategory.PERMANENT))


def test_a_title_keeps_what_tells_groups_apart() -> None:
    assert (
        title(ValueError("3 orders of DE-1001 lack column 'vat'")) == "ValueError: <n> orders of <n> lack column 'vat'"
    )


PIECES = st.sampled_from(
    ["'", '"', "`", "(", ")", "=", ":", " ", "\n", "^", "1", "404", "DE-1", "a_1", "é", "中", "\\", "{", "->", "code ",
     "see ", "https://a/", "contains (", "error ", "<n>", "A1aaa", "a1bc", "'vat'", "@", ".", ",000", "e+5"]
)  # fmt: skip


@given(st.lists(PIECES | st.text(max_size=5), max_size=60).map("".join), st.sampled_from([None, "TypeError", "a.B"]))
def test_any_text_can_be_normalized(text: str, type_name: str | None) -> None:
    assert isinstance(normalize(text, type_name), str)
    assert fingerprint(text) == fingerprint(text)


@pytest.mark.parametrize(
    "unit", ["a1aa", "A1aa", "'\"\\'", "0:", "see ", "contains (", "'a b ", "404 ", "a_b_1", "1,000", "x\n^\n"]
)
def test_no_text_takes_long(unit: str) -> None:
    text = (unit * 2000)[:2000] + "_"
    began = time.thread_time()
    normalize(text)
    assert time.thread_time() - began < 0.25
