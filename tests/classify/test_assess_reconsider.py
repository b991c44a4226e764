"""A second look at stored letters."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mahavishnu.classify.assess import Assessor
from mahavishnu.classify.chain import Chain
from mahavishnu.classify.exceptions import failure_of
from mahavishnu.classify.plugins import Plugins
from mahavishnu.classify.verdict import Context, Verdict
from mahavishnu.model import lifecycle
from mahavishnu.model.letter import DeadLetter
from mahavishnu.model.letter_parts import ErrorCategory
from mahavishnu.model.letter_parts import RecordedVerdict as Said
from tests.support.real_exceptions import by_httpx, catch

NOW = datetime(2030, 1, 1, tzinfo=UTC)


class CardDeclined(Exception):
    """A user's own, that wants more than a message."""

    def __init__(self, card: str, amount: int) -> None:
        super().__init__(f"card {card} was declined for {amount}")
        self.amount = amount


def letter(error: BaseException | str, chain: Chain | None = None, **changes: Any) -> DeadLetter:
    """A letter as it is captured."""
    verdict = (chain or Chain()).classify(error)
    failure = failure_of(error, at=NOW, category=verdict.category)
    fresh = DeadLetter(
        task_id="wf_1",
        entry_id="e1",
        error=failure.message,
        last_error=failure.message,
        failures=(failure,),
        error_category=verdict.category,
        verdict=Said(verdict.reason, verdict.author),
        failed_at=NOW,
        created_at=NOW,
        updated_at=NOW,
    )
    return replace(lifecycle.new_letter(fresh), **changes)


def chain(answer: Any, of: str = "card") -> Chain:
    plugins = Plugins()
    plugins.register(lambda error: answer if of in str(error) else None, "cards")
    return Chain(plugins)


def test_a_new_plugin_changes_the_category() -> None:
    verdict = Assessor(chain(ErrorCategory.VALIDATION)).reconsider(letter(CardDeclined("x", 3)))
    assert verdict is not None and (verdict.category, verdict.author) == ("validation", "cards")


def test_a_plugin_that_looks_at_the_type_gets_an_exception_of_it() -> None:
    seen: list[object] = []

    def look(error: object, context: Context) -> str | None:
        seen.append((type(error), str(error), context.recalled))
        return "resource" if isinstance(error, CardDeclined) else None

    plugins = Plugins()
    plugins.register(look, "cards")
    declined = catch(lambda: (_ for _ in ()).throw(CardDeclined("x", 3)))
    verdict = Assessor(Chain(plugins)).reconsider(letter(declined))
    assert verdict is not None and verdict.category == "resource"
    assert seen == [(CardDeclined, "card x was declined for 3", True)]


def test_a_plugin_that_misses_an_attribute_is_not_at_fault() -> None:
    plugins = Plugins()
    plugins.register(lambda error: "resource" if error.amount > 2 else None, "cards")
    chain = Chain(plugins, max_faults=1)
    assert Assessor(chain).reconsider(letter(CardDeclined("x", 3))) is None
    assert [info.state for info in plugins.report()] == ["ok", "ok"]


@pytest.mark.parametrize(
    ("answer", "changes"),
    [
        (None, False),
        ("permanent", False),
        ("network", True),
        (Verdict(ErrorCategory.PERMANENT, policy="exponential"), False),
        (Verdict(ErrorCategory.PERMANENT, policy="linear"), True),
        (Verdict(ErrorCategory.PERMANENT, max_retries=3), False),
        (Verdict(ErrorCategory.PERMANENT, max_retries=9), True),
    ],
)
def test_only_what_changes_something_is_told(answer: Any, changes: bool) -> None:
    assert (Assessor(chain(answer)).reconsider(letter("card declined")) is not None) is changes


def test_the_built_in_rules_do_not_overrule_what_they_said_of_the_exception() -> None:
    assert Assessor(Chain()).reconsider(letter(by_httpx(503))) is None
    assert Assessor(Chain()).reconsider(letter(type("Odd", (ConnectionError,), {})("disk full"))) is None


def test_the_built_in_rules_may_have_learned_about_a_text() -> None:
    learned = Assessor(Chain()).reconsider(letter("connection refused", error_category="permanent"))
    assert learned is not None and learned.category == "network"


def test_a_stored_traceback_is_read() -> None:
    def fail() -> None:
        try:
            raise ConnectionResetError("card")
        except ConnectionResetError as problem:
            raise CardDeclined("x", 3) from problem

    stored = replace(letter(catch(fail)), verdict=Said("", "somebody else"), error_category="permanent")
    verdict = Assessor(Chain()).reconsider(stored)
    assert verdict is not None and verdict.category == "network"


def test_letters_that_are_being_retried_or_closed_are_left_alone() -> None:
    known = chain("network")
    waiting = letter("card declined")
    assert Assessor(known).reconsider(waiting) is not None
    taken = lifecycle.claim(waiting, owner="w", token="t", until=NOW + timedelta(1), now=NOW + timedelta(hours=1))
    assert Assessor(known).reconsider(taken) is None
    assert Assessor(known).reconsider(lifecycle.resolve(waiting, now=NOW, by="me")) is None


def test_a_letter_without_failures_is_read_by_its_text() -> None:
    assert Assessor(chain("network")).reconsider(letter("card declined", failures=())) is not None
    odd = replace(letter("card declined"), failures=(failure_of("x", at=NOW),))
    odd = replace(odd, failures=(replace(odd.failures[0], type="no.such.module.Error"),))
    assert Assessor(chain("network")).reconsider(odd) is not None
