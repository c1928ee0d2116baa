"""Checkpoints of well-known models load through safetensors and give the same output."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from layers.row import tensors_of
from parity.models import MODELS, Model
from safetensors.torch import save_file
from small_models import MODELS as OURS

import fusewire as fw


def checkpoint(model: Model, theirs: Any, file: Path) -> None:
    """The weights as they are published: a parameter that is used twice is in the file once."""
    state = {name: value.contiguous() for name, value in theirs.state_dict().items()
             if name != model.tied}
    save_file(state, file)


def loaded(model: Model, file: Path) -> Any:
    """Our model with the weights of the file."""
    state = {name.removeprefix(model.prefix): value for name, value in fw.load(file).items()}
    ours = OURS[model.name].make()
    ours.load_state_dict(state)
    return ours


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_checkpoint_gives_the_same_output(model: Model, tmp_path: Path) -> None:
    ours, theirs = pair(model, tmp_path)
    for a, b in zip(*outputs(model, ours, theirs, np.float32), strict=True):
        b = b.detach().numpy()
        np.testing.assert_allclose(a.numpy(), b, 1e-5, 1e-5 * float(np.abs(b).max()))


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_gradients_are_the_same(model: Model, tmp_path: Path) -> None:
    """By every parameter, of the sum of squares; in float64, where no ReLU is on a knife's edge."""
    ours, theirs = pair(model, tmp_path)
    got, wanted = outputs(model, ours.double(), theirs.double(), np.float64)
    sum((a * a).sum() for a in got).backward()
    sum((b * b).sum() for b in wanted).backward()
    grads = {name.removeprefix(model.prefix): p.grad for name, p in theirs.named_parameters()}
    largest = max(float(g.abs().max()) for g in grads.values() if g is not None)
    for name, p in ours.named_parameters():
        if grads[name] is not None:
            np.testing.assert_allclose(p.grad.numpy(), grads[name].numpy(), 1e-5, 1e-6 * largest,
                                       err_msg=name)


def pair(model: Model, folder: Path) -> tuple[Any, Any]:
    """Our model with the checkpoint of theirs, and theirs."""
    torch.manual_seed(0)
    theirs = model.make().eval()
    checkpoint(model, theirs, folder / "model.safetensors")
    return loaded(model, folder / "model.safetensors").eval(), theirs


def outputs(model: Model, ours: Any, theirs: Any, dtype: Any) -> tuple[list[Any], list[Any]]:
    arrays = [a.astype(dtype) if a.dtype == np.float32 else a for a in OURS[model.name].inputs]
    tensors = [torch.from_numpy(a.copy()) for a in arrays]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = theirs(*([] if model.keywords else tensors), **dict(zip(model.keywords, tensors)))
    return tensors_of(ours(*map(fw.from_numpy, arrays))), tensors_of(model.outputs(out))
