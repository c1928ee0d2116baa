"""Replaces parameters by functions of other parameters, computed at each read.

After `register_parametrization(layer, "weight", Symmetric())` a read of layer.weight calls
Symmetric on layer.parametrizations.weight.original, which is trained instead of it.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from ...core.tape import no_grad
from ...core.tensor import Tensor
from ...errors import ArgumentError, DTypeError, ShapeError, StateError
from ..base.container import ModuleDict, ModuleList
from ..base.module import Module
from ..base.parameter import Parameter

__all__ = [
    "ParametrizationList", "cached", "is_parametrized", "register_parametrization",
    "remove_parametrizations", "type_before_parametrizations",
]


class _Cache:
    """The parametrized tensors that were computed inside `cached()`."""

    depth = 0
    tensors: dict[tuple[int, str], Any] = {}  # noqa: RUF012  # one for all


@contextlib.contextmanager
def cached() -> Iterator[None]:
    """A context in which each parametrized tensor is computed once, at its first read.

    It serves modules that read a weight several times, such as recurrent layers.

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.utils.parametrizations.weight_norm(fw.nn.Linear(3, 2))
        >>> with fw.nn.utils.parametrize.cached():
        ...     layer.weight is layer.weight
        True
    """
    _Cache.depth += 1
    try:
        yield
    finally:
        _Cache.depth -= 1
        if not _Cache.depth:
            _Cache.tensors = {}


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, in the order of their calls, and their inputs.

    The first input is `original`, or `original0`, `original1`, ... if the last right_inverse
    returns several tensors.

    Args:
        modules: at least one parametrization.
        original: the tensor that they compute from now on.
        unsafe: True skips the checks of shape and dtype. Default False.

    Raises:
        ArgumentError: `modules` is empty.
        ShapeError, DTypeError: a parametrization changes the shape or dtype of the tensor.

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.utils.parametrizations.weight_norm(fw.nn.Linear(3, 2))
        >>> type(layer.parametrizations.weight).__name__, layer.parametrizations.weight.ntensors
        ('ParametrizationList', 2)
    """

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not modules:
            raise ArgumentError("ParametrizationList: takes one parametrization or more, got none")
        super().__init__(modules)
        self.unsafe = unsafe
        with no_grad():
            new = original
            for module in reversed(list(self)):
                new = _inverse(module, new, new)
        self.is_tensor = isinstance(new, Tensor)
        if not self.is_tensor and not isinstance(new, Sequence):
            raise DTypeError(f"right_inverse of {type(self[-1]).__name__} gave "
                             f"{type(new).__name__}", "it returns a tensor, or a tuple of tensors")
        self.ntensors = 1 if isinstance(new, Tensor) else len(new)
        shape, dtype = original.shape, original.dtype
        self._store_originals(original, new)
        if not unsafe:
            _check_same("forward", self(), shape, dtype)

    def _store_originals(self, original: Tensor, new: Any) -> None:
        if self.is_tensor:
            if not self.unsafe and new.dtype != original.dtype:
                raise _not_same("right_inverse", "dtype", new.dtype.name, original.dtype.name)
            _set(original, new)
            _register(self, "original", original)
            return
        for i, part in enumerate(new):
            tensor = Parameter(part, original.requires_grad) if isinstance(original, Parameter) \
                else part.detach()
            _register(self, f"original{i}", tensor)

    def _originals(self) -> list[Tensor]:
        if self.is_tensor:
            return [self.original]
        return [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def right_inverse(self, value: Tensor) -> None:
        """Sets the originals so that the computed tensor becomes `value`."""
        with no_grad():
            new: Any = value
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise StateError(f"{type(module).__name__} has no right_inverse, so the tensor "
                                     "it computes cannot be set", "define right_inverse(value), or "
                                     "set its original: parametrizations.NAME.original")
                new = module.right_inverse(new)
            parts = [new] if self.is_tensor else list(new)
            for own, part in zip(self._originals(), parts, strict=True):
                _set(own, part)

    def forward(self) -> Tensor:
        first, *others = self
        x = first(*self._originals())
        for module in others:
            x = module(x)
        return x  # type: ignore[no-any-return]


def _inverse(module: Module, value: Any, otherwise: Any) -> Any:
    """The right inverse of `module` at `value`, or `otherwise` if it has none."""
    if not hasattr(module, "right_inverse"):
        return otherwise
    try:
        return module.right_inverse(value)
    except NotImplementedError:
        return otherwise


def _set(owner: Tensor, new: Tensor) -> None:
    if new is not owner:
        with no_grad():
            owner.data = new


def _register(module: Module, name: str, tensor: Tensor) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _check_same(what: str, got: Any, shape: Any, dtype: Any) -> None:
    if not isinstance(got, Tensor):
        raise DTypeError(f"the parametrization's {what} gave {type(got).__name__}, not a tensor",
                         "it returns a tensor; unsafe=True leaves out this check")
    if got.dtype != dtype:
        raise _not_same(what, "dtype", got.dtype.name, dtype.name)
    if got.shape != shape:
        raise _not_same(what, "shape", got.shape, shape)


def _not_same(what: str, fact: str, got: Any, expected: Any) -> Exception:
    kind = ShapeError if fact == "shape" else DTypeError
    return kind(f"the parametrization's {what} gave {fact} {got}, the tensor has {expected}",
                f"the {fact} must stay; unsafe=True leaves out this check")


# ---- classes with a property for each parametrized tensor
class _Parametrized:
    """A base of the classes of modules that have parametrized tensors."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        copied = memo[id(self)] = type(self).__new__(type(self))
        copied.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return copied

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise StateError("a parametrized module cannot be pickled: its class is made as it runs",
                         "save its state: fw.save(module.state_dict(), path)")


def _class_for(module: Module, names: list[str]) -> Any:
    """A separate class for `module`, with a property for each of these tensors."""
    before = type_before_parametrizations(module)
    return type(f"Parametrized{before.__name__}", (_Parametrized, before),
                {name: _property(name) for name in names})


def _property(name: str) -> property:
    def computed(self: Any) -> Any:
        if not _Cache.depth:
            return self.parametrizations[name]()
        key = id(self), name
        if key not in _Cache.tensors:
            _Cache.tensors[key] = self.parametrizations[name]()
        return _Cache.tensors[key]

    def assigned(self: Any, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    return property(computed, assigned)


def type_before_parametrizations(module: Module) -> type:
    """The class of `module` before its first parametrization.

    Args:
        module: any module.

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.utils.parametrizations.weight_norm(fw.nn.Linear(3, 2))
        >>> fw.nn.utils.parametrize.type_before_parametrizations(layer) is fw.nn.Linear
        True
    """
    return type(module).__bases__[1] if isinstance(module, _Parametrized) else type(module)


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """True if `module` has parametrized tensors.

    Args:
        module: any module.
        tensor_name: asks for this tensor only. Default None: for any.

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.utils.parametrizations.weight_norm(fw.nn.Linear(3, 2))
        >>> fw.nn.utils.parametrize.is_parametrized(layer, "bias")
        False
    """
    held = module.__dict__.get("_modules", {}).get("parametrizations")
    if not isinstance(held, ModuleDict):
        return False
    return len(held) > 0 if tensor_name is None else tensor_name in held


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """`module` with its tensor `tensor_name` computed by `parametrization` from now on.

    A second parametrization of a tensor comes after the first.

    Args:
        module: a module, changed in place.
        tensor_name: the name of a parameter or buffer.
        parametrization: a module; forward(x) returns the tensor. A method right_inverse(tensor)
            may return the first x, or a tuple of tensors that forward takes.
        unsafe: True skips the checks of shape and dtype. Default False.

    Raises:
        StateError: `module` has no such parameter or buffer.
        ShapeError, DTypeError: `parametrization` changes the shape or dtype of the tensor.

    Example:
        >>> import fusewire as fw
        >>> class Symmetric(fw.nn.Module):
        ...     def forward(self, x):
        ...         return fw.triu(x) + fw.triu(x, k=1).mT
        >>> layer = fw.nn.Linear(3, 3, bias=False)
        >>> layer = fw.nn.utils.parametrize.register_parametrization(layer, "weight", Symmetric())
        >>> fw.all(layer.weight == layer.weight.T).item(), list(layer.state_dict())
        (True, ['parametrizations.weight.original'])
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        held: Any = module.parametrizations[tensor_name]
        if not unsafe:
            _check_chained(parametrization, getattr(module, tensor_name))
        held.append(parametrization)
        held.unsafe = held.unsafe or unsafe
        return module
    table = module._buffers if tensor_name in module._buffers else module._parameters
    original = table.get(tensor_name)
    if original is None:
        raise StateError(f"{type(module).__name__} has no parameter or buffer {tensor_name!r} to "
                         "parametrize", f"it has {[*module._parameters, *module._buffers]}")
    parametrizations = ParametrizationList([parametrization], original, unsafe)
    del table[tensor_name]
    names = [*module.parametrizations] if is_parametrized(module) else []
    if not names:
        module.parametrizations = ModuleDict()
    module.__class__ = _class_for(module, [*names, tensor_name])
    module.parametrizations[tensor_name] = parametrizations
    return module


def share_parametrization(module: Module, tensor_name: str, held: ParametrizationList) -> None:
    """Lets a parameter of a module be computed by the parametrizations of another module, for a
    parameter that both share."""
    del module._parameters[tensor_name]
    names = [*module.parametrizations] if is_parametrized(module) else []
    if not names:
        module.parametrizations = ModuleDict()
    module.__class__ = _class_for(module, [*names, tensor_name])
    module.parametrizations[tensor_name] = held


def _check_chained(parametrization: Module, now: Tensor) -> None:
    out = parametrization(now)
    _check_same("forward", out, now.shape, now.dtype)
    _check_same("right_inverse", _inverse(parametrization, out, now), now.shape, now.dtype)


def remove_parametrizations(
    module: Module, tensor_name: str, leave_parametrized: bool = True
) -> Module:
    """`module` with that tensor as an ordinary parameter or buffer again.

    Args:
        module: a module, changed in place.
        tensor_name: the name of a parametrized tensor.
        leave_parametrized: True (default) gives the tensor its computed value, False the value
            of its original.

    Raises:
        StateError: the tensor is not parametrized.
        ArgumentError: `leave_parametrized` is False for a tensor with several originals.

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.utils.parametrizations.weight_norm(fw.nn.Linear(3, 2))
        >>> layer = fw.nn.utils.parametrize.remove_parametrizations(layer, "weight")
        >>> list(layer.state_dict())
        ['bias', 'weight']
    """
    if not is_parametrized(module, tensor_name):
        raise StateError(f"{type(module).__name__} has no parametrization of {tensor_name!r}",
                         "register_parametrization makes one")
    held: Any = module.parametrizations[tensor_name]
    if not leave_parametrized and not held.is_tensor:
        raise ArgumentError("remove_parametrizations: the tensor is computed from several, so it "
                            "has no other value", "leave out leave_parametrized=False")
    tensor = held._originals()[0]
    if leave_parametrized:
        tensor = _with_value(tensor, getattr(module, tensor_name), held.is_tensor)
    del module.parametrizations[tensor_name]
    names = list(module.parametrizations)
    if names:
        module.__class__ = _class_for(module, names)
    else:
        module.__class__ = type_before_parametrizations(module)
        del module.parametrizations
    _register(module, tensor_name, tensor)
    return module


def _with_value(original: Tensor, value: Tensor, same: bool) -> Tensor:
    """A tensor with `value`: the original itself if there is one, since optimizers hold it."""
    if same:
        _set(original, value)
        return original
    if isinstance(original, Parameter):
        return Parameter(value, original.requires_grad)
    return value.detach()
