"""Evidence in the words of an error text."""

from __future__ import annotations

import re
from functools import lru_cache
from operator import attrgetter

from mahavishnu.classify.builtin import data
from mahavishnu.classify.builtin.clauses import around, clauses, is_negated, normalize
from mahavishnu.classify.builtin.codes import Finding, match_code_name, match_codes, match_constant_name
from mahavishnu.classify.builtin.data import Phrase
from mahavishnu.classify.exceptions import middle_cut
from mahavishnu.model.letter_parts import ErrorCategory

_GUESS = 5  # the rank of phrases that are weaker than the name of a constant
# Looking up a member of an enumeration takes as long as the rest of `is_ambiguous`, which every failure passes.
_TRANSIENT, _VALIDATION, _PERMISSION = ErrorCategory.TRANSIENT, ErrorCategory.VALIDATION, ErrorCategory.PERMISSION


def match_text(text: str, *, with_codes: bool = True) -> Finding | None:
    """The category that the words of an English error text say, and which words; None if none do.

    >>> match_text("Adapter failed: connection refused").reason
    "text: 'connection refused'"
    >>> match_text("permission granted to the network team")
    """
    return _match_short(text, with_codes) if len(text) <= _SHORT else _match(text, with_codes)


def _match(text: str, with_codes: bool) -> Finding | None:
    text = middle_cut(text)
    if with_codes and (named := match_code_name(text)) is not None:
        return disambiguate(named, text) if is_ambiguous(named) else named
    best: Phrase | None = None
    finding: Finding | None = None
    for clause in clauses(normalize(text)):
        if with_codes and (coded := match_codes(clause)) is not None:
            return disambiguate(coded, text) if is_ambiguous(coded) else coded
        for phrase in _candidates(clause):
            if best is not None and phrase.order >= best.order:
                break
            if (words := _first_affirmed(phrase.pattern, clause)) is not None:
                best, finding = phrase, Finding(phrase.category, f"text: {words[:80]!r}")
                break
    if with_codes and (best is None or best.order[0] >= _GUESS):
        return match_constant_name(text) or finding
    return finding


# During an outage the same few texts come again and again.
_SHORT = 400
_match_short = lru_cache(maxsize=2048)(_match)


def is_ambiguous(finding: Finding) -> bool:
    """Return True if a finding may stand for another category, which the text of the error may name.

    Some services answer 403 when a rate limit or a quota is exceeded, and some report a rate limit when the account is
    out of credit. Something may be cancelled because of a timeout. Some drivers have one name for statements that are
    wrong and for those that are not allowed.
    """
    category, reason = finding
    if category is _TRANSIENT or category is _VALIDATION:
        return any(mark in reason for mark in _AMBIGUOUS_REASONS)
    return category is _PERMISSION and ("403" in reason or "orbidden" in reason)


def disambiguate(finding: Finding, text: str) -> Finding:
    """The category that the text names for an ambiguous finding; the finding itself if it names none."""
    if finding.category is not ErrorCategory.PERMISSION:
        for marks, pattern, category in _OTHER_MEANINGS:
            if any(mark in finding.reason for mark in marks) and (why := pattern.search(text)) is not None:
                return Finding(category, f"text: {why[0].lower()!r} ({finding.reason})")
        return finding
    better = match_text(text, with_codes=False)
    if better is not None and better.category in (ErrorCategory.TRANSIENT, ErrorCategory.RESOURCE):
        return Finding(better.category, f"{better.reason} ({finding.reason})")
    return finding


_KILLED = re.compile(r"\bsigkill\b|\bsignal 9\b|\bout of memory\b|\boom\b", re.IGNORECASE)
_NOT_ALLOWED = re.compile(r"\baccess (?:control|denied)\b|\bprivileges?\b|\bpermission denied\b", re.IGNORECASE)
_EXISTS = re.compile(r"\balready exists?\b", re.IGNORECASE)
_TIMEOUT = re.compile(
    r"\b(?:due to|because of|after|by) (?:(?:a|an|the|its) )?(?:\S+ )?(?:\S*timeout|deadline)\b|\boperation timeout\b",
    re.IGNORECASE,
)
_CREDIT = re.compile(
    r"\binsufficient[_ ](?:quota|credits?|balance|funds)\b|\bcredit balance\b|\bcurrent quota\b|"
    r"\bbilling (?:details|account|hard limit|plan|status)\b|\bplan and billing\b",
    re.IGNORECASE,
)
# Many services answer 400 also when they reject the credentials.
_BAD_CREDENTIALS = re.compile(
    r"\binvalid[_ ]grant\b|\b(?:api|access|refresh|security|auth\w*|bearer|session|id|oauth)[_ ](?:key|token)s? "
    r"(?:\w+ ){0,3}?(?:not valid|invalid|expired|revoked)\b|\bexpired(?:[_ ]\w+)?[_ ]?token\b",
    re.IGNORECASE,
)

# Marks in the reason of an ambiguous finding, the words that tell of another category, and that category.
_OTHER_MEANINGS = (
    (("429", "RateLimit", "HTTP 400"), _CREDIT, ErrorCategory.RESOURCE),
    (("HTTP 400",), _BAD_CREDENTIALS, ErrorCategory.PERMISSION),
    (("ancel", "borted", "ackend"), _TIMEOUT, ErrorCategory.NETWORK),
    (("onflict",), _EXISTS, ErrorCategory.VALIDATION),
    (("Lost", "Crashed", "Died"), _KILLED, ErrorCategory.RESOURCE),
    (("ProgrammingError",), _NOT_ALLOWED, ErrorCategory.PERMISSION),
)
_AMBIGUOUS_REASONS = tuple(mark for marks, _, _ in _OTHER_MEANINGS for mark in marks)


def _candidates(clause: str) -> list[Phrase]:
    """The phrases that may be in the clause, by order."""
    by_word = data.phrases_by_word()
    words = dict.fromkeys(data.WORD.findall(clause))  # in order, so that a text always gets the same reason
    is_without = frozenset(words).isdisjoint
    found = {
        phrase: None for word in words for phrase in by_word.get(word, ()) if not any(map(is_without, phrase.needs))
    }
    return sorted(found, key=_by_order)


_by_order = attrgetter("order")


def _first_affirmed(pattern: re.Pattern[str], clause: str) -> str | None:
    """The words of the first match that the clause does not negate."""
    for match in pattern.finditer(clause):
        words = match.group().strip(" .:;,([")
        if not is_negated(words, *around(match)):
            return words
    return None
