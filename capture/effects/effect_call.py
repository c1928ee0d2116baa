"""Defines the elements of a traced path that call Python functions: effects and clock reads.

A replay gathers its effect calls on the way and performs them, in order, after all other changes.
If it gives up before, nothing has been printed. A clock is read where it stands: reading it changes
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from ...eager.core.op import Op
from ...eager.core.tape import Entry, Leaf
from ...eager.core.tensor import Tensor
from ..graph.graph import Node
from ..heap.object_recipes import Recipe, same_recipe
from ..scalars.scalar_expr import ScalarExpr

Pending = Callable[[], None]


class Performer:
    """A function that an effect calls, with everything that is equal in all calls."""

    name: str  # as in the user's code

    def perform(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Calls the function."""
        raise NotImplementedError

    @property
    def runs_python(self) -> bool:
        """True if the call may run Python code: handlers of messages, streams of a user's class."""
        return True

    def raises(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """True if the call would raise an error that Python has to raise in its place."""
        return False


class Display(NamedTuple):
    """What the text of a tensor tells beside its values: its class, and what made it."""

    cls: type[Tensor]
    edge: Op | bool  # the op of its tape entry, or True for a leaf that requires gradients


def display_of(tensor: Tensor) -> Display:
    """What the text of a tensor tells beside its values."""
    edge = tensor.edge
    return Display(type(tensor), edge.op if isinstance(edge, Entry) else edge is not None)


def tensor_for_display(array: Any, display: Display) -> Tensor:
    """A tensor with the text of another one. It is not on the tape."""
    out: Tensor = object.__new__(display.cls)
    out._data, out.edge, out._grad, out._view = array, None, None, None
    if isinstance(display.edge, Op):
        out.edge = Entry(display.edge, {}, (), (), array)
    elif display.edge:
        out.edge = Leaf(out)
    return out


class _Numbers:
    """Reads the numbers of one effect call, as `PathReader` does."""

    def __init__(self, values: Mapping[ScalarExpr, Any]) -> None:
        self.number = values.__getitem__
        self.shared_objects: dict[int, Any] = {}


@dataclass(frozen=True, eq=False)
class EffectCall:
    """A call with an effect: its function, and the recipe of (arguments, keyword arguments) over
    tensors and numbers of the call."""

    performer: Performer
    arguments: Recipe
    nodes: tuple[Node, ...]
    displays: tuple[Display, ...]  # how each tensor is displayed
    formulas: tuple[ScalarExpr, ...]
    site: str
    symbols = ()  # it defines no number

    def same(self, other: Any) -> bool:
        """True if another call performs the same effect on the same values."""
        return isinstance(other, EffectCall) and self.performer == other.performer \
            and self.nodes == other.nodes and self.displays == other.displays \
            and self.formulas == other.formulas and same_recipe(self.arguments, other.arguments)

    def bound(self, arrays: Sequence[Any], numbers: Sequence[Any]) -> Pending | None:
        """A function that performs the effect on these values; None if it would raise an error."""
        tensors = list(map(tensor_for_display, arrays, self.displays))
        reader: Any = _Numbers(dict(zip(self.formulas, numbers)))
        args, kwargs = self.arguments(tensors, reader)
        if self.performer.raises(args, kwargs):
            return None
        return partial(self.performer.perform, args, kwargs)

    def __str__(self) -> str:
        return f"{self.site or 'a line of fusewire'} calls {self.performer.name}"


@dataclass(frozen=True, eq=False)
class ClockRead:
    """A read of a clock, by a function without arguments.

    `token` identifies the number. `nodes`: the values that the code has computed before.
    """

    read: Callable[[], Any]
    token: Any
    nodes: tuple[Node, ...]
    site: str
    formulas = ()  # it reads no number

    @property
    def symbols(self) -> tuple[ScalarExpr, ...]:
        """The number that was read."""
        return (ScalarExpr("phi", (self.token,)),)

    def same(self, other: Any) -> bool:
        """True if another read takes the same place in the code."""
        return isinstance(other, ClockRead) and self.read is other.read \
            and self.token == other.token

    def __str__(self) -> str:
        return f"{self.site or 'a line of fusewire'} reads {self.read.__name__}()"


def perform(effects: Sequence[Pending]) -> None:
    """Performs effects in order."""
    for effect in effects:
        effect()
