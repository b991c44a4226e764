"""How well fingerprints tell causes apart: `python -m benchmarks.groups [set …]`.

Six sets hold 1,919 errors of 118 libraries and services, each with the `label` of its cause. The libraries raised about
half of them; those that need a server have the words of its protocol. Every pair of errors of a set counts:
*precision* is the share of pairs in one group that have one cause, *recall* that of pairs with one cause in one group.

The rules were written for `tune`. Each further set has other libraries, and was committed before its first measure;
then its errors were read and the rules improved, so that only the first measure is of texts unseen:

| set | before v2 | first measure | now |
|---|---|---|---|
| tune | 0.562, 0.856 | | 1.000, 1.000 |
| test | 0.309, 0.896 | 0.938, 0.960 | 1.000, 0.984 |
| fresh | 0.547, 0.754 | 0.944, 0.962 | 1.000, 0.976 |
| sealed | 0.396, 0.856 | 0.925, 0.974 | 1.000, 0.980 |
| final | 0.556, 0.915 | 0.910, 0.988 | 1.000, 0.988 |
| last | 0.644, 0.723 | 0.838, 0.954 | 1.000, 1.000 |

The sets are harder than a day's failures: most causes have two errors and a near twin, so that one cause merged with
its twin costs four pairs. In three labels two causes stood as one; they were corrected.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from mahavishnu.classify.assess import rebuild_errors
from mahavishnu.classify.chain import Chain
from mahavishnu.classify.fingerprint import fingerprint_of
from mahavishnu.model.letter_parts import Failure

SETS = ("tune", "test", "fresh", "sealed", "final", "last")
_AT = datetime(2030, 1, 1, tzinfo=UTC)
_HOW = {
    "cause": "The above exception was the direct cause of the following exception:",
    "context": "During handling of the above exception, another exception occurred:",
}


@dataclass(frozen=True, slots=True)
class LabelledError:
    """An error of a library, and the label of its cause. `causes` are type, text and link of the errors behind it."""

    library: str
    label: str
    type: str
    text: str
    place: str
    causes: tuple[tuple[str, str, str], ...] = ()

    @property
    def failure(self) -> Failure:
        """The failure that is recorded of it, with the category by the built-in rules."""
        failure = Failure(_AT, self.text, self.type, traceback=self._traceback())
        for error in rebuild_errors(self.type, self.text, failure.traceback):
            return Failure(_AT, self.text, self.type, Chain().classify(error).category, failure.traceback)
        raise AssertionError

    def _traceback(self) -> str:
        file, _, function = self.place.partition(".")
        printed = ""
        for type_, text, link in reversed(((self.type, self.text, ""), *self.causes)):
            frame = f'  File "/srv/app/{file}.py", line 7, in {function}\n    run()\n'
            printed += f"Traceback (most recent call last):\n{frame}{type_}: {text}\n"
            printed += f"\n{_HOW[link]}\n\n" if link else ""
        return printed


class Score(NamedTuple):
    """Pairs of errors: in one group with one cause, in one group with several causes, in several groups with one."""

    together: int
    merged: int
    split: int

    @property
    def precision(self) -> float:
        return self.together / max(1, self.together + self.merged)

    @property
    def recall(self) -> float:
        return self.together / max(1, self.together + self.split)


def labelled_errors(name: str) -> Sequence[LabelledError]:
    """Return the errors of a set."""
    lines = Path(__file__).with_name(f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    for each in found:
        each["causes"] = tuple(tuple(cause) for cause in each.get("causes", ()))
        del each["split"]
    return [LabelledError(**each) for each in found]


def score(errors: Iterable[LabelledError]) -> Score:
    """Compare the groups that fingerprints make of these errors with the causes that people labelled."""
    pairs = [((each.library, each.label), fingerprint_of(each.failure)) for each in errors]
    both, causes, groups = (
        sum(count * (count - 1) // 2 for count in Counter(values).values())
        for values in (pairs, [cause for cause, _ in pairs], [group for _, group in pairs])
    )
    return Score(both, groups - both, causes - both)
