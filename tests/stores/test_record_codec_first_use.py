"""Documents are read in several threads; the first ones of a process may be read at the same moment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import mahavishnu

PROGRAM = """
import threading, msgspec
from mahavishnu.stores.record_codec import converter_to

begun, goes_on = threading.Event(), threading.Event()

def slow_type():
    begun.set()
    goes_on.wait(0.5)
    return int

class Inner(msgspec.Struct):
    value: "slow_type()"

class Outer(msgspec.Struct):
    inner: Inner

read = converter_to(Outer)
other = threading.Thread(target=read, args=[{"inner": {"value": 1}}])
other.start()
begun.wait()
read({"inner": {"value": 2}})
goes_on.set()
other.join()
"""


def test_a_type_may_be_read_for_the_first_time_by_several_threads_at_once() -> None:
    """msgspec works a type out when it is first used, and crashes the process of who comes in the middle of that."""
    assert subprocess.run([sys.executable, "-c", PROGRAM], timeout=60, check=False).returncode == 0


def test_all_documents_are_read_so() -> None:
    folder = Path(mahavishnu.__file__).parent
    uses = {each.name for each in folder.rglob("*.py") if "msgspec.convert(" in each.read_text("utf-8")}
    assert uses == {"record_codec.py"}
