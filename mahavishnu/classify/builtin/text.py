"""What the words of an error text say."""

from __future__ import annotations

import re
from functools import lru_cache
from operator import attrgetter

from mahavishnu.classify.builtin.attributes import Finding
from mahavishnu.classify.builtin.clauses import clauses, is_taken_back, tidied
from mahavishnu.classify.builtin.codes import of_codes, of_named_code, of_shouted_name
from mahavishnu.classify.builtin.grammar import WORD, Phrase, by_word
from mahavishnu.classify.builtin.known import N, P, R, T, V
from mahavishnu.classify.exceptions import middle_cut


def of_text(text: str, *, with_codes: bool = True) -> Finding | None:
    """The category that an English error text tells, and which words tell it; None if none do.

    >>> of_text("Adapter failed: connection refused").reason
    "text: 'connection refused'"
    >>> of_text("permission granted to the network team")
    """
    return _remembered(text, with_codes) if len(text) <= _SHORT else _read(text, with_codes)


def _read(text: str, with_codes: bool) -> Finding | None:
    text = middle_cut(text)
    if with_codes and (named := of_named_code(text)) is not None:
        return excused(named, text) if may_be_excused(named) else named
    best: Phrase | None = None
    finding: Finding | None = None
    for clause in clauses(tidied(text)):
        if with_codes and (coded := of_codes(clause)) is not None:
            return excused(coded, text) if may_be_excused(coded) else coded
        for phrase in _candidates(clause):
            if best is not None and phrase.order >= best.order:
                break
            if (words := _asserted(phrase.pattern, clause)) is not None:
                best, finding = phrase, Finding(phrase.category, f"text: {words[:80]!r}")
                break
    if with_codes and (best is None or best.order[0] >= 5):
        return of_shouted_name(text) or finding
    return finding


# Failures come in storms, and a storm says the same over and over.
_SHORT = 400
_remembered = lru_cache(maxsize=2048)(_read)


def may_be_excused(finding: Finding) -> bool:
    """Whether it may stand for something else.

    It does if it is a mere 403, which some services answer where a rate limit or a quota is exceeded, or tells of a
    rate limit: so do some where there is no money left, and for that it helps nothing to slow down. What was merely
    cancelled may have been so because of a timeout; and some drivers have one name for bad statements and for those
    that somebody may not make.
    """
    if finding.category is T or finding.category is V:
        return any(sign in finding.reason for sign in _MAY_BE_OTHERWISE)
    return finding.category is P and ("403" in finding.reason or "orbidden" in finding.reason)


def excused(finding: Finding, text: str) -> Finding:
    """What the text says is the reason for it, if it says so; else the finding."""
    if finding.category is not P:
        for signs, pattern, category in _OTHERWISE:
            if any(sign in finding.reason for sign in signs) and (why := pattern.search(text)) is not None:
                return Finding(category, f"text: {why[0].lower()!r} ({finding.reason})")
        return finding
    better = of_text(text, with_codes=False)
    if better is not None and better.category in (T, R):
        return Finding(better.category, f"{better.reason} ({finding.reason})")
    return finding


_KILLED = re.compile(r"\bsigkill\b|\bsignal 9\b|\bout of memory\b|\boom\b", re.IGNORECASE)
_NOT_ALLOWED = re.compile(r"\baccess (?:control|denied)\b|\bprivileges?\b|\bpermission denied\b", re.IGNORECASE)
_EXISTS = re.compile(r"\balready exists?\b", re.IGNORECASE)
_LATE = re.compile(
    r"\b(?:due to|because of|after|by) (?:(?:a|an|the|its) )?(?:\S+ )?(?:\S*timeout|deadline)\b|\boperation timeout\b",
    re.IGNORECASE,
)
_PAID = re.compile(
    r"\binsufficient[_ ](?:quota|credits?|balance|funds)\b|\bcredit balance\b|\bcurrent quota\b|"
    r"\bbilling (?:details|account|hard limit|plan|status)\b|\bplan and billing\b",
    re.IGNORECASE,
)
# Many answer 400 also where they do not accept who is asking.
_UNPROVEN = re.compile(
    r"\binvalid[_ ]grant\b|\b(?:api|access|refresh|security|auth\w*|bearer|session|id|oauth)[_ ](?:key|token)s? "
    r"(?:\w+ ){0,3}?(?:not valid|invalid|expired|revoked)\b|\bexpired(?:[_ ]\w+)?[_ ]?token\b",
    re.IGNORECASE,
)

# What the name of a passing trouble has in it, the words that tell of another, and which that is.
_OTHERWISE = (
    (("429", "RateLimit", "HTTP 400"), _PAID, R),
    (("HTTP 400",), _UNPROVEN, P),
    (("ancel", "borted", "ackend"), _LATE, N),
    (("onflict",), _EXISTS, V),
    (("Lost", "Crashed", "Died"), _KILLED, R),
    (("ProgrammingError",), _NOT_ALLOWED, P),
)
_MAY_BE_OTHERWISE = tuple(sign for signs, _, _ in _OTHERWISE for sign in signs)


def _candidates(clause: str) -> list[Phrase]:
    """The phrases that may be in the clause, the weightiest first."""
    known_words = by_word()
    words = dict.fromkeys(WORD.findall(clause))  # in their order, so that a text always gets the same reason
    is_without = frozenset(words).isdisjoint
    found = {
        phrase: None for word in words for phrase in known_words.get(word, ()) if not any(map(is_without, phrase.on))
    }
    return sorted(found, key=_weight)


_weight = attrgetter("order")


def _asserted(pattern: re.Pattern[str], clause: str) -> str | None:
    """The words of the first match that the clause does not take back."""
    for match in pattern.finditer(clause):
        words = match.group().strip(" .:;,([")
        if not is_taken_back(words, clause[: match.start()], clause[match.end() :]):
            return words
    return None
