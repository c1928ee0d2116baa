"""The mixin of lazy modules, which take sizes from their first input, and LazyLinear."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.tape import no_grad
from ...errors import StateError
from ..base.module import Module
from ..base.parameter import UninitializedParameter, is_lazy
from ..layers.linear import Linear

__all__ = ["LazyLinear", "LazyModuleMixin"]


class LazyModuleMixin:
    """Base, before Module, of modules that take the shapes of parameters from their first input.

    The class creates UninitializedParameters and UninitializedBuffers, and defines
    initialize_parameters(*args, **kwargs), which runs before the first forward with its arguments
    and calls materialize(shape) on each of them. After that the module becomes an instance of
    `cls_to_become`, unless that is None. Loading a state dict sets the shapes, too. All arguments
    go to the next base class.

    Raises:
        StateError: initialize_parameters leaves a parameter or buffer without a shape (raised by
            the call).

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.LazyLinear(2)
        >>> layer.has_uninitialized_params()
        True
        >>> layer(fw.ones(1, 3)).shape, layer
        ((1, 2), Linear(in_features=3, out_features=2, bias=True))
    """

    cls_to_become: type[Module] | None = None
    initialize_parameters: Callable[..., None]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        own: Any = self
        self._load_hook = own.register_load_state_dict_pre_hook(_take_shapes)
        self._initialize_hook = own.register_forward_pre_hook(_initialize, with_kwargs=True)

    def has_uninitialized_params(self) -> bool:
        """True if a parameter or buffer has no shape yet."""
        own: Any = self
        return any(is_lazy(x) for x in (*own._parameters.values(), *own._buffers.values()))


def _initialize(module: Any, args: Any, kwargs: Any) -> None:
    """Forward pre-hook: initializes all shapes and converts the module to `cls_to_become`."""
    with no_grad():
        module.initialize_parameters(*args, **kwargs)
    name = type(module).__name__
    if module.has_uninitialized_params():
        raise StateError(f"{name}.initialize_parameters left parameters or buffers without a shape",
                         "call materialize(shape) on each of them there")
    module._load_hook.remove()
    module._initialize_hook.remove()
    del module._load_hook, module._initialize_hook
    if not any(vars(module._hooks).values()):
        del module._hooks  # calls of a module without hooks are faster
    if module.cls_to_become is not None:
        module.__class__ = module.cls_to_become


def _take_shapes(module: Any, state_dict: Any, prefix: str, *_: Any) -> None:
    """Load hook: parameters and buffers without a shape take the shapes in the state dict."""
    for name, x in (*module._parameters.items(), *module._buffers.items()):
        value = state_dict.get(prefix + name)
        if value is not None and is_lazy(x) and not is_lazy(value):
            x.materialize(value.shape)


class LazyLinear(LazyModuleMixin, Linear):
    """Linear with in_features from its first input: (..., in_features) -> (..., out_features).

    The first call turns the layer into a Linear.

    Args:
        out_features: size of the last axis of the result.
        bias: adds a learned bias. Default True.
        device, dtype: of the parameters. Default None: the default device, float32.

    Raises:
        StateError: a parameter is read before the first call.

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.LazyLinear(2)
        >>> layer(fw.ones(4, 3)).shape, layer
        ((4, 2), Linear(in_features=3, out_features=2, bias=True))
    """

    cls_to_become = Linear

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
                 ) -> None:
        super().__init__(0, 0, False)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        self.bias = UninitializedParameter(device=device, dtype=dtype) if bias else None

    def reset_parameters(self) -> None:
        """Draws weight and bias as Linear does, once they have shapes."""
        if not self.has_uninitialized_params() and self.in_features:
            super().reset_parameters()

    def initialize_parameters(self, input: Any) -> None:
        """Sets in_features to the last size of `input` and draws the parameters."""
        uninitialized = self.has_uninitialized_params()
        self.in_features = input.shape[-1] if uninitialized else self.weight.shape[-1]
        if uninitialized:
            materialize(self.weight, (self.out_features, self.in_features))
            materialize(self.bias, (self.out_features,))
            self.reset_parameters()


def materialize(x: Any, shape: tuple[int, ...]) -> None:
    """Gives `x` a shape, unless it is None."""
    if x is not None:
        x.materialize(shape)
