"""Modules that hold other modules, in order or by name."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...arguments import check_at_least
from ...errors import DTypeError, StateError
from ...upper_layer import UPPER
from .container_base import NamedContainer, listed_values, named_pairs, out_of_range, position
from .module import Module

__all__ = ["ModuleDict", "ModuleList", "Sequential"]


class _Ordered(Module):
    """Base of containers in order: children have the names '0', '1', ..., or their own."""

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return UPPER.iterate(self, lambda: iter(self._modules.values()), sys._getframe(1))

    def __contains__(self, module: object) -> bool:
        return any(module is m for m in self)

    def _name(self, index: Any) -> str:
        return list(self._modules)[position(self, index)]

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self._from(dict(list(self._modules.items())[index]))
        return self._modules[self._name(index)]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._name(index), module)

    def __delitem__(self, index: Any) -> None:
        names = list(self._modules)[index] if isinstance(index, slice) else [self._name(index)]
        for name in names:
            del self._modules[name]
        self._number(list(self))

    def _number(self, modules: list[Any]) -> None:
        """Replaces the children by `modules`, under new numbers."""
        self._modules.clear()
        self._modules.update((str(i), m) for i, m in enumerate(modules))

    def append(self, module: Module) -> Any:
        """This container with `module` added at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Any:
        """This container with each of `modules` added at the end."""
        for module in listed_values(self, "extend", modules):
            self.append(module)
        return self

    def _insert(self, index: int, module: Module) -> None:
        if not isinstance(module, Module):
            raise DTypeError(f"{type(self).__name__}.insert: takes a module, not "
                             f"{type(module).__name__}", "as in layers.insert(0, nn.ReLU())")
        modules = list(self)
        modules.insert(index, module)
        self._number(modules)

    def pop(self, key: Any) -> Any:
        """The module at position `key`, which is removed."""
        module = self[key]
        del self[key]
        return module

    def _from(self, children: dict[str, Any]) -> Any:
        """A new container of this kind with `children`."""
        raise NotImplementedError

    def __add__(self, other: Iterable[Module]) -> Any:
        return self[:].extend(other)

    def __iadd__(self, other: Iterable[Module]) -> Any:
        return self.extend(other)


class Sequential(_Ordered):
    """A sequence of modules: x -> last(...second(first(x))).

    Indices and slices read it as a list; append, extend, insert, pop, + and * change or combine it.

    Args:
        *args: the modules, or one dict of names to modules.

    Raises:
        DTypeError: the argument is a list of modules, or not a module.
        IndexingError: an index is out of range.

    Example:
        >>> import fusewire as fw
        >>> model = fw.nn.Sequential(fw.nn.Linear(3, 4), fw.nn.ReLU())
        >>> model(fw.ones(2, 3)).shape, len(model), model[1]
        ((2, 4), 2, ReLU())
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], Mapping):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            if len(args) == 1 and isinstance(args[0], (list, tuple)):
                raise DTypeError(f"Sequential: takes modules one by one, not a "
                                 f"{type(args[0]).__name__} of them",
                                 "with a star: nn.Sequential(*layers)")
            for i, module in enumerate(args):
                self.add_module(str(i), module)

    def forward(self, input: Any) -> Any:
        modules = tuple(self._modules.values())
        for _, module in enumerate(modules):  # traces read the position from the number
            input = module(input)  # type: ignore[misc]
        return input

    def insert(self, index: int, module: Module) -> Sequential:
        """This container with `module` inserted before position `index`.

        Raises:
            IndexingError: index is outside -len to len.
            DTypeError: module is not a Module.
        """
        if not -len(self) <= index <= len(self):
            raise out_of_range(self, index)
        self._insert(index, module)
        return self

    def _from(self, children: dict[str, Any]) -> Any:
        return Sequential(children)

    def __add__(self, other: Iterable[Module]) -> Any:
        return Sequential(*self).extend(other)

    def __mul__(self, other: int) -> Any:
        return Sequential(*self).__imul__(other)

    __rmul__ = __mul__

    def __imul__(self, other: int) -> Any:
        if not isinstance(other, int):
            raise DTypeError(f"Sequential * {other!r}: takes a whole number")
        check_at_least("Sequential * n", "n", other, 1)
        return self.extend(list(self) * (other - 1))


class ModuleList(_Ordered):
    """A list of modules that belong to the model; it has no forward of its own.

    Indices and slices read it as a list; append, extend, insert, pop and + change or combine it.

    Args:
        modules: the modules. Default None: empty.

    Raises:
        DTypeError: an element is not a module.
        IndexingError: an index is out of range.

    Example:
        >>> import fusewire as fw
        >>> layers = fw.nn.ModuleList([fw.nn.ReLU(), fw.nn.ReLU(), fw.nn.Tanh()])
        >>> layers
        ModuleList(
          (0-1): 2 x ReLU()
          (2): Tanh()
        )
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        self.extend(() if modules is None else modules)

    def insert(self, index: int, module: Module) -> None:
        """Inserts `module` before position `index`, which may lie outside, as in Python's lists."""
        self._insert(index, module)

    def _from(self, children: dict[str, Any]) -> Any:
        return type(self)(children.values())

    def __repr__(self) -> str:
        """The text of the module; equal neighbours share an entry, as in (0-2): 3 x ReLU()."""
        runs: list[list[Any]] = []  # first position, last, text
        for i, text in enumerate(map(repr, self)):
            if runs and runs[-1][2] == text:
                runs[-1][1] = i
            else:
                runs.append([i, i, text])
        lines = [f"({a}): {text}" if a == b else f"({a}-{b}): {b - a + 1} x {text}"
                 for a, b, text in runs]
        inner = "".join("  " + line.replace("\n", "\n  ") + "\n" for line in lines)
        return f"{self._get_name()}(" + (f"\n{inner}" if inner else "") + ")"


class ModuleDict(NamedContainer):
    """Modules by name that belong to the model, in the order in which they were added.

    It reads as a dict: [], in, len, keys, values, items, update, pop and clear.

    Args:
        modules: a dict, or pairs of a name and a module. Default None: empty.

    Raises:
        StateError: there is no module of a name, or the name is empty, has a dot or is an
            attribute.
        DTypeError: a value is not a module.

    Example:
        >>> import fusewire as fw
        >>> heads = fw.nn.ModuleDict({"a": fw.nn.ReLU()})
        >>> heads["b"] = fw.nn.Tanh()
        >>> list(heads), heads["b"]
        (['a', 'b'], Tanh())
    """

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        if key not in self._modules:
            raise StateError(f"ModuleDict has no module {key!r}", f"it has {[*self._modules]}")
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        self.pop(key)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Removes all modules."""
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """The module under `key`, which is removed; a StateError if there is none."""
        module = self[key]
        del self._modules[key]
        return module

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._modules.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Pairs of a name and a module."""
        return self._modules.items()

    def values(self) -> Iterable[Any]:
        """The modules."""
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Adds the modules of a dict or of pairs (name, module); equal names are replaced."""
        for key, module in named_pairs(self, modules):
            self[key] = module
