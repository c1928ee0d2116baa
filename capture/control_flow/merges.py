"""Defines the elements of a path at a branch whose paths merge."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..graph.graph import Node
from ..scalars.scalar_expr import ScalarExpr


def number_phis(token: Any, count: int, depth: int) -> tuple[ScalarExpr, ...]:
    """The phis of numbers at the merge point `token`, which lies in `depth` loops."""
    return tuple(ScalarExpr("phi", ((token, i, depth),)) for i in range(count))


class MergedBranch(NamedTuple):
    """An element of a path: a decision whose outcomes lead to one merge point."""

    key: Any
    site: str = ""


class Merge(NamedTuple):
    """An element of a path: the merge point, its phis of tensors and of numbers, and their values
    on this path."""

    key: Any
    phis: tuple[Node, ...]
    values: tuple[Node, ...]
    symbols: tuple[ScalarExpr, ...]
    formulas: tuple[ScalarExpr, ...]
    site: str
