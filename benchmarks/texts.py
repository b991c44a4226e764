"""How long a nasty error text holds the event loop: `python -m benchmarks.texts [part of a text's name …]`.

Each text of about 1 MB is the error of a workflow, once as the message of an exception and once as what its result
says; chains, groups and exceptions that are costly to print are raised as they are. From the run's end to the stored
letter, a task wants its turn of the loop every millisecond: the longest time that it has to wait is the *stretch*.
The processor time of all threads until then is *all*. Both are the least of some runs, because other programs on the
machine only ever add.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Any, NamedTuple

from benchmarks.figures import Figure, figure, keep
from mahavishnu.classify.builtin import data
from mahavishnu.core import MahavishnuApp
from mahavishnu.core.config import MahavishnuSettings

SIZE, RUNS, SHOWN = 1_000_000, 5, 8
DOUBTFUL = 10  # milliseconds: it may have been another program, so measure again
_numbers = count()

Failure = BaseException | str


class Cost(NamedTuple):
    """What one failure took, in milliseconds."""

    stretch: float
    all: float


HEAD = "Traceback (most recent call last):\n"
FRAME = '  File "/srv/app/jobs.py", line 7, in run\n'
UNITS = {
    "blanks": " ",
    "tabs": "\t",
    "new lines": "\n",
    "lines of one letter": "a\n",
    "digits": "1",
    "one letter": "a",
    "capitals": "A",
    "letters with dots": "a.",
    "letters with dashes": "a-",
    "letters with underscores": "a_",
    "capitals with underscores": "A_",
    "humps": "aB",
    "words of one letter": "a ",
    "numbers with dots": "1.",
    "numbers with colons": "0:",
    "hex": "0x1f",
    "hex digits": "f0",
    "nearly a UUID": "0123abcd-",
    "nearly a URL": "http:",
    "URLs": "http://a/",
    "one long URL": "/a?b=c&",
    "slashes": "/",
    "backslashes": "\\",
    "a Windows path": "C:\\a\\",
    "nearly mail": "a.b+",
    "mail": "a@b.c ",
    "brackets": "[{(",
    "closing brackets": ")}]",
    "quotes": "'",
    "quoted letters": "'a' ",
    "double quotes": '"a',
    "colons": "a: ",
    "commas": "a, ",
    "dashes": " \u2013 ",
    "accents": "\xe9",
    "Chinese": "\u4e2d",
    "half characters": "\ud800",
    "code: and a letter": "code: a",
    "status code": "status code ",
    "statuses that are negated": "no 500, ",
    "statuses": "500 ",
    "http": "http status ",
    "not ok": "not ok ",
    "no timeout": "no timeout, ",
    "a setting": "timeout=30 ",
    "advice": "try again ",
    "retry after": "retry after ",
    "to be": "server is being ",
    "arrows": "=> ",
    "nearly a traceback": HEAD + FRAME + "ValueErro",
    "beginnings of tracebacks": HEAD,
    "frames": FRAME,
    "margins of groups": "  | ",
    "tracebacks": HEAD + FRAME + "acme.Odd: code: aaaa!\n\n",
    "causes": HEAD + FRAME + "acme.Odd: x\n\nDuring handling of the above exception, another exception occurred:\n\n",
}
ENDS = ("", "!")
BEGINNINGS = ("", "code: ")


def texts() -> Iterator[tuple[str, str]]:
    words = sorted({word for phrase in data.phrases() for choice in phrase.needs for word in choice})
    for name, unit in (UNITS | {"every word of the phrases": " ".join(words) + " "}).items():
        body = (unit * (SIZE // len(unit) + 1))[:SIZE]
        for beginning in BEGINNINGS:
            for end in ENDS:
                yield f"{beginning}{name}{end}", beginning + body + end


class Costly(Exception):
    """Takes a while to be printed."""

    def __str__(self) -> str:
        return repr(list(range(20_000)))


def deep(make: Callable[[], BaseException], depth: int) -> BaseException:
    def dive(left: int) -> None:
        if left:
            dive(left - 1)
        raise make()

    try:
        dive(depth)
    except BaseException as error:
        return error
    raise AssertionError


def chain(links: int, text: str, depth: int = 0, *, implicit: bool = False) -> BaseException:
    error = deep(partial(RuntimeError, text), depth)
    for number in range(links):
        outer = deep(partial(RuntimeError, f"{number} {text}"), depth)
        if implicit:
            outer.__context__ = error
        else:
            outer.__cause__ = error
        error = outer
    return error


def exceptions() -> Iterator[tuple[str, BaseException]]:
    bad = "code: " + "a-" * 4000 + "!"
    yield "a chain of 1,000", chain(1000, "odd")
    yield "a chain of 100 with 8 KB each", chain(100, bad)
    yield "a chain of 60 with 16 KB each, implicit", chain(60, bad * 2, implicit=True)
    yield "a chain of 10 with 900 frames each", chain(10, "odd", 900)
    yield "a group of 20 with 8 KB each", ExceptionGroup("g", [RuntimeError(f"{each} {bad}") for each in range(20)])
    yield "a group of 100,000", ExceptionGroup("g", [RuntimeError(str(each)) for each in range(100_000)])
    nested: Exception = RuntimeError(bad)
    for _ in range(100):
        nested = ExceptionGroup("g", [nested, ValueError(bad)])
    yield "groups in groups", nested
    yield "8 MB in one text", RuntimeError(bad * 1000)
    noted = RuntimeError("odd")
    for _ in range(100):
        noted.add_note(bad)
    yield "notes", noted
    yield "a recursion", deep(partial(RecursionError, "maximum recursion depth exceeded"), 900)
    yield "a syntax error with a line of 1 MB", SyntaxError("bad", ("a.py", 1, 1, "x" * SIZE))
    yield "a name that does not exist", NameError("name 'x' is not defined", name="x" * SIZE)


def slow_to_print() -> Iterator[tuple[str, BaseException]]:
    """Of these, one `str()` is what nobody can do without."""
    yield "a list of numbers", ValueError(list(range(150_000)))
    yield "a nested list", ValueError([[[[str(each)]]] for each in range(50_000)])
    yield "costly to print", Costly()


def milliseconds_of(act: Callable[[], object]) -> float:
    before = time.thread_time()
    act()
    return 1000 * (time.thread_time() - before)


def failures() -> Iterator[tuple[str, Failure]]:
    for name, text in texts():
        yield f"{name}, raised", RuntimeError(text)
        yield f"{name}, in a result", text
    yield from exceptions()


class Pulse:
    """A task that wants its turn every millisecond, and notes the longest time that it had to wait for it."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._task = asyncio.get_running_loop().create_task(self._beat())

    async def _beat(self) -> None:
        while True:
            since = time.perf_counter()
            await asyncio.sleep(0.001)
            self.longest = max(self.longest, time.perf_counter() - since - 0.001)

    async def stop(self) -> float:
        await asyncio.sleep(0.002)  # the last wait ends
        self._task.cancel()
        return self.longest


class Bench:
    """An app whose workflow fails as it is told to."""

    def __init__(self) -> None:
        self.app = MahavishnuApp(MahavishnuSettings(dlq_store_url="memory:", dlq_max_size=100_000))
        self.failure: Failure = ""
        self.app.register_adapter("job", self._fail)

    async def _fail(self, task: Any, repos: list[str]) -> Any:
        if isinstance(self.failure, BaseException):
            raise self.failure
        return {"status": "failed", "error": self.failure}

    async def cost(self, failure: Failure) -> Cost:
        """What the failure costs, from the call of the workflow to the answer that it is kept, or why not."""
        self.failure = failure
        trace = failure.__traceback__ if isinstance(failure, BaseException) else None
        costs = [await self._measure()]
        while (len(costs) < RUNS and (costs[-1].stretch > 5 or costs[-1].all > 25)) or (
            len(costs) < 5 * RUNS and min(cost.stretch for cost in costs) > DOUBTFUL
        ):
            if isinstance(failure, BaseException):
                failure.__traceback__ = trace  # raising it again adds to it
            costs.append(await self._measure())
        return Cost(*map(min, zip(*costs, strict=True)))

    async def _measure(self) -> Cost:
        task = {"id": f"job-{next(_numbers)}"}
        pulse = Pulse()
        await asyncio.sleep(0.002)  # it beats
        before = time.process_time()
        result = await self.app.execute_workflow(task, "job", [])
        spent = time.process_time() - before
        stretch = await pulse.stop()
        assert result["error_category"] is not None, result
        return Cost(1000 * stretch, 1000 * spent)


def worst(name: str, costs: dict[str, float], target: str) -> Figure:
    """The figure of the text that costs most; it also tells of the next ones."""
    order = sorted(costs, key=costs.__getitem__, reverse=True)
    named = {each: round(costs[each], 1) for each in order[:SHOWN]}
    return figure(name, costs[order[0]], None, target=target, unit="ms", runs=RUNS, texts=len(costs), worst=named)


async def main(wanted: list[str]) -> None:
    """Measure the texts that are wanted, all by default; only a whole run is kept."""
    logging.disable(logging.CRITICAL)
    bench = Bench()
    async with bench.app:
        await bench.cost(RuntimeError("odd"))  # the tables of the classifier are read
        costs = {
            name: await bench.cost(failure)
            for name, failure in failures()
            if not wanted or any(part in name for part in wanted)
        }
        printed = {name: (await bench.cost(error)).stretch for name, error in slow_to_print()}
        alone = {name: min(milliseconds_of(error.__str__) for _ in range(RUNS)) for name, error in slow_to_print()}
    figures = [
        worst("event loop held at a stretch", {name: cost.stretch for name, cost in costs.items()}, "<= 20"),
        worst("processor time in all", {name: cost.all for name, cost in costs.items()}, "<= 100"),
    ]
    last = max(printed, key=printed.__getitem__)
    figures.append(
        figure(
            "event loop held at a stretch by what is slow to print, against one str() of it",
            printed[last], alone[last], target="reported", unit="ms", runs=RUNS,
            stretch={name: round(cost, 1) for name, cost in printed.items()},
            str={name: round(cost, 1) for name, cost in alone.items()},
        )
    )  # fmt: skip
    if not wanted:
        keep("Nasty texts", figures)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
