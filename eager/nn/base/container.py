"""Modules that hold other modules, or parameters, in order or by name."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...arguments import check_at_least
from ...core.tensor import Tensor
from ...errors import DTypeError, IndexingError, StateError
from .module import Module
from .parameter import Parameter

__all__ = ["ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


class _Ordered(Module):
    """Children under the names '0', '1', ..., or names of their own, read by position."""

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __contains__(self, module: object) -> bool:
        return any(module is m for m in self)

    def _name(self, index: Any) -> str:
        return list(self._modules)[_position(self, index)]

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
        """Makes `modules` the children, under new numbers."""
        self._modules.clear()
        self._modules.update((str(i), m) for i, m in enumerate(modules))

    def append(self, module: Module) -> Any:
        """This container with `module` added at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Any:
        """This container with each of `modules` added at the end."""
        for module in _several(self, "extend", modules):
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
        """What stood at position `key`, which is taken out."""
        found = self[key]
        del self[key]
        return found

    def _from(self, children: dict[str, Any]) -> Any:
        """A new container of the same kind with a part of the children."""
        raise NotImplementedError

    def __add__(self, other: Iterable[Module]) -> Any:
        return self[:].extend(other)

    def __iadd__(self, other: Iterable[Module]) -> Any:
        return self.extend(other)


class Sequential(_Ordered):
    """y = last(...second(first(x))); made of modules, or of one dict of names to modules.

    >>> import fusewire as fw
    >>> fw.nn.Sequential(fw.nn.Linear(3, 4), fw.nn.ReLU())(fw.ones(2, 3)).shape
    (2, 4)
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
        for module in self._modules.values():
            input = module(input)  # type: ignore[misc]
        return input

    def insert(self, index: int, module: Module) -> Sequential:
        """This container, `module` put before position `index`."""
        if not -len(self) <= index <= len(self):
            raise _outside(self, index)
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
    """A list of modules that are part of the model; call them in the forward of your own."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        self.extend(() if modules is None else modules)

    def insert(self, index: int, module: Module) -> None:
        """Puts `module` before position `index`, which may lie outside, as with Python's lists."""
        self._insert(index, module)

    def _from(self, children: dict[str, Any]) -> Any:
        return type(self)(children.values())

    def __repr__(self) -> str:
        """As every module, but equal neighbours in one entry: (0-2): 3 x ReLU()."""
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


class ModuleDict(Module):
    """Modules by name that are part of the model, in the order they were added in."""

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
        """Takes all modules out."""
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """The module under `key`, which is taken out."""
        found = self[key]
        del self._modules[key]
        return found

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
        """Adds the modules of a dict or of pairs, in the place of those with the same names."""
        for key, module in _pairs(self, modules):
            self[key] = module


class _Values(Module):
    """Values as attributes of a module: tensors become its parameters, others stay as they are."""

    def _named_values(self) -> Iterable[tuple[Any, Any]]:
        raise NotImplementedError

    def extra_repr(self) -> str:
        return "\n".join(f"  ({name}): {_described(value)}" for name, value in self._named_values())


class ParameterList(_Values):
    """A list of parameters that are part of the model; tensors become parameters in it."""

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        self.extend(() if values is None else values)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return (getattr(self, str(i)) for i in range(len(self)))

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            return type(self)(list(self)[idx])
        return getattr(self, str(_position(self, idx)))

    def __setitem__(self, idx: int, param: Any) -> None:
        setattr(self, str(_position(self, idx)), _parameter(param))

    def append(self, value: Any) -> ParameterList:
        """This list with `value` added at the end."""
        setattr(self, str(self._size), _parameter(value))
        self._size += 1
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """This list with each of `values` added at the end."""
        for value in _several(self, "extend", values):
            self.append(value)
        return self

    def __iadd__(self, parameters: Iterable[Any]) -> ParameterList:
        return self.extend(parameters)

    def _named_values(self) -> Iterable[tuple[Any, Any]]:
        return enumerate(self)


class ParameterDict(_Values):
    """Parameters by name that are part of the model; tensors become parameters in it."""

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        if key not in self._keys:
            raise StateError(f"ParameterDict has no parameter {key!r}", f"it has {[*self._keys]}")
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        if key not in self._keys:
            self._check_free(key, "_parameters")
        self._keys[key] = None
        setattr(self, key, _parameter(value))

    def __delitem__(self, key: str) -> None:
        self[key]  # an error of its own for a key that is not there
        del self._keys[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def copy(self) -> ParameterDict:
        """A new dict with the same parameters."""
        return ParameterDict(list(self.items()))

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The parameter under `key`, which is `default` where there was none."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Takes all parameters out."""
        for key in list(self):
            del self[key]

    def pop(self, key: str) -> Any:
        """The parameter under `key`, which is taken out."""
        found = self[key]
        del self[key]
        return found

    def popitem(self) -> tuple[str, Any]:
        """The name and the parameter that were added last, which are taken out."""
        if not self._keys:
            raise StateError("ParameterDict.popitem: it is empty")
        key = list(self)[-1]
        return key, self.pop(key)

    def get(self, key: str, default: Any = None) -> Any:
        """The parameter under `key`, or `default`."""
        return self[key] if key in self else default

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A new dict with `default` under each of `keys`."""
        return ParameterDict([(key, default) for key in keys])

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Pairs of a name and a parameter."""
        return ((key, self[key]) for key in self._keys)

    def values(self) -> Iterable[Any]:
        """The parameters."""
        return (self[key] for key in self._keys)

    def update(self, parameters: Any) -> None:
        """Adds the values of a dict or of pairs, in the place of those with the same names."""
        pairs = _pairs(self, parameters)
        if isinstance(parameters, dict) and not isinstance(parameters, OrderedDict):
            # As in PyTorch: optimizers save the state of parameters by their order.
            pairs = sorted(pairs, key=lambda pair: pair[0])
        for key, value in pairs:
            self[key] = value

    def __or__(self, other: Any) -> ParameterDict:
        made = self.copy()
        made.update(other)
        return made

    def __ror__(self, other: Any) -> Any:
        made = other.copy()
        made.update(self)
        return made

    def __ior__(self, other: Any) -> ParameterDict:
        self.update(other)
        return self

    def _named_values(self) -> Iterable[tuple[Any, Any]]:
        return self.items()


def _position(container: Any, index: Any) -> int:
    """`index`, which may count from the end, as a position from the beginning."""
    i, n = operator.index(index), len(container)
    if not -n <= i < n:
        raise _outside(container, i)
    return i % n


def _outside(container: Any, index: int) -> IndexingError:
    return IndexingError(f"index {index} is out of range for a {type(container).__name__} of "
                         f"{len(container)}")


def _several(container: Any, method: str, values: Any) -> list[Any]:
    """The elements of what `method` was called with, in a list: it may be the container itself."""
    if isinstance(values, Tensor) or not isinstance(values, Iterable):
        raise DTypeError(f"{type(container).__name__}.{method}: takes a list or another iterable, "
                         f"not {type(values).__name__}", "put it into a list: [x]")
    return list(values)


def _pairs(container: Any, values: Any) -> Iterable[tuple[str, Any]]:
    """The names and values of a dict, a container with names, or of pairs."""
    if isinstance(values, (Mapping, ModuleDict, ParameterDict)):
        return list(values.items())
    pairs = _several(container, "update", values)
    for i, pair in enumerate(pairs):
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise DTypeError(f"{type(container).__name__}.update: element {i} is "
                             f"{type(pair).__name__}, not a pair of a name and a value",
                             "pass a dict, or a list of pairs")
    return pairs


def _parameter(value: Any) -> Any:
    plain = isinstance(value, Tensor) and not isinstance(value, Parameter)
    return Parameter(value) if plain else value


def _described(value: Any) -> str:
    if not isinstance(value, Tensor):
        return f"Object of type: {type(value).__name__}"
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    return f"{kind} containing: [{value.dtype.name} of size {'x'.join(map(str, value.shape))}]"
