"""Turns the arguments of an effect call into a recipe, and into plain values for the traced call.

The recipe holds what the arguments are at the time of the call: the elements of containers, the
values of tensors. Objects of other classes become the text that `print` would show.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Protocol

from ...eager.core.tensor import Tensor
from ...eager.nn.base.parameter import Buffer, Parameter
from ..graph.graph import Node
from ..heap.object_recipes import (
    BuiltContainer,
    FormattedText,
    NumberOf,
    PassedTensor,
    Recipe,
    SameObject,
)
from ..heap.value_kinds import FIXED, is_plain
from ..scalars.scalar_expr import ScalarExpr
from ..scalars.symbolic_scalar import SymbolicScalar, plain_value
from ..sizes.symbolic_dim import Dim
from .effect_call import Display, display_of, tensor_for_display

_MARK = chr(0x10FFFF)  # begins and ends the placeholder of a value in a text
_PLACEHOLDER = re.compile(f"{_MARK}([0-9]+){_MARK}")
_MAX_DEPTH = 20  # of nested containers
_TENSORS = (Tensor, Parameter, Buffer)
_CONTAINERS: dict[Any, str] = {list: "list", tuple: "tuple", set: "set", frozenset: "frozenset"}


class Unsupported(Exception):
    """Raised for an argument that no recipe describes, with the reason."""


class ValueReader(Protocol):
    """The part of a tracer that reads the values of arguments."""

    def node_of(self, tensor: Tensor) -> Node:
        """The node of a tensor's current value."""

    def uses(self, number: SymbolicScalar) -> None:
        """Notes that a number is used."""

    def is_stale(self, number: SymbolicScalar) -> bool:
        """True for a number of an earlier iteration of a loop."""


class FormattedValue:
    """A number or a tensor that stands in a text: formatted by `spec`, or by `repr`."""

    def __init__(self, value: Any, spec: str | None, iteration: int) -> None:
        self.value = tensor_for_display(value._data, display_of(value)) \
            if isinstance(value, Tensor) else value
        self.spec, self.iteration = spec, iteration

    @property
    def text(self) -> str:
        """The text in the traced call."""
        value = plain_value(self.value)
        return repr(value) if self.spec is None else format(value, self.spec)


class Messages:
    """The values in texts of one trace. In a text that goes into messages only, a placeholder
    stands for each value."""

    def __init__(self) -> None:
        self._values: list[FormattedValue] = []
        self._numbers: dict[Any, int] = {}

    def placeholder(self, key: Any, value: FormattedValue) -> str:
        """The text that stands for a value; `key` is equal for equal values."""
        number = self._numbers.setdefault(key, len(self._values))
        if number == len(self._values):
            self._values.append(value)
        return f"{_MARK}{number}{_MARK}"

    def split(self, text: str) -> list[str | FormattedValue]:
        """The fixed parts of a text, and the values between them."""
        if _MARK not in text:
            return [text]
        parts = _PLACEHOLDER.split(text)
        return [self._values[int(part)] if i % 2 else part for i, part in enumerate(parts)
                if i % 2 or part]

    def plain(self, text: str) -> str:
        """The text in the traced call."""
        return "".join([p if isinstance(p, str) else p.text for p in self.split(text)])


class Arguments:
    """The recipe of the arguments of one call, with the tensors and numbers that it reads."""

    def __init__(self, tracer: ValueReader, messages: Messages,
                 is_stale: Callable[[FormattedValue, Any], bool]) -> None:
        self._tracer, self._messages, self._is_stale = tracer, messages, is_stale
        self.nodes: list[Node] = []
        self.displays: list[Display] = []
        self.formulas: dict[ScalarExpr, None] = {}

    def recipe(self, value: Any, depth: int = 0) -> Recipe:
        """The recipe of a value. Raises Unsupported if there is none."""
        kind = type(value)
        if depth > _MAX_DEPTH:
            raise Unsupported("its containers are nested too deeply")
        if kind is str:
            return self._text(value)
        if kind is SymbolicScalar or kind is Dim:
            return NumberOf(self._formula(value))
        if isinstance(value, Tensor):
            return PassedTensor(self._tensor(value))
        if kind in _CONTAINERS:
            if kind in (set, frozenset) and len(value) > 1:
                raise Unsupported("a set has no order that each call repeats")
            return BuiltContainer(_CONTAINERS[kind],
                                  tuple([self.recipe(v, depth + 1) for v in value]))
        if kind is dict:
            return BuiltContainer("dict", tuple([
                BuiltContainer("tuple", (self.recipe(k, depth + 1), self.recipe(v, depth + 1)))
                for k, v in value.items()]))
        if is_plain(value) or isinstance(value, FIXED):
            return SameObject(value)
        raise Unsupported(f"its argument is a {kind.__name__}")

    def plain(self, value: Any) -> Any:
        """The value in the traced call."""
        kind = type(value)
        if kind is str:
            return self._messages.plain(value)
        if kind in _CONTAINERS:
            return kind(map(self.plain, value))
        if kind is dict:
            return {self.plain(k): self.plain(v) for k, v in value.items()}
        return plain_value(value)

    def _text(self, text: str) -> Recipe:
        parts = self._messages.split(text)
        if all(isinstance(part, str) for part in parts):
            return SameObject("".join(map(str, parts)))
        return FormattedText(tuple([part if isinstance(part, str) else self._value(part)
                                    for part in parts]))

    def _value(self, part: FormattedValue) -> tuple[Recipe, str | None]:
        recipe = self.recipe(part.value)
        read = self.nodes[-1] if isinstance(part.value, Tensor) else self._formula(part.value)
        if self._is_stale(part, read):
            raise Unsupported("a text of an earlier iteration of a loop is used")
        return recipe, part.spec

    def _formula(self, number: Any) -> ScalarExpr:
        if type(number) is Dim:
            formula = ScalarExpr("size", (number.expr,))
        else:
            if self._tracer.is_stale(number):
                raise Unsupported("a number of an earlier iteration of a loop is used")
            self._tracer.uses(number)
            formula = number.formula
        self.formulas[formula] = None
        return formula

    def _tensor(self, tensor: Tensor) -> int:
        if type(tensor) not in _TENSORS:
            raise Unsupported(f"its argument is a {type(tensor).__name__}")
        self.nodes.append(self._tracer.node_of(tensor))
        self.displays.append(display_of(tensor))
        return len(self.nodes) - 1
