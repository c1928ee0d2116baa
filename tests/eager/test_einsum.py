"""einsum and products: the order of products, dtypes, views, and what BLAS is given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fusewire as fw
from fusewire.eager.ops.products import contract, einsum


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_an_order_is_chosen_that_keeps_the_work_small() -> None:
    """(a @ b) @ v would take 100 times as much as a @ (b @ v)."""
    sizes = {"a": 100, "b": 100, "c": 100}
    assert einsum._path(("ab", "bc", "c"), "a", sizes)[0] == (1, 2)
    x, v = fw.ones(300, 300), fw.ones(300)
    assert fw.einsum("ab,bc,cd,d->a", x, x, x, v)[0].item() == 300.0**3


def test_operands_may_come_as_a_list_and_spaces_count_for_nothing() -> None:
    x = fw.arange(6).reshape(2, 3)
    assert fw.einsum(" ij , kj -> i k", [x, x]).tolist() == [[5, 14], [14, 50]]


def test_dtypes_combine_and_integers_stay_integers() -> None:
    x, y = fw.tensor([1, 2]), fw.tensor([0.5, 0.25], dtype=fw.float64)
    assert fw.einsum("i,i", x, y).dtype == fw.float64
    small = fw.full((4,), 100, dtype=fw.int8)
    assert fw.einsum("i->", small).dtype == fw.einsum("i,i", small, small).dtype == fw.int8


def test_results_are_tensors_of_their_own() -> None:
    x = fw.ones(2, 3)
    assert fw.einsum("ij->ij", x) is not x


def test_vecdot_conjugates_its_first_argument() -> None:
    x, y = fw.tensor([1j, 2j, 3j]), fw.tensor([1, 2j, 3])
    assert fw.vecdot(x, y).item() == 4 - 10j
    assert fw.vecdot(y, x).item() == 4 + 10j


@pytest.mark.parametrize("spec", ["ij,jk->ik", "ji,jk->ik", "ij,kj->ik", "ji,kj->ik", "ij,j->i",
                                  "aij,ajk->aik", "ai,ai->a", "ij,ij->", "i,j->ij"])
def test_views_give_what_copies_give(spec: str, rng: Any) -> None:
    size = dict(zip("aijk", (2, 6, 8, 4)))
    full = [rng.standard_normal([2 * size[c] for c in part])
            for part in spec.split("->")[0].split(",")]
    cut = [x[(slice(None, None, 2),) * x.ndim] for x in full]
    turned = [x.T.copy().T for x in cut]
    for operands in (cut, turned):
        out = contract.contract(*map(fw.from_numpy, operands), spec)
        np.testing.assert_allclose(out.numpy(), np.einsum(spec, *operands), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [fw.float16, fw.bfloat16])
def test_small_floats_are_summed_in_float32(dtype: Any) -> None:
    """4096 ones and small parts: a sum in float16 would stop at 2048, one in bfloat16 at 256."""
    x = fw.full((4096,), 1.0, dtype=dtype)
    assert (x @ x).dtype == dtype and (x @ x).item() == 4096
    assert fw.einsum("ij,ij->i", x[None], x[None]).tolist() == [4096]


def test_complex_gradients_conjugate_the_other_factor(rng: Any) -> None:
    x, y = (fw.from_numpy(rng.standard_normal((2, 2)) + 1j * rng.standard_normal((2, 2)))
            .requires_grad_() for _ in range(2))
    gx, gy = fw.grad(fw.real(x @ y).sum(), [x, y])
    ones = np.ones((2, 2))
    np.testing.assert_allclose(gx.numpy(), ones @ y.numpy().conj().T)
    np.testing.assert_allclose(gy.numpy(), x.numpy().conj().T @ ones)


def test_products_of_empty_axes_are_zeros() -> None:
    for spec, shapes in (("ij,jk->ik", [(2, 0), (0, 3)]), ("ij,j->i", [(2, 0), (0,)]),
                         ("aij,ajk->aik", [(2, 2, 0), (2, 0, 3)]), ("ij,ij->", [(0, 3)] * 2)):
        out = contract.contract(*[fw.zeros(s) for s in shapes], spec)
        assert not fw.any(out)


def test_diag_and_diagonal_undo_each_other() -> None:
    x = fw.tensor([1.0, 2.0])
    for offset in (0, 1, -2):
        assert fw.diagonal(fw.diag(x, offset), offset).tolist() == [1.0, 2.0]
    assert fw.diag(fw.zeros(0), 2).tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert fw.trace(fw.ones(2, 3, 3, dtype=fw.int8), dtype=fw.int16).dtype == fw.int16
