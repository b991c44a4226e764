"""How the time of a regular expression grows with the length of the text, in the worst case.

Python tries one way after the other. If a text can be matched up to one place in two ways that both go on over the same
repeated part, the number of tries grows with the square of its length; if it can come back to the same state in two
ways, the number doubles with every repetition. Both are properties of the automaton of the pattern and are found there
(Weideman et al., "Analyzing Matching Time Behavior of Backtracking Regular Expression Matchers by Using Ambiguity of
NFA"). The automaton accepts a little more than the pattern: what it calls linear is linear, not always the reverse.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from enum import IntEnum
from itertools import permutations, product
from re import _constants as op
from re import _parser as parser
from typing import Any, NamedTuple

_AS_GOOD_AS_ENDLESS = 256  # repetitions
_FEW = 3  # as many of a bounded repetition are looked at: it adds a factor, however large the bound is
_MOST_STEPS = 200_000  # a second or so
_OTHERS = "\xa0\xdf\xe9\xc9\u017f\u0663\u2013\u2019\u2028\u212a\u4e2d"  # of each kind one
_SAMPLE = [*map(chr, [*range(9, 14), *range(32, 127)]), *_OTHERS]


class Growth(IntEnum):
    """How the time of a search grows with the length of the text."""

    LINEAR = 1
    POLYNOMIAL = 2
    EXPONENTIAL = 3


def growth_of(pattern: re.Pattern[str]) -> Growth:
    """How the time of `pattern.search` grows; POLYNOMIAL for what is too large to be examined."""
    try:
        tree = parser.parse(pattern.pattern, pattern.flags)
        return _Automaton(tree, pattern.flags).growth() if _repeats(tree) else Growth.LINEAR
    except _TooLarge:
        return Growth.POLYNOMIAL


class _TooLarge(Exception):
    pass


class _Guard(NamedTuple):
    """A condition on the characters around a place: sets of them, as bits; None where anything may stand."""

    before: int | None = None
    after: int | None = None
    boundary: bool | None = None  # whether a word begins or ends here


_ANYWHERE = _Guard()


class _Automaton:
    """A pattern as states, free moves under conditions, and moves over one character. State 0 stays where it is."""

    def __init__(self, tree: Any, flags: int) -> None:
        self.characters = list(dict.fromkeys([*_SAMPLE, *_literals(tree)]))
        self.all = (1 << len(self.characters)) - 1
        self.free: list[list[tuple[_Guard, int]]] = []
        self.moves: list[list[tuple[int, int]]] = []
        self.groups: dict[int, Any] = {}
        self.doubles = False  # a repetition of what may be empty in several ways
        self.steps = 0
        self.words = self._category(op.CATEGORY_WORD, flags)
        start = self._state()
        self.moves[start].append((self.all, start))  # a search begins anywhere
        self.end = self._add(tree, flags, start)
        self._classify_characters()
        self._known: dict[tuple[int, int, int], tuple[int, ...]] = {}

    # --- from the pattern to the automaton

    def _state(self) -> int:
        self.free.append([])
        self.moves.append([])
        return len(self.free) - 1

    def _link(self, state: int, target: int, guard: _Guard = _ANYWHERE) -> None:
        self.free[state].append((guard, target))

    def _add(self, items: Iterable[tuple[Any, Any]], flags: int, state: int) -> int:
        for code, argument in items:
            state = self._add_one(code, argument, flags, state)
        return state

    def _add_one(self, code: Any, argument: Any, flags: int, state: int) -> int:
        """Add one item of the pattern after the state; returns the state after the item."""
        if (characters := self._set(code, argument, flags)) is not None:
            end = self._state()
            self.moves[state].append((characters, end))
            return end
        if code is op.SUBPATTERN:
            group, added, removed, inner = argument
            self.groups[group] = inner
            return self._add(inner, flags & ~removed | added, state)
        if code is op.ATOMIC_GROUP:
            return self._add(argument, flags, state)
        if code is op.GROUPREF:
            return self._add(self.groups[argument], flags, state)
        if code in (op.BRANCH, op.GROUPREF_EXISTS):
            branches = argument[1] if code is op.BRANCH else [each or [] for each in argument[1:]]
            end = self._state()
            for branch in branches:
                self._link(self._add(branch, flags, state), end)
            return end
        if code in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
            return self._repeat(code, argument, flags, state)
        if code in (op.ASSERT, op.ASSERT_NOT):
            return self._look(code, argument, flags, state)
        end = self._state()
        self._link(state, end, self._at(argument, flags) if code is op.AT else _ANYWHERE)
        return end

    def _repeat(self, code: Any, argument: Any, flags: int, state: int) -> int:
        least, most, body = argument
        for _ in range(min(least, _FEW)):
            state = self._add(body, flags, state)
        end = self._state()
        if most < _AS_GOOD_AS_ENDLESS:
            for _ in range(min(most, _FEW) - min(least, _FEW)):
                self._link(state, end)
                state = self._add(body, flags, state)
            self._link(state, end)
            return end
        loop = self._state()
        self._link(state, loop)
        self._link(self._add(body, flags, loop), loop)
        low, _ = body.getwidth()
        self.doubles |= low == 0 and _repeats(body)
        single = self._single(body, flags)
        keeps = code is op.POSSESSIVE_REPEAT and single is not None  # it gives nothing back
        self._link(loop, end, _Guard(after=self.all & ~(single or 0)) if keeps else _ANYWHERE)
        return end

    def _look(self, code: Any, argument: Any, flags: int, state: int) -> int:
        """A look ahead or back: a condition if it is about one character, else also a path that ends nowhere."""
        direction, body = argument
        end = self._state()
        single = self._single(body, flags)
        if single is None:
            self._link(state, end, _Guard(before=self.all))  # as if it were so, but not without a condition
            if direction > 0:
                self._add(body, flags, state)
            return end
        if code is op.ASSERT_NOT:
            single = self.all & ~single
        self._link(state, end, _Guard(after=single) if direction > 0 else _Guard(before=single))
        return end

    def _at(self, place: Any, flags: int) -> _Guard:
        newline = self._bits("\n") if flags & re.MULTILINE else 0
        if place in (op.AT_BEGINNING, op.AT_BEGINNING_STRING):
            return _Guard(before=newline if place is op.AT_BEGINNING else 0)
        if place in (op.AT_END, op.AT_END_STRING):
            return _Guard(after=newline if place is op.AT_END else 0)
        return _Guard(boundary=place is op.AT_BOUNDARY)

    def _single(self, items: Any, flags: int) -> int | None:
        """The characters that items match, if they are one that is one character long."""
        if len(items) != 1:
            return None
        code, argument = items[0]
        return self._set(code, argument, flags)

    def _set(self, code: Any, argument: Any, flags: int) -> int | None:
        """The characters that an item matches, if it is one character long."""
        if code is op.ANY:
            return self.all if flags & re.DOTALL else self.all & ~self._bits("\n")
        if code is op.NOT_LITERAL:
            return self.all & ~self._letter(argument, flags)
        if code is op.LITERAL:
            return self._letter(argument, flags)
        if code is op.CATEGORY:
            return self._category(argument, flags)
        if code is op.RANGE:
            low, high = argument
            return self._any(lambda each: low <= ord(each) <= high, flags)
        if code is op.BRANCH:
            sets = [self._single(branch, flags) for branch in argument[1]]
            return None if None in sets else _union(each for each in sets if each is not None)
        if code is op.SUBPATTERN:
            group, added, removed, inner = argument
            self.groups[group] = inner
            return self._single(inner, flags & ~removed | added)
        if code is not op.IN:
            return None
        negated = argument[0][0] is op.NEGATE
        found = _union(self._set(code, inner, flags) or 0 for code, inner in argument[negated:])
        return self.all & ~found if negated else found

    def _letter(self, number: int, flags: int) -> int:
        return self._any(lambda each: ord(each) == number, flags)

    def _category(self, category: Any, flags: int) -> int:
        letter = {"DIGIT": "d", "SPACE": "s", "WORD": "w"}[str(category).rpartition("_")[2]]
        kind = re.compile(f"\\{letter}", flags & re.ASCII)
        found = self._bits(each for each in self.characters if kind.match(each))
        return self.all & ~found if "_NOT_" in str(category) else found

    def _any(self, holds: Any, flags: int) -> int:
        cases = (str.lower, str.upper) if flags & re.IGNORECASE else ()
        return self._bits(
            each
            for each in self.characters
            if holds(each) or any(len(case(each)) == 1 and holds(case(each)) for case in cases)
        )

    def _bits(self, characters: Iterable[str]) -> int:
        return _union(1 << self.characters.index(each) for each in characters)

    def _classify_characters(self) -> None:
        """Keep one character of those that the pattern does not tell apart."""
        sets = {characters for moves in self.moves for characters, _ in moves} | {self.words}
        sets |= {each for links in self.free for guard, _ in links for each in guard[:2] if each is not None}
        kinds = {tuple(each >> place & 1 for each in sets): place for place in range(len(self.characters))}
        self.kinds = list(kinds.values())

    # --- what the automaton does

    def _next(self, state: int, before: int, character: int) -> tuple[int, ...]:
        """The states after a character, each once."""
        key = state, before, character
        if (known := self._known.get(key)) is not None:
            return known
        seen, waiting = {state}, [state]
        found: dict[int, None] = {}
        at_word = (self.words >> before ^ self.words >> character) & 1
        while waiting:
            here = waiting.pop()
            found.update((target, None) for characters, target in self.moves[here] if characters >> character & 1)
            for guard, target in self.free[here]:
                if (
                    target not in seen
                    and (guard.before is None or guard.before >> before & 1)
                    and (guard.after is None or guard.after >> character & 1)
                    and (guard.boundary is None or guard.boundary == at_word)
                ):
                    seen.add(target)
                    waiting.append(target)
        self._count(len(seen))
        self._known[key] = tuple(found)
        return self._known[key]

    def _count(self, steps: int) -> None:
        self.steps += steps
        if self.steps > _MOST_STEPS:
            raise _TooLarge

    def growth(self) -> Growth:
        loops = self._loops()
        rings: dict[int, list[int]] = {}
        for state, ring in loops.items():
            rings.setdefault(ring, []).append(state)
        if self.doubles or any(self._doubles(ring, loops) for ring in rings.values()):
            return Growth.EXPONENTIAL
        for one, other in permutations(rings.values(), 2):
            if other[0] in self.reach[one[0]]:
                for start in self._together(one, other, loops):
                    if self._goes_on_twice(*start, loops):
                        return Growth.POLYNOMIAL
        return Growth.LINEAR

    def _loops(self) -> dict[int, int]:
        """The states that come back to themselves, with a number for each set of those that reach one another.

        A state after which the pattern has matched, whatever follows, is none: nothing else is tried then.
        """
        free = {state: self._free_reach(state, lambda guard: True) for state in range(len(self.free))}
        edges = {state: {target for each in free[state] for _, target in self.moves[each]} for state in free}
        self.reach = {state: _reachable(state, edges.__getitem__) for state in edges}
        return {
            state: min(other for other in self.reach[state] if state in self.reach[other])
            for state in edges
            if state in self.reach[state] and self.end not in self._free_reach(state, lambda guard: guard is _ANYWHERE)
        }

    def _free_reach(self, start: int, allows: Callable[[_Guard], bool]) -> set[int]:
        links = self.free
        return {start} | _reachable(start, lambda state: [target for guard, target in links[state] if allows(guard)])

    def _together(self, one: list[int], other: list[int], loops: dict[int, int]) -> set[tuple[int, int, int]]:
        """A state of each ring and a character before them, from where both rings can read one text for ever."""
        nexts = {}
        for left, right, before in product(one, other, self.kinds):
            self._count(len(self.kinds))
            nexts[left, right, before] = {
                (*pair, character)
                for character in self.kinds
                for pair in product(*(self._in_ring(state, before, character, loops) for state in (left, right)))
            }
        while True:
            entered = set().union(*nexts.values())
            lasting = {place for place, targets in nexts.items() if targets and place in entered}
            if len(lasting) == len(nexts):
                return lasting
            nexts = {place: nexts[place] & lasting for place in lasting}

    def _in_ring(self, state: int, before: int, character: int, loops: dict[int, int]) -> list[int]:
        return [each for each in self._next(state, before, character) if loops.get(each) == loops[state]]

    def _doubles(self, ring: list[int], loops: dict[int, int]) -> bool:
        """Whether some text leads from a state of the ring back to it in two ways."""
        pairs = self._together(ring, ring, loops) if ring != [0] else set()
        apart = {place for place in pairs if place[0] != place[1]}
        together = [place for place in pairs if place[0] == place[1]]
        number = {0: loops[ring[0]], 1: loops[ring[0]]}
        return any(
            start in self._walk(found, number, loops)
            for start in (together if apart else ())
            for found in self._walk(start, number, loops) & apart
        )

    def _goes_on_twice(self, one: int, other: int, before: int, loops: dict[int, int]) -> bool:
        """Whether some text leads from `one` to itself and to `other`, and from `other` to itself."""
        rings = {0: loops[one], 2: loops[other]}
        return (one, other, other, before) in self._walk((one, one, other, before), rings, loops, other)

    def _walk(
        self, start: tuple[int, ...], rings: dict[int, int], loops: dict[int, int], toward: int | None = None
    ) -> set[tuple[int, ...]]:
        """What several copies that read the same text reach, as their states and the last character.

        A copy in `rings` stays among the states of that number; the middle one can still come to `toward`.
        """
        seen: set[tuple[int, ...]] = set()
        waiting = [start]
        while waiting:
            *states, before = waiting.pop()
            for character in self.kinds:
                nexts = [
                    [each for each in self._next(state, before, character) if loops.get(each) == rings[place]]
                    if place in rings
                    else [
                        each
                        for each in self._next(state, before, character)
                        if each == toward or toward in self.reach[each]
                    ]
                    for place, state in enumerate(states)
                ]
                for reached in product(*nexts):
                    found = (*reached, character)
                    if found not in seen:
                        seen.add(found)
                        waiting.append(found)
                        self._count(1)
        return seen


def _union(sets: Iterable[int]) -> int:
    found = 0
    for each in sets:
        found |= each
    return found


def _reachable(start: int, nexts: Callable[[int], Iterable[int]]) -> set[int]:
    found: set[int] = set()
    waiting = [*nexts(start)]
    while waiting:
        state = waiting.pop()
        if state not in found:
            found.add(state)
            waiting += nexts(state)
    return found


def _inner(argument: Any) -> Iterable[Any]:
    """The patterns inside of an item's argument."""
    if isinstance(argument, parser.SubPattern):
        yield argument
    elif isinstance(argument, list | tuple):
        for each in argument:
            yield from _inner(each)


def _literals(tree: Any) -> Iterable[str]:
    for code, argument in tree:
        if code in (op.LITERAL, op.NOT_LITERAL):
            yield chr(argument)
        elif code is op.IN:
            yield from _literals(argument)
        elif code is op.RANGE:
            yield from map(chr, argument)
        else:
            for inner in _inner(argument):
                yield from _literals(inner)


def _repeats(tree: Any) -> bool:
    return any(
        (code in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT) and argument[1] >= _AS_GOOD_AS_ENDLESS)
        or any(map(_repeats, _inner(argument)))
        for code, argument in tree
    )
