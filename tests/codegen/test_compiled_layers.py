"""Every layer and loss, trained for some steps: compiled it gives what it gives eager.

Each step is recorded whole, and there is code or a call of a library for all of it.
"""

from __future__ import annotations

import operator
import warnings
from typing import Any

import pytest
from layers.every import LAYERS, Layer
from layers.row import scalar
from oracle import assert_same
from sampling import sample_of_each

import fusewire as fw
from fusewire.capture.replay.compiled_function import CaptureWarning


def trained(row: Layer, compiled: bool, steps: int = 3) -> tuple[list[Any], fw.nn.Module]:
    """Losses and gradients by the inputs of a few steps, and the module after them."""
    fw.manual_seed(0)
    module = row.make()
    optimizer = fw.optim.SGD(parameters, lr=0.01) if (parameters := list(module.parameters())) \
        else None

    call, options = row.call, dict(row.options)  # not the row: its arrays would not be recorded

    def step(*inputs: fw.Tensor) -> Any:
        out = module(*inputs, **options) if call is None else call(fw, module, *inputs)
        loss = scalar(out)
        if not getattr(loss, "requires_grad", False):
            return loss
        given = [t for t in (*inputs, *parameters) if t.requires_grad]
        grads = fw.grad(loss, given, allow_unused=True)
        for p, g in zip(parameters, grads[len(given) - len(parameters):]):
            p.grad = g
        if optimizer is not None:
            optimizer.step()
        return loss, grads[:len(given) - len(parameters)]

    run = fw.compile(step) if compiled else step
    fw.manual_seed(1)
    seen = []
    for _ in range(steps):
        tensors = [fw.from_numpy(a) for a in row.arrays()]
        for t in tensors:
            t.requires_grad_(str(t.dtype).startswith("float"))
        seen.append(run(*tensors))
    return seen, module


@pytest.mark.parametrize("row", sample_of_each(LAYERS, operator.attrgetter("name"), 100), ids=str)
def test_compiled_training_is_eager_training(row: Layer) -> None:
    expected, eager = trained(row, compiled=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error", CaptureWarning)
        found, module = trained(row, compiled=True)
    for k, (got, wanted) in enumerate(zip(found, expected)):
        assert_all_same(got, wanted, f"step {k}")
    state = eager.state_dict()
    for name, value in module.state_dict().items():
        assert_same(value, state[name], 50 * row.loose, name)


def assert_all_same(got: Any, wanted: Any, where: str) -> None:
    """Losses and gradients of one step."""
    if isinstance(wanted, tuple):
        assert len(got) == len(wanted), where
        for g, w in zip(got, wanted):
            assert_all_same(g, w, where)
    elif isinstance(wanted, fw.Tensor):
        assert_same(got, wanted, 50, where)
    else:
        assert got == wanted, where
