"""Calls modules as functions of their parameters and buffers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..core.tape import no_grad
from ..core.tensor import Tensor
from ..errors import DTypeError, ShapeError, StateError
from ..nn.base.module import Module
from ..nn.base.state import listed
from ..ops.shape.join import stack

__all__ = ["functional_call", "stack_module_state"]

_TABLES = ("_parameters", "_buffers")
Slot = tuple[dict[str, Any], str]  # a module's table, and a name in it


def functional_call(
    module: Module, parameters_and_buffers: Any, args: Any = (), kwargs: Any = None,
    tie_weights: bool = True, strict: bool = False,
) -> Any:
    """module(*args, **kwargs) with other tensors as its parameters and buffers.

    The module has its own tensors again when the call returns.

    Args:
        module: the module to call.
        parameters_and_buffers: a dict of dotted names to tensors, or a tuple of such dicts.
        args: positional arguments as a tuple, or a single argument. Default ().
        kwargs: keyword arguments as a dict. Default None.
        tie_weights: replaces a tensor under all names that the module has for it. Default True.
        strict: requires a tensor for every name. Default False: others keep their own.

    Raises:
        StateError: an unknown name, a name in two dicts, or a missing one under `strict`.
        DTypeError: not a dict, or a value that is not a tensor.

    Example:
        >>> import fusewire as fw
        >>> layer = fw.nn.Linear(2, 1, bias=False)
        >>> fw.func.functional_call(layer, {"weight": fw.tensor([[1.0, 10.0]])}, fw.ones(2))
        tensor([11.])
    """
    tensors = _merged(parameters_and_buffers)
    with _replaced(_replacements(module, tensors, tie_weights, strict)):
        return module(*(args if isinstance(args, tuple) else (args,)), **(kwargs or {}))


def _merged(dicts: Any) -> dict[str, Tensor]:
    """One dict of tensors from one or several."""
    merged: dict[str, Tensor] = {}
    for tensors in dicts if isinstance(dicts, (tuple, list)) else (dicts,):
        if not isinstance(tensors, Mapping):
            raise DTypeError(f"functional_call: takes a dict of names to tensors, not "
                             f"{type(tensors).__name__}", "dict(module.named_parameters()) is one")
        for name, value in tensors.items():
            if name in merged:
                raise StateError(f"functional_call: {name!r} is in two of the dicts",
                                 "leave it out of one of them")
            if not isinstance(value, Tensor):
                raise DTypeError(f"functional_call: {name!r} is {type(value).__name__}, not a "
                                 "tensor", "make a tensor of it: fw.tensor(x)")
            merged[name] = value
    return merged


def _replacements(module: Module, tensors: dict[str, Tensor], tie_weights: bool, strict: bool
                  ) -> list[tuple[Slot, Tensor]]:
    """Pairs of a slot of the module and the tensor for it."""
    own = {(f"{path}." if path else "") + name: (table, name)
           for path, part in module.named_modules(remove_duplicate=False)
           for table in (part.__dict__[t] for t in _TABLES)
           for name, value in table.items() if value is not None}
    problems = listed("unexpected", [n for n in tensors if n not in own], own)
    if strict:
        problems += listed("missing", [n for n in own if n not in tensors], tensors)
    if problems:
        raise StateError(f"functional_call: the names do not fit {type(module).__name__}:\n    "
                         + "\n    ".join(problems), "names are those of named_parameters() and "
                         "named_buffers()")
    slots = []
    for name, value in tensors.items():
        table, key = own[name]
        slots.append((own[name], value))
        if tie_weights:
            slots += [(slot, value) for other, slot in own.items()
                      if other not in tensors and slot[0][slot[1]] is table[key]]
    return slots


@contextlib.contextmanager
def _replaced(slots: list[tuple[Slot, Tensor]]) -> Iterator[None]:
    before = [(slot, slot[0][slot[1]]) for slot, _ in slots]
    try:
        for (table, name), value in slots:
            table[name] = value
        yield
    finally:
        for (table, name), value in before:
            table[name] = value


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The parameters and the buffers of equal modules, each stacked along a new first axis.

    vmap over both runs the models as one ensemble. The stacked parameters are leaves.

    Args:
        models: modules of one class, with equal names and shapes.

    Raises:
        ShapeError: no models.
        DTypeError: models of different classes.
        StateError: models with different names.

    Example:
        >>> import fusewire as fw
        >>> layers = [fw.nn.Linear(2, 1) for _ in range(3)]
        >>> parameters, buffers = fw.func.stack_module_state(layers)
        >>> def one(p, x):
        ...     return fw.func.functional_call(layers[0], p, x)
        >>> fw.func.vmap(one, in_axes=(0, None))(parameters, fw.ones(4, 2)).shape
        (3, 4, 1)
    """
    if not models:
        raise ShapeError("stack_module_state: takes one module or more, got none",
                         "pass a list of modules")
    if any(type(m) is not type(models[0]) for m in models):
        raise DTypeError("stack_module_state: the modules are of different classes",
                         "an ensemble is made of equal modules")
    parameters = _stacked([dict(m.named_parameters()) for m in models])
    needs = {name: p.requires_grad for name, p in models[0].named_parameters()}
    for name, p in parameters.items():
        p.requires_grad_(needs[name])
    return parameters, _stacked([dict(m.named_buffers()) for m in models])


def _stacked(states: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    for other in states[1:]:
        if other.keys() != states[0].keys():
            raise StateError("stack_module_state: the modules have different names: "
                             f"{sorted(other.keys() ^ states[0].keys())}",
                             "an ensemble is made of equal modules")
    with no_grad():
        return {name: stack([s[name] for s in states]) for name in states[0]}
