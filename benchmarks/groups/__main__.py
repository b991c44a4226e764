"""Print pairwise precision and recall of the groups of labelled errors: `python -m benchmarks.groups [tune|test]`."""

from __future__ import annotations

import sys

from benchmarks.groups import SPLITS, labelled_errors, score

for split in sys.argv[1:] or SPLITS:
    errors = labelled_errors(split)
    found = score(errors)
    libraries, causes = {each.library for each in errors}, {(each.library, each.label) for each in errors}
    print(
        f"{split}: {len(errors)} errors of {len(libraries)} libraries, {len(causes)} causes: "
        f"precision {found.precision:.3f}, recall {found.recall:.3f}"
    )
