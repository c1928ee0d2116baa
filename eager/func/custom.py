"""Runs functions with a user's backward (`autograd.Function`) inside of transforms.

Tensors of a level consist of inner tensors, for which the user's backward counts as well.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from ..autograd import Function
from ..core.tape import is_grad_enabled, no_grad
from ..core.tensor import Tensor
from ..errors import GradientError


def run_forward(function: Any, ctx: Any, args: tuple[Any, ...], beneath: Sequence[Any]
                ) -> tuple[Any, Any]:
    """The result of `forward` for `args`, and a context for `beneath`, their inner tensors."""
    on_tape = is_grad_enabled()
    needs = ctx.needs_input_grad
    ctx.needs_input_grad = tuple(
        n or (on_tape and isinstance(x, Tensor) and x.edge is not None)
        for n, x in zip(needs, beneath))
    with no_grad():
        result = function._forward(ctx, args)
    if ctx._dirty:
        raise GradientError(f"{function.__name__}: mark_dirty inside of a transform is not built",
                            "return a new tensor instead")
    inner_ctx = copy.copy(ctx)
    ctx.needs_input_grad = needs
    return result, inner_ctx


def as_list(result: Any) -> list[Any]:
    """The results of a forward as a list."""
    return list(result) if isinstance(result, (tuple, list)) else [result]


class Mapped(Function):
    """A call over a batch, as a Function of the tensors that the batch consists of."""

    @staticmethod
    def forward(ctx: Any, call: Any, *beneath: Any) -> Any:
        ctx.call = call
        return call.forward(ctx)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return (None, *ctx.call.backward(ctx.saved_tensors, gradients))


class BatchedCall:
    """Holds the results and saved tensors of a forward, and runs its backward over a batch."""

    def __init__(self, function: Any, ctx: Any, outs: list[Any], beneath: Callable[..., Any],
                 vmap: Callable[..., Any]) -> None:
        """beneath(tensors): their inner tensors, and their axes of examples."""
        self.function, self.vmap = function, vmap
        self.values, self.out_axes = beneath(outs)
        self.saved, self.saved_axes = beneath(ctx._to_save)
        constant = [any(x is y for y in ctx._constant) for x in outs]
        self.constant = [v for v, c in zip(self.values, constant) if c]
        self.ctx, ctx._to_save = ctx, ()

    def forward(self, ctx: Any) -> Any:
        """The results as inner tensors."""
        ctx.save_for_backward(*self.saved)
        ctx.mark_non_differentiable(*self.constant)
        ctx.set_materialize_grads(self.ctx.materialize_grads)
        values, self.values, self.saved, self.constant = tuple(self.values), [], [], []
        return values

    def backward(self, saved: Any, gradients: Any) -> Any:
        """The gradients of all examples, by the user's backward over the batch."""
        def one(saved: Any, gradients: Any) -> Any:
            ctx = copy.copy(self.ctx)
            ctx._to_save = tuple(saved)
            results = as_list(self.function.backward(ctx, *gradients))
            return results[:len(ctx.needs_input_grad)]

        mapped = self.vmap(one, in_axes=(self.saved_axes, self.out_axes), randomness="different")
        return mapped(list(saved), list(gradients))
