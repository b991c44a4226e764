"""Evidence in codes and names, also in texts: HTTP, errno, SQLSTATE, gRPC and mail statuses, names of errors."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from mahavishnu.classify.builtin import data
from mahavishnu.classify.builtin.clauses import any_of, around, clauses, is_negated, normalize
from mahavishnu.model.letter_parts import ErrorCategory


class Finding(NamedTuple):
    """A category, and the words for why."""

    category: ErrorCategory
    reason: str


_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[_\-.\s/]+")
_LONGEST_NAME = 200  # characters
_WORDS_FOR_ERROR = frozenset({"error", "exception", "errors", "exc", "err", "fault", "failure", "warning", "e"})

_REASONS = any_of("""
    bad request|unauthori[sz]ed|payment required|forbidden|method not allowed|not acceptable|
    proxy authentication required|request time ?out|conflict|gone|length required|precondition failed|
    (?:request entity|payload|content|uri|request uri|request header fields) too (?:large|long)|
    unsupported media type|range not satisfiable|expectation failed|unprocessable(?: entity| content)?|locked|
    failed dependency|too early|upgrade required|too many requests|unavailable for legal reasons|
    internal server error|internal error|not implemented|bad gateway|service (?:temporarily )?unavailable|
    gateway time ?out|insufficient storage|loop detected|bandwidth limit exceeded|web server is down|
    connection timed out|origin is unreachable|server error|client error|backend|varnish|slow down|
    a timeout occurred|web server is returning an unknown error|origin error|overloaded|
    network authentication required|site is overloaded|misdirected request|precondition required|
    web server returned an unknown error|http version not supported|loop detected|not extended|invalid ssl certificate|
    ssl handshake failed|web server|origin|api error""")
# "404 items processed" is a number of items.
_COUNTED = any_of(r"""
    items?|rows?|records?|files?|results?|users?|requests?|times?|ms|s|sec|seconds?|bytes?|[kmgt]i?b|entries|entry|
    lines?|tests?|pages?|jobs?|tasks?|events?|messages?|points?|euros?|dollars?|people|days?|hours?|minutes?|units?|
    objects?|documents?|products?|orders?|customers?|emails?|more|total|errors?|warnings?|columns?|tokens|
    characters|chars|words|images|copies|nodes|pixels|px|meters|km|miles|
    (?:\w+ )?(?:processed|imported|deleted|found)|\w+s (?:were|have|are|in|processed|found|imported)""")
_STATUS = rf"([45]\d\d)\b(?![.,]?\d)(?!%| ?%)(?! {_COUNTED}\b)"
_MAY_BE_STATUS = re.compile(r"\be?[45]\d\d\b")
_MAY_FOLLOW = any_of(r"""
    error|client|server|for|from|on|while|when|after|in|at|with|response|and|url|status|http|because|due|by|to|as|
    service|trying|during|retry|twice|again|once|repeatedly|(?:\w+|\w+ \w+) times""")
_NAMED = any_of("""
    status|statuscode|status code|response code|response status|error code|errorcode|http code|returned|got|
    received|response|code|answered|responded|failed|error|replied|threw|gave|upstream|backend|origin""")
_HTTP = tuple(
    re.compile(pattern)
    for pattern in (
        r"\bhttps?(?:/\d(?:\.\d)?| \d\.\d)?(?: ?(?:status|error|response|code|exception|request failed|returned|"
        rf"failed|with|got|[:=(\[#])){{0,8}} ?{_STATUS}",
        rf"\b{_NAMED}(?: (?:of|an?|code|status|with|was|is|http|error|response|unexpected|from server)){{0,8}}[\"']?"
        rf"[ :=(\[#\"']+{_STATUS}(?=$|[\s.,;:)\]}}\"'>!/-])(?! (?!{_MAY_FOLLOW}\b)[a-z]+\b)",
        rf"\b([45]\d\d)(?: (?:client|server|http))?(?: error| status| response)?[\s:,()\"'-]*{_REASONS}\b",
        r"^([45]\d\d) (?:from|reported by|returned by|received from|while \w+ing|when \w+ing)\b",
        r"\b(404)[\s:,()\"'-]*not found\b",
        r"^[(\[]?([45]\d\d)[)\]]?(?:$| ?[:|]\s| - |, )",
        r"\[(?:http )?([45]\d\d)\]",
        r"\bcode e([45]\d\d)\b",  # npm's
    )
)
_ERRNO = re.compile(r"\[errno (\d{1,3})\](?! nodename)|\berrno ?[=:] ?(\d{1,3})\b")
_WINDOWS = re.compile(r"\[win ?error (\d{1,5})\]|\bwsa?e?rror ?(\d{5})\b")
_WINDOWS_HEX = re.compile(r"\b0x(?:8007([0-9a-f]{4})|(27[0-9a-f]{2}))\b")  # an HRESULT of Win32, a socket's error
_SQL_STATE = re.compile(
    r"\bsqlstate[ \[:=(]+([0-9a-z]{5})\b|\b(?:error|pgcode)[: ]+([0-9]{2}[0-9a-z]{3})\b|\[([0-9]{2}[0-9a-z][0-9]{2})\]"
)
# Mail servers answer with two numbers: "550 5.7.1 …". The second says what it is about.
_MAIL = re.compile(r"(?:^|[\s:(])[45]\d\d(?:[ -#]|, b?[\"'])([45]\.\d\.\d{1,3})\b")
_GRPC = re.compile(
    r"\bstatus ?code[.=: ]+([a-z][a-z ]+)|\bcode ?= ?([a-z][a-z ]+?) (?:desc|details)\b|"
    r"\bstatus ?= ?status ?code\.([a-z ]+)"
)
# A code that a service has given a name: in AWS's sentence, or as the value of a key. Read before normalizing.
_SERVICE = re.compile(r"\b(?:an error occurred|error from server) \(([\w.]+)\)", re.IGNORECASE)
_CODE = re.compile(
    r"(?<![\w.-])[\"']?(?:(?i:err(?:or)?[_ ]?)?(?:code|Code|CODE)|errcode)[\"']?\s*[:=]\s*[\"']?"
    r"([A-Za-z_][A-Za-z_.-]*[A-Za-z])(?=[\"',;)}\]\s]|$)"
)
_VAGUE = frozenset({"unknown", "none", "null", "missing", "error", "internal"})
_LDAP = re.compile(r"\bldap\b.{0,40}?\b(?:error code|result|err) ?[=:]? ?(\d{1,2})\b")
_MYSQL = re.compile(r"\berror (\d{4}) \([0-9a-z]{5}\)|^\((\d{4}), [\"']")
_AADSTS = re.compile(r"\baadsts(\d{5,7})\b")  # Microsoft's sign-in
_ORACLE = re.compile(r"\bora (\d{5})\b")
_SEARCH = re.compile(r"\b[a-z_]+_exception\b")
# A constant at the beginning, as AMQP and many protocols have it; or the class names of other languages.
_CONSTANT = re.compile(
    r"^\W*([A-Z][A-Z\d]*(?:_[A-Z\d]+)+)\b|\b((?:[A-Z][a-z0-9]*){2,}(?:Exception|Error|Fault|Limit))\b"
)


@lru_cache(maxsize=4096)
def match_name(name: str) -> ErrorCategory | None:
    """The category that the name of an exception class or an error code suggests; None if it says nothing.

    >>> match_name("ReadTimeout"), match_name("insufficient_quota"), match_name("BillingError")
    (<ErrorCategory.NETWORK: 'network'>, <ErrorCategory.RESOURCE: 'resource'>, None)
    """
    spaced, bare = _split_name(name)
    table = data.names()
    if bare in table.whole:
        return table.whole[bare]
    both = f"{spaced}\n{bare}"
    return next((category for category, pattern in table.parts if pattern.search(both)), None)


@lru_cache(maxsize=4096)
def says_nothing(name: str) -> bool:
    """Return True if a name's words mean something else alone: an `InterfaceError` is of no network interface."""
    whole, bare = data.names().whole, _split_name(name)[1]
    return bare in whole and whole[bare] is None


def _split_name(name: str) -> tuple[str, str]:
    """The words of a name, with and without the words for "error" at its end."""
    words = [word.lower() for word in _HUMPS.split(name[:_LONGEST_NAME]) if word]
    spaced = " ".join(words)
    while words and words[-1] in _WORDS_FOR_ERROR:
        words.pop()
    return spaced, " ".join(words)


def http_category(status: int) -> ErrorCategory | None:
    """The category of an HTTP status; None for one that is no failure."""
    if (category := data.codes().http.get(status)) is not None:
        return category
    if 400 <= status < 500:
        return ErrorCategory.VALIDATION
    return ErrorCategory.TRANSIENT if 500 <= status < 600 else None


def sql_state_category(state: str) -> ErrorCategory | None:
    """The category of an SQLSTATE: of all five characters if they are listed, else of its class."""
    listed = data.codes().sql_state
    return listed.get(state) or listed.get(state[:2]) if len(state) == 5 else None


def mail_status_category(code: str) -> ErrorCategory | None:
    """The category of a mail server's second number: "5.7.1" is about rights.

    >>> mail_status_category("4.2.2"), mail_status_category("5.1.1")
    (<ErrorCategory.RESOURCE: 'resource'>, <ErrorCategory.VALIDATION: 'validation'>)
    """
    subject = code[2:]
    if code.startswith("5.7") or subject == "7.8":
        return ErrorCategory.PERMISSION
    if subject in ("2.2", "3.1"):
        return ErrorCategory.RESOURCE
    if code.startswith("4"):
        return ErrorCategory.NETWORK if subject.startswith("4") else ErrorCategory.TRANSIENT
    return ErrorCategory.VALIDATION if subject[0] in "1356" else None


def errno_name(number: int) -> str:
    """The name of an errno: ENOSPC for 28."""
    return errno.errorcode.get(number, f"errno {number}")


def match_codes(clause: str) -> Finding | None:
    """Match a code in a clause of a normalized text."""
    known = data.codes()
    # Looking for a word first is far cheaper than looking for a pattern, and most clauses have no code at all.
    if "err" in clause or "sql" in clause or "code" in clause:
        if (number := _first(_ERRNO, clause)) is not None and int(number) in known.errno:
            return Finding(known.errno[int(number)], f"text: {errno_name(int(number))}")
        if "ldap" in clause and (number := _first(_LDAP, clause)) is not None and int(number) in known.ldap:
            return Finding(known.ldap[int(number)], f"text: LDAP result {number}")
        if (number := _first(_WINDOWS, clause)) is not None and int(number) in known.windows:
            return Finding(known.windows[int(number)], f"text: Windows error {number}")
        if (state := _first(_SQL_STATE, clause)) is not None and (sql := sql_state_category(state.upper())) is not None:
            return Finding(sql, f"text: SQLSTATE {state.upper()}")
        status = (_first(_GRPC, clause) or "").strip().replace(" ", "_").upper()
        if status in known.grpc:
            return Finding(known.grpc[status], f"text: gRPC status {status}")
    if "0x" in clause and (number := _first(_WINDOWS_HEX, clause)) and int(number, 16) in known.windows:
        return Finding(known.windows[int(number, 16)], f"text: Windows error {int(number, 16)}")
    if "aadsts" in clause and (number := _first(_AADSTS, clause)) is not None:
        return Finding(known.aadsts.get(number, ErrorCategory.PERMISSION), f"text: AADSTS{number}")
    if "ora " in clause and (number := _first(_ORACLE, clause)) is not None and int(number) in known.oracle:
        return Finding(known.oracle[int(number)], f"text: ORA-{number}")
    if (number := _first(_MYSQL, clause)) is not None and int(number) in known.mysql:
        return Finding(known.mysql[int(number)], f"text: MySQL error {number}")
    if not _MAY_BE_STATUS.search(clause):
        return None
    if (code := _first(_MAIL, clause)) is not None and (mail := mail_status_category(code)) is not None:
        return Finding(mail, f"text: mail status {code}")
    for http in _statuses(clause):
        if (category := http_category(http)) is not None:
            exists = http == 409 and "exist" in clause
            return Finding(ErrorCategory.VALIDATION if exists else category, f"text: HTTP {http}")
    return None


def match_code_name(text: str) -> Finding | None:
    """Match the name of a code in a text before it is normalized.

    >>> match_code_name("An error occurred (ExpiredToken) when calling the ListBuckets operation: …").reason
    "text: error code 'ExpiredToken'"
    """
    if "_exception" in text:
        for match in _SEARCH.finditer(text):
            if (category := data.codes().search.get(match[0])) is not None:
                return Finding(category, f"text: {match[0]}")
    if "ode" not in text and "ODE" not in text and "rror occurred (" not in text and "rror from server (" not in text:
        return None
    for pattern in (_SERVICE, _CODE):
        for match in pattern.finditer(text):
            name = match[1]
            if name.lower() in _VAGUE or (name.islower() and "_" not in name):
                continue  # a word of a sentence, or nothing that a service would call a failure
            if (category := match_name(name[:80])) is not None:
                return Finding(category, f"text: error code {name[:80]!r}")
    return None


def match_constant_name(text: str) -> Finding | None:
    """Match a name in a text that is neither a word of English nor in the place of a code.

    >>> match_constant_name("RESOURCE_LOCKED - cannot obtain exclusive use of the queue").reason
    "text: 'RESOURCE_LOCKED'"
    """
    for match in _CONSTANT.finditer(text):
        name = match[1] or match[2]
        if (category := match_name(name[:80])) is not None:
            return Finding(category, f"text: {name[:80]!r}")
    return None


def statuses_in(text: str) -> tuple[int, ...]:
    """The HTTP statuses that a text mentions as failures, each once.

    >>> statuses_in("503 Server Error: Service Unavailable for url: https://example.com/404")
    (503,)
    """
    return tuple(dict.fromkeys(status for clause in clauses(normalize(text)) for status in _statuses(clause)))


def _statuses(clause: str) -> Iterator[int]:
    for pattern in _HTTP:
        for match in pattern.finditer(clause):
            if not is_negated("", *around(match)):
                yield int(match[1])


def _first(pattern: re.Pattern[str], clause: str) -> str | None:
    match = pattern.search(clause)
    return next(group for group in match.groups() if group) if match else None
