"""einops works on tensors, eagerly and inside of `fw.compile`."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import fusewire as fw
import fusewire.torch as torch
from fusewire.capture.runtime.warnings import CaptureWarning

einops = pytest.importorskip("einops")

X = np.random.default_rng(0).random((2, 3, 4)).astype(np.float32)

CALLS = {
    "rearrange": lambda x: einops.rearrange(x, "a b c -> c (a b)"),
    "split": lambda x: einops.rearrange(x, "a b (c d) -> a d b c", d=2),
    "ellipsis": lambda x: einops.rearrange(x, "a ... -> ... a"),
    "a list": lambda x: einops.rearrange([x, x], "n a b c -> a n b c"),
    "repeat": lambda x: einops.repeat(x, "a b c -> a z b c", z=2),
    **{name: lambda x, name=name: einops.reduce(x, "a b c -> b", name)
       for name in ("sum", "mean", "max", "min", "prod")},
    "einsum": lambda x: einops.einsum(x, x, "a b c, a d c -> b d"),
    "pack": lambda x: einops.pack([x, x], "a * c")[0],
    "unpack": lambda x: einops.unpack(x, [(1,), (2,)], "a * c")[1],
}


@pytest.mark.parametrize("make", [fw.tensor, torch.tensor])
@pytest.mark.parametrize("name", CALLS)
def test_the_values_are_those_of_numpy(name, make):
    x = make(X)
    found = CALLS[name](x)
    assert type(found) is type(x)
    np.testing.assert_allclose(found.numpy(), CALLS[name](X), rtol=1e-5)


@pytest.mark.parametrize("name", CALLS)
def test_it_is_compiled_whole(name):
    """A graph break is a warning, and warnings are errors here."""
    compiled = fw.compile(lambda x: CALLS[name](x * 2) + 1)
    for _ in range(3):
        np.testing.assert_allclose(compiled(fw.tensor(X)).numpy(), CALLS[name](X * 2) + 1,
                                   rtol=1e-5)
    assert len(compiled.programs) == 1


def test_gradients():
    x = fw.tensor(X, requires_grad=True)
    einops.reduce(x, "a b c -> b", "mean").sum().backward()
    assert fw.allclose(x.grad, fw.full((2, 3, 4), 1 / 8))


def test_a_cache_is_asked_about_an_object_that_the_run_makes():
    """The object is another one in each call, so no guard can compare it."""
    recipe = einops.einops._prepare_transformation_recipe("a b -> b a", "rearrange", (), 2)

    def shapes(x):
        fields = type(recipe).__new__(type(recipe))
        fields.__dict__.update(recipe.__dict__)
        return x + len(einops.einops._reconstruct_from_shape(fields, (2, 3), ())[0] or ())

    with pytest.warns(CaptureWarning, match="gets a TransformRecipe"):
        fw.compile(shapes)(fw.ones(2))


@pytest.mark.parametrize("imports", ["fusewire, einops", "einops, fusewire"])
def test_the_order_of_imports_does_not_matter(imports):
    code = f"import {imports}; print(einops.rearrange(fusewire.ones(2, 3), 'a b -> b a').shape)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout == "(3, 2)\n"
