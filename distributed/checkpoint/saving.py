"""Writes checkpoints: each rank writes a file with the parts that no other rank writes."""

from __future__ import annotations

import math
import os
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ...eager.arrays.devices import host, is_elsewhere
from ...eager.core.tensor import Tensor
from ...eager.errors import ArgumentError, StateError
from ...eager.front.serialization import save as save_file
from ...eager.nn.base.module import Module
from ...eager.nn.base.parameter import Parameter, is_lazy
from ...eager.optim.base.optimizer import Optimizer
from ..collectives import all_gather_object
from ..groups import get_rank, get_world_size, is_initialized
from ..optimizers import ZeroRedundancyOptimizer
from .entries import (
    PlacedTensor,
    named_groups,
    names_of,
    optimizer_of_rank,
    state_tensors,
    tensors_of,
)
from .files import StoredPart, remove_others, write_index, write_part_file
from .placement import Placement

_STAGES = 'give each stage of a pipeline a name of its own, as in {f"stage{rank}": model}'
_SAMPLES = 8  # elements of a parameter by which ranks see that theirs are equal


class Part(NamedTuple):
    """What a rank tells the others of a part that it has."""

    name: str
    placement: Placement
    dtype: str
    size: int  # in bytes
    sample: tuple[float, ...]  # some elements of a parameter


def save(state: Mapping[str, Any], folder: str | os.PathLike[str]) -> None:
    """Writes a checkpoint, which `load` reads on any number of ranks and in any scheme.

    All ranks call it. The folder is one that all of them can read, and holds one checkpoint: the
    old one until all ranks have written, then the new one. Each part of a tensor is written once.

    Args:
        state: a dict of names to modules, optimizers, objects with `state_dict`, and values that
            fw.save takes, of which those of the first rank are written. An optimizer is saved with
            the modules of its parameters. Stages of a pipeline have names of their own.
        folder: made if it does not exist.

    Raises:
        ArgumentError: a name is no text, or an optimizer has parameters or states that cannot be
            saved in parts.
        StateError: a rank could not write its file, ranks have different parameters under one
            name, or a parameter has no shape yet.

    Example:
        >>> import fusewire as fw, fusewire.distributed as dist, tempfile
        >>> model, folder = fw.nn.Linear(2, 1), tempfile.mkdtemp()
        >>> dist.checkpoint.save({"model": model, "step": 7}, folder)
        >>> dist.checkpoint.load({"model": model, "step": 0}, folder)["step"]
        7
    """
    path = os.fspath(folder)
    tensors, values = _collected(state)
    others = _other_names(tensors)
    own = [_described(name, placed) for name, placed in tensors.items() if name not in others]
    everybody = _exchanged((uuid.uuid4().hex[:12], own, others))
    number = everybody[0][0]
    writers = _writers([parts for _, parts, _ in everybody])
    index = _index(writers, [others for _, _, others in everybody], number)
    value_file = f"{number}.values.safetensors"
    problem = _written(path, _file(number, get_rank()), _arrays(tensors, writers),
                       {value_file: values} if get_rank() == 0 else {})
    _raise_problems(_exchanged(problem))
    if get_rank() == 0:
        write_index(path, index, value_file)
    _exchanged(None)
    if get_rank() == 0:
        remove_others(path, number)


def _file(number: str, rank: int) -> str:
    return f"{number}.rank{rank:05d}.safetensors"


def _other_names(tensors: Mapping[str, PlacedTensor]) -> dict[str, str]:
    """The first name of each tensor that has several, by its further names."""
    first: dict[int, str] = {}
    names = {name: first.setdefault(id(placed.tensor), name) for name, placed in tensors.items()}
    return {name: before for name, before in names.items() if name != before}


def _exchanged(value: Any) -> list[Any]:
    """The values of all ranks."""
    return all_gather_object(value) if is_initialized() else [value]


def _collected(state: Mapping[str, Any]) -> tuple[dict[str, PlacedTensor], dict[str, Any]]:
    """The tensors of modules and optimizers by name, and all other values."""
    modules = {name: x for name, x in state.items() if isinstance(x, Module)}
    names = names_of(modules)
    tensors: dict[str, PlacedTensor] = {}
    values: dict[str, Any] = {}
    for entry, x in state.items():
        if not isinstance(entry, str):
            raise ArgumentError(f"checkpoint: the name {entry!r} is no text", "as in "
                                '{"model": model}')
        if isinstance(x, Module):
            tensors |= {f"{entry}.{name}": placed for name, placed in tensors_of(x).items()}
        elif isinstance(x, Optimizer | ZeroRedundancyOptimizer):
            found, values[entry] = _optimizer(x, names, entry)
            tensors |= found
        else:
            values[entry] = x.state_dict() if hasattr(x, "state_dict") else x
    return tensors, values


def _optimizer(optimizer: Any, names: Mapping[int, str], entry: str
               ) -> tuple[dict[str, PlacedTensor], list[dict[str, Any]]]:
    """The state of an optimizer by name, and the settings and parameters of its groups."""
    groups = named_groups(optimizer, names, entry)
    inner = optimizer_of_rank(optimizer)
    saved = inner.state_dict()
    parameters = [p for group in inner.param_groups for p in group["params"]]
    flat = [name for group in groups for name in group]
    tensors = state_tensors(saved["state"], parameters, flat, entry)
    settings = [{k: v for k, v in group.items() if k not in ("params", "param_names")}
                for group in saved["param_groups"]]
    everybody = _exchanged([[name for name in group if name] for group in groups])
    joint = [list(dict.fromkeys(n for ranks in everybody for n in ranks[i]))
             for i in range(len(groups))]
    return ({f"{entry}.{name}": placed for name, placed in tensors.items()},
            [{"settings": s, "names": n} for s, n in zip(settings, joint)])


def _described(name: str, placed: PlacedTensor) -> Part:
    tensor = placed.tensor
    if is_lazy(tensor):
        raise StateError(f"checkpoint: {name} has no shape yet", "call the lazy module once first")
    sample: tuple[float, ...] = ()
    if isinstance(tensor, Parameter) and tensor.size and tensor.dtype.kind == "f":
        flat = _array(tensor).reshape(-1)
        chosen = flat[::-(-flat.size // _SAMPLES)].astype(np.float64)
        sample = tuple(map(float, chosen))
    return Part(name, placed.placement, tensor.dtype.name,
                placed.placement.size * tensor.dtype.itemsize, sample)


def _writers(ranks: list[list[Part]]) -> dict[tuple[str, Placement], int]:
    """The rank that writes each part: of those that have it, the one with the fewest bytes."""
    owners: dict[tuple[str, Placement], list[int]] = {}
    parts: dict[tuple[str, Placement], Part] = {}
    for rank, own in enumerate(ranks):
        for part in own:
            key = part.name, part.placement
            _require_equal(parts.setdefault(key, part), part, owners.get(key, [rank])[0], rank)
            owners.setdefault(key, []).append(rank)
    loads = [0] * len(ranks)
    writers = {}
    for key in sorted(parts, key=lambda key: (-parts[key].size, key[0], key[1].begin,
                                              key[1].origin)):
        writers[key] = min(owners[key], key=lambda rank: (loads[rank], rank))
        loads[writers[key]] += parts[key].size
    return writers


def _require_equal(one: Part, other: Part, first: int, second: int) -> None:
    """Raises StateError if two ranks have different tensors under one name. Parameters that ranks
    compute by other instructions may differ in their last digits."""
    limit = 0.01 * max([1e-30, *map(abs, one.sample)])
    if one.dtype == other.dtype and len(one.sample) == len(other.sample) and not any(
            abs(a - b) > limit for a, b in zip(one.sample, other.sample)):
        return
    raise StateError(f"checkpoint: ranks {first} and {second} have different parameters under the "
                     f"name {one.name!r}", _STAGES)


def _array(tensor: Tensor) -> Any:
    return host(tensor._data) if is_elsewhere(tensor._data) else tensor.detach().numpy()


def _arrays(tensors: Mapping[str, PlacedTensor], writers: Mapping[tuple[str, Placement], int]
            ) -> dict[str, Any]:
    """The arrays that this rank writes. Parts in a row are without the zeros at their end."""
    arrays = {}
    for name, (tensor, placement) in tensors.items():
        if writers.get((name, placement)) == get_rank() and placement.size:
            whole = _array(tensor)
            arrays[name] = whole if placement.end is None else whole[:placement.size]
    return arrays


def _written(folder: str, name: str, arrays: Mapping[str, Any], others: Mapping[str, Any]
             ) -> str:
    """What prevented this rank from writing its files, or ""."""
    try:
        os.makedirs(folder, exist_ok=True)
        if arrays:
            write_part_file(folder, name, arrays)
        for other, value in others.items():
            save_file(value, os.path.join(folder, other))
    except Exception as error:  # the other ranks wait to hear of it
        return f"{type(error).__name__}: {error}"
    return ""


def _raise_problems(problems: list[str]) -> None:
    failed = [f"rank {rank}: {text}" for rank, text in enumerate(problems) if text]
    if failed:
        raise StateError(f"checkpoint: {len(failed)} of {get_world_size()} ranks could not write "
                         "their files; " + "; ".join(failed),
                         "the folder still has the checkpoint before, if there was one")


def _index(writers: Mapping[tuple[str, Placement], int], others: Iterable[Mapping[str, str]],
           number: str) -> dict[str, list[StoredPart]]:
    """The parts of each tensor. StateError if ranks have tensors of different shapes under one
    name, or no rank has some elements."""
    tensors: dict[str, list[StoredPart]] = {}
    for (name, placement), rank in writers.items():
        tensors.setdefault(name, []).append(StoredPart(_file(number, rank), name, placement))
    for name, parts in tensors.items():
        shapes = sorted({part.placement.whole for part in parts})
        if len(shapes) > 1 or sum(p.placement.size for p in parts) < math.prod(shapes[0]):
            raise StateError(f"checkpoint: the parts of {name!r} on all ranks are no whole tensor "
                             f"of one shape: {', '.join(map(str, shapes))}", _STAGES)
    for names in others:
        tensors |= {name: tensors[first] for name, first in names.items()}
    return tensors
