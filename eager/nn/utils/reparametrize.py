"""Computes weight norm and spectral norm before each forward, as before parametrizations."""

from __future__ import annotations

from typing import Any

from ...arguments import check_number, check_whole, names_itself
from ...core.tape import no_grad
from ...core.tensor import Tensor
from ...errors import ArgumentError, StateError
from ...ops.random.generator import randn
from ...ops.reduction.reduce import sum as total
from ..base.module import Module
from ..base.parameter import Parameter
from .parametrizations import as_matrix, norm_except, power_iterations, transposed_axis, unit

__all__ = ["remove_spectral_norm", "remove_weight_norm", "spectral_norm", "weight_norm"]


class _Weight:
    """A forward pre-hook that computes a tensor of a module, with its handle."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.handle: Any = None

    def of(self, module: Any) -> Tensor:
        """The tensor, computed from the parameters that replace it."""
        raise NotImplementedError

    def __call__(self, module: Any, args: Any) -> None:
        setattr(module, self.name, self.of(module))

    def install(self, module: Module) -> Module:
        """`module` with this hook."""
        self.handle = module.register_forward_pre_hook(self)
        return module


class _WeightNorm(_Weight):
    def __init__(self, name: str, dim: int | None) -> None:
        super().__init__(name)
        self.dim = -1 if dim is None else dim

    def of(self, module: Any) -> Tensor:
        g, v = getattr(module, f"{self.name}_g"), getattr(module, f"{self.name}_v")
        return v * (g / norm_except(v, self.dim))  # type: ignore[no-any-return]


class _SpectralNorm(_Weight):
    def __init__(self, name: str, n_power_iterations: int, eps: float, dim: int) -> None:
        super().__init__(name)
        check_whole("spectral_norm", "n_power_iterations", n_power_iterations, 1)
        self.n_power_iterations, self.eps, self.dim = n_power_iterations, eps, dim

    def of(self, module: Any) -> Tensor:
        return self.computed(module, module.training)

    def computed(self, module: Any, steps: bool) -> Tensor:
        """The weight divided by its singular value; `steps`: after more power iterations."""
        weight = getattr(module, f"{self.name}_orig")
        matrix = as_matrix(weight, self.dim)
        names = f"{self.name}_u", f"{self.name}_v"
        u, v = (getattr(module, name) for name in names)
        if steps:
            with no_grad():
                v, u = power_iterations(matrix.detach().T, u, self.n_power_iterations, self.eps)
            setattr(module, names[0], u)
            setattr(module, names[1], v)
        return weight / total(u * (matrix @ v))  # type: ignore[no-any-return]


def _hook_of(module: Module, kind: type[_Weight], name: str) -> Any:
    """The hook of that class and name of a module, or None."""
    hooks = [] if module._hooks is None else [h[0] for h in module._hooks.before.values()]
    return next((h for h in hooks if isinstance(h, kind) and h.name == name), None)


def _take_parameter(what: str, kind: type[_Weight], module: Module, name: str) -> Parameter:
    """The parameter of that name, removed from `module`."""
    parameter = module._parameters.get(name)
    if _hook_of(module, kind, name) is not None or parameter is None:
        raise ArgumentError(f"{what}: {type(module).__name__} has no parameter {name!r}"
                            + ("" if parameter is not None else ", or has one that is computed"),
                            f"it has {[*module._parameters]}")
    del module._parameters[name]
    return parameter


def _remove_hook(what: str, kind: type[_Weight], module: Module, name: str) -> Any:
    hook = _hook_of(module, kind, name)
    if hook is None:
        raise StateError(f"remove_{what}: {type(module).__name__} has no {what} of {name!r}",
                         f"nn.utils.{what} makes one; parametrize.remove_parametrizations removes "
                         "those of nn.utils.parametrizations")
    hook.handle.remove()
    delattr(module, name)
    return hook


@names_itself
def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """`module` with its weight computed before each forward as g * v / |v|.

    The trained parameters are NAME_g and NAME_v. nn.utils.parametrizations.weight_norm is the newer
    form. Salimans and Kingma, "Weight normalization", arXiv 1602.07868.

    Args:
        module: a layer, changed in place.
        name: the name of the parameter. Default "weight".
        dim: the axis along which each slice has its own norm; None or -1 for one norm. Default 0.

    Raises:
        ArgumentError: `module` has no such parameter, or computes it already.

    Example:
        >>> import fusewire as fw
        >>> list(fw.nn.utils.weight_norm(fw.nn.Linear(3, 2)).state_dict())
        ['bias', 'weight_g', 'weight_v']
    """
    weight, hook = _take_parameter("weight_norm", _WeightNorm, module, name), _WeightNorm(name, dim)
    module.register_parameter(f"{name}_g", Parameter(norm_except(weight.detach(), hook.dim)))
    module.register_parameter(f"{name}_v", Parameter(weight))
    hook(module, ())
    return hook.install(module)


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """`module` with its weight as a parameter of the current value, undoing `weight_norm`.

    Args:
        module: a layer with the weight norm, changed in place.
        name: the name of the parameter. Default "weight".

    Raises:
        StateError: `module` has no weight norm of that name.

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.utils.weight_norm(fw.nn.Linear(3, 2))
        >>> list(fw.nn.utils.remove_weight_norm(layer).state_dict())
        ['bias', 'weight']
    """
    hook = _remove_hook("weight_norm", _WeightNorm, module, name)
    with no_grad():
        weight = Parameter(hook.of(module))
    delattr(module, f"{name}_g")
    delattr(module, f"{name}_v")
    module.register_parameter(name, weight)
    return module


@names_itself
def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """`module` with its weight divided before each forward by the largest singular value.

    The trained parameter is NAME_orig. nn.utils.parametrizations.spectral_norm is the newer form.
    Miyato et al., "Spectral normalization", arXiv 1802.05957.

    Args:
        module: a layer, changed in place.
        name: the name of the parameter. Default "weight".
        n_power_iterations: the number of steps before each forward in training mode. Default 1.
        eps: the least norm that a vector is divided by. Default 1e-12.
        dim: the axis of the rows of the matrix (rows, rest) of the weight. Default None: 1 for
            transposed convolutions, else 0.

    Raises:
        ArgumentError: `module` has no such parameter or computes it already, or
            `n_power_iterations` is below 1.

    Example:
        >>> import fusewire as fw
        >>> list(fw.nn.utils.spectral_norm(fw.nn.Linear(3, 2)).state_dict())
        ['bias', 'weight_orig', 'weight_u', 'weight_v']
    """
    check_number("spectral_norm", "eps", eps)
    hook = _SpectralNorm(name, n_power_iterations, eps,
                         transposed_axis(module) if dim is None else dim)
    weight = _take_parameter("spectral_norm", _SpectralNorm, module, name)
    with no_grad():
        u, v = (unit(randn(n).to(weight.dtype), eps)
                for n in as_matrix(weight.detach(), hook.dim).shape)
    module.register_parameter(f"{name}_orig", weight)
    setattr(module, name, weight.detach())
    module.register_buffer(f"{name}_u", u)
    module.register_buffer(f"{name}_v", v)
    return hook.install(module)


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """`module` with its weight as a parameter of the current value, undoing `spectral_norm`.

    Args:
        module: a layer with the spectral norm, changed in place.
        name: the name of the parameter. Default "weight".

    Raises:
        StateError: `module` has no spectral norm of that name.

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.utils.spectral_norm(fw.nn.Linear(3, 2))
        >>> list(fw.nn.utils.remove_spectral_norm(layer).state_dict())
        ['bias', 'weight']
    """
    hook = _remove_hook("spectral_norm", _SpectralNorm, module, name)
    with no_grad():
        weight = Parameter(hook.computed(module, False))
    for part in ("u", "v", "orig"):
        delattr(module, f"{name}_{part}")
    module.register_parameter(name, weight)
    return module
