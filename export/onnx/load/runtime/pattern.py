"""Regular expressions that take time in proportion to the text, whatever they are.

ONNX has the expressions of RE2: without references to groups and without looking around. Such a one
is a network of states. All states that a text can lead to are followed at once, letter by letter,
so no text is gone through twice, as Python's own search does where it has to come back.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .....eager.errors import ImportModelError, LimitError
from . import limits

_parser: Any = getattr(re, "_parser", None) or re.sre_parse  # type: ignore[attr-defined]
_MOST = 10_000   # states of a pattern
_KNOWN = 4096    # steps that are remembered
_LETTERS = 4096  # between looks at the clock
_TESTS = {name: re.compile(text).match for name, text in (
    ("CATEGORY_DIGIT", r"\d"), ("CATEGORY_NOT_DIGIT", r"\D"), ("CATEGORY_SPACE", r"\s"),
    ("CATEGORY_NOT_SPACE", r"\S"), ("CATEGORY_WORD", r"\w"), ("CATEGORY_NOT_WORD", r"\W"))}
_WORD = _TESTS["CATEGORY_WORD"]

Fits = Callable[[str], bool]
Asks = Callable[[str, str], bool]  # of the letters before and after a place; "" at the ends


class Pattern:
    """A regular expression. ImportModelError for one that cannot be read, or that RE2 has not;
    LimitError for one with too many states."""

    def __init__(self, text: str) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what Python's own may mean one day
                tree = _parser.parse(text)
        except (re.error, OverflowError, RecursionError) as error:
            raise ImportModelError(f"the pattern {text!r:.200} cannot be read: {error}") from None
        self._text, self._flags = text, tree.state.flags
        self._fits: list[Fits | None] = []  # which letters lead on from a state
        self._next: list[int] = []
        self._free: list[list[tuple[Asks | None, int]]] = []  # what leads on without a letter
        self._known: dict[Any, frozenset[int]] = {}
        self._last = self._state()
        self._first = self._all(tree, self._last)

    def matches(self, text: str) -> bool:
        """Whether the pattern is the whole of a text."""
        meter, before = limits.current(), ""
        states = frozenset([self._first])
        for i, letter in enumerate(text):
            if meter is not None and i % _LETTERS == 0:
                meter.tick()
            states, before = self._step(states, before, letter), letter
            if not states:
                return False
        return self._last in self._reached(states, before, "")

    def _step(self, states: frozenset[int], before: str, letter: str) -> frozenset[int]:
        key = states, before, letter
        if key not in self._known:
            if len(self._known) >= _KNOWN:
                self._known.clear()
            self._known[key] = frozenset(
                self._next[s] for s in self._reached(states, before, letter)
                if (fits := self._fits[s]) is not None and fits(letter))
        return self._known[key]

    def _reached(self, states: Iterable[int], before: str, after: str) -> set[int]:
        """These states and all that they lead to without a letter."""
        found, left = set(states), list(states)
        while left:
            for asks, state in self._free[left.pop()]:
                if state not in found and (asks is None or asks(before, after)):
                    found.add(state)
                    left.append(state)
        return found

    # ---- states, each made after those that follow it
    def _state(self, fits: Fits | None = None, following: int = -1) -> int:
        if len(self._next) >= _MOST:
            raise LimitError(f"the pattern {self._text!r:.200} has more than {_MOST} states",
                             "write it with smaller numbers of repetitions", "nodes")
        self._fits.append(fits)
        self._next.append(following)
        self._free.append([])
        return len(self._next) - 1

    def _fork(self, *ways: int) -> int:
        state = self._state()
        self._free[state] = [(None, way) for way in ways]
        return state

    def _all(self, items: Any, following: int) -> int:
        """The first state of items in a row."""
        for kind, about in reversed(list(items)):
            make = _MAKERS.get(str(kind))
            if make is None:
                raise ImportModelError(f"the pattern {self._text!r:.200} is no pattern of RE2: "
                                       f"it has {kind}", "such as references and looking around")
            following = make(self, about, following)
        return following

    def _letter(self, fits: Fits, following: int) -> int:
        return self._state(fits, following)

    def _same(self, code: int) -> Fits:
        letter = chr(code)
        if self._flags & re.IGNORECASE:
            found = re.compile(re.escape(letter), self._flags & (re.IGNORECASE | re.ASCII))
            return lambda c: found.match(c) is not None
        return lambda c: c == letter

    def _literal(self, code: int, following: int) -> int:
        return self._letter(self._same(code), following)

    def _not_literal(self, code: int, following: int) -> int:
        same = self._same(code)
        return self._letter(lambda c: not same(c), following)

    def _any(self, about: None, following: int) -> int:
        lines = not self._flags & re.DOTALL
        return self._letter(lambda c: not lines or c != "\n", following)

    def _in(self, about: Any, following: int) -> int:
        negated = bool(about) and str(about[0][0]) == "NEGATE"
        tests = list(self._tests(about[1:] if negated else about))
        return self._letter(lambda c: any([t(c) for t in tests]) is not negated, following)

    def _tests(self, about: Any) -> Iterator[Fits]:
        for kind, value in about:
            if str(kind) == "LITERAL":
                yield self._same(value)
            elif str(kind) == "RANGE":
                yield self._between(*value)
            else:
                yield lambda c, test=_TESTS[str(value)]: test(c) is not None  # type: ignore[misc]

    def _between(self, low: int, high: int) -> Fits:
        if self._flags & re.IGNORECASE:
            return lambda c: any(low <= ord(d) <= high for d in {c, *c.lower(), *c.upper()})
        return lambda c: low <= ord(c) <= high

    def _branch(self, about: Any, following: int) -> int:
        return self._fork(*[self._all(items, following) for items in about[1]])

    def _group(self, about: Any, following: int) -> int:
        before = self._flags
        self._flags = (before | about[1]) & ~about[2]
        try:
            return self._all(about[3], following)
        finally:
            self._flags = before

    def _repeat(self, about: Any, following: int) -> int:
        least, most, items = about
        if most == _parser.MAXREPEAT:
            end = again = self._state()
            first = self._all(items, again)
            self._free[end] = [(None, first), (None, following)]
        else:
            end = following
            for _ in range(most - least):
                end = self._fork(self._all(items, end), following)
        for _ in range(least):
            end = self._all(items, end)
        return end

    def _at(self, about: Any, following: int) -> int:
        state = self._state()
        asks = _PLACES[str(about) + ("_LINE" if self._flags & re.MULTILINE and str(about) in (
            "AT_BEGINNING", "AT_END") else "")]
        self._free[state] = [(asks, following)]
        return state


def _is_boundary(before: str, after: str) -> bool:
    return (_WORD(before) is not None) != (_WORD(after) is not None)


_PLACES: dict[str, Asks] = {
    "AT_BEGINNING": lambda before, after: not before,
    "AT_BEGINNING_STRING": lambda before, after: not before,
    "AT_BEGINNING_LINE": lambda before, after: before in ("", "\n"),
    "AT_END": lambda before, after: not after,
    "AT_END_STRING": lambda before, after: not after,
    "AT_END_LINE": lambda before, after: after in ("", "\n"),
    "AT_BOUNDARY": _is_boundary,
    "AT_NON_BOUNDARY": lambda before, after: not _is_boundary(before, after),
}
_MAKERS: dict[str, Callable[[Pattern, Any, int], int]] = {
    "LITERAL": Pattern._literal, "NOT_LITERAL": Pattern._not_literal, "ANY": Pattern._any,
    "IN": Pattern._in, "BRANCH": Pattern._branch, "SUBPATTERN": Pattern._group,
    "MAX_REPEAT": Pattern._repeat, "MIN_REPEAT": Pattern._repeat, "AT": Pattern._at,
}
