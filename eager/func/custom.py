"""Functions whose way back the user wrote (`autograd.Function`), called inside of transforms.

The tensors of a level are made of others, for which the user's backward counts as well.
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
    """What `forward` gives for `args`, which are made of `beneath`, and a context for those."""
    on_tape = is_grad_enabled()
    needs = ctx.needs_input_grad
    ctx.needs_input_grad = tuple(
        n or (on_tape and isinstance(x, Tensor) and x.edge is not None)
        for n, x in zip(needs, beneath))
    with no_grad():
        result = function._forward(ctx, args)
    if ctx._dirty:
        raise GradientError(f"{function.__name__}: mark_dirty inside of a transform is not built",
                            "return a new tensor in the place of the one changed")
    kept = copy.copy(ctx)
    ctx.needs_input_grad = needs
    return result, kept


def listed(result: Any) -> list[Any]:
    """The results of a forward, of which there may be one."""
    return list(result) if isinstance(result, (tuple, list)) else [result]


class Mapped(Function):
    """A call over a batch, as one on what the batch is made of."""

    @staticmethod
    def forward(ctx: Any, call: Any, *beneath: Any) -> Any:
        ctx.call = call
        return call.forward(ctx)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return (None, *ctx.call.backward(ctx.saved_tensors, gradients))


class BatchedCall:
    """What `Mapped` needs: what forward gave and saved, and how to run backward over a batch."""

    def __init__(self, function: Any, kept: Any, outs: list[Any], beneath: Callable[..., Any],
                 vmap: Callable[..., Any]) -> None:
        """beneath(tensors): what those are made of, and their axes of examples."""
        self.function, self.vmap = function, vmap
        self.values, self.out_axes = beneath(outs)
        self.saved, self.saved_axes = beneath(kept._given)
        constant = [any(x is y for y in kept._constant) for x in outs]
        self.constant = [v for v, c in zip(self.values, constant) if c]
        self.kept, kept._given = kept, ()

    def forward(self, ctx: Any) -> Any:
        """The results, as tensors beneath."""
        ctx.save_for_backward(*self.saved)
        ctx.mark_non_differentiable(*self.constant)
        ctx.set_materialize_grads(self.kept.materialize_grads)
        values, self.values, self.saved, self.constant = tuple(self.values), [], [], []
        return values

    def backward(self, saved: Any, gradients: Any) -> Any:
        """The gradients of all examples, by the user's backward over the batch."""
        def one(saved: Any, gradients: Any) -> Any:
            ctx = copy.copy(self.kept)
            ctx._given = tuple(saved)
            found = listed(self.function.backward(ctx, *gradients))
            return found[:len(ctx.needs_input_grad)]

        mapped = self.vmap(one, in_axes=(self.saved_axes, self.out_axes), randomness="different")
        return mapped(list(saved), list(gradients))
