"""fw.linalg: what its functions give, for batches and every dtype, and how they fail."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import fusewire as fw
from fusewire.eager.core.dispatch import apply
from fusewire.eager.linalg.core import adjoint
from fusewire.eager.linalg.solve import cofactors_op

L = fw.linalg


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def drawn(rng: Any, *shape: int, dtype: Any = np.float64) -> fw.Tensor:
    x = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return fw.from_numpy(np.asarray(x, dtype))


def same(x: fw.Tensor, y: Any, tolerance: float = 1e-9) -> None:
    np.testing.assert_allclose(x.numpy(), np.asarray(y), rtol=tolerance, atol=tolerance)


EVERY = pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])


# ---- decompositions put together again

@EVERY
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 3, 3), (0, 2, 2)])
def test_factors_multiply_to_the_matrix(shape: Any, dtype: Any, rng: Any) -> None:
    x = drawn(rng, *shape, dtype=dtype)
    close = 1e-4 if x.dtype.name in ("float32", "complex64") else 1e-9
    q, r = L.qr(x)
    same(q @ r, x, close)
    u, s, vh = L.svd(x, full_matrices=False)
    same(u * s[..., None, :] @ vh, x, close)
    assert s.dtype == fw.real(x).dtype and u.dtype == vh.dtype == x.dtype
    if shape[-1] == shape[-2]:
        h = x + adjoint(x)
        w, v = L.eigh(h)
        same(v * w[..., None, :] @ adjoint(v), h, close)
        assert w.dtype == s.dtype
        a, vectors = L.eig(x)
        same(vectors * a[..., None, :], x.astype(a.dtype) @ vectors, close)
        lower = L.cholesky(x @ adjoint(x) + fw.eye(shape[-1], dtype=dtype))
        same(lower @ adjoint(lower), x @ adjoint(x) + fw.eye(shape[-1], dtype=dtype), close)


@pytest.mark.parametrize("shape", [(4, 2), (2, 4), (3, 3)])
def test_complete_bases_are_orthonormal(shape: Any, rng: Any) -> None:
    x = drawn(rng, *shape)
    m, n = shape
    q, r = L.qr(x, mode="complete")
    u, _, vh = L.svd(x)
    assert (q.shape, r.shape, u.shape, vh.shape) == ((m, m), (m, n), (m, m), (n, n))
    for basis in (q, u, vh):
        same(basis @ basis.mT, np.eye(basis.shape[0]))


@pytest.mark.parametrize("dtype", [fw.float16, fw.bfloat16])
def test_small_floats_are_computed_as_float32(dtype: Any, rng: Any) -> None:
    x = (drawn(rng, 3, 3) + 3 * fw.eye(3, dtype=fw.float64)).astype(dtype)
    wide = x.astype(fw.float32)
    for f in (L.inv, L.det, L.svdvals, L.matrix_exp, lambda x: x @ x):
        assert f(x).dtype == dtype
        np.testing.assert_array_equal(f(x).astype(fw.float32).numpy(),
                                      f(wide).astype(dtype).astype(fw.float32).numpy())


def test_products_of_integers_are_exact() -> None:
    big = fw.tensor([[2**40 + 1, 1]])
    assert (big @ fw.tensor([[2**20], [3]])).item() == 2**60 + 2**20 + 3
    with pytest.raises(fw.DTypeError, match="matmul: takes numbers, not bool"):
        fw.tensor([[True]]) @ fw.tensor([[True]])


def test_lu_exchanges_rows_and_takes_singular_matrices(rng: Any) -> None:
    p, lower, upper = L.lu(drawn(rng, 5, 40, 30))
    same(fw.sum(p, axis=-1), np.ones((5, 40)))
    assert fw.abs(lower).max().item() == 1.0
    assert not fw.any(fw.tril(upper, k=-1))
    x = fw.ones(3, 3)
    same(fw.einsum("ij,jk,kl->il", *L.lu(x)), x)
    with pytest.raises(L.LinAlgError, match=r"solve_triangular: .*Singular matrix"):
        L.lu(x.requires_grad_()).U.sum().backward()  # a gradient needs leading columns of rank k


# ---- solutions

def test_solve_takes_vectors_matrices_and_batches_of_both(rng: Any) -> None:
    a, b = drawn(rng, 5, 1, 3, 3), drawn(rng, 2, 3, 4)
    x = L.solve(a, b)
    assert x.shape == (5, 2, 3, 4)
    same(a @ x, np.broadcast_to(b.numpy(), x.shape))
    assert L.solve(a, b[0, :, 0]).shape == (5, 1, 3)
    same(a[0, 0] @ L.solve(a[0, 0], b), b)
    assert L.solve(a[0, 0], fw.zeros(0, 3, 2, dtype=fw.float64)).shape == (0, 3, 2)


def test_what_stands_in_the_other_triangle_is_not_read(rng: Any) -> None:
    a, b = drawn(rng, 50, 50) + 50 * fw.eye(50, dtype=fw.float64), drawn(rng, 50, 2)
    junk = fw.full((50, 50), float("nan"), dtype=fw.float64)
    lower = fw.tril(a) + fw.triu(junk, k=1)
    same(fw.tril(a) @ L.solve_triangular(lower, b, upper=False), b)
    x = L.solve_triangular(fw.triu(a), b.mT, upper=True, left=False)
    same(x @ fw.triu(a), b.mT)


def test_lstsq_of_a_vector_says_how_good_it_is(rng: Any) -> None:
    a, b = drawn(rng, 6, 2), drawn(rng, 6)
    found = L.lstsq(a, b)
    x, residuals, rank, s = np.linalg.lstsq(a.numpy(), b.numpy(), rcond=None)
    same(found.solution, x)
    same(found.residuals, residuals[0])
    same(found.singular_values, s)
    assert found.rank.item() == rank == 2


@pytest.mark.parametrize(("call", "words"), [
    (lambda x: L.inv(x), r"inv: the matrix at \(1, 0\) of float32\[2, 1, 2, 2\]: Singular matrix"),
    (lambda x: L.solve(x, fw.ones(2, 1)), r"solve: the matrix at \(1, 0\) of float32"),
    (lambda x: L.cholesky(x), r"cholesky: the matrix at \(1, 0\) of .* not positive definite"),
])
def test_the_matrix_that_fails_is_named(call: Any, words: str) -> None:
    x = fw.stack([fw.eye(2), fw.ones(2, 2)])[:, None]
    with pytest.raises(ValueError, match=words) as caught:
        call(x)
    assert isinstance(caught.value, L.LinAlgError) and caught.value.help


# ---- determinants

def test_determinants_of_singular_matrices() -> None:
    x = fw.ones(2, 2).requires_grad_()
    sign, logabsdet = L.slogdet(x)
    assert (L.det(x).item(), sign.item(), logabsdet.item()) == (0.0, 0.0, -math.inf)
    (g,) = fw.grad(L.det(x), x)  # the cofactors
    same(g, [[1, -1], [-1, 1]], 1e-6)
    for rank in (0, 1, 2):
        diagonal = np.diag([2.0] * rank + [0.0] * (3 - rank))
        expected = np.zeros((3, 3))
        expected[2, 2] = 4.0 if rank == 2 else 0.0
        same(apply(cofactors_op, (fw.from_numpy(diagonal),)), expected)


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_second_gradient_of_a_determinant_of_any_rank(rank: int, rng: Any) -> None:
    """det is linear in each row, so that halves of differences are exact."""
    a = np.asarray(rng.standard_normal((3, rank)) @ rng.standard_normal((rank, 3)))
    t = rng.standard_normal((3, 3))
    x = fw.from_numpy(a).requires_grad_()
    (g,) = fw.grad(L.det(x), x, create_graph=True)
    (h,) = fw.grad((g * fw.from_numpy(t)).sum(), x)
    step = 1e-3
    high, low = (apply(cofactors_op, (fw.from_numpy(a + s * t),)).numpy() for s in (step, -step))
    same(h, (high - low) / (2 * step), 1e-8)


def test_the_sign_of_a_complex_determinant_has_the_length_one(rng: Any) -> None:
    x = drawn(rng, 4, 3, 3, dtype=np.complex128)
    sign, logabsdet = L.slogdet(x)
    same(sign.abs(), np.ones(4))
    same(sign * fw.exp(logabsdet), np.linalg.det(x.numpy()))


# ---- eigenvalues

def test_gradient_of_equal_eigenvalues_is_infinite_through_vectors_only() -> None:
    x = fw.eye(2).requires_grad_()
    (g,) = fw.grad(L.eigvalsh(x).sum(), x)
    same(g, np.eye(2))
    v = L.eigh(x).eigenvectors
    (g,) = fw.grad((v * fw.tensor([[1.0, 2.0], [3.0, 4.0]])).sum(), x)
    assert not fw.isfinite(g).all()


@pytest.mark.parametrize("name", ["eigh", "cholesky"])
def test_gradients_of_symmetric_matrices_are_symmetric(name: str, rng: Any) -> None:
    x = drawn(rng, 3, 3)
    x = (x @ x.mT).requires_grad_()
    out = getattr(L, name)(x)
    out = out.eigenvectors if name == "eigh" else out
    (g,) = fw.grad((out * drawn(rng, 3, 3)).sum(), x)
    same(g, g.mT)


# ---- singular values, ranks, pseudo-inverses

def test_rank_and_pseudo_inverse_take_a_tolerance_for_each_matrix() -> None:
    x = fw.tensor([[[1.0, 0.0], [0.0, 1e-3]]] * 2)
    assert L.matrix_rank(x).tolist() == [2, 2]
    rtol = fw.tensor([1e-2, 1e-4])
    assert L.matrix_rank(x, rtol=rtol).tolist() == [1, 2]
    assert L.matrix_rank(x, rtol=0.1).tolist() == [1, 1]
    assert L.pinv(x, rtol=rtol)[:, 1, 1].tolist() == pytest.approx([0, 1000])
    with pytest.raises(fw.DTypeError, match="pinv: rtol is int64"):
        L.pinv(x, rtol=fw.tensor(1))
    assert L.matrix_rank(fw.zeros(2, 0, 3)).tolist() == [0, 0]


def test_gradient_of_a_complete_q_is_refused(rng: Any) -> None:
    x = drawn(rng, 3, 2).requires_grad_()
    with pytest.raises(fw.GradientError, match="qr: the complete Q of matrices"):
        L.qr(x, mode="complete").Q.sum().backward()


# ---- norms

ORDERS = [2, 1, 0, 3, 2.5, 0.5, -1, -2, math.inf, -math.inf]


@pytest.mark.parametrize("ord", ORDERS)
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_vector_norms(ord: float, dtype: Any, rng: Any) -> None:
    x = drawn(rng, 2, 3, 4, dtype=dtype)
    same(L.vector_norm(x, axis=1, ord=ord), np.linalg.norm(x.numpy(), ord, axis=1))
    flat = np.linalg.norm(x.numpy().reshape(2, -1), ord, axis=1)
    same(L.vector_norm(x, axis=(1, -1), ord=ord, keepdims=True), flat[:, None, None])
    assert L.vector_norm(x, ord=ord).shape == ()


@pytest.mark.parametrize("ord", ORDERS)
def test_gradients_of_norms_at_zero_are_zero(ord: float) -> None:
    x = fw.zeros(2, 3).requires_grad_()
    out = L.vector_norm(x, axis=-1, ord=ord)
    assert out.tolist() == [0.0, 0.0]
    if out.requires_grad:
        (g,) = fw.grad(out.sum(), x)
        assert g.tolist() == [[0.0] * 3] * 2


@pytest.mark.parametrize("ord", ["fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf])
def test_matrix_norms(ord: Any, rng: Any) -> None:
    x = drawn(rng, 2, 3, 4)
    expected = np.linalg.norm(x.numpy(), ord, axis=(-2, -1))
    same(L.matrix_norm(x, ord=ord), expected)
    same(L.matrix_norm(x, ord=ord, keepdims=True), expected[:, None, None])
    same(L.norm(x, ord, axis=(2, 0)), np.linalg.norm(x.numpy(), ord, axis=(2, 0)))


def test_norm_is_of_all_elements_of_a_vector_or_of_a_matrix(rng: Any) -> None:
    x = drawn(rng, 2, 3)
    same(L.norm(x), np.linalg.norm(x.numpy()))
    same(L.norm(x, 1), np.linalg.norm(x.numpy(), 1))
    same(L.norm(x[0], 1), np.linalg.norm(x.numpy()[0], 1))
    same(L.norm(x, axis=0, keepdims=True), np.linalg.norm(x.numpy(), axis=0, keepdims=True))
    with pytest.raises(fw.ShapeError, match="norm: ord=1 needs an axis for a tensor of shape"):
        L.norm(x[None], 1)
    with pytest.raises(fw.ArgumentError, match="matrix_norm: ord 3 is not known"):
        L.matrix_norm(x, ord=3)
    with pytest.raises(fw.DTypeError, match="vector_norm: takes floating point"):
        L.vector_norm(fw.tensor([1, 2]))


@pytest.mark.parametrize("p", [None, 2, -2, 1, "fro", math.inf])
def test_condition_numbers(p: Any, rng: Any) -> None:
    x = drawn(rng, 3, 3)
    same(L.cond(x, p), np.linalg.cond(x.numpy(), p))


# ---- functions of matrices

def test_powers_of_matrices(rng: Any) -> None:
    x = drawn(rng, 2, 3, 3)
    for n in (0, 1, 2, 7, -1, -2):
        same(L.matrix_power(x, n), np.linalg.matrix_power(x.numpy(), n), 1e-6)
    assert L.matrix_power(x, 1) is not x
    with pytest.raises(fw.ArgumentError, match=r"matrix_power: the power 0\.5 is not a whole"):
        L.matrix_power(x, 0.5)


def test_exponential_of_a_rotation_and_of_nan() -> None:
    turn = fw.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=fw.float64)
    for angle in (0.01, 0.2, 0.9, 2.0, 3.9, 40.0):
        c, s = math.cos(angle), math.sin(angle)
        same(L.matrix_exp(turn * angle), [[c, -s], [s, c]], 1e-12)
    both = L.matrix_exp(fw.stack([turn * float("nan"), turn * 0]))
    assert fw.isnan(both[0]).all()
    same(both[1], np.eye(2))


def test_multi_dot_multiplies_in_the_cheapest_order() -> None:
    xs = [fw.ones(*s) for s in ((10, 100), (100, 5), (5, 50))]
    same(L.multi_dot(xs), np.full((10, 50), 500.0))
    same(L.multi_dot([fw.ones(3), fw.ones(3, 4), fw.ones(4)]), 12.0)
    same(L.multi_dot([fw.ones(3, 4), fw.ones(4)]), [4.0] * 3)


def test_vander(rng: Any) -> None:
    x = drawn(rng, 4)
    same(L.vander(x), np.vander(x.numpy(), increasing=True))
    same(L.vander(x, N=1), np.ones((4, 1)))
    assert L.vander(x, N=0).shape == (4, 0)
