"""Initial values against PyTorch: signatures, exact values, distributions."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import torch
from parity.layer_columns import CHANCE, distance, parameters_of

import fusewire as fw

OURS, THEIRS = fw.nn.init, torch.nn.init
NAMES = sorted(n for n in dir(THEIRS) if n.endswith("_") and n[0] != "_") + ["calculate_gain"]
GAINS = ("linear conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d sigmoid "
         "tanh relu leaky_relu selu").split()


def filled(lib: Any, name: str, shape: tuple[int, ...], *args: Any, **more: Any) -> Any:
    """What the function `name` makes of a tensor of `shape`, as an array."""
    lib.manual_seed(3)
    return getattr(lib.nn.init, name)(lib.zeros(shape), *args, **more).numpy()


@pytest.mark.parametrize("name", NAMES)
def test_arguments(name: str) -> None:
    assert parameters_of(getattr(OURS, name)) == parameters_of(getattr(THEIRS, name))


def test_gains() -> None:
    for name in GAINS:
        assert OURS.calculate_gain(name) == THEIRS.calculate_gain(name)
    for slope in (0, 0.2, 3, None):
        assert OURS.calculate_gain("leaky_relu", slope) == THEIRS.calculate_gain(
            "leaky_relu", slope)
    assert set(GAINS) == set(inspect.signature(THEIRS.calculate_gain).parameters[
        "nonlinearity"].annotation.__args__)


@pytest.mark.parametrize(("name", "shape", "args"), [
    ("constant_", (2, 3), (0.3,)), ("ones_", (2, 3), ()), ("zeros_", (2, 3), ()),
    ("eye_", (3, 5), ()), ("eye_", (5, 3), ()), ("dirac_", (4, 2, 3), ()),
    ("dirac_", (4, 2, 3, 4), (2,)), ("dirac_", (6, 3, 3, 2, 5), (3,)), ("dirac_", (2, 4, 1), ())],
    ids=str)
def test_values_that_are_not_drawn(name: str, shape: tuple[int, ...], args: tuple[Any, ...]
                                   ) -> None:
    assert np.array_equal(filled(fw, name, shape, *args), filled(torch, name, shape, *args))


@pytest.mark.parametrize(("name", "shape", "more"), [
    ("uniform_", (90, 80), {"a": -2.0, "b": 0.5}), ("normal_", (90, 80), {"mean": 1.0, "std": 0.2}),
    ("trunc_normal_", (90, 80), {}), ("trunc_normal_", (90, 80), {"std": 0.02}),
    ("trunc_normal_", (90, 80), {"mean": 3.0, "a": 0.0, "b": 2.0}),
    ("xavier_uniform_", (90, 80), {"gain": 2.0}), ("xavier_normal_", (20, 8, 5, 9), {}),
    ("kaiming_uniform_", (90, 80), {"a": 5 ** 0.5}), ("kaiming_normal_", (20, 8, 5, 9), {}),
    ("kaiming_uniform_", (20, 8, 5, 9), {"mode": "fan_out", "nonlinearity": "relu"}),
    ("kaiming_normal_", (90, 80), {"mode": "fan_out", "nonlinearity": "tanh"}),
    ("orthogonal_", (60, 60), {"gain": 3.0}), ("orthogonal_", (20, 10, 9), {}),
    ("orthogonal_", (90, 20), {}), ("sparse_", (90, 80), {"sparsity": 0.33, "std": 2.0})], ids=str)
def test_distributions(name: str, shape: tuple[int, ...], more: dict[str, Any]) -> None:
    ours, theirs = (filled(lib, name, shape, **more) for lib in (fw, torch))
    assert distance(ours.ravel(), theirs.ravel()) < CHANCE * np.sqrt(2 / ours.size)
    assert np.array_equal((ours == 0).sum(0), (theirs == 0).sum(0))  # of sparse ones


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (4, 2, 3), (8, 2, 3)])
def test_products_of_orthogonal_rows(shape: tuple[int, ...]) -> None:
    products = []
    for lib in (fw, torch):
        made = filled(lib, "orthogonal_", shape, gain=2.0).reshape(shape[0], -1)
        products.append(made @ made.T if shape[0] <= made.shape[1] else made.T @ made)
    assert np.allclose(*products, atol=1e-5)


def test_nothing_is_drawn_for_empty_tensors() -> None:
    for name in ("kaiming_uniform_", "kaiming_normal_", "orthogonal_"):
        assert filled(fw, name, (0, 3)).shape == (0, 3)
