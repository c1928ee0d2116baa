"""What `x.grad_fn` is: a node of the graph of gradients, to look at."""

from __future__ import annotations

from typing import Any


class Node:
    """An op that ran, or a leaf to which gradients are added."""

    __slots__ = ("entry",)
    __module__ = "fusewire.torch"

    def __init__(self, entry: Any) -> None:
        self.entry = entry

    def name(self) -> str:
        """The name of the op with "Backward", or "AccumulateGrad" for a leaf."""
        op = getattr(self.entry, "op", None)
        if op is None:
            return "AccumulateGrad"
        return "".join(part.capitalize() for part in op.name.split("_")) + "Backward"

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """The nodes of the inputs, each with the number of its output; None without a gradient."""
        return tuple((None if edge is None else Node(edge), 0) for edge in self.entry.edges)

    @property
    def variable(self) -> Any:
        """The tensor of a leaf."""
        return self.entry.tensor()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and other.entry is self.entry

    def __hash__(self) -> int:
        return id(self.entry)

    def __repr__(self) -> str:
        return f"<{self.name()}>"
