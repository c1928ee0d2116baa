"""How a replay makes objects again: templates, as data that can be called.

Each gives an object for the tensors of a call and a reader of its paths.
"""

from __future__ import annotations

import functools
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...eager.core.views import view_of
from ..scalars.scalar_expr import ScalarExpr
from .access_path import Path
from .path_reader import Reader

Make = Callable[[list[Any], Reader], Any]


@dataclass(frozen=True, eq=False)
class Same:
    """The same object in each call."""

    value: Any

    def __call__(self, tensors: list[Any], read: Reader) -> Any:
        return self.value


@dataclass(frozen=True, eq=False)
class At:
    """What is at a path."""

    path: Path

    def __call__(self, tensors: list[Any], read: Reader) -> Any:
        return read(self.path)


@dataclass(frozen=True, eq=False)
class PassedTensor:
    """One of the tensors."""

    number: int

    def __call__(self, tensors: list[Any], read: Reader) -> Any:
        return tensors[self.number]


@dataclass(frozen=True, eq=False)
class SeenAs:
    """One of the tensors, as a view of what was there before the call."""

    made: Make
    base: Make

    def __call__(self, tensors: list[Any], read: Reader) -> Any:
        return view_of(self.base(tensors, read), self.made(tensors, read))


@dataclass(frozen=True, eq=False)
class SeenBeside:
    """One of the tensors, as a view of the first of `ids` that leaves the call as well.

    Which those are is known once all results are.
    """

    made: Make
    ids: tuple[int, ...]
    numbers: dict[int, int]  # of the tensors that leave, by the ids they had

    def __call__(self, tensors: list[Any], read: Reader) -> Any:
        out = self.made(tensors, read)
        for i in self.ids:
            if i in self.numbers:
                return view_of(tensors[self.numbers[i]], out)
        return out


@dataclass(frozen=True, eq=False)
class WithGradient:
    """One of the tensors, with its `.grad`."""

    number: int
    gradient: Make

    def __call__(self, tensors: list[Any], read: Reader) -> Any:
        tensors[self.number]._grad = self.gradient(tensors, read)
        return tensors[self.number]


@dataclass(frozen=True, eq=False)
class EdgeOf:
    """Where the gradient of one of the tensors goes."""

    number: int

    def __call__(self, tensors: list[Any], read: Reader) -> Any:
        return tensors[self.number].edge


@dataclass(frozen=True, eq=False)
class NumberOf:
    """The value of a formula."""

    formula: ScalarExpr

    def __call__(self, tensors: list[Any], read: Reader) -> Any:
        return read.number(self.formula)


@dataclass(frozen=True, eq=False)
class Filled:
    """What one of BUILDERS makes of parts."""

    kind: str
    parts: tuple[Make, ...]

    def __call__(self, tensors: list[Any], read: Reader) -> Any:
        return BUILDERS[self.kind]([part(tensors, read) for part in self.parts])


@dataclass(frozen=True, eq=False)
class Attributes:
    """An object of a user's class: its attributes, set without running code of the class. `own` are
    those in its dictionary."""

    cls: type
    fields: dict[str, Make]
    own: frozenset[str]

    def __call__(self, tensors: list[Any], read: Reader) -> Any:
        made: Any = object.__new__(self.cls)
        for name, part in self.fields.items():
            if name in self.own:
                made.__dict__[name] = part(tensors, read)
            else:
                object.__setattr__(made, name, part(tensors, read))
        return made


@dataclass(eq=False)
class RebuiltObject:
    """How to make an object; a call that needs it at several places makes it once."""

    make: Make
    number: int
    shared: bool = False

    def __call__(self, tensors: list[Any], read: Reader) -> Any:
        if not self.shared:
            return self.make(tensors, read)
        if self.number not in read.made:
            read.made[self.number] = self.make(tensors, read)
        return read.made[self.number]


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
