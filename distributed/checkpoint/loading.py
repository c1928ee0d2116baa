"""Reads checkpoints: each rank reads only the parts of tensors that it needs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import numpy as np

from ...eager.arrays.devices import name_of
from ...eager.core.tape import no_grad
from ...eager.core.tensor import Tensor
from ...eager.errors import StateError
from ...eager.nn.base.module import Module
from ...eager.optim.base.optimizer import Optimizer
from ...eager.tensor_methods.methods import update
from ..optimizers import ZeroRedundancyOptimizer
from .entries import (
    PlacedTensor,
    named_groups,
    names_of,
    optimizer_of_rank,
    placement_of,
    tensors_of,
)
from .files import LoadedFile, StoredCheckpoint
from .placement import Box, Placement, whole_of


class Source(Protocol):
    """Where tensors and values come from."""

    values: Any

    @property
    def tensors(self) -> Mapping[str, Any]: ...
    def shape(self, name: str) -> tuple[int, ...]: ...
    def read(self, name: str, target: Box) -> Any: ...


def load(state: Mapping[str, Any], path: str | os.PathLike[str]) -> dict[str, Any]:
    """`state` with the values of a checkpoint; its modules and optimizers are changed in place.

    The ranks may be more or fewer than those that saved, and share the model in another way. All
    ranks call it.

    Args:
        state: a dict like the one that was saved; it may have fewer names. Values that are no
            modules, optimizers or objects with `load_state_dict` are returned anew.
        path: the folder of `save`, or a file that fw.save wrote on one process, as of
            {"model": model.state_dict(), "optimizer": optimizer.state_dict()}.

    Raises:
        StateError: there is no checkpoint, or it has other names, shapes or groups. Nothing has
            changed then, unless a file was unreadable.
    """
    where = os.fspath(path)
    modules = {name: x for name, x in state.items() if isinstance(x, Module)}
    names = names_of(modules)
    optimizers = {name: x for name, x in state.items()
                  if isinstance(x, Optimizer | ZeroRedundancyOptimizer)}
    source: Source = LoadedFile(where, [*modules], _numbered(optimizers, names)) \
        if os.path.isfile(where) else StoredCheckpoint(where)
    _check(modules, source)
    groups = {entry: _matched_groups(optimizer, names, entry, source)
              for entry, optimizer in optimizers.items()}
    absent = [k for k in state if k not in modules and k not in source.values]
    if absent:
        raise StateError(f"checkpoint: {where!r} has no {absent[0]!r}",
                         f"it has {', '.join(map(repr, source.values))}")
    with no_grad():
        for entry, module in modules.items():
            for name, placed in tensors_of(module).items():
                update(placed.tensor, _read(source, f"{entry}.{name}", placed))
    for entry, optimizer in optimizers.items():
        optimizer_of_rank(optimizer).load_state_dict(
            _optimizer_state(optimizer, groups[entry], entry, source))
    return {k: x if k in modules or k in optimizers else _value(x, source.values[k])
            for k, x in state.items()}


def _value(before: Any, saved: Any) -> Any:
    """The loaded value of an entry."""
    if hasattr(before, "load_state_dict"):
        before.load_state_dict(saved)
        return before
    return saved


def _numbered(optimizers: Mapping[str, Any], names: Mapping[int, str]) -> dict[str, list[str]]:
    """For each optimizer the names of all its parameters, in their order on one process."""
    found = {}
    for entry, optimizer in optimizers.items():
        parameters = optimizer.parameters if isinstance(optimizer, ZeroRedundancyOptimizer) else \
            [p for group in optimizer.param_groups for p in group["params"]]
        own = {id(p) for p in parameters}
        found[entry] = [name for key, name in names.items() if key in own]
    return found


def _check(modules: Mapping[str, Module], source: Source) -> None:
    """Raises StateError if names or shapes of modules differ from those of the checkpoint."""
    lines = []
    for entry, module in modules.items():
        own = {f"{entry}.{name}": placed for name, placed in tensors_of(module).items()}
        saved = {name for name in source.tensors if name.startswith(f"{entry}.")}
        lines += [f"missing: {name}" for name in own if name not in saved]
        lines += [f"unexpected: {name}" for name in sorted(saved - own.keys())]
        lines += [f"{name} has the shape {source.shape(name)}, the model's has "
                  f"{placed.placement.whole}" for name, placed in own.items()
                  if name in saved and source.shape(name) != placed.placement.whole]
    if lines:
        raise StateError("checkpoint: it does not fit the model:\n    " + "\n    ".join(lines[:20]),
                         "make the model with the settings with which it was saved")


def _read(source: Source, name: str, placed: PlacedTensor) -> Tensor:
    """What a rank has of a tensor, in the dtype of the file."""
    return _assembled(source, name, placed.placement, tuple(placed.tensor.shape),
                      name_of(placed.tensor.device))


def _assembled(source: Source, name: str, placement: Placement, shape: tuple[int, ...],
               device: str) -> Tensor:
    boxes = [(box, source.read(name, box)) for box in placement.boxes()]
    if placement.end is None and boxes:
        return Tensor(np.asarray(boxes[0][1], order="C")).to(device)
    row: Any = None
    for box, data in boxes:
        row = np.zeros(shape, data.dtype) if row is None else row
        row[box.begin:box.end] = data.reshape(-1)
    return Tensor(np.zeros(shape, np.float32) if row is None else row).to(device)


def _matched_groups(optimizer: Any, names: Mapping[int, str], entry: str, source: Source
                    ) -> list[list[str | None]]:
    """The names of the parameters of each group. StateError if the checkpoint has other groups."""
    own = named_groups(optimizer, names, entry)
    saved = source.values.get(entry, [])
    fits = len(own) == len(saved) and all(
        {name for name in group if name} <= set(old["names"]) for group, old in zip(own, saved))
    if not fits:
        raise StateError(f"checkpoint: {entry!r} was saved for other groups of parameters: "
                         f"{[len(old['names']) for old in saved]} parameters, this optimizer has "
                         f"{[len(group) for group in own]}",
                         "make the optimizer with the same groups of the same parameters")
    return own


def _optimizer_state(optimizer: Any, groups: Iterable[list[str | None]], entry: str,
                     source: Source) -> dict[str, Any]:
    """The state dict for the optimizer of this rank."""
    inner = optimizer_of_rank(optimizer)
    saved_names: dict[str, list[str]] = {}
    for stored in source.tensors:
        if stored.startswith(f"{entry}."):
            parameter, _, key = stored[len(entry) + 1:].rpartition(".")
            saved_names.setdefault(parameter, []).append(key)
    state: dict[int, dict[str, Tensor]] = {}
    result, number = [], 0
    for group, names, saved in zip(inner.param_groups, groups, source.values[entry]):
        first = number
        for p, name in zip(group["params"], names):
            keys = saved_names.get(name or "", ())
            state[number] = {key: _state(source, f"{entry}.{name}.{key}", p) for key in keys}
            number += 1
        result.append({**saved["settings"], "params": list(range(first, number))})
    return {"state": {i: s for i, s in state.items() if s}, "param_groups": result}


def _state(source: Source, name: str, p: Tensor) -> Tensor:
    """A state of a parameter: cut as the parameter is, if it has its shape."""
    placement, whole = placement_of(p), source.shape(name)
    if whole == placement.whole:
        return _assembled(source, name, placement, tuple(p.shape), name_of(p.device))
    return _assembled(source, name, whole_of(whole), whole, name_of(p.device))
