"""Defines visitors: functions of blocks with one method for each kind of block.

Every consumer of the control-flow graph is a visitor, so that none tests the classes of blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from .ir import (
    BackEdge,
    Block,
    Branch,
    EndOfBackward,
    Exit,
    HostCall,
    IfMerge,
    LoopBackward,
    LoopHeader,
    SizeDefinition,
    Yield,
)

Result = TypeVar("Result")

METHODS: dict[type[Block], str] = {
    Branch: "branch", SizeDefinition: "size_definition", HostCall: "host_call",
    LoopHeader: "loop_header",
    BackEdge: "back_edge", LoopBackward: "loop_backward", IfMerge: "if_merge",
    Yield: "yield_values", Exit: "exit", EndOfBackward: "end_of_backward",
}


class UnsupportedBlock(NotImplementedError):
    """Raised for a kind of block that a visitor has no method for."""


class Visitor(Generic[Result]):
    """A function of blocks. A subclass has methods for the kinds of blocks that it supports, and
    passes each any further arguments that it needs."""

    def visit(self, block: Block, *context: Any) -> Result:
        """The result of the method for this kind of block."""
        method: Callable[..., Result] = getattr(self, METHODS[type(block)])
        return method(block, *context)

    def other(self, block: Block, *context: Any, **named: Any) -> Result:
        """The result for a kind of block that has no method. Raises UnsupportedBlock, unless a
        subclass has a rule."""
        at = f" at {block.site}" if block.site else ""
        raise UnsupportedBlock(f"{type(self).__name__} has no rule for the block "
                               f"{type(block).__name__}{at}: add the method "
                               f"{METHODS[type(block)]!r}")

    def branch(self, block: Branch, *context: Any, **named: Any) -> Result:
        return self.other(block, *context)

    def size_definition(self, block: SizeDefinition, *context: Any, **named: Any) -> Result:
        return self.other(block, *context)

    def host_call(self, block: HostCall, *context: Any, **named: Any) -> Result:
        return self.other(block, *context)

    def loop_header(self, block: LoopHeader, *context: Any, **named: Any) -> Result:
        return self.other(block, *context)

    def back_edge(self, block: BackEdge, *context: Any, **named: Any) -> Result:
        return self.other(block, *context)

    def loop_backward(self, block: LoopBackward, *context: Any, **named: Any) -> Result:
        return self.other(block, *context)

    def if_merge(self, block: IfMerge, *context: Any, **named: Any) -> Result:
        return self.other(block, *context)

    def yield_values(self, block: Yield, *context: Any, **named: Any) -> Result:
        return self.other(block, *context)

    def exit(self, block: Exit, *context: Any, **named: Any) -> Result:
        return self.other(block, *context)

    def end_of_backward(self, block: EndOfBackward, *context: Any, **named: Any) -> Result:
        return self.other(block, *context)
