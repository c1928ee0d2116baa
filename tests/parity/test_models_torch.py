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

import fusewire as fw


def checkpoint(model: Model, theirs: Any, file: Path) -> None:
    """The weights as they are published: a parameter that is used twice is in the file once."""
    state = {name: value.contiguous() for name, value in theirs.state_dict().items()
             if name != model.tied}
    save_file(state, file)


def loaded(model: Model, file: Path) -> Any:
    """Our model with the weights of the file."""
    state = {name.removeprefix(model.prefix): value for name, value in fw.load(file).items()}
    ours = model.ours()
    ours.load_state_dict(state)
    return ours


@pytest.mark.parametrize("training", [False, True], ids=["evaluation", "gradients"])
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_checkpoint_gives_the_same_output(model: Model, training: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    theirs = model.theirs().eval()
    checkpoint(model, theirs, tmp_path / "model.safetensors")
    ours = loaded(model, tmp_path / "model.safetensors").eval()
    got, wanted = outputs(model, ours, theirs)
    for a, b in zip(got, wanted, strict=True):
        b = b.detach().numpy()
        np.testing.assert_allclose(a.numpy(), b, 1e-5, 1e-5 * float(np.abs(b).max()))
    if training:
        compare_gradients(model, ours, theirs, got, wanted)


def outputs(model: Model, ours: Any, theirs: Any) -> tuple[list[Any], list[Any]]:
    arrays = [torch.from_numpy(np.array(a)) for a in model.inputs]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = theirs(*([] if model.keywords else arrays),
                     **dict(zip(model.keywords, arrays)))
    return tensors_of(ours(*map(fw.from_numpy, model.inputs))), tensors_of(model.outputs(out))


def compare_gradients(model: Model, ours: Any, theirs: Any, got: Any, wanted: Any) -> None:
    """The gradient of the sum of squares, by every parameter."""
    sum((a * a).sum() for a in got).backward()
    sum((b * b).sum() for b in wanted).backward()
    names = {name.removeprefix(model.prefix): p for name, p in theirs.named_parameters()}
    largest = max(float(p.grad.abs().max()) for p in names.values() if p.grad is not None)
    for name, p in ours.named_parameters():
        if names[name].grad is not None:
            np.testing.assert_allclose(p.grad.numpy(), names[name].grad.numpy(), 1e-3,
                                       1e-5 * largest, err_msg=name)
