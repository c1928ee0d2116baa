"""Defines the elements of a path that begin and repeat a loop."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..graph.graph import Node
from ..scalars.scalar_expr import ScalarExpr


class LoopEntry(NamedTuple):
    """An element of a path: a loop header, its phis of tensors and of numbers, and their initial
    values."""

    token: Any
    phis: tuple[Node, ...]
    values: tuple[Node, ...]
    symbols: tuple[ScalarExpr, ...]
    formulas: tuple[ScalarExpr, ...]
    site: str


class LoopRepeat(NamedTuple):
    """An element of a path: a back edge with the values of the phis in the next iteration."""

    token: Any
    values: tuple[Node, ...]
    formulas: tuple[ScalarExpr, ...]
    site: str
