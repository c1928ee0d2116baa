"""Traces functions whose arguments have dynamic axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import fusewire as fw
from fusewire.capture.graph.graph import Graph
from fusewire.capture.sizes.symbolic_dim import ShapeEnv
from fusewire.capture.trace.export_tracer import ExportInput, trace_for_export


def recorded(fn: Callable[..., Any], *shapes: tuple[Any, ...],
             dtypes: Mapping[int, Any] = {}, **values: int) -> Graph:
    """The graph of `fn` for inputs of these shapes; names in them are dynamic sizes. `dtypes`: of
    the inputs that are not float32."""
    sizes = ShapeEnv(values)
    inputs = [ExportInput(f"x{i}", fw.ones(tuple(values.get(n, n) for n in shape),
                                           dtype=dtypes.get(i, fw.float32)),
                          tuple(sizes.named(n) if isinstance(n, str) else n for n in shape))
              for i, shape in enumerate(shapes)]
    run = trace_for_export(fn, [g.tensor for g in inputs], {}, inputs, sizes)
    assert not sizes.fixed
    results = run.result if isinstance(run.result, tuple) else (run.result,)
    return Graph(run.inputs, tuple(map(run.node_of, results)))
