"""Ops made of other ops, kept whole in a recording: codegen opens them or takes them whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...arrays.shapes import TensorType
from ...core.dispatch import apply
from ...core.on_device import opened
from ...core.op import Op, define
from ...core.tape import Leaf, enable_grad
from ...core.tensor import Tensor
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

    result: by default the type of the first input. impl: a direct form for eager, by default the
    decomposition. vjp: by default the decomposition is run again and its gradient taken.
    unwritten: why ONNX has no operators for it, not even for what it is made of. alike: whether
    impl rounds float16 and bfloat16 where the decomposition does, so that it may stand for it.
    whole: whether there may be code for all of it, and none as good for what it is made of.
    """
    why = {"onnx": unwritten} if unwritten else {}
    if impl is not None and not alike:
        why["small floats"] = "eager does not round where the ops do that it is made of"
    first = result or (lambda x, *rest, **params: x)
    return define(Op(name, "composite", first, impl or _run(decompose), decompose,
                     vjp or derived(decompose), onnx, why, rows=rows, batch=batch, work=work,
                     passes=passes or (_PASSES if rows is not None else 1), whole=whole))


def _run(decompose: Callable[..., Tensor]) -> Callable[..., Any]:
    return lambda xp, *arrays, **params: opened(decompose, arrays, params)


def derived(decompose: Callable[..., Tensor]) -> Callable[..., Any]:
    """The vjp of what a decomposition computes, by the gradients of its ops."""

    def vjp(needs: Any, g: Tensor, out: Tensor, *inputs: Any, **params: Any) -> Any:
        with enable_grad():
            fresh = [_on_tape(x) if need else x for x, need in zip(inputs, needs)]
            again = decompose(*fresh, **params)
        grads = iter(gradients.of(again, [x for x, n in zip(fresh, needs) if n], g))
        return [next(grads) if need else None for need in needs]

    return vjp


def _on_tape(x: Tensor) -> Tensor:
    """`x` as a tensor of its own on the tape, also where `x` is not, as in a forward mode."""
    copy = alias(x)
    copy.edge = copy.edge or Leaf(copy)
    return copy


class _Gradients:
    """What the way back of a composite needs from `autograd`, which stands above the ops."""

    of: Callable[[Tensor, list[Tensor], Tensor], tuple[Tensor | None, ...]]


gradients = _Gradients()


def call(op: Op, *inputs: Any, **params: Any) -> Tensor:
    """Applies a composite."""
    return apply(op, inputs, params)
