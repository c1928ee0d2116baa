"""Fully sharded training: each rank has a part of every parameter, gradient and optimizer state."""

from __future__ import annotations

import math
from typing import Any

from ..eager.core.dispatch import apply
from ..eager.core.tensor import Tensor
from ..eager.errors import StateError
from ..eager.nn.base.module import Module
from ..eager.nn.utils.parametrize import (
    is_parametrized,
    register_parametrization,
    share_parametrization,
)
from ..eager.ops.collectives import collective as ops
from ..eager.ops.create import zeros
from ..eager.ops.shape.join import concat
from .engines.engine import ProcessGroup
from .groups import get_group
from .layouts import Cut, broadcast_state, mark_cut


class Unshard(Module):
    """Computes a parameter from this rank's shard: the ranks gather it, and the gradient of a shard
    is the mean over the ranks.

    `shape` is that of the whole parameter. Its elements in a row, padded with zeros, are cut in
    equal parts.
    """

    def __init__(self, name: str, shape: tuple[int, ...], group: ProcessGroup,
                 reduce_dtype: Any) -> None:
        super().__init__()
        self.name, self.shape, self.group, self.reduce_dtype = name, shape, group, reduce_dtype
        self.elements = math.prod(shape)
        self.part = -(-self.elements // group.size)

    def forward(self, shard: Tensor) -> Tensor:
        params = {"group": self.group.name, "size": self.group.size, "axis": 0,
                  "site": f"parameter {self.name}", "mean": True}
        if self.reduce_dtype is not None and self.reduce_dtype != shard.dtype:
            params["reduce_dtype"] = self.reduce_dtype
        whole = apply(ops.all_gather_op, (shard,), params)
        return whole[:self.elements].reshape(self.shape)

    def right_inverse(self, value: Tensor) -> Tensor:
        flat = value.detach().reshape(-1)
        missing = self.part * self.group.size - self.elements
        if missing:
            flat = concat([flat, zeros(missing, dtype=flat.dtype)])
        begin = self.group.rank * self.part
        return Tensor(flat._data[begin:begin + self.part].copy())  # a view would hold all of it


def fully_shard(model: Module, group: ProcessGroup | None = None, reduce_dtype: Any = None
                ) -> Module:
    """`model`, of whose parameters this rank keeps a part; each is gathered when it is read.

    Make the optimizer afterwards: `model.parameters()` are the shards. The gradient of a shard is
    the mean over the ranks, as with `replicate`. Values that the backward reads, whole parameters
    among them, live until the backward has run.

    Args:
        model: a module, changed in place. All ranks start with the parameters of the first one.
        group: by default all ranks.
        reduce_dtype: the dtype in which gradients are added, such as fw.float32 for parameters of
            bfloat16. By default that of the parameter.

    Raises:
        StateError: a parameter is computed by a parametrization already.
    """
    chosen = get_group(group)
    broadcast_state([*model.parameters(), *model.buffers()], chosen)
    done: dict[int, Any] = {}
    for path, module in list(model.named_modules()):
        if is_parametrized(module):
            raise StateError(f"fully_shard: the layer {path!r} has a parametrization",
                             "remove it first, see fw.nn.utils.parametrize")
        for name, parameter in list(module.named_parameters(recurse=False)):
            _shard(module, name, f"{path}.{name}".lstrip("."), parameter, chosen, reduce_dtype,
                   done)
    return model


def _shard(module: Module, name: str, path: str, parameter: Tensor, group: ProcessGroup,
           reduce_dtype: Any, done: dict[int, Any]) -> None:
    known = done.get(id(parameter))
    if known is not None:  # several modules share it: it has one shard
        share_parametrization(module, name, known)
        return
    shape = tuple(parameter.shape)
    register_parametrization(module, name, Unshard(path, shape, group, reduce_dtype), unsafe=True)
    held: Any = module.parametrizations[name]
    done[id(parameter)] = held
    mark_cut(held.original, Cut(group, None, shape))


def whole_state(model: Module) -> dict[str, Tensor]:
    """The state dict of a sharded model with whole parameters under their own names. All ranks call
    it, since they gather the parameters."""
    state: dict[str, Tensor] = {}
    for path, module in model.named_modules():
        if isinstance(module, Unshard) or "parametrizations" in path.split("."):
            continue
        names = [*module.parametrizations] if is_parametrized(module) else []
        own = [n for n, _ in module.named_parameters(recurse=False)]
        own += [n for n, _ in module.named_buffers(recurse=False)]
        for name in (*names, *own):
            state[f"{path}.{name}".lstrip(".")] = getattr(module, name).detach()
    return state
