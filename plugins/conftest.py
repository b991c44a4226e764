"""The plugins are tested where they are, without being installed."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(source) for source in sorted(Path(__file__).parent.glob("*/src"))]
