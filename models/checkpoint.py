"""Loads the weights of a folder into a model, strict about every name and shape."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fusewire as fw

from .pretrained_model import PretrainedModel

FILES = ("model.safetensors.index.json", "model.safetensors",
         "diffusion_pytorch_model.safetensors")


def read_weights(folder: Path) -> dict[str, fw.Tensor]:
    """The tensors of a folder by name: of one safetensors file, or of all that an index lists.

    StateError if the folder holds no weights in this format.
    """
    for name in FILES:
        if (folder / name).exists():
            return fw.load(folder / name)  # type: ignore[no-any-return]
    held = ", ".join(sorted(os.listdir(folder))) or "no files"
    raise fw.StateError(f"{folder} holds no weights: it has {held}",
                        f"get one of {', '.join(FILES)}; files of pickles (.bin, .pt) can run code "
                        "and are not read")


def load_weights(model: PretrainedModel, weights: Mapping[str, fw.Tensor],
                 dtype: Any = None) -> None:
    """Replaces the parameters of `model` by `weights`.

    Names may lack the model's PREFIX or have its OUTER_PREFIX, as in files of smaller and larger
    models. A tied parameter may be absent under its second name. If it is there with other values,
    it is tied no longer.

    Args:
        model: the model; it takes the tensors themselves.
        weights: tensors by name.
        dtype: floating point parameters are cast to it. Default None: as they are stored.

    Raises:
        StateError: a name is missing, unexpected, or has another shape.
    """
    state = _renamed(model, weights)
    tied = {name: first for name, first in model.tied_names().items()
            if name not in state or _is_equal(state[name], state.get(first))}
    state.update({name: state[first] for name, first in tied.items() if first in state})
    if dtype is not None:
        parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}
        state = {name: x.astype(dtype) if name in parameters and
                 fw.isdtype(x.dtype, "real floating") else x for name, x in state.items()}
    model.load_state_dict(state, assign=True)
    for name, first in tied.items():
        owner, _, attribute = name.rpartition(".")
        setattr(model.get_submodule(owner), attribute, model.get_parameter(first))


def _is_equal(x: fw.Tensor, y: fw.Tensor | None) -> bool:
    return y is not None and x.shape == y.shape and x.dtype == y.dtype and bool((x == y).all())


def _renamed(model: PretrainedModel, weights: Mapping[str, fw.Tensor]) -> dict[str, fw.Tensor]:
    """The weights under the names of the model, without those that it ignores."""
    own, state = set(model.state_dict()), {}
    for name, value in weights.items():
        short = name.removeprefix(model.OUTER_PREFIX)
        known = next((n for n in (name, model.PREFIX + name, short) if n in own), None)
        if known is not None or not _is_ignored(model, name):
            state[known or name] = value
    return state


def _is_ignored(model: PretrainedModel, name: str) -> bool:
    names = {name, name.removeprefix(model.PREFIX), name.removeprefix(model.OUTER_PREFIX)}
    return any(re.fullmatch(pattern, n) for pattern in model.IGNORED for n in names)
