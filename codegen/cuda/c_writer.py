"""Writes CUDA C line by line, and remembers which values have a name already.

A value is written once and called by its name from then on, until the block ends that it was
written in, or something changes that it was made of.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..ir.loop_ir import Buffer, Call, Const, Expr, Load, Read, Register, Var, children
from ..ir.subexpressions import evaluation_order

Source = Register | Buffer | Var  # what a value depends on


class CWriter:
    """The text of a function, block by block."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._known: list[dict[Expr, str]] = [{}]
        self._sources: dict[Expr, frozenset[Source]] = {}
        self._count = 0

    def fresh(self, name: str) -> str:
        """A name that no other value has."""
        self._count += 1
        return f"{name}{self._count}"

    def line(self, text: str) -> None:
        """One line, as far in as its block."""
        self.lines.append("    " * len(self._known) + text)

    def open(self, head: str = "") -> None:
        """Begins a block."""
        self.line(f"{head} {{".lstrip())
        self._known.append({})

    def close(self) -> None:
        """Ends a block, and with it what is known in it."""
        self._known.pop()
        self.line("}")

    # ---- what is known
    def name_of(self, e: Expr) -> str | None:
        """How a value can be written here, None where it has no name yet."""
        return next((known[e] for known in reversed(self._known) if e in known), None)

    def know(self, e: Expr, text: str) -> None:
        """From here to the end of the block a value can be written like this."""
        self._known[-1][e] = text

    def forget(self, changed: Iterable[Source]) -> None:
        """What depends on one of these is no longer known."""
        gone = set(changed)
        for known in self._known:
            for e in [e for e in known if not gone.isdisjoint(self.sources(e))]:
                del known[e]

    def sources(self, e: Expr) -> frozenset[Source]:
        """The registers, buffers and variables that a value is made of."""
        if isinstance(e, Const):
            return frozenset()
        found = self._sources.get(e)
        if found is None:
            for x in evaluation_order(e, self._sources.__contains__):
                own = _own_source(x)
                self._sources[x] = own.union(*[self._sources[y] for y in children(x)
                                               if not isinstance(y, Const)])
            found = self._sources[e]
        return found


def _own_source(e: Expr) -> frozenset[Source]:
    if isinstance(e, Var):
        return frozenset([e])
    if isinstance(e, Read):
        return frozenset([e.register])
    return frozenset([e.buffer] if isinstance(e, Load) else ())


def uses(roots: Iterable[Expr]) -> dict[Expr, int]:
    """How often each value is read by others and by statements."""
    found: dict[Expr, int] = {}
    stack = list(roots)
    while stack:
        e = stack.pop()
        found[e] = found.get(e, 0) + 1
        if found[e] == 1 and isinstance(e, (Call, Load)):
            stack.extend(children(e))
    return found
