"""Which values the forward saves for the backward."""

from __future__ import annotations

from typing import Any

import pytest
from oracle import recorded

import fusewire as fw
from fusewire.capture.autodiff.partitioner import saved_values


def hits(x: Any) -> Any:
    """Where an element equals the maximum of computed values, as its gradient asks."""
    y = x / fw.exp(fw.tanh(x)) + x
    return y == fw.max(y)


@pytest.mark.parametrize("dtype", [fw.float32, fw.float64, fw.float16, fw.bfloat16], ids=str)
def test_equality_of_computed_floats_is_saved(dtype: Any) -> None:
    graph, _ = recorded(hits, fw.ones(5, dtype=dtype))
    assert saved_values(graph.outputs, [], {}) == list(graph.outputs)


def test_equality_of_inputs_is_computed_again() -> None:
    graph, _ = recorded(lambda x, y: x[1:] == y, fw.ones(5), fw.ones(4))
    assert saved_values(graph.outputs, [], {}) == []
