"""Fingerprints: the same for the same cause, in every process, and different for different causes."""

from __future__ import annotations

import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahavishnu.classify.fingerprint import _PATH, fingerprint, named_fingerprint, normalize, title
from tests.support.real_exceptions import catch, with_cause


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("order 17 failed", "order 4711 failed"),
        ("took 3.5s", "took 12.25s"),
        ("job 7f3a9b2c1d lost", "job 00ff12ab99 lost"),
        ("entry 0198c6f2-7a1e-7cc3-98c4-dc0c0c07398f", "entry 5a1f0b9e-0000-4000-8000-000000000000"),
        ("<Foo object at 0x7f2b1c>", "<Foo object at 0xdeadbeef00>"),
        ("cannot open /home/ann/proj/data.csv", "cannot open /srv/app/releases/17/data.csv"),
        ("cannot open C:\\Users\\ann\\x.csv", "cannot open D:\\data\\y.csv"),
        ("no user 'ann'", "no user 'bob marley'"),
        ('no user "ann"', 'no user "bob"'),
        ("mail ann@example.com bounced", "mail bob.b+c@mail.example.org bounced"),
        ("at 2024-01-02T03:04:05.678Z", "at 2030-12-31 23:59:59+01:00"),
        ("GET https://api.example.com/users/42?x=1 failed", "GET https://api.example.com/users/7 failed"),
        ("https://ann:pw@api.example.com:8443/x", "https://api.example.com/x"),
        ("connect to 10.0.0.7:5432", "connect to 192.168.1.1:5433"),
        ("connect to 2001:db8::1 failed", "connect to fe80::7 failed"),
        ("a\n\tb", "a b"),
    ],
)
def test_values_of_a_single_run_do_not_count(one: str, other: str) -> None:
    assert normalize(one) == normalize(other)
    assert fingerprint(one) == fingerprint(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("connection refused", "connection reset"),
        ("HTTP 404", "HTTP 500"),
        ("status code: 401", "status code: 503"),
        ("404 Not Found", "503 Service Unavailable"),
        ("[Errno 111] x", "[Errno 28] x"),
        ("exit code 1", "exit code 137"),
        ("https://api.example.com/users/1", "https://api.example.com/orders/1"),
        ("https://api.example.com/users/1", "https://api.example.org/users/1"),
        ("can't open it", "can't close it"),
        ("", "x"),
    ],
)
def test_the_kind_of_failure_counts(one: str, other: str) -> None:
    assert fingerprint(one) != fingerprint(other)


def test_a_fingerprint_has_a_version_and_a_bounded_length() -> None:
    assert fingerprint("x" * 10_000_000).startswith("v2:")
    assert len(fingerprint(ValueError("x" * 10_000_000))) == len(named_fingerprint("y" * 1000)) == 23


SCRIPT = """
    import sys
    sys.path.insert(0, {root!r})
    {padding}
    def sweep(number):
        try:
            open(f"/no/such/{{number}}/file")
        except OSError as problem:
            raise RuntimeError(f"sweep {{number}} failed in {{__file__}}") from problem

    from mahavishnu.classify.fingerprint import fingerprint
    try:
        sweep({number})
    except RuntimeError as error:
        print(fingerprint(error))
"""


def run(directory: Path, number: int, padding: str) -> str:
    directory.mkdir(parents=True)
    script = directory / "jobs.py"
    root = str(Path(__file__).parents[2])
    script.write_text(dedent(SCRIPT.format(root=root, number=number, padding=padding)))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    return done.stdout


def test_another_process_directory_and_line_give_the_same_fingerprint(tmp_path: Path) -> None:
    assert run(tmp_path / "a", 1, "") == run(tmp_path / "b" / "venv" / "17", 2, "pass\n    # a line more")


def one() -> None:
    raise ValueError("x")


def two() -> None:
    raise ValueError("x")


def through(action: Callable[[], object]) -> None:
    action()


def test_frames_of_the_users_code_count() -> None:
    assert fingerprint(catch(one)) == fingerprint(catch(one))
    assert fingerprint(catch(one)) != fingerprint(catch(two))
    assert fingerprint(catch(one)) != fingerprint(catch(lambda: through(one)))


def test_frames_of_libraries_do_not_count() -> None:
    def within_a_library() -> None:
        through(one)

    code = compile("def run(action): action()", "/venv/lib/python3.11/site-packages/acme/run.py", "exec")
    namespace: dict[str, Callable[[Callable[[], object]], None]] = {}
    exec(code, namespace)
    library = namespace["run"]
    assert fingerprint(catch(lambda: library(one))) == fingerprint(catch(lambda: one()))
    assert fingerprint(catch(lambda: within_a_library())) != fingerprint(catch(one))


def test_the_depth_of_a_recursion_does_not_count() -> None:
    def dive(depth: int) -> None:
        if depth:
            dive(depth - 1)
        raise ValueError("too deep")

    assert fingerprint(catch(lambda: dive(3))) == fingerprint(catch(lambda: dive(30)))


def test_the_type_and_the_causes_count() -> None:
    assert fingerprint(ValueError("x")) != fingerprint(TypeError("x"))
    assert fingerprint(RuntimeError("x")) != fingerprint(with_cause(RuntimeError("x"), ValueError("y")))
    assert fingerprint(with_cause(RuntimeError("x"), ValueError("y 1"))) == fingerprint(
        with_cause(RuntimeError("x"), ValueError("y 2"))
    )
    assert fingerprint(with_cause(RuntimeError("x"), ValueError("y"))) != fingerprint(
        with_cause(RuntimeError("x"), ValueError("z"))
    )


def test_a_cyclic_chain_of_causes_has_a_fingerprint() -> None:
    first, second = RuntimeError("a"), RuntimeError("b")
    first.__cause__, second.__cause__ = second, first
    assert fingerprint(first).startswith("v2:")


def test_the_order_and_number_of_equal_members_of_a_group_do_not_count() -> None:
    def group(*members: Exception) -> str:
        return fingerprint(ExceptionGroup("many", list(members)))

    assert group(ValueError("1"), TypeError("2")) == group(TypeError("4"), ValueError("3"))
    assert group(ValueError("1")) != group(TypeError("1"))


class Unspeakable(Exception):
    """Cannot be shown."""

    def __str__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    "action",
    [
        one,
        lambda: through(one),
        lambda: dict[str, int]()["missing"],
        lambda: int("x"),
        lambda: (_ for _ in ()).throw(with_cause(RuntimeError("outer"), catch(two))),
        lambda: (_ for _ in ()).throw(with_cause(RuntimeError("outer"), context=catch(two))),
        lambda: (_ for _ in ()).throw(BaseExceptionGroup("many", [catch(one), catch(two), ValueError("never raised")])),
        lambda: (_ for _ in ()).throw(TimeoutError()),
    ],
)
def test_a_printed_traceback_has_the_fingerprint_of_its_exception(action: Callable[[], object]) -> None:
    error = catch(action)
    printed = "".join(traceback.format_exception(error))
    assert fingerprint(printed) == fingerprint(error)


def test_an_error_whose_str_raises_has_a_fingerprint() -> None:
    assert fingerprint(Unspeakable()) == fingerprint(Unspeakable()) != fingerprint(ValueError())


def test_a_title_is_one_short_line() -> None:
    assert title(TimeoutError()) == "TimeoutError"
    assert title(ValueError("row 17 of '/tmp/x'")) == "ValueError: row <n> of <value>"
    assert title("requests.exceptions.ReadTimeout: after 30s") == "requests.exceptions.ReadTimeout: after <n>s"
    assert title("") == ""
    assert len(title("x" * 1000)) == 200


@given(st.text(alphabet="aZ9٣ .:~-_'C<>\n@%", max_size=60))
def test_there_is_no_path_without_a_slash(text: str) -> None:
    """The search for paths is left out for such messages."""
    assert _PATH.sub("<path>", text) == text
