"""Modules that hold parameters, in order or by name."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any

from ...core.tensor import Tensor
from ...errors import StateError
from ...upper_layer import UPPER
from .container_base import NamedContainer, listed_values, named_pairs, position
from .module import Module
from .parameter import Parameter

__all__ = ["ParameterDict", "ParameterList"]


class _Values(Module):
    """Base of containers of parameters: tensors become parameters, other values do not change."""

    def _named_values(self) -> Iterable[tuple[Any, Any]]:
        raise NotImplementedError

    def extra_repr(self) -> str:
        return "\n".join(f"  ({name}): {_description(value)}"
                         for name, value in self._named_values())


class ParameterList(_Values):
    """A list of parameters that belong to the model.

    Tensors become parameters, other values do not change. Indices and slices read it as a list;
    append, extend and += add to it.

    Args:
        values: the values. Default None: empty.

    Raises:
        IndexingError: an index is out of range.
        DTypeError: values is not an iterable, or one tensor.

    Example:
        >>> import fusewire as fw
        >>> weights = fw.nn.ParameterList([fw.ones(2), fw.zeros(3)])
        >>> len(weights), [p.shape for p in weights.parameters()]
        (2, [(2,), (3,)])
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        self.extend(() if values is None else values)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        def parameters() -> Iterator[Any]:
            return (getattr(self, str(i)) for i in range(len(self)))
        return UPPER.iterate(self, parameters, sys._getframe(1))

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            return type(self)(list(self)[idx])
        return getattr(self, str(position(self, idx)))

    def __setitem__(self, idx: int, param: Any) -> None:
        setattr(self, str(position(self, idx)), _parameter(param))

    def append(self, value: Any) -> ParameterList:
        """This list with `value` added at the end."""
        setattr(self, str(self._size), _parameter(value))
        self._size += 1
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """This list with each of `values` added at the end."""
        for value in listed_values(self, "extend", values):
            self.append(value)
        return self

    def __iadd__(self, parameters: Iterable[Any]) -> ParameterList:
        return self.extend(parameters)

    def _named_values(self) -> Iterable[tuple[Any, Any]]:
        return enumerate(self)


class ParameterDict(_Values, NamedContainer):
    """Parameters by name that belong to the model.

    Tensors become parameters, other values do not change. It reads as a dict: [], in, len, keys,
    values, items, get, setdefault, update, pop, popitem, copy, fromkeys, clear and |. update sorts
    the names of a plain dict, as PyTorch does.

    Args:
        parameters: a dict, or pairs of a name and a value. Default None: empty.

    Raises:
        StateError: there is no value of a name, or the name is empty, has a dot or is an attribute.

    Example:
        >>> import fusewire as fw
        >>> weights = fw.nn.ParameterDict({"b": fw.ones(2), "a": fw.zeros(3)})
        >>> list(weights), weights["b"].requires_grad
        (['a', 'b'], True)
    """

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
        self[key]  # raises the StateError of a missing key
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
        """The parameter under `key`; a missing one is set to `default` first."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Removes all parameters."""
        for key in list(self):
            del self[key]

    def pop(self, key: str) -> Any:
        """The parameter under `key`, which is removed; a StateError if there is none."""
        parameter = self[key]
        del self[key]
        return parameter

    def popitem(self) -> tuple[str, Any]:
        """The name and the parameter added last, which are removed; a StateError if empty."""
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
        """Adds the values of a dict or of pairs (name, value); equal names are replaced."""
        pairs = named_pairs(self, parameters)
        if isinstance(parameters, dict) and not isinstance(parameters, OrderedDict):
            # As in PyTorch: optimizers save the state of parameters by their order.
            pairs = sorted(pairs, key=lambda pair: pair[0])
        for key, value in pairs:
            self[key] = value

    def __or__(self, other: Any) -> ParameterDict:
        merged = self.copy()
        merged.update(other)
        return merged

    def __ror__(self, other: Any) -> Any:
        merged = other.copy()
        merged.update(self)
        return merged

    def __ior__(self, other: Any) -> ParameterDict:
        self.update(other)
        return self

    def _named_values(self) -> Iterable[tuple[Any, Any]]:
        return self.items()


def _parameter(value: Any) -> Any:
    plain = isinstance(value, Tensor) and not isinstance(value, Parameter)
    return Parameter(value) if plain else value


def _description(value: Any) -> str:
    if not isinstance(value, Tensor):
        return f"Object of type: {type(value).__name__}"
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    return f"{kind} containing: [{value.dtype.name} of size {'x'.join(map(str, value.shape))}]"
