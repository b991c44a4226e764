"""Arguments come back as they were given: by the function's own hints, and by nothing that was stored."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import InitVar, dataclass, field
from datetime import date, datetime
from decimal import Decimal
from enum import Enum, StrEnum
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, NewType, Optional, TypeVar, Union

import pytest
from pydantic import BaseModel, field_validator
from typing_extensions import TypedDict, Unpack

from mahavishnu.model.errors import CannotRestore
from mahavishnu.model.json_value import EMPTY
from mahavishnu.values.arguments import Signature, local_names, reachable_classes, resolve_hints
from mahavishnu.values.kinds import ValueKind, same_value
from mahavishnu.values.typed_edit import check_edit

T = TypeVar("T")


class Color(Enum):
    RED = "red"


class Size(StrEnum):
    LARGE = "large"


@dataclass
class Line:
    price: Decimal
    ratio: float = 0.0
    day: date | None = None


@dataclass
class Order:
    lines: list[Line]
    color: Color = Color.RED
    next: Optional[Order] = None  # noqa: UP045
    bought: list["Order"] = field(default_factory=list)  # noqa: UP037


class Box(BaseModel, Generic[T]):
    content: T


class Customer(BaseModel):
    name: str
    since: date

    @field_validator("name")
    @classmethod
    def shout(cls, name: str) -> str:
        return name if name == "ann" else f"{name}!"


class Point(NamedTuple):
    x: int
    order: Order | None = None


class Options(TypedDict, total=False):
    day: date
    note: str


Age = NewType("Age", Point)


def pay(order: Order, amount: Decimal, /, *days: date, note: str = "", **options: Point) -> None: ...


def duck(a: int, b: float, c: str, d: date, e: list[float], f: Line | None = None) -> None: ...


def unhinted(a, b=1, *, c=None):  # type: ignore[no-untyped-def]
    ...


def with_options(a: Path, **options: Unpack[Options]) -> None: ...


def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """What a retry is given is what was given."""
    signature = Signature.of(function)
    written = signature.write(signature.bind(args, kwargs))
    assert not written.lost
    again = signature.restore(written.payload.value, written.types.value)
    assert same_value(signature.bind(*again), signature.bind(args, kwargs))


ORDER = Order([Line(Decimal("1.10"), 3, date(2026, 1, 1)), Line(Decimal(2))], next=Order([]), bought=[Order([])])


class Service:
    def method(self, order: Order) -> None: ...

    @classmethod
    def of(cls, order: Order) -> None: ...

    def __call__(self, order: Order) -> None: ...


def test_a_call_is_made_again_with_equal_arguments_of_equal_types() -> None:
    call(pay, ORDER, Decimal("12.50"))
    call(pay, ORDER, Decimal("12.50"), date(2026, 1, 1), date(2026, 1, 2), note="x", a=Point(1), b=Point(2, ORDER))
    call(duck, 1, 1.5, "x", date(2026, 1, 1), [1.0])
    call(unhinted, Decimal(1), c={1: (2, {3})})
    call(unhinted, b=2, a=1)
    call(with_options, Path("/a"), day=date(2026, 1, 1), note="n")
    call(Service().method, ORDER)
    call(Service.of, ORDER)
    call(Service(), ORDER)
    call(functools.partial(pay, ORDER), Decimal(1))
    call(functools.wraps(duck)(lambda *args: None), 1, 1.0, "", date(2026, 1, 1), [])


def test_arguments_that_ignore_their_hints_come_back_as_they_were_given() -> None:
    call(duck, 1.5, 3, 7, "2026-01-01", ["1", 2])
    call(duck, "1", "2", None, 5, {}, Line("1", "2", "2026-01-01"))  # type: ignore[arg-type]
    call(pay, Order([Line(1, 2), Line(3, 4)]), "x")  # type: ignore[arg-type]


def test_plain_arguments_that_fit_have_no_types() -> None:
    signature = Signature.of(duck)
    written = signature.write({"a": 1, "b": 2, "c": "x", "e": [1, 2.5]})
    assert written.types is EMPTY
    assert written.payload.value == {"a": 1, "b": 2, "c": "x", "e": [1, 2.5]}


def test_defaults_are_not_stored_so_that_new_ones_count() -> None:
    assert Signature.of(pay).bind((ORDER, 1), {}) == {"order": ORDER, "amount": 1}


def test_json_of_others_is_made_what_the_hints_say() -> None:
    signature = Signature.of(pay)
    order = {"lines": [{"price": "1.10", "day": "2026-01-01"}], "color": "red"}
    payload = {"order": order, "amount": "12.50", "days": ["2026-01-01"], "options": {"a": [1]}}
    args, kwargs = signature.restore(payload, {})
    assert args == (Order([Line(Decimal("1.10"), 0.0, date(2026, 1, 1))]), Decimal("12.50"), date(2026, 1, 1))
    assert kwargs == {"a": Point(1)}


def test_an_edited_value_is_made_what_the_hints_say_inside_of_classes_too() -> None:
    signature = Signature.of(pay)
    written = signature.write({"order": Order([Line(Decimal(1))]), "amount": Decimal(1)})
    plain = written.payload.value
    plain["order"]["lines"][0]["day"] = "2026-01-02"
    plain["amount"] = "13.00"
    types = check_edit(written.payload.value, written.types.value, plain)
    assert signature.restore(plain, types)[0] == (Order([Line(Decimal(1), 0.0, date(2026, 1, 2))]), Decimal("13.00"))
    plain["order"]["lines"][0]["day"] = "soon"
    with pytest.raises(
        CannotRestore, match=r"order.lines\[0\].day is 'soon', which its hint does not allow: Input should be"
    ):
        signature.restore(plain, types)


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        ([], r"the payload is \[\], and no object with the arguments of pay"),
        ({"order": {"lines": []}}, "amount is missing: pay needs it"),
        ({"other": 1}, r"other is no parameter of pay\(order"),
        ({"order": {"lines": []}, "amount": "12,50"}, "amount is '12,50', which its hint does not allow: Input should"),
        ({"order": 7, "amount": 1}, "order is 7, which its hint does not allow"),
        ({"order": {"lines": []}, "amount": 1, "days": 3}, "days is 3"),
    ],
)
def test_what_cannot_be_called_names_the_argument(payload: Any, why: str) -> None:
    with pytest.raises(CannotRestore, match=why):
        Signature.of(pay).restore(payload, {})


def test_what_follows_a_missing_argument_is_given_by_name_or_not_at_all() -> None:
    def some(a=1, b=2, *rest):  # type: ignore[no-untyped-def]
        ...

    signature = Signature.of(some)
    assert signature.restore({"b": 3}, {}) == ((), {"b": 3})
    with pytest.raises(CannotRestore, match=r"a is missing: .* is given what follows it"):
        signature.restore({"rest": [3]}, {})


class Sub(Order):
    pass


@dataclass
class Seeded:
    seed: InitVar[int]
    value: int = field(init=False)

    def __post_init__(self, seed: int) -> None:
        self.value = seed


@dataclass
class Counted:
    name: str
    runs: int = field(init=False, default=0)


class Never:
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no")

    __hash__ = None  # type: ignore[assignment]


def keep(order: Order, seeded: Seeded, counted: Counted, customer: Customer, job: Any = None) -> None: ...


def changed(value: Any, **changes: Any) -> Any:
    for name, each in changes.items():
        object.__setattr__(value, name, each)
    return value


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"order": Sub([])}, rf"order is of the class {__name__}.Sub, which the hints of the function do not name"),
        ({"job": ORDER, "order": ORDER}, None),
        (
            {"seeded": Seeded(3)},
            r"seeded is \{\}, which is no Seeded: .* missing 1 required positional argument: 'seed'",
        ),
        ({"counted": changed(Counted("a"), runs=3)}, "counted of type Counted would come back as something else"),
        (
            {"customer": Customer(name="bob", since=date(2026, 1, 1))},
            "customer of type Customer would come back as some",
        ),
        ({"job": print}, "job is of type builtin_function_or_method, which cannot come back equal"),
        ({"job": [1, {"deep": Never()}]}, r"job\[1\].deep is of type Never"),
        ({"job": {(1, 2): 3}}, "job has a key of type tuple"),
    ],
)
def test_what_would_not_come_back_equal_is_lost_and_named(arguments: dict[str, Any], why: str | None) -> None:
    signature = Signature.of(keep)
    written = signature.write({**arguments, "order": arguments.get("order", ORDER)})
    if why is None:  # a class that some hint of the function names
        assert not written.lost
        return
    assert len(written.lost) == 1
    assert written.why_lost is not None
    assert re.search(why, written.why_lost), written.why_lost
    payload, types = written.payload.value, written.types.value
    with pytest.raises(CannotRestore, match="which cannot come back: give a value by an edit"):
        signature.restore(payload, types)


def test_a_lost_value_that_a_person_has_replaced_fits_the_hint() -> None:
    signature = Signature.of(keep)
    written = signature.write({"order": Sub([]), "seeded": 1, "counted": 2, "customer": 3})
    payload = written.payload.value
    payload["order"] = {"lines": [{"price": "2"}]}
    types = check_edit(written.payload.value, written.types.value, payload)
    assert signature.restore(payload, types)[0] == (Order([Line(Decimal(2))]), 1, 2, 3)


def test_further_kinds_of_plugins_come_back() -> None:
    kind = ValueKind(Never, lambda value: "n", lambda plain: Never(), name="never")
    money = ValueKind(range, lambda value: [value.start, value.stop], lambda plain: range(*plain), name="range")
    signature = Signature.of(keep, kinds=[kind, money])
    written = signature.write({"order": ORDER, "job": range(3)})
    assert not written.lost
    assert signature.restore({**written.payload.value, "seeded": 1, "counted": 1, "customer": 1}, {
        **written.types.value, "/seeded": "exact", "/counted": "exact", "/customer": "exact",
    })[0][-1] == range(3)  # fmt: skip
    assert signature.write({"job": Never()}).why_lost == "job cannot be compared: <RuntimeError>"


def test_the_classes_are_those_that_the_hints_reach() -> None:
    U = TypeVar("U", bound=Counted)

    def every(
        a: Sequence[dict[str, tuple[Line, ...]]],
        b: Union[Box[Order], None],  # noqa: UP007
        c: Literal[Color.RED, Size.LARGE],
        d: Age,
        e: Iterable[U],
        f: Missing,  # type: ignore[name-defined]  # noqa: F821
        g: type[Customer],
        h: Options,
    ) -> None: ...

    hints, unknown = resolve_hints(every, {"U": U})
    names = {each.rpartition(".")[2] for each in reachable_classes(hints)}
    assert names == {"Line", "Order", "Color", "Size", "Point", "Counted", "Customer", "Box[Order]"}
    assert list(unknown) == ["f"]
    assert "name 'Missing' is not defined" in unknown["f"]


def test_classes_local_to_a_function_are_known_where_they_can_be() -> None:
    @dataclass
    class Local:
        day: date

    def run(local: Local, other: "Local | None" = None) -> None:  # noqa: UP037
        Local(date(2026, 1, 1))

    call(run, Local(date(2026, 1, 1)))

    def elsewhere(local: Local) -> None: ...

    written = Signature.of(elsewhere).write({"local": Local(date(2026, 1, 1))})
    assert "its hint 'Local' cannot be resolved: name 'Local' is not defined" in (written.why_lost or "")
    named = Signature.of(elsewhere, names={"Local": Local})
    assert not named.write({"local": Local(date(2026, 1, 1))}).lost


def test_the_classes_beside_a_function_inside_of_a_function_are_known_while_that_is_made() -> None:
    @dataclass
    class Part:
        day: date

    @dataclass
    class Local:
        day: date
        other: Local | None = None
        parts: list[Part] = field(default_factory=list)

    Locals = list[Local]

    def run(locals: Locals) -> None: ...

    names = local_names(run)
    assert names == {"Part": Part, "Local": Local, "Locals": Locals}
    assert local_names(duck) == {}
    signature = Signature.of(run, names=names)
    written = signature.write({"locals": [Local(date(2026, 1, 1), Local(date(2026, 1, 2)), [Part(date(2026, 1, 3))])]})
    assert not written.lost
    assert signature.restore(written.payload.value, written.types.value)[0][0][0].parts == [Part(date(2026, 1, 3))]


def test_self_is_restored_where_its_class_is_said() -> None:
    signature = Signature.of(Order.__init__, hints={"self": Order})
    written = signature.write({"self": ORDER, "lines": []})
    assert signature.restore(written.payload.value, written.types.value)[0][0] == ORDER


class Job(BaseModel):
    at: datetime
    customers: dict[str, Customer] = {}


def sweep(task: Job, repos: list[str]) -> None: ...


def test_tasks_come_back_as_arguments_do() -> None:
    signature = Signature.of(sweep)
    job = Job(at=datetime.fromisoformat("2026-01-01T10:00:00+01:00"))
    written = signature.write_task(job)
    assert written.payload.value == {"at": "2026-01-01T10:00:00+01:00"}
    assert written.types.value == {"": f"model:{__name__}.Job", "/at": "datetime"}
    assert signature.restore_task(written.payload.value, written.types.value) == job
    assert signature.restore_task({"at": "2026-01-01T10:00:00+01:00"}, {}) == job
    assert signature.restore_task({"type": "old"}, {}) == {"type": "old"}  # what was enqueued for (task, repos) as ever
    assert (
        signature.write_task(print).why_lost
        == "task is of type builtin_function_or_method, which cannot come back equal"
    )
    assert signature.write_task({"at": "2026-01-01T10:00:00+01:00"}).types.value == {
        "": "exact"
    }  # given to the hint `Job`
    assert Signature.of(lambda task, repos: None).write_task({"type": "sweep"}).types is EMPTY
