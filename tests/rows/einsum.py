"""Rows of products of two and more tensors: specs of contractions, einsum, and their kin."""

from __future__ import annotations

from typing import Any

import numpy as np
from rows.row import Bad, arrays, c16, f8, i8, row

import fusewire as fw
from fusewire.eager.ops.products import contract

SIZES = dict(zip("abcdijk", (2, 3, 4, 5, 3, 4, 2)))


def shapes(spec: str) -> list[tuple[int, ...]]:
    return [tuple(SIZES[c] for c in part) for part in spec.split("->")[0].split(",")]


# ---- every order of axes of matrices and vectors, alone and in batches
for spec in ("ij,jk->ik", "ij,jk->ki", "ji,jk->ik", "ij,kj->ik", "ji,kj->ik", "ji,kj->ki",
             "ij,j->i", "ji,j->i", "i,ij->j", "i,ji->j", "i,i->", "i,j->ij", "i,j->ji",
             "aij,ajk->aik", "aij,akj->aki", "iaj,ajk->iak", "ai,ai->a", "ai,aij->aj",
             "aij,ai->aj", "ia,ia->a", "ai,aij->ja", "ab,b->ba", "aij,bij->ab", "ij,ij->"):
    row("contract", lambda x, y, s=spec: contract.contract(x, y, s),
        [arrays(*shapes(spec), dtypes=d) for d in (f8, c16, i8)],
        lambda x, y, s=spec: np.einsum(s, x, y), label=spec)

# ---- einsum
EINSUMS: list[tuple[str, list[tuple[int, ...]]]] = [
    *[(spec, shapes(spec)) for spec in (
        "ij,jk", "ab,bc,cd->ad", "a,b,c->cab", "ab,ab,ab->ab", "abc,cd,ab->d", "ab,cd->",
        "abi,bc,cj,ij->a")],
    ("iij,ij->j", [(3, 3, 2), (3, 2)]), ("...ij,...jk->...ik", [(2, 1, 3, 4), (5, 4, 2)]),
    ("i...,i->...", [(3, 2, 2), (3,)]), ("ij,j->i", [(2, 1), (3,)]), ("i,i->i", [(0,), (0,)])]
for spec, given in EINSUMS:
    row("contract", lambda *xs, s=spec: fw.einsum(s, *xs),
        [arrays(*given, dtypes=d) for d in (f8, c16, i8)],
        lambda *xs, s=spec: np.einsum(s, *xs), label=f"einsum {spec}", errors=(
            Bad(lambda: fw.einsum("ij,jk", fw.ones(2, 3), fw.ones(2, 3)),
                "einsum 'ij,jk': axis 'j' is 3 in one place and 2 in another"),
            Bad(lambda: fw.einsum("ij,j", fw.ones(2, 3)),
                "einsum: 'ij,j' names 2 operands, but got 1"),
            Bad(lambda: fw.einsum("ij", fw.ones(2)), "einsum: 'ij' in 'ij' names 2 axes"),
            Bad(lambda: fw.einsum("i->ii", fw.ones(2)), "einsum: 'i' in the result of 'i->ii'"),
            Bad(lambda: fw.einsum("i->j", fw.ones(2)), "einsum: 'j' in the result of 'i->j'"),
            Bad(lambda: fw.einsum("i1", fw.ones(2)), "einsum: 'i1' in 'i1' is not made of letters"),
            Bad(lambda: fw.einsum("i", fw.tensor([True])), "einsum: takes numbers, not bool")))
for spec, shape in (("ii->i", (3, 3)), ("ii", (3, 3)), ("...ii->...", (2, 3, 3)),
                    ("iij->ji", (3, 3, 2))):
    row("slice", lambda x, s=spec: fw.einsum(s, x), [arrays(shape, dtypes=f8)],
        lambda x, s=spec: np.einsum(s, x), label=f"einsum {spec}")
row("permute_dims", lambda x: fw.einsum("...ij->...ji", x), [arrays((2, 3, 4), dtypes=f8)],
    lambda x: x.mT, label="einsum")

# ---- products by name
row("contract", fw.vecdot, [arrays((2, 3), (3,), dtypes=d) for d in (f8, c16, i8)],
    lambda x, y: (x.conj() * y).sum(-1), label="vecdot", errors=(
        Bad(lambda: fw.vecdot(fw.ones(3), fw.ones(1)), "vecdot: the axis -1 is 3 on the left"),))
row("contract", lambda x, y: fw.vecdot(x, y, axis=-2), [arrays((3, 2), (4, 3, 1), dtypes=f8)],
    lambda x, y: (x * y).sum(-2), label="vecdot axis=-2")
for axes, given in ((1, [(2, 3), (3, 2)]), (0, [(2,), (3,)]), (2, [(2, 3, 4), (3, 4)]),
                    (((1, 2), (1, 0)), [(2, 3, 4), (4, 3, 2)]), (((-1,), (1,)), [(2, 4), (5, 4)])):
    row("contract", lambda x, y, a=axes: fw.tensordot(x, y, axes=a), [arrays(*given, dtypes=f8)],
        lambda x, y, a=axes: np.tensordot(x, y, a), label=f"tensordot {axes}", errors=(
            Bad(lambda: fw.tensordot(fw.ones(2), fw.ones(2), axes=((0,), (0, 0))),
                "tensordot: axes ((0,), (0, 0)) for shapes"),
            Bad(lambda: fw.tensordot(fw.ones(2), fw.ones(2), axes=((1,), (0,))),
                "tensordot: axis 1 is out of range")))
row("multiply", fw.outer, [arrays((3,), (4,), dtypes=d) for d in (f8, c16, i8)], np.outer,
    label="outer", errors=(Bad(lambda: fw.outer(fw.ones(2, 2), fw.ones(2)),
                               "outer: takes two vectors, got shapes (2, 2)"),))
row("multiply", fw.kron, [arrays((2, 3), (2,), dtypes=f8), arrays((2,), (1, 3), dtypes=i8)],
    np.kron, label="kron")
row("multiply", fw.cross, [arrays((2, 3), (3,), dtypes=f8), arrays((3,), (3,), dtypes=i8)],
    np.cross, label="cross", errors=(
        Bad(lambda: fw.cross(fw.ones(2), fw.ones(2)), "cross: axis -1 must have size 3"),))
row("multiply", lambda x, y: fw.cross(x, y, axis=-2), [arrays((3, 2), (4, 3, 1), dtypes=f8)],
    lambda x, y: np.cross(x, y, axis=-2), label="cross axis=-2")

# ---- diagonals
MATRICES: Any = [arrays((3, 4)), arrays((2, 4, 3), dtypes=f8), arrays((2, 2), dtypes=i8)]
for offset in (0, 1, -2, 9):
    row("slice", lambda x, o=offset: fw.diagonal(x, offset=o), MATRICES,
        lambda x, o=offset: np.diagonal(x, o, -2, -1), label=f"diagonal {offset}", errors=(
            Bad(lambda: fw.diagonal(fw.ones(2)), "diagonal: needs matrices (..., m, n)"),))
    row("sum", lambda x, o=offset: fw.trace(x, offset=o), MATRICES,
        lambda x, o=offset: np.trace(x, o, -2, -1), label=f"trace {offset}")
for offset in (0, 2, -1):
    row("unslice", lambda x, o=offset: fw.diag(x, o), [arrays((3,)), arrays((2,), dtypes=i8)],
        lambda x, o=offset: np.diag(x, o), label=f"diag {offset}", errors=(
            Bad(lambda: fw.diag(fw.ones(1, 1, 1)), "diag: takes a vector or a matrix"),))
