"""Loading a state dict: which names fit, and what to say about those that do not."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ..errors import DTypeError, StateError
from ..methods import update
from ..tape import no_grad
from ..tensor import Tensor, tensor


class Loaded(NamedTuple):
    """The names that a state dict lacked, and those that nothing takes."""

    missing_keys: list[str]
    unexpected_keys: list[str]


def load_into(model: str, own: dict[str, Tensor], given: Any, strict: bool) -> Loaded:
    """Sets the tensors of `own` to the values of the same name in `given`, all or none of them."""
    if not isinstance(given, Mapping):
        raise DTypeError(f"load_state_dict takes a dict of names to tensors, not "
                         f"{type(given).__name__}")
    missing = [name for name in own if name not in given]
    unexpected = [name for name in given if name not in own]
    values = {name: as_tensor(given[name]) for name in own if name in given}
    problems = _wrong_shapes(own, values)
    if strict:
        problems += listed("missing", missing, unexpected)
        problems += listed("unexpected", unexpected, missing)
    if problems:
        raise StateError(f"the state dict does not fit {model}:\n    " + "\n    ".join(problems),
                         "" if not strict or not (missing or unexpected) else
                         "strict=False leaves out names that do not match")
    with no_grad():
        for name, value in values.items():
            update(own[name], value)
    return Loaded(missing, unexpected)


def as_tensor(value: Any) -> Tensor:
    """`value` as a tensor: a tensor as it is, a copy of an array or a number."""
    return value if isinstance(value, Tensor) else tensor(value)


def _wrong_shapes(own: dict[str, Tensor], values: dict[str, Tensor]) -> list[str]:
    return [f"shape of {name}: {value.shape} in the state dict, {own[name].shape} in the model"
            for name, value in values.items() if value.shape != own[name].shape]


def listed(kind: str, names: list[str], others: Iterable[str]) -> list[str]:
    """A line for each name, with the nearest of the `others`, which may be what was meant."""
    lines = []
    for name in names:
        near = difflib.get_close_matches(name, others, n=1)
        lines.append(f"{kind}: {name}" + (f" (nearest: {near[0]})" if near else ""))
    return lines
