"""The inputs and outputs of a served model: names, data types, shapes, examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import fusewire as fw

from .data_types import NAMES, Array

ANY = -1  # a size that is different in different calls


@dataclass(frozen=True)
class TensorSpec:
    """An input or output.

    Args:
        name: its name in requests.
        dtype: its data type.
        shape: sizes, -1 for any. The first one counts the rows if the model takes batches.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    def metadata(self) -> dict[str, Any]:
        """Name, data type and shape in the words of the protocol."""
        return {"name": self.name, "datatype": NAMES[self.dtype], "shape": list(self.shape)}

    def __str__(self) -> str:
        return f"{self.name!r} {NAMES[self.dtype]}{list(self.shape)}"


def specs_of(names: Sequence[str], calls: Sequence[Sequence[Array]]) -> tuple[TensorSpec, ...]:
    """The specs of tensors of which several calls are known: sizes that differ are -1."""
    specs = []
    for name, arrays in zip(names, zip(*calls)):
        sizes = zip(*(array.shape for array in arrays))
        shape = tuple(n[0] if len(set(n)) == 1 else ANY for n in sizes)
        specs.append(TensorSpec(name, arrays[0].dtype, shape))
    return tuple(specs)


def random_rows(specs: Sequence[TensorSpec], rows: int, seed: int) -> list[Array]:
    """Arrays with random values for inputs: normal numbers, or 0 and 1 for integers, which may be
    indices.

    Args:
        specs: the inputs; their sizes behind the first one are known.
        rows: the first size.
        seed: of the values.
    """
    numbers = np.random.default_rng(seed)
    arrays = []
    for spec in specs:
        shape = (rows, *spec.shape[1:])
        values = numbers.integers(0, 2, shape) if spec.dtype.kind in "biu" else \
            numbers.standard_normal(shape)
        arrays.append(values.astype(spec.dtype))
    return arrays


def array_of(value: Any) -> Array:
    """An array of a tensor, an array or numbers."""
    if isinstance(value, fw.Tensor):
        value = value.detach().numpy()
    return np.asarray(value)


def arrays_of(example: Mapping[str, Any]) -> dict[str, Array]:
    """The arrays of an example by the names of the inputs."""
    return {name: array_of(value) for name, value in example.items()}
