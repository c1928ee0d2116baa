"""Lists the models that are compared: how torch builds them, their inputs, and fusewire's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import fusewire as fw

from ..comparison.row import Array

Inputs = dict[str, Array]


@dataclass(frozen=True)
class Model:
    """A published model, at a real size.

    `make`: the module of torch with random weights; nothing is downloaded
    `inputs`: arrays for a batch size, by the names of the module's arguments
    `outputs`: the tensors of its result that are compared
    `ours`: fusewire's own model with the weights of the module; None without one
    `trains`: fusewire's own model is compared in training, too
    """

    kind: str
    make: Callable[[], Any]
    inputs: Callable[[int], Inputs]
    outputs: Callable[[Any], Any] = lambda out: out
    ours: Callable[[Any], Any] | None = None
    trains: bool = False


MODELS: dict[str, Model] = {}


@dataclass(frozen=True)
class Case:
    """One row: a model, a batch size, and the kind of run.

    `mode`: "onnx" is the file that torch exports, read by fusewire; "own" is fusewire's own
    model; "train" is a training step of it
    """

    name: str
    batch: int
    mode: str

    def __str__(self) -> str:
        return f"{self.name} {self.mode} {self.batch}"


MODES = ("onnx", "own", "train")


def cases(names: Sequence[str], batches: Sequence[int], modes: Sequence[str]) -> list[Case]:
    """All rows of these models, batch sizes and modes that exist. Training has the last batch."""
    found = []
    for name in names:
        model = MODELS[name]
        known = {"onnx": True, "own": model.ours is not None, "train": model.trains}
        found += [Case(name, batch, mode) for mode in modes if known[mode]
                  for batch in (batches if mode != "train" else batches[-1:])]
    return found


def images(size: int, channels: int = 3) -> Callable[[int], Inputs]:
    """Square images of normal random numbers."""
    def made(batch: int) -> Inputs:
        return {"x": _normal(batch, channels, size, size)}

    return made


def tokens(length: int, masked: bool = True, high: int = 1000) -> Callable[[int], Inputs]:
    """Token numbers of texts, and a mask under which half of the texts are shorter."""
    def made(batch: int) -> Inputs:
        ids = np.random.default_rng(batch).integers(5, high, (batch, length))
        mask = np.ones((batch, length), np.int64)
        mask[1::2, length * 3 // 4:] = 0
        return {"input_ids": ids} | ({"attention_mask": mask} if masked else {})

    return made


def floats(name: str, *shape: int) -> Callable[[int], Inputs]:
    """Normal random numbers under one name."""
    return lambda batch: {name: _normal(batch, *shape)}


def joined(*parts: Callable[[int], Inputs]) -> Callable[[int], Inputs]:
    """The inputs of all parts."""
    return lambda batch: {name: a for part in parts for name, a in part(batch).items()}


def _normal(*shape: int) -> Array:
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


def with_weights(model: Any, module: Any) -> Any:
    """A model of fusewire with copies of the weights of a module of torch."""
    from fusewire.models.checkpoint import load_weights

    weights = {k: fw.from_numpy(x.numpy().copy()) for k, x in module.state_dict().items()}
    if isinstance(model, fw.models.PretrainedModel):
        load_weights(model, weights)
    else:
        model.load_state_dict(weights)
    return model
