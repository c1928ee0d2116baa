"""The tape of a replayed call: an entry that goes back by a compiled program, once for all the
results whose gradients have come together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...eager import interpreter
from ...eager.autograd.engine import given_up
from ...eager.core.op import Op
from ...eager.core.tape import MODE, Entry
from ...eager.ops.elementwise import pointwise


class Held:
    """What one call keeps for its ways back, and which parts of its tape were given up."""

    __slots__ = ("arrays", "spent")

    def __init__(self, arrays: list[Any]) -> None:
        self.arrays: list[Any] | None = arrays
        self.spent: list[tuple[object, frozenset[Entry]]] = []  # by which backward, and what

    def check(self, run: object, passed: frozenset[Entry]) -> None:
        """Raises GradientError where an earlier backward has given up a part of `passed`."""
        for other, gone in self.spent:
            both = gone & passed if other is not run else None
            if both:
                raise given_up(next(iter(both)))

    def give_up(self, run: object, passed: frozenset[Entry], entries: int) -> None:
        """Marks what a backward has passed; once that is all, the arrays go."""
        self.spent.append((run, passed))
        if len(passed) == entries or len(frozenset().union(*[p for _, p in self.spent])) == entries:
            self.arrays = None


class CompiledBackward(Entry):
    """The results of a call that do not depend on each other: collects their gradients.

    Its edges are the stops of its `level`, in order, and behind them the level below.
    """

    __slots__ = ("below", "held", "level")

    def __init__(self, op: Op, level: Any, held: Held, edges: tuple[Any, ...],
                 below: CompiledBackward | None) -> None:
        super().__init__(op, {}, (), edges if below is None else (*edges, below), None)
        self.level, self.held, self.below = level, held, below

    def back(self, g: Any, sums: Any, useful: Any, keep: bool, step: Callable[..., None]) -> None:
        if self.held.arrays is None:
            raise given_up(self)
        compiled = not MODE.enabled and interpreter.STATE.active is None
        if compiled and useful is None and self.below is not None and self._is_unseen():
            sums.setdefault(self.below, {}).update(g)  # nobody looks at what lies between
            return
        level, run = self.level, sums.setdefault(self.held, object())
        numbers = tuple(sorted(g))
        wanted = None if useful is None else \
            frozenset([i for i in range(len(level.stops)) if self.edges[i] in useful])
        variant = level.variant(numbers, wanted)
        self.held.check(run, variant.passed)
        gradients = [g[i] for i in numbers]
        found = variant.run(self.held.arrays, gradients) if compiled else None
        if found is None:
            found = level.eagerly(self, numbers, wanted, gradients, MODE.enabled)
        for i, gx in found:
            before = sums.get(self.edges[i])
            sums[self.edges[i]] = gx if before is None else pointwise.add(before, gx)
        if not keep:
            self.held.give_up(run, variant.passed, level.entries)

    def _is_unseen(self) -> bool:
        """Whether no hook and no Function stands between this level and those below."""
        return self.level.fuses and not any(
            hasattr(edge, "extra") for edge in self.edges[:self.level.lower])

