"""What the requests of browsers say beside what they ask for: the fields of a form, which site made them, and whether
they are for a page.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any
from urllib.parse import parse_qsl

from starlette.datastructures import Headers

from mahavishnu.api.routing import API

_MOST_FIELDS = 1000  # of one form
_FORM_TYPE = "application/x-www-form-urlencoded"
_HEALTH = ("/healthz", "/readyz", "/metrics")


def is_from_other_site(headers: Mapping[str, str]) -> bool:
    """Whether a browser says that a page of another site made it send the request.

    >>> is_from_other_site({"sec-fetch-site": "cross-site"}), is_from_other_site({"sec-fetch-site": "same-origin"})
    (True, False)
    >>> is_from_other_site({"origin": "https://evil.example", "host": "dlq.example"}), is_from_other_site({})
    (True, False)
    """
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        return site not in ("same-origin", "none")
    return origin is not None and origin.partition("://")[2] != headers.get("host")


def form_value(headers: Mapping[str, str], body: bytes, name: str) -> str:
    """A field of the form that a request sends; empty if it sends none, or not this one."""
    if not headers.get("content-type", "").startswith(_FORM_TYPE):
        return ""
    try:
        fields = dict(parse_qsl(body.decode(), max_num_fields=_MOST_FIELDS))
    except ValueError:
        return ""
    return fields.get(name, "")


def wants_page(scope: MutableMapping[str, Any]) -> bool:
    """Whether the request is for a page, and not for the API or a probe."""
    path: str = scope["path"].removeprefix(scope.get("root_path", ""))
    if path.startswith(f"{API}/") or path in (API, *_HEALTH):
        return False
    headers = Headers(scope=scope)
    return "text/html" in headers.get("accept", "") or headers.get("hx-request") == "true"
