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
from sampling import sample
from small_models import MODELS as SMALL
from small_models import Small, images

import fusewire as fw
from fusewire.models.vision import efficientnet, mobilenet, resnet

WITH_INPUTS = {
    **SMALL,
    "ResNeXt": Small(lambda: resnet.resnext50_32x4d(7), (images(2, 3, 48, 40, seed=1),)),
    "MobileNet v2": Small(lambda: mobilenet.mobilenet_v2(7), (images(2, 3, 48, 40, seed=2),)),
    "EfficientNet": Small(lambda: efficientnet.efficientnet("b0", 7), (
        images(2, 3, 48, 40, seed=3),)),
}


def checkpoint(theirs: Any, file: Path) -> None:
    save_file({name: value.contiguous() for name, value in theirs.state_dict().items()}, file)


def loaded(model: Model, file: Path) -> Any:
    """Our model with the weights of the file."""
    ours = WITH_INPUTS[model.name].make()
    ours.load_state_dict(fw.load(file))
    return ours


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_checkpoint_gives_the_same_output(model: Model, tmp_path: Path) -> None:
    ours, theirs = pair(model, tmp_path)
    for a, b in zip(*outputs(model, ours, theirs, np.float32), strict=True):
        b = b.detach().numpy()
        np.testing.assert_allclose(a.numpy(), b, 1e-5, 1e-5 * float(np.abs(b).max()))


@pytest.mark.parametrize("model", sample(MODELS, 3), ids=str)
def test_gradients_are_the_same(model: Model, tmp_path: Path) -> None:
    """By every parameter, of the sum of squares; in float64, where no ReLU is on a knife's edge."""
    ours, theirs = pair(model, tmp_path)
    got, wanted = outputs(model, ours.double(), theirs.double(), np.float64)
    sum((a * a).sum() for a in got).backward()
    sum((b * b).sum() for b in wanted).backward()
    grads = {name: p.grad for name, p in theirs.named_parameters()}
    largest = max(float(g.abs().max()) for g in grads.values() if g is not None)
    for name, p in ours.named_parameters():
        if grads[name] is not None:
            np.testing.assert_allclose(p.grad.numpy(), grads[name].numpy(), 1e-5, 1e-6 * largest,
                                       err_msg=name)


def pair(model: Model, folder: Path) -> tuple[Any, Any]:
    """Our model with the checkpoint of theirs, and theirs."""
    torch.manual_seed(0)
    theirs = model.make().eval()
    checkpoint(theirs, folder / "model.safetensors")
    return loaded(model, folder / "model.safetensors").eval(), theirs


def outputs(model: Model, ours: Any, theirs: Any, dtype: Any) -> tuple[list[Any], list[Any]]:
    arrays = [a.astype(dtype) if a.dtype == np.float32 else a
              for a in WITH_INPUTS[model.name].inputs]
    tensors = [torch.from_numpy(a.copy()) for a in arrays]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = theirs(*tensors)
    return tensors_of(ours(*map(fw.from_numpy, arrays))), tensors_of(model.outputs(out))
