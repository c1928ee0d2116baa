"""Functions that decide by values: a library computes all paths and selects one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from c_calls import outputs_of
from c_programs import HERE

import fusewire as fw

pytestmark = pytest.mark.skipif(bool(HERE.missing), reason=f"not here: {HERE.missing}")


def nested(x: fw.Tensor) -> fw.Tensor:
    if x.sum() > 0:
        x = x * 2
    else:
        x = x - 1
    if x.max() > 3:
        return fw.sqrt(x.abs())
    return x.T.T + 1 if x.min() < -2 else x


def several(x: fw.Tensor) -> tuple[fw.Tensor, ...]:
    y = fw.exp(x)
    return (y, x.sum(0)) if x[0, 0] else (x, fw.zeros(3))


def by_number(x: fw.Tensor) -> fw.Tensor:
    total = x.sum().item()
    return x * total + 1.5 if total > 0.5 and total * 2 < 7 else x - abs(total)


def by_index(x: fw.Tensor) -> fw.Tensor:
    return x * 2 if x.argmax().item() >= 4 else x + 1


def normed(x: fw.Tensor) -> fw.Tensor:
    """What is divided by 0 on the way that is not taken does not matter."""
    return x / x.abs().max() if x.abs().max() > 0 else x


FUNCTIONS: dict[str, Callable[..., Any]] = {
    f.__name__: f for f in (nested, several, by_number, by_index, normed)}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_way_that_values_choose_is_given(name: str, tmp_path: Path) -> None:
    fn, rng = FUNCTIONS[name], np.random.default_rng(0)
    built = fw.aot.build(fn, (fw.ones(3, 3),), tmp_path / "model", library=True)
    assert "all paths are computed" in str(built) and "test_deciding.py" in str(built)
    values = [rng.normal(shift, 1, (3, 3)) * (rng.random((3, 3)) > zero)
              for shift in (-2, -0.3, 0, 0.1, 0.3, 2) for zero in (-1, 0.5, 2)]
    ways = set()
    for x in (v.astype(np.float32) for v in values):
        found = fn(fw.tensor(x))
        wanted = [t.numpy() for t in (found if isinstance(found, tuple) else (found,))]
        for mine, theirs in zip(outputs_of(str(tmp_path / "model.so"), [x], wanted), wanted):
            np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-5)
        ways.add(np.allclose(wanted[0], x))
    assert len(ways) == 2 or name not in ("several", "normed")


def test_decisions_with_sizes_that_vary(tmp_path: Path) -> None:
    def fn(x: fw.Tensor) -> fw.Tensor:
        return x * 2 if x[0].sum() > 0 else x

    fw.aot.build(lambda x, y: fn(y) + x, (fw.ones(4, 3), fw.ones(2, 3)[:1]), tmp_path / "model",
                 dynamic_shapes={"x": {0: "batch"}}, library=True)
    for batch in (1, 5):
        x, y = np.ones((batch, 3), np.float32), np.full((1, 3), -1, np.float32)
        found, = outputs_of(str(tmp_path / "model.so"), [x, y], [x], [batch])
        np.testing.assert_array_equal(found, x - 1)
