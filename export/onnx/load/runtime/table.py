"""Holds the table of operators: the function of this package that computes each of them.

The parameters of a function are the operator's inputs, in order, and its attributes, by name.
Annotations say what an input is converted to: a `Tensor`, a tuple of numbers (`Sizes`), a number
(`Number`), a string (`Text`), or no conversion (`Any`). An attribute that became an input in a
later version is one parameter. A version that computes something else has its own entry.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .....eager.errors import FusewireError, ImportModelError
from .values import anything, ints, is_plain, number, tensor_of, text

if TYPE_CHECKING:
    Tensor = Any  # its methods are bound at import, which mypy does not see
else:
    from .....eager.core.tensor import Tensor  # noqa: F401

Sizes = Any   # a tuple of Python numbers
Number = Any  # a Python number
Text = Any    # a Python string
Function = Callable[..., Any]

_MAX_PLAIN_LENGTH = 1 << 12  # of a tuple of Python numbers; longer vectors become tensors
_INT64_END = 1 << 63

# Errors that invalid inputs and attributes raise in functions that do not check them.
FAULTS = (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError)
_CONVERSIONS: dict[str, Function] = {
    "Tensor": tensor_of, "Tensor | None": tensor_of, "Sizes": ints, "Number": number, "Text": text}


@dataclass(frozen=True)
class Operator:
    """An operator from the version `since` on, and the function that computes it."""

    name: str
    domain: str
    since: int
    function: Function
    many: bool                  # True if it returns a tuple of outputs
    settings: tuple[int, ...]   # inputs that are never trained, though they are floats
    conversions: tuple[Function, ...]
    rest: Function              # the conversion of further inputs
    text: str                   # equivalent Python source for tensors of floats; or empty

    def __call__(self, *inputs: Any, **attributes: Any) -> Any:
        try:
            return self._computed(inputs, attributes)
        except FusewireError:
            raise
        except FAULTS as error:
            raise ImportModelError(f"{self.name} fails on these inputs: {type(error).__name__}: "
                                   f"{error}") from error

    def _computed(self, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
        of_sizes = OF_SIZES.get(self.name)
        if of_sizes is not None and all(map(is_plain, inputs)):
            value = of_sizes(*inputs, **attributes)
            if value is not NotImplemented and _stays_plain(value):
                return value
        converted = [convert(x) for convert, x in zip(self.conversions, inputs)]
        converted += [self.rest(x) for x in inputs[len(converted):]]
        return self.function(*converted, **attributes)

    @property
    def label(self) -> str:
        """The name of the operator in source, with its version unless that is the newest."""
        newest = OPERATORS[self.domain, self.name][0]
        return self.name if newest is self else f"{self.name}_{self.since}"


def _stays_plain(value: Any) -> bool:
    """True if sizes may stay Python numbers.

    Long vectors become tensors, so that a loop cannot grow a tuple without end. So do numbers
    beyond 64 bits, which wrap around in ONNX.
    """
    numbers = value if isinstance(value, tuple) else (value,)
    return len(numbers) <= _MAX_PLAIN_LENGTH and all(
        type(n) is not int or -_INT64_END <= n < _INT64_END for n in numbers)


OPERATORS: dict[tuple[str, str], list[Operator]] = {}  # versions, newest first
OF_SIZES: dict[str, Function] = {}  # functions of operators on sizes and shapes


def operator(*names: str, since: int = 1, domain: str = "", many: bool = False,
             settings: tuple[int, ...] = (), text: str = "") -> Callable[[Function], Function]:
    """A decorator that enters a function as the operators `names` from version `since` on.

    text: the Python expression that a user of fusewire would write, with the inputs as {0} and {1},
    and attributes by name.
    """
    def enter(function: Function) -> Function:
        conversions, rest = _conversions(function)
        for name in names:
            versions = OPERATORS.setdefault((domain, name), [])
            versions.append(Operator(name, domain, since, function, many, settings, conversions,
                                     rest, text))
            versions.sort(key=lambda entry: -entry.since)
        return function

    return enter


def of_sizes(*names: str) -> Callable[[Function], Function]:
    """A decorator that enters a function as the operators `names` on sizes and shapes.

    The function returns NotImplemented if its inputs have to become tensors.
    """
    def enter(function: Function) -> Function:
        OF_SIZES.update(dict.fromkeys(names, function))
        return function

    return enter


def _conversions(function: Function) -> tuple[tuple[Function, ...], Function]:
    conversions, rest = [], anything
    for parameter in inspect.signature(function).parameters.values():
        convert = _CONVERSIONS.get(str(parameter.annotation), anything)
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            rest = convert
        elif parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD:
            conversions.append(convert)
    return tuple(conversions), rest


def find(domain: str, name: str, version: int) -> Operator | None:
    """The entry of an operator in a version of its domain; None if there is none."""
    return next((entry for entry in OPERATORS.get((domain, name), ()) if entry.since <= version),
                None)
