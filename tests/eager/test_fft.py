"""fw.fft: dtypes, sizes, norms, inverses and symmetries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fusewire as fw

F = fw.fft


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def drawn(rng: Any, *shape: int) -> fw.Tensor:
    return fw.from_numpy(rng.standard_normal(shape) + 1j * rng.standard_normal(shape))


def same(x: fw.Tensor, y: Any) -> None:
    np.testing.assert_allclose(x.numpy(), np.asarray(y), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("given", "complex", "real"), [
    (fw.float16, fw.complex64, fw.float32), (fw.bfloat16, fw.complex64, fw.float32),
    (fw.int64, fw.complex64, fw.float32), (fw.float32, fw.complex64, fw.float32),
    (fw.float64, fw.complex128, fw.float64), (fw.complex64, fw.complex64, fw.float32),
    (fw.complex128, fw.complex128, fw.float64)])
def test_precision_is_kept(given: Any, complex: Any, real: Any) -> None:
    x = fw.ones(4).astype(given)
    assert {f(x).dtype for f in (F.fft, F.ifft, F.fftn, F.ifftn, F.fftshift)} == {complex, given}
    assert {f(x).dtype for f in (F.irfft, F.hfft)} == {real}
    if given.kind != "c":
        assert {f(x).dtype for f in (F.rfft, F.ihfft, F.rfftn)} == {complex}


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("n", [1, 4, 5])
def test_inverses_undo_their_transforms(n: int, norm: str, rng: Any) -> None:
    z = drawn(rng, 3, n)
    x = fw.real(z)
    same(F.ifft(F.fft(z, norm=norm), norm=norm), z)
    same(F.ifftn(F.fftn(z, norm=norm), norm=norm), z)
    same(F.irfft(F.rfft(x, norm=norm), n=n, norm=norm), x)
    same(F.irfftn(F.rfftn(x, norm=norm), s=(3, n), axes=(0, 1), norm=norm), x)
    same(F.hfft(F.ihfft(x, norm=norm), n=n, norm=norm), x)


def test_ortho_keeps_lengths(rng: Any) -> None:
    x = drawn(rng, 7)
    same(fw.linalg.vector_norm(F.fft(x, norm="ortho")), fw.linalg.vector_norm(x))


def test_sizes_cut_or_fill_up_with_zeros(rng: Any) -> None:
    x = drawn(rng, 2, 5)
    same(F.fft(x, n=3), F.fft(x[:, :3]))
    same(F.fft(x, n=7), F.fft(fw.concat([x, fw.zeros(2, 2, dtype=x.dtype)], axis=1)))
    same(F.fftn(x, s=(1, 7), axes=(0, 1)), np.fft.fftn(x.numpy(), (1, 7), (0, 1)))
    same(F.fftn(x, s=(-1, 7), axes=(0, 1)), F.fft(F.fft(x, axis=0), n=7))  # -1: all of the axis


def test_two_axes_are_the_last_two(rng: Any) -> None:
    z = drawn(rng, 2, 4, 6)
    x = fw.real(z)
    for ours, numpys, given in ((F.fft2, np.fft.fft2, z), (F.ifft2, np.fft.ifft2, z),
                                (F.rfft2, np.fft.rfft2, x), (F.irfft2, np.fft.irfft2, z)):
        same(ours(given), numpys(given.numpy()))


def test_sine_has_one_frequency() -> None:
    t = fw.arange(64) / 64
    spectrum = fw.abs(F.rfft(fw.sin(2 * np.pi * 5 * t)))
    assert F.rfftfreq(64, d=1 / 64)[spectrum.argmax()].item() == 5


@pytest.mark.parametrize("n", [1, 2, 7, 8])
def test_frequencies(n: int) -> None:
    same(F.fftfreq(n, d=0.3, dtype=fw.float64), np.fft.fftfreq(n, 0.3))
    same(F.rfftfreq(n, d=0.3, dtype=fw.float64), np.fft.rfftfreq(n, 0.3))
    assert F.fftfreq(n).dtype == fw.float32
    same(F.fftshift(F.fftfreq(n)), np.sort(np.fft.fftfreq(n)).astype(np.float32))


@pytest.mark.parametrize("axes", [None, 0, -1, (1, 0), ()])
def test_shifts(axes: Any) -> None:
    x = fw.arange(15).reshape(3, 5)
    same(F.fftshift(x, axes=axes), np.fft.fftshift(x.numpy(), axes))
    same(F.ifftshift(F.fftshift(x, axes=axes), axes=axes), x)
    assert F.fftshift(x, axes=()) is not x


def test_gradient_of_a_filter_reaches_signal_and_kernel(rng: Any) -> None:
    """A convolution through its transforms has the gradient of the convolution itself."""
    x, k = (fw.from_numpy(rng.standard_normal(8)).requires_grad_() for _ in range(2))
    out = F.irfft(F.rfft(x) * F.rfft(k), n=8)
    u = rng.standard_normal(8)
    gx, gk = fw.grad((out * fw.from_numpy(u)).sum(), [x, k])
    turned = [np.roll(u, -i) for i in range(8)]
    same(gx, [k.numpy() @ t for t in turned])
    same(gk, [x.numpy() @ t for t in turned])


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda: F.rfft(fw.tensor([1j])), fw.DTypeError, "rfft: takes real numbers, not complex64"),
    (lambda: F.fft(fw.tensor(1.0)), fw.ShapeError, "fft: axis -1 is out of range"),
    (lambda: F.fftn(fw.ones(2, 2), s=(2,), axes=(0, 1)), fw.ShapeError, "fftn: sizes"),
    (lambda: F.fftn(fw.ones(2, 2), axes=(0, 0)), fw.ShapeError, "fftn: sizes None and axes"),
    (lambda: F.irfft(fw.ones(1)), fw.ShapeError, "irfft: 0 elements to transform"),
    (lambda: F.fft(fw.zeros(0)), fw.ShapeError, "fft: 0 elements to transform"),
    (lambda: F.fft(fw.ones(2), n=1.5), fw.ShapeError, "fft: 1.5 elements to transform"),
    (lambda: F.fftfreq(0), fw.ShapeError, "fftfreq: 0 elements"),
    (lambda: F.fft(fw.ones(2), norm="none"), fw.ArgumentError, "fft: norm 'none' is not known"),
])
def test_errors(call: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        call()
    assert caught.value.help
