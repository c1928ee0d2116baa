"""Finds the tensors of modules and optimizers: their names in one process, and the part of each
that this rank has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ...eager.core.tensor import Tensor
from ...eager.errors import ArgumentError
from ...eager.nn.base.module import Module
from ...eager.nn.utils.parametrize import is_parametrized
from ...eager.optim.base.optimizer import Optimizer
from ..fully_sharded import Unshard
from ..layouts import cuts_of
from ..optimizers import ZeroRedundancyOptimizer
from .placement import Placement, whole_of


class PlacedTensor(NamedTuple):
    """A tensor of this rank, and its part of the whole one. A part may have zeros at its end."""

    tensor: Tensor
    placement: Placement


def placement_of(tensor: Tensor) -> Placement:
    """The part of the whole tensor that a parameter is."""
    cuts = cuts_of(tensor)
    placed = whole_of(cuts[0].shape if cuts else tensor.shape)
    for cut in cuts:
        size, rank = cut.group.size, cut.group.rank
        if cut.axis is None:
            part = -(-placed.size // size)
            begin = min(rank * part, placed.size)
            return Placement(placed.whole, placed.origin, placed.shape, begin,
                             min(begin + part, placed.size))
        length = placed.shape[cut.axis] // size
        origin, shape = list(placed.origin), list(placed.shape)
        origin[cut.axis] += rank * length
        shape[cut.axis] = length
        placed = Placement(placed.whole, tuple(origin), tuple(shape))
    return placed


def tensors_of(model: Module) -> dict[str, PlacedTensor]:
    """The parameters and persistent buffers of a module by the names that they have in one process,
    in their order there. A tensor with several names has all of them."""
    found: dict[str, PlacedTensor] = {}
    for path, module in model.named_modules(remove_duplicate=False):
        if isinstance(module, Unshard) or _is_of_shards(model, path):
            continue
        for name, tensor in (*_shards(module), *_own(module)):
            found[f"{path}.{name}".lstrip(".")] = PlacedTensor(tensor, placement_of(tensor))
    return found


def _shards(module: Module) -> Iterator[tuple[str, Tensor]]:
    """The fully sharded parameters of a module, under the names of the whole ones."""
    for name, steps in module.parametrizations.items() if is_parametrized(module) else ():
        if isinstance(steps[0], Unshard):
            yield name, steps.original


def _own(module: Module) -> Iterator[tuple[str, Tensor]]:
    hidden = module._non_persistent_buffers_set
    yield from module.named_parameters(recurse=False, remove_duplicate=False)
    for name, buffer in module.named_buffers(recurse=False, remove_duplicate=False):
        if name not in hidden:
            yield name, buffer


def _is_of_shards(model: Module, path: str) -> bool:
    """True for the list of parametrizations of a fully sharded parameter."""
    parent, _, _ = path.rpartition(".")
    if not (parent == "parametrizations" or parent.endswith(".parametrizations")):
        return False
    return isinstance(next(iter(model.get_submodule(path).children()), None), Unshard)


def names_of(modules: Mapping[str, Module]) -> dict[int, str]:
    """The name of each parameter, with that of its module in front, by the id of the tensor."""
    names: dict[int, str] = {}
    for entry, module in modules.items():
        for name, placed in tensors_of(module).items():
            names.setdefault(id(placed.tensor), f"{entry}.{name}")
    return names


AnyOptimizer = Optimizer | ZeroRedundancyOptimizer


def optimizer_of_rank(optimizer: AnyOptimizer) -> Optimizer:
    """The optimizer that holds the state of this rank."""
    return optimizer.optimizer if isinstance(optimizer, ZeroRedundancyOptimizer) else optimizer


def named_groups(optimizer: AnyOptimizer, names: Mapping[int, str], entry: str
                 ) -> list[list[str | None]]:
    """The names of the parameters of each group of this rank's optimizer. None for the empty
    parameter of a rank that has none.

    Raises:
        ArgumentError: a parameter belongs to no module that is saved or loaded with the optimizer.
    """
    groups: list[list[str | None]] = []
    for group in optimizer_of_rank(optimizer).param_groups:
        groups.append([names.get(id(p)) for p in group["params"]])
        for name, p in zip(groups[-1], group["params"]):
            if name is None and not _is_empty_part(optimizer, p):
                raise ArgumentError(
                    f"checkpoint: a parameter of shape {tuple(p.shape)} of {entry!r} is in no "
                    "module of this checkpoint", "give the module with the optimizer: "
                    '{"model": model, "optimizer": optimizer}')
    return groups


def _is_empty_part(optimizer: AnyOptimizer, p: Tensor) -> bool:
    return isinstance(optimizer, ZeroRedundancyOptimizer) \
        and not any(p is own for own in optimizer.parameters)


def state_tensors(saved: Mapping[Any, Mapping[str, Any]], parameters: Iterable[Tensor],
                  names: Iterable[str | None], entry: str) -> dict[str, PlacedTensor]:
    """The tensors of an optimizer's state dict by name: that of the parameter and of the state.

    Raises:
        ArgumentError: a state that cannot be cut as its parameter is cut.
    """
    found: dict[str, PlacedTensor] = {}
    for number, (p, name) in enumerate(zip(parameters, names)):
        for key, value in saved.get(number, {}).items() if name is not None else ():
            if not isinstance(value, Tensor):
                raise ArgumentError(f"checkpoint: the state {key!r} of {entry!r} is of type "
                                    f"{type(value).__name__}", "save such an optimizer on one "
                                    "process, by fw.save(optimizer.state_dict(), path)")
            found[f"{name}.{key}"] = PlacedTensor(value, _state_placement(p, key, value, entry))
    return found


def _state_placement(p: Tensor, key: str, value: Tensor, entry: str) -> Placement:
    if value.shape == p.shape:
        return placement_of(p)
    if value.shape and cuts_of(p):
        raise ArgumentError(f"checkpoint: the state {key!r} of {entry!r} has the shape "
                            f"{tuple(value.shape)}, its parameter is a part of shape "
                            f"{tuple(p.shape)}", "such a state belongs to this number of ranks "
                            "only: use an optimizer that works by element")
    return whole_of(value.shape)
