"""Describes a batch, splits it into inputs and target, and moves it to a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import fusewire as fw


def inputs_and_target(batch: Any) -> tuple[tuple[Any, ...], Any]:
    """The inputs and the target of a batch: its last part is the target.

    Raises:
        ArgumentError: the batch is not a list or tuple of two or more parts.
    """
    if isinstance(batch, (list, tuple)) and len(batch) > 1:
        return tuple(batch[:-1]), batch[-1]
    raise fw.ArgumentError(
        f"training: loss= takes batches (input, ..., target), and this one is {described(batch)}",
        "pass objective=, a function of the model and the batch that returns the loss")


def tensors_of(batch: Any, name: str = "batch") -> Iterator[tuple[str, fw.Tensor]]:
    """The tensors of nested lists, tuples and dicts, each with its path, such as `batch[0]`."""
    if isinstance(batch, fw.Tensor):
        yield name, batch
    elif isinstance(batch, Mapping):
        for key, part in batch.items():
            yield from tensors_of(part, f"{name}[{key!r}]")
    elif isinstance(batch, (list, tuple)):
        for i, part in enumerate(batch):
            yield from tensors_of(part, f"{name}[{i}]")


def described(batch: Any) -> str:
    """The tensors of a batch as text, such as `batch[0] float32 (32, 8)`.

    >>> described((fw.zeros(2, 8), fw.zeros(2)))
    'batch[0] float32 (2, 8), batch[1] float32 (2,)'
    """
    parts = [f"{name} {x.dtype.name} {x.shape}" for name, x in tensors_of(batch)]
    return ", ".join(parts) or f"a {type(batch).__name__} without tensors"


def size_of(batch: Any) -> int:
    """The number of samples: the first size of the first tensor; 1 if there is none."""
    shape = next((x.shape for _, x in tensors_of(batch)), ())
    return shape[0] if shape else 1


def moved(batch: Any, device: str) -> Any:
    """The batch with all tensors on `device`."""
    return _mapped(batch, lambda x: x if x.device == device else x.to(device))


def _mapped(batch: Any, function: Callable[[fw.Tensor], fw.Tensor]) -> Any:
    if isinstance(batch, fw.Tensor):
        return function(batch)
    if isinstance(batch, Mapping):
        return {key: _mapped(part, function) for key, part in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):  # a named tuple
        return type(batch)(*(_mapped(part, function) for part in batch))
    if isinstance(batch, (list, tuple)):
        return type(batch)(_mapped(part, function) for part in batch)
    return batch
