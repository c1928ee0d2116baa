"""Writes CUDA C line by line, and reuses the names of values that are already written.

A value is written once. Later uses refer to its name, until its block ends or something that it
depends on changes.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..ir.loop_ir import Call, Const, Expr, KernelBuffer, Load, Read, Register, Var, children
from ..ir.subexpressions import evaluation_order

Dependency = Register | KernelBuffer | Var  # what a value depends on


class CWriter:
    """The text of a function, block by block."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._scopes: list[dict[Expr, str]] = [{}]
        self._dependencies: dict[Expr, frozenset[Dependency]] = {}
        self._count = 0

    def fresh(self, name: str) -> str:
        """A name that no other value has."""
        self._count += 1
        return f"{name}{self._count}"

    def line(self, text: str) -> None:
        """Appends a line, indented by its block."""
        self.lines.append("    " * len(self._scopes) + text)

    def open(self, head: str = "") -> None:
        """Begins a block."""
        self.line(f"{head} {{".lstrip())
        self._scopes.append({})

    def close(self) -> None:
        """Ends a block and the scope of its names."""
        self._scopes.pop()
        self.line("}")

    # ---- values in scope
    def name_in_scope(self, e: Expr) -> str | None:
        """The text of a value that is in scope; None if it has not been written."""
        return next((scope[e] for scope in reversed(self._scopes) if e in scope), None)

    def remember(self, e: Expr, text: str) -> None:
        """Records the text of a value, valid until the block ends."""
        self._scopes[-1][e] = text

    def invalidate(self, changed: Iterable[Dependency]) -> None:
        """Removes the names of values that depend on any of these."""
        stale = set(changed)
        for scope in self._scopes:
            for e in [e for e in scope if not stale.isdisjoint(self.dependencies(e))]:
                del scope[e]

    def dependencies(self, e: Expr) -> frozenset[Dependency]:
        """The registers, buffers and variables that a value depends on."""
        if isinstance(e, Const):
            return frozenset()
        result = self._dependencies.get(e)
        if result is None:
            for x in evaluation_order(e, self._dependencies.__contains__):
                own_dependency = _own_dependency(x)
                self._dependencies[x] = own_dependency.union(*[self._dependencies[y]
                                                               for y in children(x)
                                                               if not isinstance(y, Const)])
            result = self._dependencies[e]
        return result


def _own_dependency(e: Expr) -> frozenset[Dependency]:
    if isinstance(e, Var):
        return frozenset([e])
    if isinstance(e, Read):
        return frozenset([e.register])
    return frozenset([e.buffer] if isinstance(e, Load) else ())


def use_counts(roots: Iterable[Expr]) -> dict[Expr, int]:
    """The number of uses of each value by other values and by statements."""
    counts: dict[Expr, int] = {}
    stack = list(roots)
    while stack:
        e = stack.pop()
        counts[e] = counts.get(e, 0) + 1
        if counts[e] == 1 and isinstance(e, (Call, Load)):
            stack.extend(children(e))
    return counts
