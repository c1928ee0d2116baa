"""Tests that the table of ops has every fact of each op, or the reason why it is missing."""

from __future__ import annotations

import pytest
from samples import rows_of

import fusewire.eager.nn  # noqa: F401 - declares ops of its own
from fusewire.eager.core.op import KINDS, OPS, Op, Reduction
from fusewire.export.onnx.convert.op_table import ROWS

EVERY = pytest.mark.parametrize("op", OPS.values(), ids=lambda op: op.name)


def has(op: Op, fact: str) -> bool:
    """True if an op has a fact, or a reason of a few words why not."""
    return bool(getattr(op, fact)) or len(op.why.get(fact, "").split()) > 2


@EVERY
def test_kind_result_and_implementation(op: Op) -> None:
    assert op.kind in KINDS
    assert callable(op.result) and callable(op.impl)


@EVERY
def test_meaning(op: Op) -> None:
    if op.kind == "reduce":
        assert isinstance(op.meaning, Reduction)
    elif op.kind not in ("contract",
                         "scatter_rows"):  # an einsum, in params["spec"]; the kind says it all
        assert has(op, "meaning"), f"op {op.name!r}: no meaning and no reason why"


@EVERY
def test_gradient(op: Op) -> None:
    assert has(op, "vjp"), f"op {op.name!r}: no vjp and no reason why"


@EVERY
def test_sample_row(op: Op) -> None:
    assert rows_of(op.name), f"op {op.name!r}: no row in tests/samples.py"


@EVERY
def test_onnx(op: Op) -> None:
    """Each op has an ONNX operator, a row in the table, or a formula or decomposition."""
    assert has(op, "onnx") or op.name in ROWS or op.kind in ("pointwise", "composite"), \
        f"op {op.name!r}: no ONNX operator, no row in the table and no reason why"
