"""Sums products over shared axes: one op, spelled as an einsum over two tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from ...arguments import whole
from ...arrays import devices, dtypes
from ...arrays.shapes import TensorType, axis_of, broadcast, product
from ...core.dispatch import apply
from ...core.op import Op, define, each
from ...core.tensor import Tensor, as_tensor
from ...errors import DTypeError, ShapeError
from ..elementwise.complex import conj_of
from ..elementwise.pointwise import cast
from ..shape.view import expand_to, permute_dims

__all__ = ["matmul", "tensordot", "vecdot"]

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
ProductFunction = Callable[[Any, Any], Any]  # of two arrays
_MIN_SIDE = 4  # rows and columns of a product that uses its elements often
_BYTES_PER_NS = 256  # bytes of elements that BLAS multiplies in a nanosecond


def parts(spec: str) -> tuple[str, str, str]:
    """The letters of left, right and result in "ij,jk->ik"."""
    inputs, _, out = spec.partition("->")
    left, _, right = inputs.partition(",")
    return left, right, out


def _result(x: TensorType, y: TensorType, spec: str) -> TensorType:
    left, right, out = parts(spec)
    sizes: dict[str, Any] = {}
    for letters, t in ((left, x), (right, y)):
        for letter, n in zip(letters, t.shape):
            if sizes.setdefault(letter, n) != n:
                raise ShapeError(f"contract {spec}: axis {letter!r} is {sizes[letter]} on the left "
                                 f"{x.shape} and {n} on the right {y.shape}",
                                 "sizes that are multiplied with each other must be equal")
    return TensorType(tuple(sizes[c] for c in out), x.dtype)


# ---- how NumPy computes a spec: a function of two arrays, chosen once

def _impl(xp: Any, x: Any, y: Any, spec: str) -> Any:
    if x.itemsize == 2 and dtypes.kind(x.dtype) == "f":  # small floats are summed in float32
        wide = _product(spec)(x.astype(np.float32), y.astype(np.float32))
        return wide.astype(x.dtype)
    return _product(spec)(x, y)


@cache
def _product(spec: str) -> ProductFunction:
    """A function of two arrays that computes `spec`, through BLAS where possible."""
    left, right, out = parts(spec)
    rows, columns = [c for c in out if c not in right], [c for c in out if c not in left]
    summed = [c for c in left if c not in out]
    if not summed:
        return _outer(left, right, out)
    batch = [c for c in out if c in left and c in right]
    if max(len(rows), len(columns), len(summed)) > 1:
        return _flattened(left, right, out, [batch, rows, columns, summed])
    if rows and columns and [*batch, *columns, *rows] == [*out]:  # the product of the transposes
        swapped = _direct(right, left, batch, columns, rows, summed)
        return lambda x, y: swapped(y, x)
    return _permuted(_direct(left, right, batch, rows, columns, summed), [*batch, *rows, *columns],
                     out)


def _direct(left: str, right: str, batch: Any, rows: Any, columns: Any,
            summed: Any) -> ProductFunction:
    """The product of (batches of) matrices and vectors, or of views with exchanged axes."""
    axes_x = _permutation(left, [*batch, *rows, *summed])
    axes_y = _permutation(right, [*batch, *summed, *columns])
    if not batch:  # `dot` of two axes costs half as much as `matmul`
        return _DOTS[axes_x is not None, axes_y is not None]
    if not rows and not columns:
        return lambda x, y: _vecdot(_view(x, axes_x), _view(y, axes_y))
    if not rows:
        return lambda x, y: np.matmul(_view(x, axes_x)[..., None, :], _view(y, axes_y))[..., 0, :]
    if not columns:
        return lambda x, y: np.matmul(_view(x, axes_x), _view(y, axes_y)[..., None])[..., 0]
    if axes_x is None and axes_y is None:
        return np.matmul
    return lambda x, y: np.matmul(_view(x, axes_x), _view(y, axes_y))


_DOTS: dict[tuple[bool, bool], ProductFunction] = {
    (False, False): lambda x, y: x.dot(y), (True, False): lambda x, y: x.T.dot(y),
    (False, True): lambda x, y: x.dot(y.T), (True, True): lambda x, y: x.T.dot(y.T)}


def _vecdot(x: Any, y: Any) -> Any:
    return devices.kernels_of(x).vecdot(x, y)


def _permutation(letters: str, target: list[str]) -> list[int] | None:
    """The permutation of axes from `letters` to `target`; None if they are equal."""
    return None if [*letters] == target else [letters.index(c) for c in target]


def _view(x: Any, axes: list[int] | None) -> Any:
    return x if axes is None else x.transpose(axes)


def _permuted(product: ProductFunction, letters: list[str], out: str) -> ProductFunction:
    """`product` with the axes `letters` of its result permuted to `out`."""
    axes = _permutation("".join(letters), [*out])
    return product if axes is None else lambda x, y: product(x, y).transpose(axes)


def _outer(left: str, right: str, out: str) -> ProductFunction:
    """A product without a sum: elements are multiplied, along axes that one side may lack."""
    to_left, to_right = ([side.index(c) for c in out if c in side] for side in (left, right))
    at_left, at_right = (tuple(slice(None) if c in side else None for c in out)
                         for side in (left, right))
    return lambda x, y: x.transpose(to_left)[at_left] * y.transpose(to_right)[at_right]


def _flattened(left: str, right: str, out: str, groups: list[list[str]]) -> ProductFunction:
    """A product that first joins the axes of each role, by copies if memory requires them."""
    batch, rows, columns, summed = groups
    to_left = [left.index(c) for c in (*batch, *rows, *summed)]
    to_right = [right.index(c) for c in (*batch, *summed, *columns)]
    letters = [*batch, *rows, *columns]
    to_out = [letters.index(c) for c in out]

    def run(x: Any, y: Any) -> Any:
        size = dict(zip(left, x.shape)) | dict(zip(right, y.shape))
        b, m, n, k = (tuple(size[c] for c in group) for group in (batch, rows, columns, summed))
        count = [int(np.prod(group, dtype=np.int64)) for group in (m, n, k)]
        x = x.transpose(to_left).reshape(*b, count[0], count[2])
        y = y.transpose(to_right).reshape(*b, count[2], count[1])
        return np.matmul(x, y).reshape(b + m + n).transpose(to_out)

    return run


# ---- the op

def _left_vjp(g: Tensor, out: Tensor, x: Tensor, y: Tensor, spec: str) -> Tensor:
    left, right, result = parts(spec)
    return contract(g, conj_of(y), f"{result},{right}->{left}")


def _right_vjp(g: Tensor, out: Tensor, x: Tensor, y: Tensor, spec: str) -> Tensor:
    left, right, result = parts(spec)
    return contract(conj_of(x), g, f"{left},{result}->{right}")


def _work(x: TensorType, y: TensorType, spec: str) -> float:
    """Nanoseconds of the product in BLAS on two processors of 2020.

    0 unless several rows are multiplied with several columns: such products are bound by memory.
    """
    left, right, out = parts(spec)
    size = dict(zip(left, x.shape)) | dict(zip(right, y.shape))
    sides = [product(size[c] for c in out if c not in other) for other in (right, left)]
    if min(sides) < _MIN_SIDE or dtypes.kind(x.dtype) != "f":
        return 0.0
    return product(size.values()) * x.dtype.itemsize / _BYTES_PER_NS


contract_op = define(Op("contract", "contract", _result, _impl, None, each(_left_vjp, _right_vjp),
                        precision="low", work=_work, passes=8))


def contract(x: Tensor, y: Tensor, spec: str) -> Tensor:
    """The einsum `spec` of two tensors of one dtype.

    Each letter of one input stands in the other or in the result, and at most once in each.
    """
    return apply(contract_op, (x, y), {"spec": spec})


# ---- products by their names

def matmul(x: Tensor, y: Tensor) -> Tensor:
    """The matrix product of the last two axes: (..., m, k), (..., k, n) -> (..., m, n).

    Leading axes broadcast. A vector on the left is a row, one on the right a column; the result
    lacks its axis.

    Raises:
        ShapeError: the inner sizes differ, the leading axes do not broadcast, or an input is 0-d.
        DTypeError: both inputs are bool.

    Example:
        >>> import fusewire as fw
        >>> fw.tensor([[1, 2], [3, 4]]) @ fw.tensor([10, 1])
        tensor([12, 34])
    """
    x, y = factors("matmul", x, y)
    left, right = x._data.shape, y._data.shape
    if len(left) == 2 and len(right) == 2 and left[1] == right[0]:
        return apply(contract_op, (x, y), _MATRICES)
    left, right = x.shape, y.shape
    if not left or not right:
        raise ShapeError(f"matmul: does not take 0-d tensors, got {left} and {right}",
                         "use x * y")
    if left[-1] != right[-2 if len(right) > 1 else 0]:
        raise _inner_sizes_differ(left, right)
    if len(left) > 1 and len(right) > 2 and left[:-2] != right[:-2]:
        batch = broadcast(f"matmul of {left} and {right}: the axes before the last two",
                          left[:-2], right[:-2])
        x, y = expand_to(x, (*batch, *left[-2:])), expand_to(y, (*batch, *right[-2:]))
    return apply(contract_op, (x, y), _matmul_params(len(x.shape), len(y.shape)))


_MATRICES = {"spec": "ij,jk->ik"}


@cache
def _matmul_params(left: int, right: int) -> dict[str, str]:
    """The params for operands with these numbers of axes; two batches have the same shape."""
    rows, columns = "i" * (left > 1), "j" * (right > 1)
    batch = LETTERS[11:11 + max(left, right) - 2]
    mine, other = batch if left > 2 else "", batch if right > 2 else ""
    return {"spec": f"{mine}{rows}k,{other}k{columns}->{batch}{rows}{columns}"}


def factors(name: str, x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """`x` and `y` as tensors of the dtype to which they promote; DTypeError for bool."""
    if not isinstance(x, Tensor) or not isinstance(y, Tensor):
        x, y = as_tensor(name, x), as_tensor(name, y)
    a, b = x._data.dtype, y._data.dtype
    dtype = a if a is b else dtypes.promote(a, b)
    if dtype.kind == "b":
        raise DTypeError(f"{name}: takes numbers, not bool",
                         "cast first: x.astype(fw.int64); for truth values (x & y).any()")
    return (x, y) if a is b else (cast(x, dtype), cast(y, dtype))


def _inner_sizes_differ(left: Any, right: Any) -> ShapeError:
    n = right[-2 if len(right) > 1 else 0]
    attribute = "T" if len(left) < 3 > len(right) else "mT"
    hint = "the last size of the left must equal the second to last of the right"
    if len(right) > 1 and right[-1] == left[-1]:
        hint = f"the right side looks transposed: pass y.{attribute}"
    elif len(left) > 1 and left[-2] == n:
        hint = f"the left side looks transposed: pass x.{attribute}"
    return ShapeError(
        f"matmul: inner sizes differ: left {left} ends in {left[-1]}, right {right} needs {n}",
        hint)


def tensordot(x: Tensor, y: Tensor, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Tensor:
    """The sum of products over pairs of axes: the other axes of `x`, then those of `y`.

    Args:
        axes: a number n, for the last n axes of `x` with the first n of `y`; or a pair of equally
            long sequences, the axes of `x` and those of `y`. Default 2.

    Raises:
        ShapeError: `axes` does not fit the shapes, or the sizes of a pair differ.

    Example:
        >>> import fusewire as fw
        >>> fw.tensordot(fw.ones(2, 3, 4), fw.ones(4, 3, 5), axes=((1, 2), (1, 0))).shape
        (2, 5)
    """
    x, y = factors("tensordot", x, y)
    mine, others = _pairs(x, y, axes)
    left, right = [*LETTERS[:x.ndim]], [*LETTERS[x.ndim:x.ndim + y.ndim]]
    for i, j in zip(mine, others):
        if x.shape[i] != y.shape[j]:
            raise ShapeError(f"tensordot: axis {i} of {x.shape} has size {x.shape[i]}, axis {j} of "
                             f"{y.shape} has {y.shape[j]}", "axes that are summed over together "
                             "must be equally long")
        right[j] = left[i]
    out = [c for c in left if c not in right] + [c for c in right if c not in left]
    return contract(x, y, f"{''.join(left)},{''.join(right)}->{''.join(out)}")


def _pairs(x: Tensor, y: Tensor, axes: Any) -> tuple[list[int], list[int]]:
    """The axes of `x` and `y`, counted from the front, that tensordot sums over."""
    count = whole(axes)
    if count is not None and 0 <= count <= min(x.ndim, y.ndim):
        return list(range(x.ndim - count, x.ndim)), list(range(count))
    if count is None and isinstance(axes, (tuple, list)) and len(axes) == 2:
        named = [[a] if whole(a) is not None else list(a) for a in axes]
        mine, others = ([axis_of("tensordot", a, t.ndim) for a in group]
                        for group, t in zip(named, (x, y)))
        if len(mine) == len(others) and all(len(set(f)) == len(f) for f in (mine, others)):
            return mine, others
    raise ShapeError(f"tensordot: axes {axes!r} for shapes {x.shape} and {y.shape}",
                     "it is how many axes are summed over, no more than either side has, or a pair "
                     "of sequences of equally many axes, each named once")


def vecdot(x: Tensor, y: Tensor, axis: int = -1) -> Tensor:
    """The sum of conj(x) * y along `axis` of both; the other axes broadcast.

    Args:
        axis: of the vectors, equally long in `x` and `y`. Default -1.

    Raises:
        ShapeError: the vectors differ in length, or the other axes do not broadcast.

    Example:
        >>> import fusewire as fw
        >>> fw.vecdot(fw.tensor([[1, 2], [3, 4]]), fw.tensor([10, 1]))
        tensor([12, 34])
    """
    x, y = factors("vecdot", x, y)
    x, y = _axis_last(x, axis), _axis_last(y, axis)
    left, right = x.shape, y.shape
    if left[-1] != right[-1]:
        raise ShapeError(f"vecdot: the axis {axis} is {left[-1]} on the left and {right[-1]} on "
                         "the right", "the vectors must be equally long, they do not broadcast")
    if left != right:
        shape = broadcast("vecdot", left, right)
        x, y = expand_to(x, shape), expand_to(y, shape)
    batch = LETTERS[11:10 + len(x.shape)]
    return contract(conj_of(x), y, f"{batch}k,{batch}k->{batch}")


def _axis_last(x: Tensor, axis: int) -> Tensor:
    at = axis_of("vecdot", axis, x.ndim)
    rest = [i for i in range(x.ndim) if i != at]
    return x if at == x.ndim - 1 else permute_dims(x, (*rest, at))
