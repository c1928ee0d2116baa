"""Every op's rows as models: run by onnx's reference evaluator, and by onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from samples import ROWS, Row

import fusewire as fw
from fusewire.eager.core.op import OPS, Op
from fusewire.export.onnx import export
from fusewire.export.onnx.convert.converter import row_of
from fusewire.export.onnx.convert.op_table import INSTEAD
from fusewire.export.onnx.convert.op_table import ROWS as WRITTEN
from fusewire.export.onnx.verify import compare, verify

REFUSED = {name for name, op in OPS.items() if row_of(op) is None and (
    op.kind != "composite" or "onnx" in op.why)}
UNSIZED = ("true_indices", "repeats")  # refused while the function runs, before there is a graph

# Cases in which a runner, not the model, goes another way than NumPy.
NOT_BY_REFERENCE = {
    "log_softmax": "its log_softmax of large numbers overflows",
    "max_pool": "a nan is not the largest number",
    "cross_entropy_rows": "it cannot reshape an empty array",
    "quantize_linear": "it makes of nan whatever the processor does",
}
NEVER_BY_REFERENCE = {
    "conv_transpose": "it knows no groups, and no pads beside strides",
    "recurrent-RNN_RELU reverse h": "its RNN knows no Relu",
    **dict.fromkeys(("quantized_linear", "quantized_conv"),
                    "it has no DequantizeLinear of opset 18"),
}
NOT_BY_ONNXRUNTIME = {
    "floor_divide": "whole numbers divided by 0 are an error",
    "remainder": "whole numbers divided by 0 are an error",
    "argmax": "a nan is not the largest number",
    "cross_entropy_rows": "it does not load the operator's body for an empty array",
}


def usual(inputs: tuple[Any, ...]) -> bool:
    """Whether the inputs are neither empty, nor hold nan, zeros or large numbers."""
    return all(a.size and a.all() and (np.abs(a) < 100).all() for a in inputs)


def has_complex(row: Row, inputs: tuple[Any, ...]) -> bool:
    """Whether complex numbers come in or out: ONNX has hardly any operators for them."""
    return "c" in [a.dtype.kind for a in (*inputs, row.call(*map(fw.from_numpy, inputs))._data)]


def cases(row: Row, first: int | None = None) -> list[tuple[Any, ...]]:
    """The row's inputs, those of one kind once: same dtypes, axes, and nothing else special."""
    found: dict[Any, tuple[Any, ...]] = {}
    for inputs in row.inputs(np.random.default_rng(0))[:first]:
        if not has_complex(row, inputs):
            kind = [(a.dtype, a.ndim, a.size > 0, bool(np.isfinite(a).all())) for a in inputs]
            found.setdefault(tuple(kind), inputs)
    return list(found.values())


def written(row: Row, inputs: tuple[Any, ...], folder: Path) -> Any:
    path = folder / f"{len(list(folder.iterdir()))}.onnx"  # to replace a file takes longer
    return export(lambda *ts: row.call(*ts), tuple(map(fw.from_numpy, inputs)), path)


WRITABLE = [row for row in ROWS if row.op not in REFUSED]


@pytest.mark.parametrize("row", [row for row in WRITABLE if not NEVER_BY_REFERENCE.keys()
                                 & {row.op, str(row)}], ids=str)
def test_reference(row: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "runner", lambda data: compare.reference(data, ""))
    for inputs in cases(row):
        if row.op not in NOT_BY_REFERENCE or usual(inputs):
            report = written(row, inputs, tmp_path)
            assert report.max_error is not None and "reference" in report.runner


@pytest.mark.parametrize("row", WRITABLE, ids=str)
def test_onnxruntime(row: Row, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    for inputs in cases(row, 1):
        if row.op not in NOT_BY_ONNXRUNTIME or usual(inputs):
            written(row, inputs, tmp_path)


@pytest.mark.parametrize("row", [row for row in ROWS if row.op in REFUSED
                                 and row.op not in UNSIZED], ids=str)
def test_refused(row: Row, tmp_path: Path) -> None:
    with pytest.raises(fw.ExportError) as caught:
        written(row, row.inputs(np.random.default_rng(0))[0], tmp_path)
    text = str(caught.value)
    assert text.startswith(f"{row.op} cannot be written to ONNX: ")
    assert ".py:" in text and "help: " in text, "the line and a substitute"


@pytest.mark.parametrize("op", OPS.values(), ids=lambda op: op.name)
def test_every_op_is_written_or_says_why(op: Op) -> None:
    if row_of(op) is None and op.kind != "composite":
        assert len(op.why.get("onnx", "").split()) > 2 and INSTEAD[op.name]


def test_no_row_is_left_over() -> None:
    assert set(WRITTEN) <= set(OPS)
    assert set(INSTEAD) <= REFUSED | set(OPS)


@pytest.mark.parametrize("opset", [17, 19, 20, 21, 23, 25])
@pytest.mark.parametrize("op", ["gelu", "max", "sum", "contract", "softmax", "slice", "unslice"])
def test_opsets(op: str, opset: int, tmp_path: Path) -> None:
    row = next(row for row in ROWS if row.op == op and cases(row))
    inputs = tuple(map(fw.from_numpy, cases(row)[0]))
    report = export(lambda *ts: row.call(*ts), inputs, tmp_path / "x.onnx", opset=opset)
    assert report.opset == opset


def test_bits_need_opset_18(tmp_path: Path) -> None:
    x = fw.tensor([1, 2, 3])
    with pytest.raises(fw.ExportError, match="bitwise_and cannot be written to ONNX: "):
        export(lambda x: x & 1, (x,), tmp_path / "x.onnx", opset=17)
