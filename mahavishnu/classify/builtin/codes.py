"""Codes in error texts: HTTP statuses, errno, SQLSTATE, gRPC statuses, mail statuses, Windows errors."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mahavishnu.classify.builtin import known
from mahavishnu.classify.builtin.attributes import Finding
from mahavishnu.classify.builtin.clauses import any_of, clauses, is_taken_back, tidied
from mahavishnu.classify.builtin.known import P, T, V
from mahavishnu.classify.builtin.names import of_name

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
        rf"failed|with|got|[:=(\[#]))* ?{_STATUS}",
        rf"\b{_NAMED}(?: (?:of|an?|code|status|with|was|is|http|error|response|unexpected|from server))*[\"']?"
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
# A code that a service has put a name to: in AWS's sentence, or as the value of a key. Names are taken before tidying.
_SERVICE = re.compile(r"\b(?:an error occurred|error from server) \(([\w.]+)\)", re.IGNORECASE)
_CODE = re.compile(
    r"(?<![\w.-])[\"']?(?:(?i:err(?:or)?[_ ]?)?(?:code|Code|CODE)|errcode)[\"']?\s*[:=]\s*[\"']?"
    r"([A-Za-z_][A-Za-z]*[A-Za-z_.-]*[A-Za-z])(?=[\"',;)}\]\s]|$)"
)
_VAGUE = frozenset({"unknown", "none", "null", "missing", "error", "internal"})
_LDAP = re.compile(r"\bldap\b.{0,40}?\b(?:error code|result|err) ?[=:]? ?(\d{1,2})\b")
_MYSQL = re.compile(r"\berror (\d{4}) \([0-9a-z]{5}\)|^\((\d{4}), [\"']")
_AADSTS = re.compile(r"\baadsts(\d{5,7})\b")  # Microsoft's sign-in: who may not, unless it is the service that failed
_AADSTS_PASSING = frozenset({"90006", "90012", "90033", "90051", "50196", "90055"})
_ORACLE = re.compile(r"\bora (\d{5})\b")
_SEARCH = re.compile(r"\b[a-z_]+_exception\b")
# At the beginning, as amqp and many protocols do it, and the class names of other languages.
_SHOUTED = re.compile(
    r"^\W*([A-Z][A-Z\d]*(?:_[A-Z\d]+)+)\b|\b((?:[A-Z][a-z0-9]*){2,}(?:Exception|Error|Fault|Limit))\b"
)
_GRPC_NAMES = {name.replace("_", " ").lower(): name for name in known.GRPC}


def of_codes(clause: str) -> Finding | None:
    """What a code in a tidied clause says."""
    # Looking for a word first is far cheaper than looking for a pattern, and most clauses have no code at all.
    if "err" in clause or "sql" in clause or "code" in clause:
        if (number := _first(_ERRNO, clause)) is not None and int(number) in known.ERRNO:
            return Finding(known.ERRNO[int(number)], f"text: {known.errno_name(int(number))}")
        if "ldap" in clause and (number := _first(_LDAP, clause)) is not None and int(number) in known.LDAP:
            return Finding(known.LDAP[int(number)], f"text: LDAP result {number}")
        if (number := _first(_WINDOWS, clause)) is not None and int(number) in known.WINDOWS:
            return Finding(known.WINDOWS[int(number)], f"text: Windows error {number}")
        if (state := _first(_SQL_STATE, clause)) is not None and (sql := known.of_sql_state(state.upper())) is not None:
            return Finding(sql, f"text: SQLSTATE {state.upper()}")
        if (name := _GRPC_NAMES.get((_first(_GRPC, clause) or "").strip())) is not None:
            return Finding(known.GRPC[name], f"text: gRPC status {name}")
    if "0x" in clause and (number := _first(_WINDOWS_HEX, clause)) and int(number, 16) in known.WINDOWS:
        return Finding(known.WINDOWS[int(number, 16)], f"text: Windows error {int(number, 16)}")
    if "aadsts" in clause and (number := _first(_AADSTS, clause)) is not None:
        return Finding(T if number in _AADSTS_PASSING else P, f"text: AADSTS{number}")
    if "ora " in clause and (number := _first(_ORACLE, clause)) is not None and int(number) in known.ORACLE:
        return Finding(known.ORACLE[int(number)], f"text: ORA-{number}")
    if (number := _first(_MYSQL, clause)) is not None and int(number) in known.MYSQL:
        return Finding(known.MYSQL[int(number)], f"text: MySQL error {number}")
    if not _MAY_BE_STATUS.search(clause):
        return None
    if (code := _first(_MAIL, clause)) is not None and (mail := known.of_mail_status(code)) is not None:
        return Finding(mail, f"text: mail status {code}")
    for status in _statuses(clause):
        if (category := known.of_http(status)) is not None:
            return Finding(V if status == 409 and "exist" in clause else category, f"text: HTTP {status}")
    return None


def of_named_code(text: str) -> Finding | None:
    """What the name of a code says, in a text as it came.

    >>> of_named_code("An error occurred (ExpiredToken) when calling the ListBuckets operation: …").reason
    "text: error code 'ExpiredToken'"
    """
    if "_exception" in text:
        for match in _SEARCH.finditer(text):
            if (category := known.SEARCH.get(match[0])) is not None:
                return Finding(category, f"text: {match[0]}")
    if "ode" not in text and "ODE" not in text and "rror occurred (" not in text and "rror from server (" not in text:
        return None
    for pattern in (_SERVICE, _CODE):
        for match in pattern.finditer(text):
            name = match[1]
            if name.lower() in _VAGUE or (name.islower() and "_" not in name):
                continue  # a word of a sentence, or nothing that a service would call a failure
            if (category := of_name(name[:80])) is not None:
                return Finding(category, f"text: error code {name[:80]!r}")
    return None


def of_shouted_name(text: str) -> Finding | None:
    """What a name says that is neither a word of English nor in the place of a code, where nothing else is known.

    >>> of_shouted_name("RESOURCE_LOCKED - cannot obtain exclusive use of the queue").reason
    "text: 'RESOURCE_LOCKED'"
    """
    for match in _SHOUTED.finditer(text):
        name = match[1] or match[2]
        if (category := of_name(name[:80])) is not None:
            return Finding(category, f"text: {name[:80]!r}")
    return None


def statuses_in(text: str) -> tuple[int, ...]:
    """The HTTP statuses that a text tells of.

    >>> statuses_in("503 Server Error: Service Unavailable for url: https://example.com/404")
    (503,)
    """
    return tuple(dict.fromkeys(status for clause in clauses(tidied(text)) for status in _statuses(clause)))


def _statuses(clause: str) -> Iterator[int]:
    for pattern in _HTTP:
        for match in pattern.finditer(clause):
            if not is_taken_back("", clause[: match.start()], clause[match.end() :]):
                yield int(match[1])


def _first(pattern: re.Pattern[str], clause: str) -> str | None:
    match = pattern.search(clause)
    return next(group for group in match.groups() if group) if match else None
