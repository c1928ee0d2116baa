"""Tensor parallel layers: the ranks of a group share the weights of a layer and its work.

A weight that is cut along its outputs gives a part of the result on each rank; cut along its
inputs, it gives a summand on each rank. Around a layer, values are replicated, so any model
computes the same values with cut layers as with whole ones. `stays_cut` leaves results cut, for a
layer whose inputs are cut in the same manner.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping
from typing import Any

from ..eager.core.dispatch import apply
from ..eager.core.tensor import Tensor
from ..eager.errors import ArgumentError, ShapeError
from ..eager.nn import functional as F
from ..eager.nn.base.module import Module
from ..eager.nn.base.parameter import Parameter
from ..eager.nn.layers.embedding import Embedding
from ..eager.nn.layers.linear import Linear
from ..eager.ops.collectives import collective as ops
from ..eager.ops.elementwise.pointwise import where
from .collectives import all_reduce, replicate_values
from .engines.engine import ProcessGroup
from .groups import where as user_line
from .layouts import Cut, broadcast_state, mark_cut, share
from .mesh import DeviceMesh, P


class _CutLayer(Module):
    """Base of layers whose weight is cut along one axis among the ranks of a group."""

    weight: Parameter
    bias: Parameter | None

    def __init__(self, path: str, layer: Module, group: ProcessGroup, axis: int, stays_cut: bool
                 ) -> None:
        super().__init__()
        self.group, self.axis, self.stays_cut = group, axis, stays_cut
        whole: Any = layer.weight
        self.weight = self._cut(whole, axis, f"{path}.weight")
        self.bias = getattr(layer, "bias", None)
        self.training = layer.training

    def _cut(self, whole: Parameter, axis: int, what: str) -> Parameter:
        part = Parameter(Tensor(share(whole._data, self.group, axis, what)), whole.requires_grad)
        mark_cut(part, Cut(self.group, axis, tuple(whole.shape)))
        return part

    def _joined(self, part: Tensor) -> Tensor:
        """The parts of all ranks along the last axis, as a replicated value."""
        if self.stays_cut:
            return part
        return apply(ops.all_gather_op, (part,), {
            "group": self.group.name, "size": self.group.size, "site": user_line(),
            "axis": part.ndim - 1, "rank": self.group.rank})

    def _own_part(self, x: Tensor) -> Tensor:
        """This rank's part of a replicated value along the last axis."""
        length = x.shape[-1] // self.group.size
        begin = self.group.rank * length
        return replicate_values(x, self.group)[..., begin:begin + length]

    def extra_repr(self) -> str:
        return f"{tuple(self.weight.shape)}, part {self.group.rank} of {self.group.size}"


class ColumnLinear(_CutLayer):
    """A Linear of which each rank computes a part of the outputs."""

    def __init__(self, path: str, layer: Linear, group: ProcessGroup, stays_cut: bool) -> None:
        super().__init__(path, layer, group, 0, stays_cut)
        if self.bias is not None:
            self.bias = self._cut(self.bias, 0, f"{path}.bias")

    def forward(self, input: Tensor) -> Tensor:
        return self._joined(F.linear(replicate_values(input, self.group), self.weight, self.bias))


class RowLinear(_CutLayer):
    """A Linear of which each rank has a part of the inputs; the ranks add their results."""

    def __init__(self, path: str, layer: Linear, group: ProcessGroup, stays_cut: bool) -> None:
        super().__init__(path, layer, group, 1, stays_cut)
        if stays_cut:
            raise ArgumentError(f"shard: the result of {path} is a sum over the ranks, it cannot "
                                "stay cut", "name the layer before it in stays_cut")
        self.in_features = layer.in_features

    def forward(self, input: Tensor) -> Tensor:
        part, own = input, self.weight.shape[1]
        if input.shape[-1] == self.in_features:
            part = self._own_part(input)
        elif input.shape[-1] != own:
            raise ShapeError(f"RowLinear: an input of shape {tuple(input.shape)} has neither "
                             f"{self.in_features} features nor this rank's {own}")
        total = all_reduce(F.linear(part, self.weight), "sum", self.group)
        return total if self.bias is None else total + self.bias


class ColumnEmbedding(_CutLayer):
    """An Embedding of which each rank has a part of each row."""

    def __init__(self, path: str, layer: Embedding, group: ProcessGroup, stays_cut: bool) -> None:
        super().__init__(path, layer, group, 1, stays_cut)
        self.padding_idx = layer.padding_idx

    def forward(self, input: Tensor) -> Tensor:
        return self._joined(F.embedding(input, self.weight, self.padding_idx))


class RowEmbedding(_CutLayer):
    """An Embedding of which each rank has some rows; the ranks add their results."""

    def __init__(self, path: str, layer: Embedding, group: ProcessGroup, stays_cut: bool) -> None:
        super().__init__(path, layer, group, 0, False)
        if layer.padding_idx is not None:
            raise ArgumentError(f"shard: {path} has a padding_idx, so its rows cannot be cut",
                                f'cut its columns: {{"{path}.weight": P(None, axis)}}')

    def forward(self, input: Tensor) -> Tensor:
        rows = self.weight.shape[0]
        local = input - self.group.rank * rows
        is_here = (local >= 0) & (local < rows)
        found = F.embedding(where(is_here, local, 0), self.weight)
        return all_reduce(where(is_here[..., None], found, 0.0), "sum", self.group)


_KINDS: dict[tuple[type, int], Any] = {
    (Linear, 0): ColumnLinear, (Linear, 1): RowLinear,
    (Embedding, 0): RowEmbedding, (Embedding, 1): ColumnEmbedding}


def shard(model: Module, layouts: Mapping[str, P], mesh: DeviceMesh,
          stays_cut: Iterable[str] = ()) -> Module:
    """`model`, whose layers with these weights are shared by the ranks along a mesh axis.

    It computes the same values as before. Call it before `replicate` or `fully_shard`, and make the
    optimizer afterwards.

    Args:
        model: a module, changed in place. The ranks of a mesh axis start with the parameters of
            the first one.
        layouts: for patterns of weight names, such as "*.fc1.weight", which mesh axis cuts which
            axis of the weight: P("model", None) cuts the outputs of a Linear and the rows of an
            Embedding, P(None, "model") the inputs of a Linear and the columns of an Embedding. The
            bias of a Linear is cut with its outputs.
        mesh: the mesh.
        stays_cut: patterns of layer names whose results remain cut along the last axis, which
            saves a collective if the next layer is cut along its inputs. The code in between must
            treat each feature, or each attention head, by itself.

    Raises:
        ArgumentError: a pattern matches no weight, or a layout does not fit.
        ShapeError: the ranks cannot share an axis equally.
    """
    unmatched = dict.fromkeys(stays_cut)
    for pattern, layout in layouts.items():
        matches = [path for path, module in model.named_modules()
                   if type(module) in (Linear, Embedding)
                   and fnmatch.fnmatch(f"{path}.weight", pattern)]
        if not matches:
            raise ArgumentError(f"shard: {pattern!r} matches no weight of a Linear or Embedding",
                                "names are those of model.named_parameters()")
        for path in matches:
            cut = [name for name in unmatched if fnmatch.fnmatch(path, name)]
            _replace(model, path, layout, mesh, bool(cut))
            for name in cut:
                unmatched[name] = True  # type: ignore[assignment]
    missed = [name for name, found in unmatched.items() if not found]
    if missed:
        raise ArgumentError(f"shard: stays_cut names {missed}, which no layout cuts",
                            "its patterns are names of layers, without .weight")
    return model


def _replace(model: Module, path: str, layout: P, mesh: DeviceMesh, stays_cut: bool) -> None:
    axes = [i for i, name in enumerate(layout) if name is not None]
    if len(layout) != 2 or len(axes) != 1:
        raise ArgumentError(f"shard: the layout {layout!r} of {path}.weight must cut one of two "
                            "axes", 'as P("model", None) or P(None, "model")')
    group, layer = mesh[layout[axes[0]]], model.get_submodule(path)
    broadcast_state(layer.parameters(), group)
    parent, _, name = path.rpartition(".")
    cut = _KINDS[type(layer), axes[0]](path, layer, group, stays_cut)
    setattr(model.get_submodule(parent), name, cut)
