"""Defines recipes: callable data with which a replay reconstructs objects.

A recipe takes the output tensors of a call and a reader of access paths, and returns an object.
"""

from __future__ import annotations

import dataclasses
import functools
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...eager.core.views import ACCESSES, view_of
from ..scalars.scalar_expr import ScalarExpr
from .access_path import Path
from .path_reader import PathReader

Recipe = Callable[[list[Any], PathReader], Any]


@dataclass(frozen=True, eq=False)
class SameObject:
    """One fixed object for all calls."""

    value: Any

    def __call__(self, tensors: list[Any], read: PathReader) -> Any:
        return self.value


@dataclass(frozen=True, eq=False)
class ObjectAtPath:
    """The object at an access path."""

    path: Path

    def __call__(self, tensors: list[Any], read: PathReader) -> Any:
        return read(self.path)


@dataclass(frozen=True, eq=False)
class PassedTensor:
    """An output tensor."""

    number: int

    def __call__(self, tensors: list[Any], read: PathReader) -> Any:
        return tensors[self.number]


@dataclass(eq=False)
class View:
    """An output tensor that is a view of another tensor, by the access of this name. `base` is None
    if no other tensor with its elements outlives the call. Each call has its own parameters of the
    access, such as the number of a row."""

    recipe: Recipe
    base: Recipe | None = None
    access: str = ""
    params: Recipe | None = None

    def __call__(self, tensors: list[Any], read: PathReader) -> Any:
        out = self.recipe(tensors, read)
        if self.base is None or self.params is None:
            return out
        return view_of(self.base(tensors, read), out, ACCESSES[self.access],
                       self.params(tensors, read))


@dataclass(frozen=True, eq=False)
class InputOr:
    """A tensor that is an input on some paths: by a number, one of `inputs`, the first being 1. If
    the number is 0, another recipe makes it. Later traces may add inputs."""

    recipe: Recipe
    number: ScalarExpr
    inputs: list[Path]

    def __call__(self, tensors: list[Any], read: PathReader) -> Any:
        number = read.number(self.number)
        return read(self.inputs[number - 1]) if number else self.recipe(tensors, read)


@dataclass(frozen=True, eq=False)
class WithGradient:
    """An output tensor with its `.grad`."""

    number: int
    gradient: Recipe

    def __call__(self, tensors: list[Any], read: PathReader) -> Any:
        tensors[self.number]._grad = self.gradient(tensors, read)
        return tensors[self.number]


@dataclass(frozen=True, eq=False)
class GradEdgeOf:
    """The tape edge of an output tensor."""

    number: int

    def __call__(self, tensors: list[Any], read: PathReader) -> Any:
        return tensors[self.number].edge


@dataclass(frozen=True, eq=False)
class NumberOf:
    """The value of a scalar expression."""

    formula: ScalarExpr

    def __call__(self, tensors: list[Any], read: PathReader) -> Any:
        return read.number(self.formula)


@dataclass(frozen=True, eq=False)
class FormattedText:
    """A text that is made of fixed parts, and of values that are formatted by a specification, or
    by `repr` if that is None."""

    parts: tuple[str | tuple[Recipe, str | None], ...]

    def __call__(self, tensors: list[Any], read: PathReader) -> Any:
        return "".join([part if isinstance(part, str) else
                        _formatted(part[0](tensors, read), part[1]) for part in self.parts])


def _formatted(value: Any, spec: str | None) -> str:
    return repr(value) if spec is None else format(value, spec)


@dataclass(frozen=True, eq=False)
class BuiltContainer:
    """A container or similar object, made by one of BUILDERS from its parts."""

    kind: str
    parts: tuple[Recipe, ...]

    def __call__(self, tensors: list[Any], read: PathReader) -> Any:
        return BUILDERS[self.kind]([part(tensors, read) for part in self.parts])


@dataclass(frozen=True, eq=False)
class UserObject:
    """An object of a user's class; its attributes are set without running user code. `own`: the
    attributes in its `__dict__`."""

    cls: type
    fields: dict[str, Recipe]
    own: frozenset[str]

    def __call__(self, tensors: list[Any], read: PathReader) -> Any:
        instance: Any = object.__new__(self.cls)
        for name, part in self.fields.items():
            if name in self.own:
                instance.__dict__[name] = part(tensors, read)
            else:
                object.__setattr__(instance, name, part(tensors, read))
        return instance


@dataclass(eq=False)
class RebuiltObject:
    """A recipe whose object each call makes once, even if it occurs several times."""

    make: Recipe
    number: int
    shared: bool = False

    def __call__(self, tensors: list[Any], read: PathReader) -> Any:
        if not self.shared:
            return self.make(tensors, read)
        if self.number not in read.shared_objects:
            read.shared_objects[self.number] = self.make(tensors, read)
        return read.shared_objects[self.number]


BUILDERS: dict[str, Callable[[list[Any]], Any]] = {
    "list": list, "tuple": tuple, "set": set, "frozenset": frozenset,
    "dict": dict, "OrderedDict": OrderedDict,  # of pairs
    "Counter": lambda pairs: Counter(dict(pairs)),
    "defaultdict": lambda parts: defaultdict(parts[0], parts[1]),
    "deque": lambda parts: deque(parts[1:], parts[0]),
    "slice": lambda parts: slice(*parts),
    "partial": lambda parts: functools.partial(parts[0], *parts[1], **parts[2]),
    "method": lambda parts: types.MethodType(*parts),
    "named tuple": lambda parts: tuple.__new__(parts[0], parts[1:]),
}


def _unwrapped(recipe: Any) -> Any:
    """The recipe of a view that has no base, or the recipe itself."""
    return recipe.recipe if isinstance(recipe, View) and recipe.base is None else recipe


def same_recipe(one: Any, two: Any) -> bool:
    """True if two recipes, or parts of them, reconstruct equal objects from equal values."""
    one, two = _unwrapped(one), _unwrapped(two)
    if one is two:
        return True
    if type(one) is not type(two):
        return False
    if isinstance(one, (tuple, list)):
        return len(one) == len(two) and all(map(same_recipe, one, two))
    if isinstance(one, dict):
        return list(one) == list(two) and all(map(same_recipe, one.values(), two.values()))
    if dataclasses.is_dataclass(one) and type(one).__module__ == __name__:
        return all(same_recipe(getattr(one, field.name), getattr(two, field.name))
                   for field in dataclasses.fields(one))
    if isinstance(one, types.FunctionType):
        return one.__code__ is two.__code__
    if isinstance(one, (float, complex)):
        return repr(one) == repr(two)
    return isinstance(one, (int, str, bytes, frozenset, Path, ScalarExpr)) and bool(one == two)
