"""What a training script imports is here under its name, and takes the same arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.utils.parametrizations
import torch.utils.data
from inputs import path
from parity.layer_columns import parameters_of

import fusewire as fw

SPACES = ("nn", "nn.functional", "nn.init", "nn.utils", "nn.utils.rnn", "nn.utils.parametrize",
          "nn.utils.parametrizations", "optim", "optim.lr_scheduler", "optim.swa_utils",
          "utils.data", "amp")

# Names of torch that are not here.
MISSING = {name: why for why, names in {
    "deprecated there": """
        nn.Container nn.NLLLoss2d nn.DataParallel nn.functional.upsample nn.init.uniform
        nn.functional.upsample_nearest nn.functional.upsample_bilinear nn.init.normal
        nn.init.constant nn.init.dirac nn.init.xavier_uniform nn.init.xavier_normal
        nn.init.kaiming_uniform nn.init.kaiming_normal nn.init.orthogonal nn.init.sparse
        nn.utils.clip_grad_norm utils.data.IterDataPipe utils.data.DFIterDataPipe
        utils.data.MapDataPipe utils.data.DataChunk utils.data.functional_datapipe
        utils.data.argument_validation utils.data.runtime_validation
        utils.data.runtime_validation_disabled utils.data.non_deterministic
        utils.data.guaranteed_datapipes_determinism""",
    "parts of PyTorch itself": """
        nn.factory_kwargs nn.functional.Tensor nn.functional.boolean_dispatch
        nn.functional.handle_torch_function nn.functional.has_torch_function
        nn.functional.has_torch_function_unary nn.functional.has_torch_function_variadic
        nn.functional.assert_int_or_pair optim.swap_in_optimizer_params_and_state
        nn.utils.parametrize.transfer_parametrizations_and_params utils.data._DatasetKind""",
    "of 8-bit numbers on GPUs": """
        nn.functional.ScalingType nn.functional.SwizzleType nn.functional.scaled_mm
        nn.functional.grouped_mm nn.functional.scaled_grouped_mm""",
    "there are no sparse tensors": "optim.SparseAdam",
    "a tensor has one order in memory": """
        nn.utils.convert_conv2d_weight_memory_format nn.utils.convert_conv3d_weight_memory_format
        """,
}.items() for name in names.split()}
# Signatures that are meant to differ.
DIFFERENT = {"utils.data.random_split": "the default generator is found when it is called"}


def public(space: str) -> dict[str, Any]:
    """Functions and classes that torch documents in a namespace."""
    held = path(torch, space)
    names = getattr(held, "__all__", None) or [n for n in vars(held) if not n.startswith("_")]
    found = {name: getattr(held, name) for name in names}
    return {name: value for name, value in found.items()
            if callable(value) and getattr(value, "__module__", "").startswith("torch")}


def names() -> list[str]:
    return [f"{space}.{name}" for space in SPACES for name in public(space)]


def ours(name: str) -> Any:
    """The object of that name, or None."""
    try:
        return path(fw, name)
    except AttributeError:
        return None


@pytest.mark.parametrize("space", SPACES)
def test_every_name_of_torch_is_here(space: str) -> None:
    assert [n for n in public(space)
            if ours(f"{space}.{n}") is None and f"{space}.{n}" not in MISSING] == []


@pytest.mark.parametrize("name", [n for n in names() if n not in DIFFERENT])
def test_arguments_are_those_of_torch(name: str) -> None:
    mine, theirs = ours(name), path(torch, name)
    if mine is None or not (arguments := signature(theirs)):
        return  # not here, or written in C: the table calls it with its arguments
    assert signature(mine) == arguments


def signature(value: Callable[..., Any]) -> list[tuple[str, Any]]:
    """Names and defaults of the arguments; nothing where they cannot be told."""
    try:
        found = parameters_of(value)
        kinds = {p.kind for p in inspect.signature(value).parameters.values()}
    except (TypeError, ValueError):
        return []
    return [] if kinds <= {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD} \
        else found
