"""A text of an error quotes no value that its letter hides, however it is written, and is masked without a wait."""

from __future__ import annotations

import base64
import json
import time
from collections import namedtuple
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahavishnu.classify.exceptions import LONGEST_MESSAGE, cut
from mahavishnu.model.letter_parts import Failure
from mahavishnu.values.payload import holds_secret, mask_failure, mask_text, redact, texts_under
from tests.support.letters import NOON


@pytest.mark.parametrize(
    ("message", "secrets", "left"),
    [
        ("card 4111 1111 1111 1111 declined", ["4111 1111 1111 1111"], "card *** declined"),
        ("card 4111111111111111 declined", ["4111 1111 1111 1111"], "card *** declined"),
        ("pin 1234 of 123456", ["1234"], "pin *** of 123456"),
        ("it was no", ["no", "it"], "it was no"),
        ('{"name": "J\\u00f6rg \\"X\\""}', ['Jörg "X"'], '{"name": "***"}'),
        ("nothing secret", [], "nothing secret"),
        ("a.c abc", ["a.c "], "a.c abc"),
        ("longer-secret and longer", ["longer", "longer-secret"], "*** and ***"),
        ("abcdefghijkl", ["abcdefgh", "efghijkl"], "***"),  # they overlap, and nothing of the second one is left
        ("1 a b 22 abc", ["1", "a", "22", "abc"], "1 a b 22 abc"),
        ("(a+)+$ .* [x]", ["(a+)+$", "[x]", ".*.*"], "*** .* [x]"),
        ("GET /pay?to=J%C3%B6rg+%22X%22&n=J%C3%B6rg%20%22X%22", ['Jörg "X"'], "GET /pay?to=***&n=***"),
        ("GET /of/a%2Fb%20c/or/a/b%20c", ["a/b c"], "GET /of/***/or/***"),
        ('b\'{"name": "J\\xc3\\xb6rg X"}\'', ["Jörg X"], 'b\'{"name": "***"}\''),
        ('{"name": "Jörg \\"X\\""}', ['Jörg "X"'], '{"name": "***"}'),
        ("Straße Ärger ÄRGER", ["Ärger", "Straß"], "Straße *** ÄRGER"),
        ("\ud800 broken", ["\ud800 broken"], "***"),
    ],
)
def test_texts_are_masked_as_they_are_written(message: str, secrets: list[str], left: str) -> None:
    failure = mask_failure(Failure(NOON, message, traceback=f"Traceback\n{message}"), secrets)
    assert (failure.message, failure.traceback) == (left, f"Traceback\n{left}")


@given(st.text(min_size=4).filter(str.strip), st.text(), st.text())
def test_no_value_is_left_in_a_text(secret: str, before: str, after: str) -> None:
    shown = mask_failure(Failure(NOON, f"{before} {json.dumps(secret)} {secret} {after}"), [secret]).message
    assert secret.strip() not in shown.replace("***", "") or len(secret.strip()) < 8


def test_a_thousand_values_take_no_time_in_a_long_text_and_none_of_many_is_forgotten() -> None:
    text = " ".join(f"{number:09}x" for number in range(10_000))
    began = time.process_time()
    for secrets in ([f"{number:04}" for number in range(1000)], [f"4111 1111 {number:08}" for number in range(1000)]):
        assert mask_text(text, secrets) == text
    assert time.process_time() - began < 0.5  # one expression of all of them took two seconds
    many = [f"value-{number:06}" for number in range(20_000)]
    assert mask_text(f"no {many[-1]}", many) == "no ***"


@pytest.mark.parametrize("before", [0, 10_000, LONGEST_MESSAGE // 2 - 60])
def test_of_a_value_in_which_a_long_text_was_cut_nothing_is_left(before: int) -> None:
    """Whether all that was kept is of it, or only its beginning, or its end."""
    secret = "".join(f"patient {number:05}\n" for number in range(4000))
    text = cut(f"{'x' * before}{secret}{'y' * (LONGEST_MESSAGE // 2 - 60)}", LONGEST_MESSAGE)
    assert "patient" in text
    assert "patient" not in mask_text(text, [secret])
    text = cut(f"{'x' * before}{secret}", LONGEST_MESSAGE)
    assert "patient" not in mask_text(text, [secret])


def test_a_text_that_was_not_cut_keeps_what_is_like_a_part_of_a_value() -> None:
    assert mask_text("wrong password", ["password-123"]) == "wrong password"


PATTERNS = ["*password*", "*authorization*", "cookie"]
Login = namedtuple("Login", "user password")
SECRET_TEXTS = [
    '{"to": "ann", "deep": [{"password": "s3cr3t-1"}]}',
    '["password", "s3cr3t-1"]',
    json.dumps({"body": json.dumps({"password": "s3cr3t-1"})}),
    "to=ann&password=s3cr3t-1",
    "user=ann; cookie=s3cr3t-1",
    "host=db password=s3cr3t-1 user=ann",
    "https://x.example/cb?code=1&password=s3cr3t-1",
    "Accept: */*\nAuthorization: Bearer s3cr3t-1\n",
    "POST /pay HTTP/1.1\r\nHost: x.example\r\nAuthorization: Bearer s3cr3t-1\r\n\r\n",
    "DB_HOST=db\nDB_PASSWORD='s3cr3t-1'\n",
    '--x\r\nContent-Disposition: form-data; name="password"\r\n\r\ns3cr3t-1\r\n--x--',
]


@pytest.mark.parametrize("text", SECRET_TEXTS)
def test_a_text_that_has_a_secret_under_its_name_is_masked_as_a_whole(text: str) -> None:
    """As text, as bytes, and as bytes are written; and an error that quotes the secret alone is masked."""
    data = text.encode()
    for each in (text, data, bytearray(data), base64.b64encode(data).decode()):
        assert redact({"x": [each]}, PATTERNS) == {"x": ["***"]}
        found = texts_under(
            [each], lambda name: "password" in name.lower() or name.lower() in ("authorization", "cookie")
        )
        assert "s3cr3t-1" not in mask_text("no user with s3cr3t-1", found)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "password",
            "the password is wrong",
            "a=b",
            "to=ann&note=password",
            '{"to": "password"}',
            "[]",
            "{broken",
        ),
        *(
            "Note: see the wiki\nfor the password",
            "cGFzc3dvcmQ=",
            "https://x.example/password?x=1",
            "12:30",
            "key: value",
        ),
    ],
)
def test_a_text_without_a_value_under_a_secret_name_stays(text: str) -> None:
    assert redact({"x": [text], "y": text.encode()}, PATTERNS) == {"x": [text], "y": text.encode()}


@pytest.mark.parametrize(
    ("value", "left"),
    [
        ([("Accept", "*/*"), ("Authorization", "Bearer x")], [["Accept", "*/*"], ["Authorization", "***"]]),
        ([[b"cookie", b"x"]], [[b"cookie", "***"]]),
        ([["Y29va2ll", "eA=="]], [["Y29va2ll", "***"]]),
        ({b"authorization": b"x"}, {b"authorization": "***"}),
        ({"Y29va2ll": "eA=="}, {"Y29va2ll": "***"}),
        ([{"name": "DB_PASSWORD", "value": "x"}], [{"name": "DB_PASSWORD", "value": "***"}]),
        ([{"key": "cookie", "value": ["x"]}], [{"key": "cookie", "value": "***"}]),
        ({"login": Login("ann", "x")}, {"login": ["ann", "***"]}),
        ({"a": [[{"b": ({"password": {"c": 1}},)}]]}, {"a": [[{"b": [{"password": "***"}]}]]}),
        (["the password is", "wrong"], ["the password is", "wrong"]),
        (["password", {"rule": 1}], ["password", {"rule": 1}]),
        ({"name": "ann", "value": 1}, {"name": "ann", "value": 1}),
    ],
)
def test_pairs_and_names_at_any_depth_are_masked(value: Any, left: Any) -> None:
    assert redact(value, PATTERNS) == left


def test_no_text_takes_long_to_look_through() -> None:
    hides = "password".__eq__
    began = time.process_time()
    for part in ("\n", "form-data;", "form-data; name=x\n", "a=", "a=b&", "a: b\n", "=", "?", "a ", "{", "AAAA"):
        assert not holds_secret(part * (300_000 // len(part)), hides)
    assert time.process_time() - began < 5
