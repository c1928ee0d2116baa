"""Every op that PyTorch tests has a row: fusewire's name of it, or the reason why it is absent."""

from __future__ import annotations

from parity.torch_ops import ABSENT, NOTES, OPS, SPELLED, exists


def test_every_op_has_one_row() -> None:
    assert [op for op in OPS if (op in SPELLED) + (op in ABSENT) != 1] == []


def test_every_row_is_an_op() -> None:
    assert sorted((SPELLED.keys() | ABSENT.keys() | NOTES.keys()) - set(OPS)) == []


def test_every_name_exists() -> None:
    assert [f"{op}: {name}" for op, name in SPELLED.items() if not exists(name)] == []


def test_an_absent_op_has_a_reason_and_no_function() -> None:
    assert [op for op, why in ABSENT.items() if len(why.split()) < 2] == []
    assert [op for op in ABSENT if exists(op)] == []
