"""Parametrizations of weights: with a separate norm, with a spectral norm of 1, and orthogonal."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import linalg
from ...arguments import check_choice, check_number, check_whole, names_itself
from ...core.tape import no_grad
from ...core.tensor import Tensor, from_numpy
from ...errors import ArgumentError, AxisError, ShapeError
from ...ops.create import zeros, zeros_like
from ...ops.elementwise.pointwise import maximum, sign, where
from ...ops.products.matrix import diagonal
from ...ops.random.generator import randn
from ...ops.reduction.reduce import sum as total
from ...ops.shape.grid import eye, tril, triu
from ...ops.shape.join import concat
from ...ops.shape.rearrange import moveaxis
from ...ops.shape.view import expand_dims, reshape
from ..base.module import Module
from ..layers.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from .parametrize import register_parametrization

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


# ---- weight norm
def norm_except(v: Tensor, dim: int | None) -> Tensor:
    """The norms of the slices of `v` along `dim`, of size 1 on other axes; None or -1: one norm."""
    if dim is None or dim == -1:  # both mean the whole tensor in PyTorch
        return linalg.vector_norm(v)
    if not 0 <= check_whole("weight_norm", "dim", dim) < v.ndim:
        raise AxisError(f"weight_norm: dim {dim} is no axis of a weight {v.shape}",
                        f"axes are 0 to {v.ndim - 1}; None and -1 mean one norm of the whole")
    return linalg.vector_norm(v, axis=tuple(i for i in range(v.ndim) if i != dim), keepdims=True)


class _WeightNorm(Module):
    """Computes g * v / |v|."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return weight_v * (weight_g / norm_except(weight_v, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return norm_except(weight, self.dim), weight


@names_itself
def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """`module` with its weight computed as g * v / |v|.

    The trained parameters are parametrizations.NAME.original0, g, and original1, v.
    State dicts with NAME_g and NAME_v load, too. Salimans and Kingma, "Weight normalization", arXiv
    1602.07868.

    Args:
        module: a layer, changed in place.
        name: the name of the parameter. Default "weight".
        dim: the axis along which each slice has its own norm; None or -1 for one norm. Default 0.

    Raises:
        StateError: `module` has no parameter of that name.

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.utils.parametrizations.weight_norm(fw.nn.Linear(3, 2))
        >>> layer.parametrizations.weight.original0.shape
        (2, 1)
    """
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def older_names(owner: Any, state_dict: Any, prefix: str, *_: Any) -> None:
        for i, old in enumerate((f"{prefix}{name}_g", f"{prefix}{name}_v")):
            if old in state_dict:
                new = f"{prefix}parametrizations.{name}.original{i}"
                state_dict[new] = state_dict.pop(old)

    module.register_load_state_dict_pre_hook(older_names)
    return module


# ---- spectral norm
def transposed_axis(module: Module) -> int:
    """The axis of a layer's weight that holds outputs: 1 for transposed convolutions, else 0."""
    return int(isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)))


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """`weight` as (n, rest), with axis `dim` in front."""
    moved = moveaxis(weight, dim, 0) if dim else weight
    return reshape(moved, (moved.shape[0], -1))


def unit(x: Tensor, eps: float) -> Tensor:
    """`x` divided by its norm, or by `eps` if that is larger."""
    return x / maximum(linalg.vector_norm(x), eps)


def power_iterations(matrix: Tensor, v: Tensor, n: int, eps: float) -> tuple[Tensor, Tensor]:
    """The singular vectors u, v of the largest singular value after `n` steps from `v`."""
    u = v
    for _ in range(n):
        u = unit(matrix @ v, eps)
        v = unit(matrix.T @ u, eps)
    return u, v


class _SpectralNorm(Module):
    """Divides a weight by its largest singular value."""

    _u: Tensor
    _v: Tensor

    def __init__(self, weight: Tensor, n_power_iterations: int, dim: int, eps: float) -> None:
        super().__init__()
        if not -weight.ndim <= dim < weight.ndim:
            raise AxisError(f"spectral_norm: dim {dim} is no axis of a weight {weight.shape}")
        check_whole("spectral_norm", "n_power_iterations", n_power_iterations, 1)
        self.dim, self.eps, self.n_power_iterations = dim % weight.ndim, eps, n_power_iterations
        if weight.ndim > 1:
            with no_grad():
                matrix = as_matrix(weight.detach(), self.dim)
                u, v = (unit(randn(n).to(weight.dtype), eps) for n in matrix.shape)
                self.register_buffer("_u", u)
                self.register_buffer("_v", v)
                self._step(matrix, 15)

    def _step(self, matrix: Tensor, n: int) -> None:
        with no_grad():
            self._u, self._v = power_iterations(matrix.detach(), self._v, n, self.eps)

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return unit(weight, self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            self._step(matrix, self.n_power_iterations)
        return weight / total(self._u * (matrix @ self._v))

    def right_inverse(self, value: Tensor) -> Tensor:
        return value  # its multiples have the same result


@names_itself
def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """`module` with its weight divided by the largest singular value.

    Power iteration estimates that value: 15 steps at first, more at each read in training mode.
    Miyato et al., "Spectral normalization", arXiv 1802.05957.

    Args:
        module: a layer, changed in place.
        name: the name of the parameter. Default "weight".
        n_power_iterations: the number of steps at each read in training mode. Default 1.
        eps: the least norm that a vector is divided by. Default 1e-12.
        dim: the axis of the rows of the matrix (rows, rest) of the weight. Default None: 1 for
            transposed convolutions, else 0.

    Raises:
        ArgumentError: `module` has no such tensor, or `n_power_iterations` is below 1.
        AxisError: the weight has no axis `dim`.

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.utils.parametrizations.spectral_norm(fw.nn.Linear(1, 1))
        >>> abs(abs(layer.weight.item()) - 1) < 1e-5
        True
    """
    check_number("spectral_norm", "eps", eps)
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ArgumentError(f"spectral_norm: {type(module).__name__} has no tensor {name!r}")
    axis = transposed_axis(module) if dim is None else dim
    parametrization = _SpectralNorm(weight, n_power_iterations, axis, eps)
    return register_parametrization(module, name, parametrization)


# ---- orthogonal
_MAPS = ("matrix_exp", "cayley", "householder")


class _Orthogonal(Module):
    """Computes a matrix with orthonormal columns, or rows if it is wide, from any matrix."""

    def __init__(self, weight: Tensor, orthogonal_map: str, use_trivialization: bool) -> None:
        super().__init__()
        self.shape, self.orthogonal_map = weight.shape, orthogonal_map
        self.use_trivialization = use_trivialization
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        wide = X.shape[-2] < X.shape[-1]
        tall = X.mT if wide else X
        out = _reflected(tall) if self.orthogonal_map == "householder" else self._columns(tall)
        if self.use_trivialization:
            out = self.base @ out
        return out.mT if wide else out

    def _columns(self, x: Tensor) -> Tensor:
        """The first columns of a function of a skew-symmetric matrix, which is orthogonal."""
        n, k = x.shape[-2:]
        rest = zeros(*x.shape[:-1], n - k, dtype=x.dtype, device=x.device)
        square = concat([tril(x), rest], axis=-1)
        skew = square - square.mT
        if self.orthogonal_map == "matrix_exp":
            return linalg.matrix_exp(skew)[..., :k]
        one = eye(n, dtype=x.dtype, device=x.device)
        return linalg.solve(one - skew / 2, one + skew / 2)[..., :k]

    def right_inverse(self, Q: Tensor) -> Tensor:
        if Q.shape != self.shape:
            raise ShapeError(f"orthogonal: the weight has shape {self.shape}, the value {Q.shape}")
        wide = Q.shape[-2] < Q.shape[-1]
        tall = Q.detach().mT if wide else Q.detach()
        if self.use_trivialization:
            self.base = _completed(tall)
            return _eye_like(Q) * -1  # from which `forward` makes the first columns of 1
        if self.orthogonal_map != "householder":
            raise NotImplementedError("a matrix_exp or cayley map without a base cannot be set")
        reflectors = _reflectors(tall)
        return reflectors.mT if wide else reflectors


def _reflected(x: Tensor) -> Tensor:
    """The first columns of a product of reflections I - 2 v v.T / |v|^2, one for a column of `x`.

    v is 1 on the diagonal and x below it. The product is I - V T V.T, where the inverse of T is
    striu(V.T V) + diag(|v|^2 / 2): https://doi.org/10.1137/0910005. Columns are multiplied by the
    signs that the diagonal of x holds.
    """
    n, k = x.shape[-2:]
    v = tril(x, k=-1) + eye(n, k, dtype=x.dtype, device=x.device)
    products = v.mT @ v
    inverse = triu(products, k=1) + eye(k, dtype=x.dtype, device=x.device) * products / 2
    out = eye(n, k, dtype=x.dtype, device=x.device) - v @ linalg.solve(inverse, v[..., :k, :].mT)
    return out * expand_dims(diagonal(x.detach()).to("int64").to(x.dtype), -2)


def _reflectors(x: Tensor) -> Tensor:
    """The matrix from which `_reflected` computes `x`, or the nearest Q of its QR decomposition."""
    h, tau = np.linalg.qr(x.numpy(), mode="raw")
    below = from_numpy(h.swapaxes(-1, -2).astype(x.dtype))
    signs = sign(diagonal(below))
    signs = where(from_numpy(tau) == 0, -signs, signs)  # no reflection was needed for these
    return where(eye(*x.shape[-2:]) == 1, expand_dims(signs, -2), below)


def _completed(x: Tensor) -> Tensor:
    """A square orthogonal matrix that begins with the columns of `x`, made orthonormal."""
    n, k = x.shape[-2:]
    more = randn(*x.shape[:-2], n, n - k).to(x.dtype)
    factors = linalg.qr(concat([x, more], axis=-1))
    return factors.Q * expand_dims(sign(diagonal(factors.R)), -2)


def _eye_like(x: Tensor) -> Tensor:
    return zeros_like(x) + eye(*x.shape[-2:], dtype=x.dtype, device=x.device)


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *,
    use_trivialization: bool = True,
) -> Module:
    """`module` with a weight that has orthonormal columns, or orthonormal rows if it is wide.

    Lezcano-Casado, "Trivializations for gradient-based optimization on manifolds", arXiv
    1909.09501.

    Args:
        module: a layer, changed in place.
        name: the name of the parameter, a matrix or a batch of matrices. Default "weight".
        orthogonal_map: "matrix_exp", "cayley" or "householder". Default None: "matrix_exp" for
            square weights, "householder" for others.
        use_trivialization: True multiplies the map with the initial weight, which
            parametrizations.NAME.0.base holds. Default True.

    Raises:
        ArgumentError: `module` has no such tensor, or `orthogonal_map` is unknown.
        ShapeError: the weight has fewer than two axes.

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.utils.parametrizations.orthogonal(fw.nn.Linear(3, 2))
        >>> ((layer.weight @ layer.weight.T - fw.eye(2)).abs() < 1e-5).all().item()
        True
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ArgumentError(f"orthogonal: {type(module).__name__} has no tensor {name!r}")
    if weight.ndim < 2:
        raise ShapeError(f"orthogonal: the weight is a matrix or a batch of them, got shape "
                         f"{weight.shape}")
    usual = "matrix_exp" if weight.shape[-2] == weight.shape[-1] else "householder"
    chosen = check_choice("orthogonal", "orthogonal_map", orthogonal_map or usual, _MAPS)
    parametrization = _Orthogonal(weight, chosen, use_trivialization)
    return register_parametrization(module, name, parametrization, unsafe=True)
