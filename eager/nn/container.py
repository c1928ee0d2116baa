"""Modules that hold other modules in order."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..errors import IndexingError
from .module import Module

__all__ = ["ModuleList", "Sequential"]


class _Ordered(Module):
    """Children under the names '0', '1', ..., or names of their own, read by position."""

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __contains__(self, module: object) -> bool:
        return any(module is m for m in self)

    def _name(self, index: Any) -> str:
        i, n = operator.index(index), len(self)
        if not -n <= i < n:
            raise IndexingError(f"index {i} is out of range for a {type(self).__name__} of {n}")
        return list(self._modules)[i]

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self._from(dict(list(self._modules.items())[index]))
        return self._modules[self._name(index)]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._name(index), module)

    def __delitem__(self, index: Any) -> None:
        names = list(self._modules)[index] if isinstance(index, slice) else [self._name(index)]
        numbered = all(name.isdigit() for name in self._modules)
        for name in names:
            del self._modules[name]
        if numbered:
            left = {str(i): m for i, m in enumerate(self._modules.values())}
            self._modules.clear()
            self._modules.update(left)

    def append(self, module: Module) -> Any:
        """This container with `module` added at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Any:
        """This container with each of `modules` added at the end."""
        for module in modules:
            self.append(module)
        return self

    def _from(self, children: dict[str, Any]) -> Any:
        """A new container of the same kind with a part of the children."""
        return type(self)(children.values())  # type: ignore[call-arg]


class Sequential(_Ordered):
    """y = last(...second(first(x))); made of modules, or of one dict of names to modules."""

    def __init__(self, *modules: Any) -> None:
        super().__init__()
        if len(modules) == 1 and isinstance(modules[0], Mapping):
            for name, module in modules[0].items():
                self.add_module(name, module)
        else:
            self.extend(modules)

    def forward(self, x: Any) -> Any:
        for module in self._modules.values():
            x = module(x)  # type: ignore[misc]
        return x

    def _from(self, children: dict[str, Any]) -> Any:
        return Sequential(children)


class ModuleList(_Ordered):
    """A list of modules that are part of the model; call them in the forward of your own."""

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        super().__init__()
        self.extend(modules)

    def insert(self, index: int, module: Module) -> None:
        """Puts `module` before position `index`."""
        children = list(self)
        children.insert(index, module)
        self._modules.clear()
        self.extend(children)
