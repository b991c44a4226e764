"""What the name of an error says: `ReadTimeout`, `RateLimitError`, `InvalidApiKey`, `ThrottlingException`.

Names of classes and codes of services are short and chosen with care, so single words can be trusted here as they
cannot be in a sentence.
"""

from __future__ import annotations

import re
from functools import lru_cache

from mahavishnu.classify.builtin.known import N, P, R, T, V, X
from mahavishnu.model.letter_parts import ErrorCategory

_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[_\-.\s/]+")
_EMPTY_WORDS = frozenset({"error", "exception", "errors", "exc", "err", "fault", "failure", "warning", "e"})

# The first that fits counts, so what is more particular comes first.
_SAYS: tuple[tuple[ErrorCategory, str], ...] = (
    (
        P,
        r"(invalid|bad|wrong|incorrect|missing|no|unknown|expired|revoked|unrecognized)( \w+){0,2} (token|"
        r"tokens|credential|credentials|api key|access key|accesskey|signature|password|login|client|grant|"
        r"certificate authority|auth|authentication|authorization|session)( id)?$",
    ),
    (
        P,
        r"(token|tokens|credentials?|signature|session|password|key) (expired|revoked|mismatch|does not match|"
        r"required)",
    ),
    (
        P,
        r"permissions?|forbidden|unauthori[sz]ed|unauthenticated|not authori[sz]ed|not authenticated|denied|"
        r"authentication|authorization|auth|login|credentials?|insufficient (privileges?|scopes?|rights)|"
        r"signature verification|(host )?key not (verifiable|verified|trusted)|disallowed|not permitted|"
        r"(?<!method )not allowed|privilege|access violation|"
        r"account (disabled|suspended|locked)|access not configured|bad credentials",
    ),
    (T, r"lock (wait )?(timeout|timed out|conflict)|sharing violation|authorization pending"),
    (
        P,
        r"(krb|krb5|kdc|gss|gssapi)( \w+)*|(interaction|consent|mfa) required|invalid (audience|issuer|nonce|claims?)|"
        r"missing (required )?claims?|(audience|issuer) mismatch|(role|scope|entitlement)s? missing",
    ),
    (
        T,
        r"lease|in progress|already running|not (the )?coordinator|unknown member( id)?|illegal generation|fenced|"
        r"crashed|back ?pressure|back ?off( required)?|cool ?down|preempt(ed|ion)?|"
        r"(api|call) limit( exceeded| reached)?|(worker|executor|actor|object|block) (lost|died)|incorrect \w+ state|"
        r"prior request not complete",
    ),
    (R, r"connection (pool|acquire) (timeout|exhausted)|count exceeded|killed worker"),
    (
        R,
        r"too many (?!requests|redirects|arguments|fields|columns|values|parameters|rows|keys|entries|items|tags|"
        r"results|retries|attempts|errors|failures|terms|clauses|calls|concurrent|simultaneous|queries|parts)\w+",
    ),
    (N, r"cert(ificate)? path( \w+)*"),
    (X, r"index out of (range|bounds)|unsupported operation|invalid (\w+ ){1,3}not found"),
    (V, r"(parameter|param|field|argument|property|column|header|value)s? (missing|required|invalid|unknown|empty)"),
    (
        N,
        r"server not found|query cancell?ed|time limit|handshake|timeout|timeouts|timed out|time out|"
        r"deadline exceeded|deadline",
    ),
    (
        T,
        r"rate limit(ed|s|ing|er)?|ratelimit(ed)?|throttl(ed|ing|e)|too many requests|toomanyrequests|"
        r"requests? limit|slow ?down|throughput exceeded|"
        r"(service|server|host|broker|leader|node|replica|temporarily|shard|shards|system) (unavailable|busy|"
        r"not available|overloaded)|temporarily unavailable|unavailable|overloaded|overload|temporary|"
        r"(?<!non )transient|retryable|retriable|retries exceeded|concurrency( \w+)?|try again|"
        r"retry (later|after)|flood (control|wait)|reschedul(e|ed)|would block|exchange not available|"
        r"(vault|cluster|database|db|api|system|backend|service) down|deadlock(ed)?|lock|locks|"
        r"lock (wait|conflict|not available|held)|locked|"
        r"database locked|serialization (conflict|anomaly)|internal (server |service )?(error|failure|exception)|"
        r"server (error|failure|exception)|bad gateway|circuit (breaker |is )?open|circuit breaker|open circuit|"
        r"not (the )?(leader|primary|master)|not enough replicas|rebalanc(e|ed|ing)( in progress)?|no leader|"
        r"maintenance|concurrent (modification|update|append|write|delete|transaction|access|operation)|"
        r"write conflict|version conflict|(optimistic|stale) (lock\w*|data|object|state)|(?<!merge )conflict|busy|"
        r"backend|not ready|starting up|shutting down|shutdown|aborted|cancell?ed|cancellation",
    ),
    (
        R,
        r"out of (memory|disk|space|resources?|capacity)|memory|oom|disk|quota|no space|storage (full|limit\w*)|"
        r"(resource|pool|connections?|capacity|storage) (exhausted|full|limit)|(storage|alloc|allocation) failed|"
        r"resource limit|"
        r"(max|grp)( \w+){1,5} limit|"
        r"insufficient (resources?|capacity|storage|memory|space|instance capacity|disk)|"
        r"too many (connections|open files|clients|files)|limit (exceeded|reached)|exceeded (limit|capacity)|"
        r"capacity|queue full|exhausted|full",
    ),
    (
        V,
        r"invalid|malformed|illegal|bad (request|data|value|input|parameter|argument|format|json|header|type|zip)|"
        r"unprocessable|validation|validate|unsupported|not supported|schema|syntax|parse|parser|parsing|pars|"
        r"decode|decoding|encode|encoding|deserialize|(de)?seriali[sz]ation|"
        r"(missing|required)( \w+){0,2} (field|parameter|argument|property|key|value|header|schema|column)|"
        r"integrity|constraint|unique|duplicate|already (exists|started|registered|defined|taken|used|present)|"
        r"exists|parameter bind|(column|field|attribute|property|parameter) not found|not empty|programming|not null|"
        r"foreign key|unknown (field|column|currency|unit|parameter|property|format|encoding|argument|option|enum|"
        r"value)|negative \w+|empty (file|input|data|body|value|payload|dataset|document|message)|data quality|"
        r"too (large|long|big|short)|mismatch|out of range|"
        r"(type|value|usage|argument|parameter|input|format|unicode|assertion) (error|exception)|"
        r"unexpected (value|type|field|token|keyword)|(length|size|depth) (exceeded|limit)|precondition|"
        r"content (filter|policy)( \w+)*|"
        r"conditional check|undefined (table|column)|method not allowed|wrong type|violation|bad|ill formed|"
        r"improper",
    ),
    (
        N,
        r"ssl|tls|certificate|handshake|dns|resolver|name resolution|network|socket|connection|connect|connecting|"
        r"(channel|stream|link|session|tunnel) closed|disconnected|disconnect|unreachable|"
        r"proxy|gateway|broken pipe|peer|no (brokers|hosts|servers|route)|"
        r"host not found|unknown host|(brokers?|servers?|hosts?|nodes?|endpoints?) (down|offline|lost)|transport|"
        r"protocol|end ?point|hang up|stream (reset|closed|lost)|"
        r"remote (closed|disconnected)",
    ),
    (
        X,
        r"not found|non ?existent|merge conflict|no such|does not exist|doesnt exist|not exist|missing|"
        r"unknown|not implemented|"
        r"unimplemented|gone|deprecated|unsupported operation|import|no longer",
    ),
)
_RULES = tuple((category, re.compile(rf"(?:^|\s)(?:{pattern})(?:$|\s)", re.MULTILINE)) for category, pattern in _SAYS)
# These words mean something else in the name of an error than alone: a table of their own, looked at before.
_WHOLE: dict[str, ErrorCategory | None] = {
    "protocol": N,
    "data": V,
    "programming": V,
    "internal": T,
    "server": T,
    "read": N,
    "write": N,
    "operational": None,
    "interface": None,
    "database": None,
    "client": None,
    "response": None,
    "api": None,
    "type": V,
    "invalid operation": None,
    "unknown": None,
    "value": V,
    "usage": V,
    "key": V,
    "assertion": None,
    "import": X,
    "index": None,
    "attribute": None,
    "name": None,
}


@lru_cache(maxsize=4096)
def of_name(name: str) -> ErrorCategory | None:
    """The category that the name of an exception class or an error code suggests; none if it says nothing.

    >>> of_name("ReadTimeout"), of_name("insufficient_quota"), of_name("BillingError")
    (<ErrorCategory.NETWORK: 'network'>, <ErrorCategory.RESOURCE: 'resource'>, None)
    """
    spaced, bare = _spelt(name)
    if bare in _WHOLE:
        return _WHOLE[bare]
    both = f"{spaced}\n{bare}"
    for category, rule in _RULES:
        if rule.search(both):
            return category
    return None


@lru_cache(maxsize=4096)
def says_nothing(name: str) -> bool:
    """Whether the words in it are there for another reason: an `InterfaceError` is of no network interface."""
    bare = _spelt(name)[1]
    return bare in _WHOLE and _WHOLE[bare] is None


def _spelt(name: str) -> tuple[str, str]:
    """The words of a name, with and without those at its end that all names of errors have."""
    words = [word.lower() for word in _HUMPS.split(name) if word]
    spaced = " ".join(words)
    while words and words[-1] in _EMPTY_WORDS:
        words.pop()
    return spaced, " ".join(words)
