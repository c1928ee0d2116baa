"""Matches regular expressions in linear time.

ONNX uses the syntax of RE2, without references to groups and without lookaround. Such an expression
is a nondeterministic automaton. All states that a prefix of the text reaches are followed at once,
letter by letter, so there is no backtracking.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .....eager.errors import ImportModelError, LimitError
from . import limits

_parser: Any = getattr(re, "_parser", None) or re.sre_parse  # type: ignore[attr-defined]
_MAX_STATES = 10_000
_MAX_CACHED_STEPS = 4096
_LETTERS_PER_TICK = 4096  # letters between checks of the time
_TESTS = {name: re.compile(text).match for name, text in (
    ("CATEGORY_DIGIT", r"\d"), ("CATEGORY_NOT_DIGIT", r"\D"), ("CATEGORY_SPACE", r"\s"),
    ("CATEGORY_NOT_SPACE", r"\S"), ("CATEGORY_WORD", r"\w"), ("CATEGORY_NOT_WORD", r"\W"))}
_WORD = _TESTS["CATEGORY_WORD"]

Fits = Callable[[str], bool]
Assertion = Callable[[str, str], bool]  # on the letters before and after; "" at the ends


class Pattern:
    """A regular expression.

    Raises ImportModelError if it is invalid or not supported by RE2, and LimitError if it has too
    many states.
    """

    def __init__(self, text: str) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # FutureWarning on Python's own syntax
                tree = _parser.parse(text)
        except (re.error, OverflowError, RecursionError) as error:
            raise ImportModelError(f"the pattern {text!r:.200} is invalid: {error}") from None
        self._text, self._flags = text, tree.state.flags
        self._fits: list[Fits | None] = []  # the letters that lead from a state to `_next`
        self._next: list[int] = []
        self._free: list[list[tuple[Assertion | None, int]]] = []  # transitions without a letter
        self._cached_steps: dict[Any, frozenset[int]] = {}
        self._last = self._state()
        self._first = self._all(tree, self._last)

    def matches(self, text: str) -> bool:
        """True if the pattern matches the whole text."""
        meter, before = limits.current(), ""
        states = frozenset([self._first])
        for i, letter in enumerate(text):
            if meter is not None and i % _LETTERS_PER_TICK == 0:
                meter.tick()
            states, before = self._step(states, before, letter), letter
            if not states:
                return False
        return self._last in self._reached(states, before, "")

    def _step(self, states: frozenset[int], before: str, letter: str) -> frozenset[int]:
        key = states, before, letter
        if key not in self._cached_steps:
            if len(self._cached_steps) >= _MAX_CACHED_STEPS:
                self._cached_steps.clear()
            self._cached_steps[key] = frozenset(
                self._next[s] for s in self._reached(states, before, letter)
                if (fits := self._fits[s]) is not None and fits(letter))
        return self._cached_steps[key]

    def _reached(self, states: Iterable[int], before: str, after: str) -> set[int]:
        """The states and all that they reach without a letter."""
        reached, todo = set(states), list(states)
        while todo:
            for assertion, state in self._free[todo.pop()]:
                if state not in reached and (assertion is None or assertion(before, after)):
                    reached.add(state)
                    todo.append(state)
        return reached

    # ---- states, created from the last to the first
    def _state(self, fits: Fits | None = None, following: int = -1) -> int:
        if len(self._next) >= _MAX_STATES:
            raise LimitError(f"the pattern {self._text!r:.200} has more than {_MAX_STATES} states",
                             "write it with smaller numbers of repetitions", "nodes")
        self._fits.append(fits)
        self._next.append(following)
        self._free.append([])
        return len(self._next) - 1

    def _fork(self, *targets: int) -> int:
        state = self._state()
        self._free[state] = [(None, target) for target in targets]
        return state

    def _all(self, items: Any, following: int) -> int:
        """The first state of a sequence of items, which continues with `following`."""
        for kind, about in reversed(list(items)):
            make = _MAKERS.get(str(kind))
            if make is None:
                raise ImportModelError(f"the pattern {self._text!r:.200} is not supported: RE2 "
                                       f"has no {kind}", "use no references and no lookaround")
            following = make(self, about, following)
        return following

    def _letter(self, fits: Fits, following: int) -> int:
        return self._state(fits, following)

    def _same(self, code: int) -> Fits:
        letter = chr(code)
        if self._flags & re.IGNORECASE:
            folded = re.compile(re.escape(letter), self._flags & (re.IGNORECASE | re.ASCII))
            return lambda c: folded.match(c) is not None
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
        by_line = self._flags & re.MULTILINE and str(about) in ("AT_BEGINNING", "AT_END")
        assertion = _ASSERTIONS[str(about) + ("_LINE" if by_line else "")]
        self._free[state] = [(assertion, following)]
        return state


def _is_boundary(before: str, after: str) -> bool:
    return (_WORD(before) is not None) != (_WORD(after) is not None)


_ASSERTIONS: dict[str, Assertion] = {
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
