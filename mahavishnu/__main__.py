"""`python -m mahavishnu`, which is the same as the script `mahavishnu`."""

from __future__ import annotations

import sys

from mahavishnu.core.program import main

if __name__ == "__main__":
    sys.exit(main())
