"""Declares composite ops, which a trace keeps whole and codegen compiles whole or decomposed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...arrays.shapes import TensorType
from ...core.dispatch import apply
from ...core.on_device import run_decomposition
from ...core.op import Op, define
from ...core.tape import Leaf, enable_grad
from ...core.tensor import Tensor
from ...upper_layer import UPPER
from .pointwise import alias

_PASSES = 4  # of a composite in NumPy, at least


def composite(
    name: str, decompose: Callable[..., Tensor], result: Callable[..., TensorType] | None = None,
    impl: Callable[..., Any] | None = None, vjp: Callable[..., Any] | None = None, onnx: str = "",
    rows: Callable[..., tuple[int, ...]] | None = None,
    batch: Callable[..., Tensor] | None = None, unwritten: str = "", alike: bool = False,
    work: Callable[..., float] | None = None, passes: int = 0, whole: bool = False,
) -> Op:
    """Declares an op by its decomposition into other ops.

    result: shape and dtype; by default those of the first input. impl: a direct form for eager, by
    default the decomposition. vjp: by default the gradient of the decomposition, which runs again.
    unwritten: the reason why ONNX has no operators for it or its parts. alike: True if impl rounds
    float16 and bfloat16 where the decomposition does, so that either may replace the other. whole:
    True if code for the whole op exists that is better than code for its parts.
    """
    why = {"onnx": unwritten} if unwritten else {}
    if impl is not None and not alike:
        why["small floats"] = "eager rounds at other points than the ops of its decomposition"
    first = result or (lambda x, *rest, **params: x)
    return define(Op(name, "composite", first, impl or _run(decompose), decompose,
                     vjp or derived(decompose), onnx, why, rows=rows, batch=batch, work=work,
                     passes=passes or (_PASSES if rows is not None else 1), whole=whole))


def _run(decompose: Callable[..., Tensor]) -> Callable[..., Any]:
    return lambda xp, *arrays, **params: run_decomposition(decompose, arrays, params)


def derived(decompose: Callable[..., Tensor]) -> Callable[..., Any]:
    """The vjp of a decomposition, from the gradients of its ops."""

    def vjp(needs: Any, g: Tensor, out: Tensor, *inputs: Any, **params: Any) -> Any:
        with enable_grad():
            fresh = [_on_tape(x) if need else x for x, need in zip(inputs, needs)]
            again = decompose(*fresh, **params)
        assert UPPER.gradients is not None
        grads = iter(UPPER.gradients(again, [x for x, n in zip(fresh, needs) if n], g))
        return [next(grads) if need else None for need in needs]

    return vjp


def _on_tape(x: Tensor) -> Tensor:
    """A copy of `x` that is on the tape even if `x` is not, as in forward mode."""
    copy = alias(x)
    copy.edge = copy.edge or Leaf(copy)
    return copy


def call(op: Op, *inputs: Any, **params: Any) -> Tensor:
    """Applies a composite."""
    return apply(op, inputs, params)
