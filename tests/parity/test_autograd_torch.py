"""Autograd as a whole beside PyTorch's: programs of many functions, and complex numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from parity.columns import difference, directions
from parity.sides import OURS, THEIRS, Ours

import fusewire as fw

SIZE = 3
ALLOWED = 1e-9


def array(*shape: int, seed: int = 0, complex: bool = False) -> Any:
    rng = np.random.default_rng([seed, *shape])
    drawn = rng.standard_normal(shape)
    return drawn + 1j * rng.standard_normal(shape) if complex else drawn


def assert_same(ours: list[Any], theirs: list[Any], what: str) -> None:
    for n, (got, wanted) in enumerate(zip(ours, theirs, strict=True)):
        apart = difference(got, wanted)
        assert apart < ALLOWED, f"{what}, result {n} differs by {apart:.1e}:\n{got}\n{wanted}"


# ---- random programs of matrices (3, 3): functions of either namespace `m`
def spread(m: Any, x: Any) -> Any:
    """`x` as (3, 3) again, after a reduction."""
    return m.broadcast_to(x, (SIZE, SIZE))


def power(m: Any, z: Any) -> Any:
    """|z| ** 2 / 3, which has all derivatives."""
    return (m.real(z) ** 2 + m.imag(z) ** 2) / SIZE


ONE = {
    "sin": lambda m, x: m.sin(x),
    "tanh": lambda m, x: m.tanh(x),
    "sigmoid": lambda m, x: m.sigmoid(x),
    "bell": lambda m, x: m.exp(-x * x),
    "log1p": lambda m, x: m.log1p(x * x),
    "sqrt": lambda m, x: m.sqrt(1.0 + x * x),
    "erf": lambda m, x: m.erf(x),
    "cube": lambda m, x: x ** 3 / 10,
    "softmax": lambda m, x: m.softmax(x, -1),
    "logsumexp": lambda m, x: spread(m, m.logsumexp(x, 1, True)),
    "sum": lambda m, x: spread(m, m.sum(x, 0) / SIZE),
    "prod": lambda m, x: spread(m, m.tanh(m.prod(x, 1))),
    "spread": lambda m, x: spread(m, m.std(x, 0, correction=1)),
    "cumsum": lambda m, x: m.cumsum(x, 1) / 2,
    "cumprod": lambda m, x: m.cumprod(m.tanh(x), 0),
    "transpose": lambda m, x: x.mT * 0.9,
    "reshape": lambda m, x: m.reshape(x, (SIZE * SIZE,))[1:].reshape((2, 4)).sum() * x / 4,
    "roll": lambda m, x: m.roll(x, 2),
    "index": lambda m, x: x[m.tensor([2, 0, 0])],
    "two indices": lambda m, x: spread(m, x[m.tensor([0, 2, 1]), m.tensor([1, 1, 0])]),
    "triangle": lambda m, x: m.tril(x) + m.diag(m.diagonal(x)),
    "max": lambda m, x: spread(m, getattr(m, "amax", m.max)(x, 1)),
    "inverse": lambda m, x: m.linalg.inv(x @ x.mT + 2 * m.eye(SIZE, dtype=m.float64)),
    "determinant": lambda m, x: m.tanh(m.linalg.det(x + 2 * m.eye(SIZE, dtype=m.float64))) * x,
    "frequencies": lambda m, x: power(m, m.fft.fft(m.tanh(x))),
    "norm": lambda m, x: x / m.linalg.vector_norm(x),
}
TWO = {
    "add": lambda m, x, y: x + 0.5 * y,
    "multiply": lambda m, x, y: x * y,
    "divide": lambda m, x, y: x / (1.5 + m.cos(y)),
    "pow": lambda m, x, y: (1.0 + x * x) ** m.sin(y),
    "where": lambda m, x, y: m.where(x > y, x, y * y),
    "maximum": lambda m, x, y: m.maximum(x, y),
    "atan2": lambda m, x, y: m.atan2(x, y),
    "hypot": lambda m, x, y: m.hypot(x, y),
    "matmul": lambda m, x, y: x @ y / 2,
    "einsum": lambda m, x, y: m.einsum("ij,kj->ki", x, y) / 2,
    "solve": lambda m, x, y: m.linalg.solve(x @ x.mT + 2 * m.eye(SIZE, dtype=m.float64), y),
    "concat": lambda m, x, y: m.concat([x[1:], y[:1]]),
    "outer": lambda m, x, y: m.outer(x[0], y[:, 1]),
    "stack": lambda m, x, y: m.sum(m.stack([x, y, x * y]), 0),
}


def program(seed: int, steps: int = 8) -> list[tuple[str, tuple[int, ...]]]:
    """Names of functions, and which of the values made so far they take."""
    rng = np.random.default_rng(seed)
    made = []
    for n in range(2, 2 + steps):
        name = str(rng.choice([*ONE, *TWO]))
        recent = max(0, n - 4)  # so that what is made early is used, and steps follow steps
        made.append((name, tuple(int(i) for i in rng.integers(recent, n, 1 + (name in TWO)))))
    return made


def run(steps: list[tuple[str, tuple[int, ...]]], m: Any, *inputs: Any) -> Any:
    """The sum of the last two values of a program, as a number."""
    values = list(inputs)
    for name, places in steps:
        values.append({**ONE, **TWO}[name](m, *[values[i] for i in places]))
    return m.sum(m.sin(values[-1]) + values[-2] * 0.3)


def derivatives(side: Ours, fn: Any, arrays: list[Any], order: int = 2) -> list[Any]:
    """A number, its gradient, and the gradient of that along a random direction, `order` in all."""
    inputs = [side.tensor(a, tracked=True) for a in arrays]
    outs = [side.call(fn, *inputs)]
    results, along = outs, [np.ones_like(side.array(outs[0]))]
    for _ in range(order):
        found = side.gradients(outs, inputs, [side.tensor(v) for v in along])
        outs = [side.tensor(np.zeros_like(a)) if g is None else g for g, a in zip(found, arrays)]
        results, along = results + outs, directions(arrays, seed=9)
    return [side.array(r) for r in results]


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed: int) -> None:
    steps, inputs = program(seed), [array(SIZE, SIZE, seed=n) for n in (seed, seed + 100)]
    ours = derivatives(OURS, lambda *xs: run(steps, fw, *xs), inputs, order=3)
    theirs = derivatives(THEIRS, lambda *xs: run(steps, torch, *xs), inputs, order=3)
    assert_same(ours, theirs, f"{steps}: value, gradient, Hessian times a vector, its gradient")


@pytest.mark.parametrize("seed", range(40))
def test_forward_over_reverse_is_reverse_over_reverse(seed: int) -> None:
    steps, inputs = program(seed), [array(SIZE, SIZE, seed=n) for n in (seed, seed + 100)]
    along = [fw.from_numpy(v) for v in directions(inputs, seed=9)]
    gradient = fw.func.grad(lambda *xs: run(steps, fw, *xs), argnums=(0, 1))
    found = fw.func.jvp(gradient, tuple(map(fw.from_numpy, inputs)), tuple(along))
    theirs = derivatives(THEIRS, lambda *xs: run(steps, torch, *xs), inputs)
    assert_same([OURS.array(r) for part in found for r in part], theirs[1:], f"{steps}")


@pytest.mark.parametrize("seed", range(0, 40, 4))
def test_gradients_of_a_batch_are_those_of_each(seed: int) -> None:
    steps = program(seed)
    batches = [np.stack([array(SIZE, SIZE, seed=n + k) for k in range(3)])
               for n in (seed, seed + 100)]
    gradient = fw.func.grad(lambda *xs: run(steps, fw, *xs), argnums=(0, 1))
    found = fw.func.vmap(gradient)(*map(fw.from_numpy, batches))
    for k in range(3):
        theirs = derivatives(THEIRS, lambda *xs: run(steps, torch, *xs), [b[k] for b in batches])
        assert_same([OURS.array(r)[k] for r in found], theirs[1:3], f"{steps}, example {k}")


@pytest.mark.parametrize("name", ["jacrev", "jacfwd", "hessian"])
@pytest.mark.parametrize("seed", range(0, 40, 10))
def test_jacobians(name: str, seed: int) -> None:
    steps, inputs = program(seed), [array(SIZE, SIZE, seed=n) for n in (seed, seed + 100)]

    def found(m: Any, side: Ours) -> Any:
        def fn(a: Any, b: Any) -> Any:
            out = run(steps, m, a, b)
            return out if name == "hessian" else m.stack([out, m.sum(a * b)])

        return side.array(side.call(getattr(m.func, name)(fn), *map(side.tensor, inputs)))

    assert_same([found(fw, OURS)], [found(torch, THEIRS)], f"{steps}")


# ---- complex numbers: the gradient points where a loss grows fastest, over the two parts
COMPLEX = {
    "abs": lambda m, z: m.sum(m.abs(z)),
    "real": lambda m, z: m.sum(m.real(z) ** 2),
    "imag": lambda m, z: m.sum(m.sin(m.imag(z))),
    "parts": lambda m, z: m.sum(m.real(z * z) * m.imag(z) + m.real(z)),
    "conj": lambda m, z: m.sum(m.real(z * m.conj(z) * m.conj(z))),
    "angle": lambda m, z: m.sum(m.angle(z) * m.abs(z)),
    "powers": lambda m, z: m.sum(m.abs(z ** 3 + 2.5 ** z)),
    "exp": lambda m, z: m.sum(m.real(m.exp(1j * z))),
    "functions": lambda m, z: m.sum(m.abs(m.tanh(z) * m.log(z) + m.sqrt(z) / m.cos(z))),
    "matmul": lambda m, z: m.sum(m.abs(z @ m.conj(z) @ z)),
    "fft": lambda m, z: m.sum(m.abs(m.fft.fft(z, axis=0) if m is fw else m.fft.fft(z, dim=0)) ** 2),
    "rfft": lambda m, z: m.sum(m.abs(m.fft.rfft(m.real(z))) * 0.5),
    "irfft": lambda m, z: m.sum(m.fft.irfft(z) ** 3),
    "solve": lambda m, z: m.sum(m.abs(m.linalg.solve(z, m.conj(z)))),
    "inverse": lambda m, z: m.sum(m.real(m.linalg.inv(z) ** 2)),
    "det": lambda m, z: m.abs(m.linalg.det(z)),
    "slogdet": lambda m, z: m.linalg.slogdet(z)[1],
    "eigenvalues": lambda m, z: m.sum(m.linalg.eigvalsh(z + m.conj(z).mT) ** 3),
    "projector": lambda m, z: projector(m, m.linalg.eigh(z + m.conj(z).mT)[1]),
    "singular values": lambda m, z: m.sum(m.linalg.svdvals(z) ** 2 * m.arange(1.0, 4.0)),
    "singular vectors": lambda m, z: singular(m, *m.linalg.svd(z)),
    "eig": lambda m, z: m.sum(m.abs(m.linalg.eigvals(z)) ** 2),
    "nuclear": lambda m, z: m.linalg.matrix_norm(z, ord="nuc"),
    "where": lambda m, z: m.sum(m.abs(m.where(m.real(z) > 0, z * z, m.conj(z)))),
    "of a real number": lambda m, z: m.sum(m.abs(m.exp(1j * m.real(z)) + m.imag(z))),
}


def projector(m: Any, v: Any) -> Any:
    """A loss of eigenvectors that does not change with their phases."""
    first = v[:, :1]
    p = first @ m.conj(first).mT
    return m.sum(m.real(p) ** 2 + m.imag(p) * m.real(p))


def singular(m: Any, u: Any, s: Any, vh: Any) -> Any:
    """A loss of singular vectors that does not change with the phase that each pair shares."""
    p = u[:, :1] @ vh[:1]
    return m.sum(m.real(p) ** 3 + m.imag(p))


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_gradients(name: str) -> None:
    fn, inputs = COMPLEX[name], [array(SIZE, SIZE, complex=True)]
    ours = derivatives(OURS, lambda z: fn(fw, z), inputs)
    theirs = derivatives(THEIRS, lambda z: fn(torch, z), inputs)
    assert_same(ours, theirs, "value, gradient, gradient of the gradient")


@pytest.mark.parametrize("name", COMPLEX)
def test_a_step_against_a_complex_gradient_goes_down(name: str) -> None:
    z = fw.from_numpy(array(SIZE, SIZE, complex=True)).requires_grad_()
    loss = COMPLEX[name](fw, z)
    loss.backward()
    slope = float((abs(z.grad) ** 2).sum())
    step = 1e-7
    lower = float(COMPLEX[name](fw, (z - step * z.grad).detach()))
    assert lower == pytest.approx(float(loss) - step * slope, rel=1e-4 * step * slope
                                  / abs(float(loss)))
