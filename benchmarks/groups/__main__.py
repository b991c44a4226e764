"""Print pairwise precision and recall of the groups of labelled errors: `python -m benchmarks.groups [set …]`."""

from __future__ import annotations

import sys

from benchmarks.groups import SETS, labelled_errors, score

for name in sys.argv[1:] or SETS:
    errors = labelled_errors(name)
    found = score(errors)
    libraries, causes = {each.library for each in errors}, {(each.library, each.label) for each in errors}
    print(
        f"{name}: {len(errors)} errors of {len(libraries)} libraries, {len(causes)} causes: "
        f"precision {found.precision:.3f}, recall {found.recall:.3f}"
    )
