"""Weight norm and spectral norm as they were before parametrizations: computed before forward."""

from __future__ import annotations

from typing import Any

from ...arguments import check_at_least
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
    """A forward pre-hook that computes a tensor of a module, and its handle."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.handle: Any = None

    def of(self, module: Any) -> Tensor:
        """The tensor, computed from the parameters that stand in its place."""
        raise NotImplementedError

    def __call__(self, module: Any, args: Any) -> None:
        setattr(module, self.name, self.of(module))

    def install(self, module: Module) -> Module:
        """`module`, with this hook."""
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
        check_at_least("spectral_norm", "n_power_iterations", n_power_iterations, 1)
        self.n_power_iterations, self.eps, self.dim = n_power_iterations, eps, dim

    def of(self, module: Any) -> Tensor:
        return self.computed(module, module.training)

    def computed(self, module: Any, steps: bool) -> Tensor:
        """The weight divided by its singular value, with `steps` followed anew."""
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
    """The hook of that kind and name that a module has, or None."""
    hooks = [] if module._hooks is None else [h[0] for h in module._hooks.before.values()]
    return next((h for h in hooks if isinstance(h, kind) and h.name == name), None)


def _begin(what: str, kind: type[_Weight], module: Module, name: str) -> Parameter:
    """The parameter of that name, taken out of `module`."""
    found = module._parameters.get(name)
    if _hook_of(module, kind, name) is not None or found is None:
        raise ArgumentError(f"{what}: {type(module).__name__} has no parameter {name!r}"
                            + ("" if found is not None else ", or has one that is computed"),
                            f"it has {[*module._parameters]}")
    del module._parameters[name]
    return found


def _removed(what: str, kind: type[_Weight], module: Module, name: str) -> Any:
    hook = _hook_of(module, kind, name)
    if hook is None:
        raise StateError(f"remove_{what}: {type(module).__name__} has no {what} of {name!r}",
                         f"nn.utils.{what} makes one; those of nn.utils.parametrizations are taken "
                         "away by parametrize.remove_parametrizations")
    hook.handle.remove()
    delattr(module, name)
    return hook


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """`module`, its weight computed before each forward as g * v / |v| from weight_g and weight_v.

    A norm for each slice along `dim`; None: one of the whole. The newer way of the same is
    nn.utils.parametrizations.weight_norm. https://arxiv.org/abs/1602.07868
    """
    weight, hook = _begin("weight_norm", _WeightNorm, module, name), _WeightNorm(name, dim)
    module.register_parameter(f"{name}_g", Parameter(norm_except(weight.detach(), hook.dim)))
    module.register_parameter(f"{name}_v", Parameter(weight))
    hook(module, ())
    return hook.install(module)


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """`module`, its weight a parameter again, with the value it has now."""
    hook = _removed("weight_norm", _WeightNorm, module, name)
    with no_grad():
        weight = Parameter(hook.of(module))
    delattr(module, f"{name}_g")
    delattr(module, f"{name}_v")
    module.register_parameter(name, weight)
    return module


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """`module`, its weight computed before each forward: weight_orig / its largest singular value.

    The newer way of the same is nn.utils.parametrizations.spectral_norm.
    https://arxiv.org/abs/1802.05957
    """
    hook = _SpectralNorm(name, n_power_iterations, eps,
                         transposed_axis(module) if dim is None else dim)
    weight = _begin("spectral_norm", _SpectralNorm, module, name)
    with no_grad():
        u, v = (unit(randn(n).to(weight.dtype), eps)
                for n in as_matrix(weight.detach(), hook.dim).shape)
    module.register_parameter(f"{name}_orig", weight)
    setattr(module, name, weight.detach())
    module.register_buffer(f"{name}_u", u)
    module.register_buffer(f"{name}_v", v)
    return hook.install(module)


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """`module`, its weight a parameter again, with the value it has now."""
    hook = _removed("spectral_norm", _SpectralNorm, module, name)
    with no_grad():
        weight = Parameter(hook.computed(module, False))
    for part in ("u", "v", "orig"):
        delattr(module, f"{name}_{part}")
    module.register_parameter(name, weight)
    return module
