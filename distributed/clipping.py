"""Clips gradients of which ranks have parts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from ..eager.core.tape import no_grad
from ..eager.core.tensor import Tensor
from ..eager.errors import ArgumentError
from ..eager.nn.utils.clip_grad import clip_grads_with_norm_, get_total_norm
from ..eager.ops.create import zeros
from ..eager.ops.elementwise.pointwise import maximum
from .collectives import all_reduce
from .engines.engine import ProcessGroup
from .layouts import groups_of


@no_grad()
def clip_grad_norm_(parameters: Iterable[Tensor], max_norm: float, norm_type: float = 2.0
                    ) -> Tensor:
    """The norm of all gradients, which are scaled in place to at most `max_norm`; it is that of
    one process. Parts of sharded parameters are added over the ranks, whole ones count once.

    Args:
        parameters: the parameters of a model on this rank, in one order on all ranks.
        max_norm: the largest norm that is left.
        norm_type: the order of the norm, above 0; inf for the largest absolute value.

    Raises:
        ArgumentError: norm_type is not above 0.
    """
    if not norm_type > 0:
        raise ArgumentError(f"clip_grad_norm_: norm_type must be above 0, got {norm_type}",
                            "use 2.0, or math.inf for the largest absolute value")
    each = list(parameters)
    by_groups: dict[tuple[ProcessGroup, ...], list[Tensor]] = {}
    for p in each:
        by_groups.setdefault(groups_of(p), []).append(p)
    total: Any = None
    for groups in sorted(by_groups, key=lambda groups: [g.name for g in groups]):
        part = _norm(by_groups[groups], norm_type, groups)
        total = part if total is None else _joined(total, part, norm_type)
    norm = total if math.isinf(norm_type) else total ** (1.0 / norm_type)
    clip_grads_with_norm_(each, max_norm, norm)
    return norm  # type: ignore[no-any-return]


def _norm(parameters: list[Tensor], order: float, groups: tuple[ProcessGroup, ...]) -> Tensor:
    """The norm of the gradients over all groups, to the power `order`; inf gives the norm."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    own = get_total_norm(gradients, order) if gradients else zeros((), dtype=parameters[0].dtype)
    power = own if math.isinf(order) else own ** order
    for group in groups:
        power = all_reduce(power, "max" if math.isinf(order) else "sum", group)
    return power


def _joined(a: Tensor, b: Tensor, order: float) -> Tensor:
    return maximum(a, b) if math.isinf(order) else a + b
