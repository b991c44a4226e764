"""Prepares error texts for the search: normalizes them, cuts them into clauses, drops those that tell of no failure.

A clause that tells of success, or only advises, says nothing. Nor does a phrase that is negated ("no timeouts",
"validation errors: 0") or is only a setting ("timeout=30"). Languages other than English are not understood.
"""

from __future__ import annotations

import re

from mahavishnu.classify.exceptions import middle_cut


def any_of(words: str) -> str:
    """A pattern for one of the words; a long list goes on in the next line after a bar."""
    return f"(?:{''.join(line.strip() for line in words.splitlines())})"


_URL = re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://[^\s'\"<>)\]]+", re.IGNORECASE)
_PATH = re.compile(r"(?<![\w/:])(?:[A-Za-z]:)?(?:[\\/][\w.@%+~-]+){2,}[\\/]?|(?<![\w/:])(?:\.{1,2}|~)?/[\w.@%+~/-]{3,}")
_FILE = re.compile(
    r"\b[\w-]{1,80}\.(?:py|json|ya?ml|toml|csv|txt|log|xml|html?|md|sql|js|ts|go|rs|java|zip|gz|parquet|cfg|ini|pem|crt)\b"
)
# A quoted single word is data, unless it is the value of a key in something printed as a mapping.
_QUOTED = re.compile(r"(?<![\w'\"])(?<!['\"]: )(?<!['\"]:)(['\"`])(?!https?:)([^\s'\"`]{1,80})\1(?![\w'\"]|\s?:)")
# So is what stands where a name would: 'message "permission denied" is too long', "field network_timeout".
_TITLED = re.compile(
    r"(?<![\w'\"])(['\"`])[^'\"`\n]{1,80}\1"
    r"(?= (?:is|was|are|has|does|do|did|not|already|must|should|could|cannot|contains?|exceeds) )"
)
_AFTER_NOUN = any_of("""
    field|parameter|param|argument|option|key|column|setting|variable|test|step|module|function|table|named|called|
    attribute|class|plugin|property|index|queue|topic|task|workflow|job|label|flag""")
_NAMED_THING = re.compile(rf"\b({_AFTER_NOUN}) (?=\w*[_.-])[A-Za-z][\w.-]*\w", re.IGNORECASE)
_TEST = re.compile(r"\btest_\w+")  # its name tells of what it is about, not of what went wrong
_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z][a-z])")
# Things that merely bear the name of what may fail: no log, card, slip or dashboard denies access or runs out.
_NAMESAKE = re.compile(
    r"\baccess (?:logs?|points?|roads?)\b|\bmemory (?:cards?|sticks?|lane|foam|book)\b|\bpermission slips?\b|"
    r"\btoken (?:buckets?|rings?)\b|\blog ?in (?:page|form|button|screen)\b|\bdisk (?:labels?|jockeys?)\b|"
    r"\bnetwork (?:diagrams?|charts?|maps?)\b|\block ?(?:smiths?|screens?)\b|"
    r"\bconnection (?:pooling|points?|flights?|fees?)\b|"
    r"\bpassword (?:managers?|hints?|resets? (?:e?mails?|links?|templates?|pages?))\b|"
    r"\b(?:capacity|memory|disk|network|connection|quota|permissions?|access|password|login|lock|timeout|conflict|"
    r"proxy) (?:planning|planner|reports?|games?|tours?|lessons?|teams?|dashboards?|training|courses?|surveys?|"
    r"articles?|quiz|templates?|icons?|pictures?|matrix|policy documents?)\b"
)
_APOSTROPHE = re.compile(r"[\u2018\u2019\u02bc]")
_CANNOT = re.compile(r"\b(?:can't|can not|cant)\b")
_NOT = re.compile(r"\b(could|did|does|do|is|was|were|are|has|have|had|would|should|wo)n'?t\b")
_NEAR = 120  # characters; no pattern for the context of words reads more than some words
_JOINED = re.compile(r"(?<=\w)[_-](?=\w)")
_BLANKS = re.compile(r"[ \t]+")
_CLAUSES = re.compile(r"(?<=[.!?])\s+|;\s|\n+|\r|,? but | however,? | \| | [\u2013\u2014-] (?=[a-z])| => | -> ")
_PARTS = re.compile(r", | and | then |: ")

_IS_FALSE = r" ?[\"']? ?[:=] ?[\"']?(?:false|0|no\b)"
_WELL = re.compile(
    rf"\b(?<!un)(?:success(?!{_IS_FALSE})|successful(?!ly)|ok\b(?!ay|{_IS_FALSE})|"
    r"passed(?! to| in| as| by| the| an?| \w+ arg)|resolved(?! to| name| address)|"
    r"(?:(?<![.\d])0|no|zero|without(?: any)?) (?:\w+ )?(?:errors?|failures?|problems?|issues?|warnings?|"
    r"incidents?|timeouts?)"
    r"(?! (?:message|code|details|information|description|handler|was|text))|(?:is|are|looks?) (?:fine|good|valid)\b|"
    r"successfully|succeeded|okay|(?<!being )recovered|(?<!being )fixed(?! (?:max|min|size|length|width|number|"
    r"limit|rate|point|amount|set|ip|header|schema))|(?<!being )restored|reconnected|re established|"
    r"established(?! (?:connection|session|stream|socket))|granted|healthy|"
    r"healed|as expected|all good|no longer (?:\w+ )?(?:fail\w*|un(?:reachable|available|healthy)|down|blocked|locked|"
    r"timing|throttled|limited|denied|broken|required|needed|busy|full|refus\w+|issues?|problems?|exceed\w*|stuck|lost|"
    r"missing|overloaded|offline|slow|necessary|affected)|back online|is back|up and running|worked|cleared|all right|"
    r"in good order)"
)
_NOT_WELL = re.compile(
    r"\b(?:not|never|cannot|unable|failed|failure|without|could|un|no|nobody|neither|nor|be|until|unless|before|yet to|"
    r"to be|error)(?: \w+){0,2} $|\b(?:before|until|unless|cannot|could not)(?: \w+){0,5} $"
)
_IS_OVER = re.compile(
    r"\b(?:alerts?|incidents?|alarms?|outages?|tickets?|issues?|problems?)(?: [^\s:]+)?"
    r"(?: is| was| are| were| has been)? (?:resolved|cleared|fixed|recovered)\b"
)
_HARD_WORDS = any_of("""
    error|errors|failed|failure|failures|fails|failing|fail|cannot|could not|unable|refused|denied|rejected|
    exceeded|exceeds|exceed|exhausted|exception|fatal|abort|aborted|unauthori[sz]ed|forbidden|reset|unreachable|
    broken|lost|invalid|malformed|killed|full|insufficient|missing|expired|unavailable|overloaded|throttled|
    throttling|throttle|must|required|not|no|too many|too large|out of|timed out|timeout|deadlock|violates|
    duplicate|unexpected|corrupt|conflict|limited|locked|busy|disconnected|mismatch|unsupported|unknown|illegal|
    critical|panic|crash|crashed|expecting""")
_HARD = re.compile(rf"\b{_HARD_WORDS}\b")
# The level of a log line that says that nothing is wrong.
_IS_NEWS = re.compile(r"^(?:(?=[:.,tz/+ -]*\d)[\d:.,tz/+ -]* )?\[?(?:info|debug|trace|notice)\b")
_ADVISES = any_of(r"""
    how to|to (?:avoid|prevent|fix|reduce|increase|raise|simulate|change|set|configure)|
    if you (?:see|get|want|like|need)|tips?\b|guide|lesson|chapter|tutorial|example|learn|see also|docs?\b|
    documentation|note that the|reminder|agenda|meeting|test(?:s|ing)? (?:for|that|the|of)|added|adds|add|
    implements?|feature|todo|hint|tip|faq|what is|what are|why|when should|release notes?|changelog|refactor|
    improve[ds]?|support for|handles?|the (?:article|book|film|song|course|talk|paper|chapter)|simulat(?:e|ed|ing)|
    welcome|thank|configure[ds]?|setting|increase[ds]?|we (?:should|could|plan|want|will)""")
_ADVICE = re.compile(rf"^{_ADVISES}\b")
_DENIED = re.compile(
    r"\b(?:(?:no|without|zero|(?<![\d.])0|any|non|free of|avoids?|avoided|prevents?|prevented|ignores?|ignored|"
    r"ignoring|despite|survived|instead of)(?: \w+)?|(?:not|never|neither|nor|is not|was not)"
    r"(?: (?:a|an|the|any|really|due to|caused by|because of|related to|be|been|about)){0,8}(?: \w+)?) $"
)
_NONE_AFTER = re.compile(
    r"^ (?:is|was|were|are|has|have|had|did) (?:not|never) (?:been )?"
    r"(?:thrown|raised|seen|observed|found|occur|happen|present|detected|triggered)|"
    r"^(?:s|es)?(?: \w+){0,2}\s*(?:[:=]|is|was|are)\s*[\"']?"
    r"(?:0(?![.\d]*[1-9])|none|false|no|nil|null|zero|off|ok|disabled|enabled|low)\b(?=\s*(?:$|[,;.)\]}|\"']))"
)
# "invalid entries: 0" counts them, "invalid port: 0" shows the one.
_WRONG = re.compile(r"\b(?:invalid|bad|wrong|incorrect|illegal|unknown|unsupported|unexpected)$")
_ONE = re.compile(r"^ (?:\w+ )?\w*[^\Ws]\s*[:=]")
# "permission granted", "temporary table was dropped": the words after the phrase say that nothing is wrong.
_TURNS = (
    "to|before|not|until|while|when|for|because|cannot|being|from|in|on|at|by|of|with|after|as|during|and|or|no|the|a|"
    "an|since|if|than|which|who|you|we|they"
)
_IS_FINE = any_of(r"""
    granted|renewed|refreshed|updated|installed|enabled|configured|completed|finished|processed|deleted|removed|
    purged|evicted|skipped|dropped|cleaned|created|saved|sent|delivered|approved|accepted|published|increased|
    decreased|extended|changed|set to|generated|scheduled|subscribed|registered|launched|opened|started|loaded|
    imported|exported|uploaded|downloaded|rotated|upgraded|added|joined|handled|tuned|documented|tested|reviewed|
    archived|replaced|listed|printed|played|booked|planned|measured|calculated|stable|normal|fixed|resolved|cleared|
    over(?! \w)|adjusted|warmed|refunded|moved|quarantined|set aside|collected|reimbursed|counted|displayed|shown""")
_FINE_AFTER = re.compile(
    rf"^(?: (?!(?:{_TURNS})\b)[\w'\"~.-]+){{0,3}}? (?:(?:has|have|had|was|were|is|are|been|be|will be|got) ){{0,8}}"
    rf"(?:successfully )?{_IS_FINE}\b(?! by peer)"
)
# After a preposition comes a noun, "from registered hosts", which says nothing of the words before it.
_OPEN = (" from", " by", " with", " in", " on", " of", " to", " for", " at")
# "timeout=30", "rate limit: 500": a setting, not an event.
_SETTING = re.compile(
    r"^s?[\"']?\s*[:=]\s*[\"']?(?:\d+(?:\.\d+)?\s*(?:ms|s|sec\w*|min\w*|m|h|gb|mb|kb|%|per \w+)?|none|null|true|false|"
    r"default|unlimited)[\"']?(?=$|[\s,;)}\]])"
)
_SETTABLE = re.compile(
    r"^(?!.*\b(?:exceed|reached|hit|over|enough|insufficient|out of)).*"
    r"(?:time ?outs?|limits?|quota|memory|disk|retries|deadline)$"
)


def normalize(text: str) -> str:
    """`text` as the phrases expect it: lower case, without paths and single quoted words, in one spelling.

    >>> normalize("RateLimitExceeded: can't open '/var/log/denied.txt'")
    "rate limit exceeded: cannot open '~'"
    """
    text = middle_cut(text)
    # Each of these substitutions costs as much as all the rest, and most texts need none of them.
    if "://" in text:
        text = _URL.sub("~", text)
    if "/" in text or "\\" in text:
        text = _PATH.sub("~", text)
    if "." in text:
        text = _FILE.sub("~", text)
    if not text.isascii():
        text = _APOSTROPHE.sub("'", text)
    if ("'" in text or '"' in text or "`" in text) and not _QUOTED.fullmatch(text.strip()):
        text = _TITLED.sub(r"\1~\1", _QUOTED.sub(r"\1~\1", text))
    if "_" in text:
        text = _TEST.sub("~", _NAMED_THING.sub(r"\1 ~", text))
    text = _HUMPS.sub(" ", text).lower()
    if "can" in text:
        text = _CANNOT.sub("cannot", text)
    if "nt" in text or "n't" in text:
        text = _NOT.sub(lambda found: f"{'will' if found[1] == 'wo' else found[1]} not", text)
    if "ecognis" in text:
        text = text.replace("recognis", "recogniz")
    if "_" in text or "-" in text:
        text = _JOINED.sub(" ", text)
    if "  " in text or "\t" in text:
        text = _BLANKS.sub(" ", text)
    text = _NAMESAKE.sub("~", text)
    return text.strip()


def clauses(text: str) -> list[str]:
    """The parts of a normalized text that may tell of a failure."""
    found: list[str] = []
    for clause in _CLAUSES.split(text):
        if not clause or _ADVICE.match(clause) or (_IS_NEWS.match(clause) and not _HARD.search(clause)):
            continue
        if not _tells_success(clause):
            found.append(clause)
        elif not _IS_OVER.search(clause):
            found += [part for part in _PARTS.split(clause) if not _tells_success(part) and _HARD.search(part)]
    return found


def _tells_success(clause: str) -> bool:
    return any(
        not _NOT_WELL.search(clause, max(match.start() - _NEAR, 0), match.start()) for match in _WELL.finditer(clause)
    )


def around(match: re.Match[str]) -> tuple[str, str]:
    """Return the context before and after a match in its clause, as far as it may turn the meaning."""
    start, end = match.span()
    return match.string[max(start - _NEAR, 0) : start], match.string[end : end + _NEAR]


def is_negated(words: str, before: str, after: str) -> bool:
    """Return True if the context of the words says that it did not happen, is over, or is only a setting.

    >>> is_negated("connection error", "there was no ", " today")
    True
    """
    if _DENIED.search(before) or (_NONE_AFTER.match(after) and not (_WRONG.search(words) and _ONE.match(after))):
        return True
    if not words.endswith(_OPEN) and _FINE_AFTER.match(after):
        return True
    return _SETTABLE.search(words) is not None and _SETTING.match(after) is not None
