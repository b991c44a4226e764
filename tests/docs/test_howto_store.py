"""The store that docs/howto-testing.md shows is a good one."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "howto-testing.md"


def shown(*names: str) -> dict[str, Any]:
    """The imports and classes of the page's code, without what is only done."""
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL))
    tree = ast.parse(code)
    tree.body = [part for part in tree.body if isinstance(part, ast.Import | ast.ImportFrom | ast.ClassDef)]
    page = sys.modules.setdefault("howto_testing", ModuleType("howto_testing"))  # dataclasses look their module up
    exec(compile(tree, str(PAGE), "exec", dont_inherit=True), vars(page))
    return {name: vars(page)[name] for name in names}


TestPackedStore = shown("TestPackedStore")["TestPackedStore"]
