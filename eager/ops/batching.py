"""Rules by which ops run over a batch at once: the `batch` of their entries, for `vmap`.

A rule is batch(op, xs, batched, params) -> tensor: `xs` are the inputs of the op, those for which
`batched` holds with the batch as an additional first axis; the result has it in front too. Kinds
that say enough by themselves (pointwise, reduce, scan, contract, composite) need none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..dispatch import apply
from ..op import OPS, Op
from ..tensor import Tensor

Rule = Callable[[Op, tuple[Any, ...], tuple[bool, ...], dict[str, Any]], Tensor]


def batch_size(xs: tuple[Any, ...], batched: tuple[bool, ...]) -> Any:
    """The number of examples."""
    return next(x.shape[0] for x, b in zip(xs, batched) if b)


def all_batched(xs: tuple[Any, ...], batched: tuple[bool, ...]) -> tuple[Any, ...]:
    """`xs`, every tensor of them with the batch in front: those without it are repeated."""
    n = batch_size(xs, batched)
    return tuple(repeated(x, n) if isinstance(x, Tensor) and not b else x
                 for x, b in zip(xs, batched))


def repeated(x: Tensor, n: Any) -> Tensor:
    """`x`, `n` times along a new first axis."""
    return apply(OPS["broadcast_to"], (x,), {"shape": (n, *x.shape)})


def leading(op: Op, xs: tuple[Any, ...], batched: tuple[bool, ...], params: dict[str, Any]
            ) -> Tensor:
    """The rule of an op that works on the last axes and takes any axes before them."""
    return apply(op, all_batched(xs, batched), params)


def shifted(*names: str) -> Rule:
    """The rule of an op whose params `names` are axes (one or a tuple) counted from the front."""

    def batch(op: Op, xs: tuple[Any, ...], batched: tuple[bool, ...], params: dict[str, Any]
              ) -> Tensor:
        moved = {n: tuple(a + 1 for a in params[n]) if isinstance(params[n], tuple)
                 else params[n] + 1 for n in names}
        return apply(op, all_batched(xs, batched), {**params, **moved})

    return batch
