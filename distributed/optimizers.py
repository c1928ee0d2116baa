"""Optimizers whose state is shared among the ranks (ZeRO-1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..eager.core.dispatch import apply
from ..eager.core.tape import enable_grad, no_grad
from ..eager.core.tensor import Tensor
from ..eager.nn.base.module import clear_gradients
from ..eager.nn.base.parameter import Parameter
from ..eager.ops.collectives import collective as ops
from ..eager.ops.create import zeros
from ..eager.ops.shape.join import concat
from .engines.engine import ProcessGroup
from .groups import get_group


class ZeroRedundancyOptimizer:
    """An optimizer of which each rank has the state of some parameters, and updates only these.

    After a step each rank sends the parameters that it has updated to the others. Whole parameters
    are assigned to ranks, so every optimizer computes the same values as on one process. Gradients
    must be equal on all ranks before the step, as after `replicate`.

    Args:
        kind: an optimizer class, such as fw.optim.AdamW.
        params: parameters, the same in one order on all ranks.
        group: by default all ranks.
        settings: arguments of the optimizer, such as lr.
    """

    def __init__(self, kind: Callable[..., Any], params: Iterable[Tensor],
                 group: ProcessGroup | None = None, **settings: Any) -> None:
        self.group, self.parameters = get_group(group), list(params)
        self.owned = _assigned(self.parameters, self.group.size)
        own = self.owned[self.group.rank] or [Parameter(zeros(0))]  # a rank without any
        self.optimizer = kind(own, **settings)

    @property
    def param_groups(self) -> list[Any]:
        """The groups of this rank's optimizer, which schedulers change."""
        return self.optimizer.param_groups  # type: ignore[no-any-return]

    @property
    def state(self) -> Any:
        """The state of this rank's parameters."""
        return self.optimizer.state

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates every parameter that has a gradient; returns the result of `closure`."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        self.optimizer.step()
        with no_grad():
            for rank, owned in enumerate(self.owned):
                for parameters in _by_dtype(owned):
                    self._send(rank, parameters)
        return loss

    def _send(self, rank: int, parameters: list[Tensor]) -> None:
        """Gives all ranks the values that parameters have on one of them."""
        flat = [p.detach().reshape(-1) for p in parameters]
        params = {"group": self.group.name, "size": self.group.size, "root": rank,
                  "site": f"parameters of rank {rank}"}
        joint = apply(ops.broadcast_op, (flat[0] if len(flat) == 1 else concat(flat),), params)
        begin = 0
        for p in parameters:
            p.copy_(joint[begin:begin + p.size].reshape(p.shape))
            begin += p.size

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Sets the gradients of all parameters to None, or to zeros if not `set_to_none`."""
        clear_gradients(self.parameters, set_to_none)

    def state_dict(self) -> dict[str, Any]:
        """The state of this rank's optimizer."""
        return self.optimizer.state_dict()  # type: ignore[no-any-return]

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Loads what `state_dict` of the same rank returned, for the same number of ranks."""
        self.optimizer.load_state_dict(state)


def _assigned(parameters: list[Tensor], size: int) -> list[list[Tensor]]:
    """The parameters of each rank: the largest first, to the rank with the fewest elements."""
    owned: list[list[int]] = [[] for _ in range(size)]
    loads = [0] * size
    for i in sorted(range(len(parameters)), key=lambda i: -parameters[i].size):
        rank = loads.index(min(loads))
        owned[rank].append(i)
        loads[rank] += parameters[i].size
    return [[parameters[i] for i in sorted(numbers)] for numbers in owned]


def _by_dtype(parameters: list[Tensor]) -> list[list[Tensor]]:
    kinds: dict[Any, list[Tensor]] = {}
    for p in parameters:
        kinds.setdefault(p.dtype, []).append(p)
    return list(kinds.values())
