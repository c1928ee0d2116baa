"""How a replay assigns what a run changed: each way as data, called with target and value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ...eager.core.tape import Leaf
from .access_path import Path


@dataclass(frozen=True)
class Change:
    """A change of one object."""

    attribute: ClassVar[str] = ""  # what an assignment sets that is one of a tensor

    def __call__(self, target: Any, value: Any) -> None:
        setattr(target, self.attribute, value)

    def part(self, target: Path) -> Path | None:
        """The attribute or item of the target that is set, where it is one."""
        return None


class SetArray(Change):
    """A tensor gets another array."""

    attribute = "_data"


class SetGradient(Change):
    """A tensor gets another `.grad`."""

    attribute = "_grad"


class SetEdge(Change):
    """The gradient of a tensor goes elsewhere."""

    attribute = "edge"


class MakeLeaf(Change):
    """A tensor begins to ask for gradients."""

    def __call__(self, target: Any, value: Any) -> None:
        target.edge = Leaf(target)


@dataclass(frozen=True)
class SetItem(Change):
    """An item of a container."""

    key: Any

    def __call__(self, target: Any, value: Any) -> None:
        target[self.key] = value

    def part(self, target: Path) -> Path:
        return target.item(self.key)


@dataclass(frozen=True)
class DeleteItem(SetItem):
    """An item goes."""

    def __call__(self, target: Any, value: Any) -> None:
        del target[self.key]


@dataclass(frozen=True)
class SetAttribute(Change):
    """An attribute, without asking a property or `__setattr__`: `hidden` by one in the object's own
    dictionary."""

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
    """An attribute goes."""

    def __call__(self, target: Any, value: Any) -> None:
        (type if isinstance(target, type) else object).__delattr__(target, self.name)


@dataclass(frozen=True)
class SetCell(Change):
    """A variable of a closure."""

    index: int
    name: str = ""

    def __call__(self, target: Any, value: Any) -> None:
        target.__closure__[self.index].cell_contents = value

    def part(self, target: Path) -> Path:
        return target.cell(self.index, self.name)


class Extend(Change):
    """More elements at the end."""

    def __call__(self, target: Any, value: Any) -> None:
        target.extend(value)


class AddAll(Change):
    """More elements of a set."""

    def __call__(self, target: Any, value: Any) -> None:
        target.update(value)


class ReplaceAll(Change):
    """Other elements in place of all."""

    def __call__(self, target: Any, value: Any) -> None:
        if isinstance(target, (list, bytearray)):
            target[:] = value
            return
        target.clear()
        (target.update if isinstance(target, (dict, set)) else target.extend)(value)
