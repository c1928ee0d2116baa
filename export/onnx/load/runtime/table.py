"""The table of operators: what each of them computes, as a function of this package's own ops.

An entry is a function whose parameters are the operator's inputs, in order, and its attributes, by
name. Its annotations say what an input has to be: a `Tensor`, a tuple of plain numbers (`Sizes`),
one plain number (`Number`), a text (`Text`), or whatever it is (`Any`). What ONNX has as an
attribute in one version and as an input in the next is one parameter. Where a version computes
something else, it has an entry of its own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .....eager.errors import FusewireError, ImportModelError
from .values import anything, ints, is_plain, number, tensor_of, text

if TYPE_CHECKING:
    Tensor = Any  # whose methods are bound at import, where mypy does not see it
else:
    from .....eager.core.tensor import Tensor  # noqa: F401

Sizes = Any   # a tuple of plain numbers
Number = Any  # a plain number
Text = Any    # a text
Function = Callable[..., Any]

_LONGEST = 1 << 12  # of a vector of plain numbers
_BEYOND = 1 << 63   # of what int64 holds

# What inputs and attributes that make no sense lead to, where an operator's function has no check.
FAULTS = (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError)
_CONVERSIONS: dict[str, Function] = {
    "Tensor": tensor_of, "Tensor | None": tensor_of, "Sizes": ints, "Number": number, "Text": text}


@dataclass(frozen=True)
class Operator:
    """What an operator computes, from the version `since` on."""

    name: str
    domain: str
    since: int
    function: Function
    many: bool                  # whether it gives a tuple of outputs
    settings: tuple[int, ...]   # inputs that are not trained though they are floats
    conversions: tuple[Function, ...]
    rest: Function              # the conversion of further inputs
    text: str                   # source that says the same for tensors of floats; or empty

    def __call__(self, *inputs: Any, **attributes: Any) -> Any:
        try:
            return self._computed(inputs, attributes)
        except FusewireError:
            raise
        except FAULTS as error:
            raise ImportModelError(f"{self.name} cannot be computed so: {type(error).__name__}: "
                                   f"{error}") from error

    def _computed(self, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
        of_sizes = OF_SIZES.get(self.name)
        if of_sizes is not None and all(map(is_plain, inputs)):
            found = of_sizes(*inputs, **attributes)
            if found is not NotImplemented and _stays_plain(found):
                return found
        given = [convert(x) for convert, x in zip(self.conversions, inputs)]
        given += [self.rest(x) for x in inputs[len(given):]]
        return self.function(*given, **attributes)

    @property
    def label(self) -> str:
        """The name under which source calls it: with its version where it is not the newest."""
        newest = OPERATORS[self.domain, self.name][0]
        return self.name if newest is self else f"{self.name}_{self.since}"


def _stays_plain(value: Any) -> bool:
    """Whether sizes are such still, and not what grows in a loop without end: longer vectors are
    tensors, and so are numbers beyond 64 bits, which begin anew as ONNX has it."""
    numbers = value if isinstance(value, tuple) else (value,)
    return len(numbers) <= _LONGEST and all(
        type(n) is not int or -_BEYOND <= n < _BEYOND for n in numbers)


OPERATORS: dict[tuple[str, str], list[Operator]] = {}  # versions, newest first
OF_SIZES: dict[str, Function] = {}  # what operators give for sizes and shapes


def operator(*names: str, since: int = 1, domain: str = "", many: bool = False,
             settings: tuple[int, ...] = (), text: str = "") -> Callable[[Function], Function]:
    """Enters a function as the operators `names` from version `since` of their domain on.

    text: what users of fusewire would write, with the inputs as {0} and {1}, attributes by name.
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
    """Enters a function as what operators give where all inputs are sizes and shapes.

    NotImplemented where they have to become tensors.
    """
    def enter(function: Function) -> Function:
        OF_SIZES.update(dict.fromkeys(names, function))
        return function

    return enter


def _conversions(function: Function) -> tuple[tuple[Function, ...], Function]:
    found, rest = [], anything
    for parameter in inspect.signature(function).parameters.values():
        convert = _CONVERSIONS.get(str(parameter.annotation), anything)
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            rest = convert
        elif parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD:
            found.append(convert)
    return tuple(found), rest


def find(domain: str, name: str, version: int) -> Operator | None:
    """The entry of an operator in a version of its domain."""
    return next((entry for entry in OPERATORS.get((domain, name), ()) if entry.since <= version),
                None)
