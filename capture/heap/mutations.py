"""Defines the mutations that a replay performs: callable data, called with target and value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ...eager.core.in_place import set_array, set_edge
from ...eager.core.tape import Leaf
from .access_path import Path


@dataclass(frozen=True)
class Mutation:
    """A mutation of one object."""

    attribute: ClassVar[str] = ""  # of a tensor

    def __call__(self, target: Any, value: Any) -> None:
        setattr(target, self.attribute, value)

    def part(self, target: Path) -> Path | None:
        """The path of the attribute or item that is set, or None."""
        return None


class SetArray(Mutation):
    """Replaces the array of a tensor, and with it the arrays of its base and views."""

    attribute = "_data"

    def __call__(self, target: Any, value: Any) -> None:
        set_array(target, value)


class SetGradient(Mutation):
    """Replaces the `.grad` of a tensor."""

    attribute = "_grad"


class SetEdge(Mutation):
    """Replaces the tape edge of a tensor, and with it the edges of its views."""

    attribute = "edge"

    def __call__(self, target: Any, value: Any) -> None:
        set_edge(target, value)


class MakeLeaf(Mutation):
    """Makes a tensor a leaf that requires gradients."""

    def __call__(self, target: Any, value: Any) -> None:
        target.edge = Leaf(target)


@dataclass(frozen=True)
class SetItem(Mutation):
    """Sets an item of a container."""

    key: Any

    def __call__(self, target: Any, value: Any) -> None:
        target[self.key] = value

    def part(self, target: Path) -> Path:
        return target.item(self.key)


@dataclass(frozen=True)
class DeleteItem(SetItem):
    """Deletes an item."""

    def __call__(self, target: Any, value: Any) -> None:
        del target[self.key]


@dataclass(frozen=True)
class SetAttribute(Mutation):
    """Sets an attribute without calling a property or `__setattr__`. `hidden`: a property hides the
    attribute, which lies in the object's `__dict__`."""

    name: str
    hidden: bool = False

    def __call__(self, target: Any, value: Any) -> None:
        if self.hidden:
            target.__dict__[self.name] = value
        else:
            (type if isinstance(target, type) else object).__setattr__(target, self.name, value)

    def part(self, target: Path) -> Path:
        return target.attr(self.name)


@dataclass(frozen=True)
class DeleteAttribute(SetAttribute):
    """Deletes an attribute."""

    def __call__(self, target: Any, value: Any) -> None:
        (type if isinstance(target, type) else object).__delattr__(target, self.name)


@dataclass(frozen=True)
class SetCell(Mutation):
    """Sets a closure variable."""

    index: int
    name: str = ""

    def __call__(self, target: Any, value: Any) -> None:
        target.__closure__[self.index].cell_contents = value

    def part(self, target: Path) -> Path:
        return target.cell(self.index, self.name)


class Extend(Mutation):
    """Appends elements."""

    def __call__(self, target: Any, value: Any) -> None:
        target.extend(value)


class AddAll(Mutation):
    """Adds elements to a set."""

    def __call__(self, target: Any, value: Any) -> None:
        target.update(value)


class ReplaceAll(Mutation):
    """Replaces all elements."""

    def __call__(self, target: Any, value: Any) -> None:
        if isinstance(target, (list, bytearray)):
            target[:] = value
            return
        target.clear()
        (target.update if isinstance(target, (dict, set)) else target.extend)(value)
