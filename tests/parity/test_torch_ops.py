"""Every op that PyTorch tests has a row: fusewire's name of it, or the reason why it is absent."""

from __future__ import annotations

from parity import page_torch_ops
from parity.page_torch_ops import ABSENT, NOTES, OPS, SPELLED, exists

from house.repo import ROOT


def test_every_op_has_one_row() -> None:
    assert [op for op in OPS if (op in SPELLED) + (op in ABSENT) != 1] == []


def test_every_row_is_an_op() -> None:
    assert sorted((SPELLED.keys() | ABSENT.keys() | NOTES.keys()) - set(OPS)) == []


def test_every_name_exists() -> None:
    assert [f"{op}: {name}" for op, name in SPELLED.items() if not exists(name)] == []


def test_an_absent_op_has_a_reason_and_no_function() -> None:
    assert [op for op, why in ABSENT.items() if len(why.split()) < 2] == []
    assert [op for op in ABSENT if exists(op)] == []


def test_the_page_shows_all_rows() -> None:
    page, wrong = page_torch_ops.text()
    assert wrong == []
    assert [op for op in OPS if f"| `{op}` |" not in page] == []


def test_the_page_is_written() -> None:
    """PYTHONPATH=tests python -m parity docs --only torch_ops.md"""
    assert (ROOT / "docs" / "torch_ops.md").read_text("utf-8") == page_torch_ops.text()[0]
