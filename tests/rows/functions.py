"""Rows of functions made of other ops: conversions, integrals, modes, replaced slices, spectra."""

from __future__ import annotations

from typing import Any

import numpy as np
from rows.row import Array, Bad, arrays, c8, c16, f4, f8, i4, i8, row, special, u1

import fusewire as fw

X = [arrays((2, 3, 4)), arrays((2, 3, 4), dtypes=i8)]

# ---- conversions
row("where", fw.nan_to_num, [arrays((3, 2)), special(1, f8)],
    lambda x: np.nan_to_num(x, posinf=np.finfo(x.dtype).max), label="nan_to_num")
row("where", lambda x: fw.nan_to_num(x, 7.0, 8.0, -9.0), [special(1), arrays((0, 2))],
    lambda x: np.nan_to_num(x, nan=7.0, posinf=8.0, neginf=-9.0), label="nan_to_num, numbers")
row("complex", lambda x: fw.nan_to_num(x, 7.0, 8.0, -9.0),
    [arrays((3,), dtypes=c8), lambda rng: (np.array([complex(np.nan, np.inf), -np.inf]),)],
    lambda x: np.nan_to_num(x, nan=7.0, posinf=8.0, neginf=-9.0), label="nan_to_num of complex")
row("multiply", fw.rad2deg, [arrays((3, 2)), arrays((3,), dtypes=f8), arrays((2,), dtypes=i4)],
    np.rad2deg, label="rad2deg", errors=(
        Bad(lambda: fw.rad2deg(fw.tensor([1j])), "rad2deg: takes real floating point"),))
row("complex", fw.polar, [arrays((3, 2), (2,), dtypes=f8), arrays((), (3,))],
    lambda size, angle: size * np.exp(1j * angle), label="polar", errors=(
        Bad(lambda: fw.polar(fw.tensor([1j]), 0.0), "polar: takes real floating point"),))
row("concat", fw.view_as_real, [arrays((3, 2), dtypes=c8), arrays((), dtypes=c16)],
    lambda x: np.stack([x.real, x.imag], -1), label="view_as_real", errors=(
        Bad(lambda: fw.view_as_real(fw.ones(2)), "view_as_real: takes complex numbers"),))
row("complex", fw.view_as_complex, [arrays((3, 2)), arrays((2, 0, 2), dtypes=f8)],
    lambda x: x[..., 0] + 1j * x[..., 1], label="view_as_complex", errors=(
        Bad(lambda: fw.view_as_complex(fw.ones(3)), "view_as_complex: the last axis of shape (3,)"),
        Bad(lambda: fw.view_as_complex(fw.tensor([1, 2])), "view_as_complex: takes real floats")))
row("conj", lambda x: x.mH, [arrays((2, 3, 4), dtypes=c16)],
    lambda x: np.conj(np.swapaxes(x, -1, -2)), label="mH")

# ---- axes
for k, axes in ((1, (0, 1)), (-1, (0, 2)), (2, (1, 2)), (7, (2, 0))):
    row("slice", lambda x, k=k, a=axes: fw.rot90(x, k, a), X,
        lambda x, k=k, a=axes: np.rot90(x, k, a), label=f"rot90 {k}, {axes}", errors=(
            Bad(lambda: fw.rot90(fw.zeros(2, 3), 1, (0, 0)), "rot90: axes (0, 0) and k=1"),
            Bad(lambda: fw.rot90(fw.zeros(2, 3), 0.5), "rot90: axes (0, 1) and k=0.5"),
            Bad(lambda: fw.rot90(fw.zeros(2)), "rot90: axis 1 is out of range")))
row("slice", lambda x: fw.vsplit(x, [1])[0], X, lambda x: x[:1], label="vsplit", errors=(
    Bad(lambda: fw.vsplit(fw.zeros(4), 2), "vsplit: takes two axes or more"),
    Bad(lambda: fw.vsplit(fw.zeros(3, 2), 2), "vsplit: 2 equal parts of axis 0")))

# ---- statistics
for axis in (0, -1):
    row("sum", lambda x, a=axis: fw.trapezoid(x, axis=a, dx=0.5),
        [arrays((3, 4)), arrays((3, 1), dtypes=f8), arrays((2, 3), dtypes=i8)],
        lambda x, a=axis: 0.25 * (np.delete(x, 0, a) + np.delete(x, -1, a)).sum(a),
        label=f"trapezoid, axis={axis}")
row("sum", lambda y, x: fw.trapezoid(y, x), [arrays((2, 4), (4,), dtypes=f8), arrays((2, 3), (3,))],
    lambda y, x: (np.diff(x) * (y[:, 1:] + y[:, :-1])).sum(-1) / 2, label="trapezoid by x", errors=(
        Bad(lambda: fw.trapezoid(fw.ones(3), fw.ones(2)), "trapezoid: 2 positions for 3 samples"),
        Bad(lambda: fw.trapezoid(fw.ones(3), fw.ones(3), dx=1.0), "trapezoid: both x and dx=1.0")))
for name, at in (("var_mean", 0), ("std_mean", 0), ("var_mean", 1)):
    row("sum", lambda x, f=name, n=at: getattr(fw, f)(x, 1, 1, True)[n], [arrays((2, 3, 4))],
        lambda x, f=name, n=at: x.mean(1, keepdims=True) if n else getattr(np, f[:3])(
            x, axis=1, ddof=1, keepdims=True), label=f"{name}[{at}]", errors=(
            Bad(lambda f=name: getattr(fw, f)(fw.tensor([1])), f"{name}: takes floating point"),))


def most_frequent(x: Array) -> tuple[Any, int]:
    """The smallest of the most frequent numbers of a vector, and where the last one stands."""
    values, counts = np.unique(x, return_counts=True)
    value = values[counts.argmax()]
    same = np.isnan(x) if value != value else x == value
    return value, int(np.flatnonzero(same)[-1])


FEW = [lambda rng, d=d: (rng.integers(-2, 3, (4, 3, 9)).astype(d),) for d in (f4, f8, i8)]
FEW += [lambda rng: (np.abs(rng.integers(-2, 3, (4, 3, 9))).astype(u1),),
        lambda rng: (np.array([[[np.nan, 1, np.nan, 2]], [[-0.0, 0.0, 1.0, 1.0]]]),)]
for axis in (0, -1):
    for n, part in enumerate(("values", "indices")):
        row("take_along_axis", lambda x, a=axis, n=n: fw.mode(x, a)[n], FEW,
            lambda x, a=axis, n=n: np.apply_along_axis(lambda v: most_frequent(v)[n], a, x),
            label=f"mode, axis={axis}, {part}", smooth=False, grad=False, errors=(
                Bad(lambda: fw.mode(fw.zeros(2, 0)), "mode: axis 1 of shape (2, 0) is empty"),
                Bad(lambda: fw.mode(fw.tensor([1j])), "mode: complex numbers have no order"),
                Bad(lambda: fw.mode(fw.tensor(1.0), 1), "mode: axis 1 is out of range")))

# ---- values at indices
UFUNC: dict[str, Any] = {"sum": np.add, "prod": np.multiply, "amax": np.maximum,
                         "amin": np.minimum, "mean": np.add}


def reduced(x: Array, i: Array, v: Array, reduce: str, include_self: bool) -> Array:
    out, count = x.copy(), np.full(x.shape, int(include_self))
    columns = np.broadcast_to(np.arange(x.shape[1]), i.shape)
    if not include_self:
        out[i, columns] = {"prod": 1, "amax": v.min(initial=0), "amin": v.max(initial=0)}.get(
            reduce, 0)
    UFUNC[reduce].at(out, (i, columns), v)
    np.add.at(count, (i, columns), 1)
    if reduce != "mean":
        return out
    return out // np.maximum(count, 1) if x.dtype.kind == "i" else out / np.maximum(count, 1)


def indexed(dtype: Any, n: int = 5) -> Any:
    """A tensor (4, 3), indices (n, 3) into its rows with some of them twice, and values."""
    return lambda rng: (arrays((4, 3), dtypes=dtype)(rng)[0], rng.integers(0, 3, (n, 3)),
                        arrays((n, 3), dtypes=dtype)(rng)[0])


for reduce in UFUNC:
    for own in (True, False):
        row("scatter", lambda x, i, v, r=reduce, o=own: fw.scatter_reduce(x, 0, i, v, r, o),
            [indexed(f4), indexed(f8), indexed(i8), indexed(f4, 0)],
            lambda x, i, v, r=reduce, o=own: reduced(x, i, v, r, o),
            label=f"{reduce} by scatter_reduce{', without x' * (not own)}", smooth=False, errors=(
                Bad(lambda: fw.scatter_reduce(fw.ones(2), 0, fw.tensor([0]), fw.ones(1), "max"),
                    "scatter_reduce: reduce='max' is not known"),
                Bad(lambda: fw.scatter_reduce(fw.ones(2), 0, fw.tensor([2]), fw.ones(1), "sum"),
                    "index 2 is out of range")))


def by_segment(x: Array, reduce: str) -> Array:
    parts = np.split(x, [2, 3], 1)
    numpys = {"max": np.max, "min": np.min, "sum": np.sum, "prod": np.prod, "mean": np.mean}
    return np.stack([numpys[reduce](part, axis=1) for part in parts], 1)


for reduce in ("sum", "mean", "prod", "max", "min"):
    row("scatter", lambda x, r=reduce: fw.segment_reduce(
            x, r, lengths=fw.tensor([2, 1, 3], device=x.device), axis=1),
        [arrays((2, 6)), arrays((2, 6, 2), dtypes=f8)], lambda x, r=reduce: by_segment(x, r),
        label=f"{'a' * (reduce[0] == 'm' and reduce != 'mean')}{reduce} by segment_reduce",
        smooth=False, errors=(
            Bad(lambda: fw.segment_reduce(fw.ones(3), "any"), "segment_reduce: reduce='any' is"),
            Bad(lambda: fw.segment_reduce(fw.ones(3), "sum"), "segment_reduce: takes either"),
            Bad(lambda: fw.segment_reduce(fw.ones(3), "sum", lengths=fw.tensor([1, 1])),
                "segment_reduce: number of the segment of an element, by lengths that add up"),
            Bad(lambda: fw.segment_reduce(fw.ones(3), "sum", lengths=fw.tensor([2, 2])),
                "segment_reduce: end of a segment 4 is out of range"),
            Bad(lambda: fw.segment_reduce(fw.ones(3), "sum", lengths=fw.tensor([4, -1])),
                "segment_reduce: length -1 is out of range"),
            Bad(lambda: fw.segment_reduce(fw.ones(3), "sum", lengths=fw.ones(3)),
                "segment_reduce: lengths are integers"),
            Bad(lambda: fw.segment_reduce(fw.ones(3), "sum", lengths=fw.tensor(3)),
                "segment_reduce: the lengths have shape ()")))


def put_at(x: Array, i: Array, v: Array, accumulate: bool) -> Array:
    out = x.copy()
    (np.add.at if accumulate else np.put)(out.reshape(-1), i, v)
    return out


for accumulate in (False, True):
    row("scatter", lambda x, i, v, a=accumulate: fw.put(x, i, v, a),
        [lambda rng: (arrays((2, 3))(rng)[0], np.array([[1, -1], [4, 0]]),
                      arrays((2, 2))(rng)[0])],
        lambda x, i, v, a=accumulate: put_at(x, i.reshape(-1), v.reshape(-1), a),
        label=f"put{', added' * accumulate}", errors=(
            Bad(lambda: fw.put(fw.ones(2), fw.tensor([2]), 1.0), "index 2 is out of range"),
            Bad(lambda: fw.put(fw.ones(2), fw.tensor([0, 1]), fw.ones(3)), "put: values (3,)")))


def by_mask(x: Array, mask: Array, source: Array) -> Array:
    out, mask = x.copy(), np.broadcast_to(mask, x.shape)
    out[mask] = source.reshape(-1)[:mask.sum()]
    return out


MASKS = [lambda rng, s=s: (arrays((3, 4))(rng)[0], rng.integers(0, 2, s) > 0,
                           arrays((2, 6))(rng)[0]) for s in ((3, 4), (3, 1), (4,))]
row("take_along_axis", fw.masked_scatter, MASKS, by_mask, label="masked_scatter", errors=(
    Bad(lambda: fw.masked_scatter(fw.ones(2), fw.tensor([True, True]), fw.ones(1)),
        "masked_scatter: mask has more True than source has elements: number 2 is out of range"),
    Bad(lambda: fw.masked_scatter(fw.ones(2), fw.ones(2), fw.ones(2)), "a mask is bool")))


def replaced(index: Any) -> Any:
    """x with x[index] = v."""
    def fn(x: Array, v: Array) -> Array:
        out = x.copy()
        out[index] = v
        return out

    return fn


row("put_slice", lambda x, v: fw.select_scatter(x, v, 1, -1), [arrays((2, 3, 4), (2, 4)),
    arrays((2, 3), (2,), dtypes=i8)], replaced(np.s_[:, -1]), label="select_scatter", errors=(
        Bad(lambda: fw.select_scatter(fw.ones(2), 1.0, 0, 2), "select_scatter: index 2 is out of"),
        Bad(lambda: fw.select_scatter(fw.ones(2, 3), fw.ones(2), 0, 0),
            "select_scatter: values of shape (2,) for a slice of shape (3,)")))
row("put_slice", lambda x, v: fw.slice_scatter(x, v, 1, 1, -1, 2), [arrays((2, 7), (2, 3)),
    arrays((2, 7), (2, 3), dtypes=c16)], replaced(np.s_[:, 1:-1:2]), label="slice_scatter", errors=(
        Bad(lambda: fw.slice_scatter(fw.ones(2), fw.ones(2), step=0), "slice_scatter: step must"),
        Bad(lambda: fw.slice_scatter(fw.ones(5), fw.ones(3), 0, 0, 2),
            "slice_scatter: values of shape (3,) for a slice of shape (2,)")))
row("remainder", lambda i: fw.unravel_index(i, (2, 3, 4))[1],
    [arrays((5,), dtypes=i8, low=0, high=23), arrays((2, 2), dtypes=u1, high=23)],
    lambda i: np.unravel_index(i, (2, 3, 4))[1], label="unravel_index", errors=(
        Bad(lambda: fw.unravel_index(fw.tensor([6]), (2, 3)), "unravel_index: index 6 is out of"),
        Bad(lambda: fw.unravel_index(fw.ones(2), (2, 3)), "unravel_index: indices are integers")))

# ---- linear maps between tensors, and norms of slices
row("inv", lambda x: fw.linalg.tensorinv(x, 1), [arrays((4, 2, 2), dtypes=f8)],
    lambda x: np.linalg.tensorinv(x, 1), label="tensorinv", tolerance=1e-4, errors=(
        Bad(lambda: fw.linalg.tensorinv(fw.ones(2, 3)), "tensorinv: the first 2 axes of shape"),
        Bad(lambda: fw.linalg.tensorinv(fw.ones(2, 2), 0), "tensorinv: ind=0")))
row("solve", lambda a, b: fw.linalg.tensorsolve(a, b, (0,)), [arrays((4, 2, 2), (2, 2), dtypes=f8)],
    lambda a, b: np.linalg.tensorsolve(a, b, (0,)), label="tensorsolve", tolerance=1e-4, errors=(
        Bad(lambda: fw.linalg.tensorsolve(fw.ones(2, 3), fw.ones(2)), "tensorsolve: (2, 3) and"),))
row("multiply", lambda x: fw.linalg.renorm(x, 2, 1, 3.0), [arrays((3, 4, 2)), arrays((3, 4))],
    lambda x: x * np.minimum(3.0 / np.sqrt((x * x).sum(tuple(
        a for a in range(x.ndim) if a != 1), keepdims=True)), 1.0), label="renorm", errors=(
        Bad(lambda: fw.linalg.renorm(fw.ones(2), 2, 0, -1.0), "renorm: maxnorm must be at"),))


# ---- spectra of frames
def spectra(x: Array) -> Array:
    """Frames of 6 elements, every second, around each element of the signals, by a window."""
    padded = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(3, 3)], mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, 6, -1)[..., ::2, :]
    return np.swapaxes(np.fft.rfft(frames * [0, 1, 2, 3, 4, 0]), -1, -2)


row("rfft", lambda x: fw.stft(x, 6, 2, 4, fw.tensor([1, 2, 3, 4], x.dtype, x.device)),
    [arrays((2, 11)), arrays((8,), dtypes=f8)], spectra, label="stft", tolerance=1e-5, errors=(
        Bad(lambda: fw.stft(fw.ones(3), 4, center=False), "stft: a signal of 3 elements is short"),
        Bad(lambda: fw.stft(fw.ones(9), 4, win_length=5), "stft: win_length=5 is above n_fft=4"),
        Bad(lambda: fw.stft(fw.ones(9), 4, 0), "stft: hop_length must be at least 1"),
        Bad(lambda: fw.stft(fw.ones(9), 4, return_complex=False), "stft: the result is complex"),
        Bad(lambda: fw.stft(fw.ones(9), 4, window=fw.ones(3)), "stft: a window of shape (3,)")))
def overlapped(x: Array) -> Array:
    """The signals of spectra (..., 4, frames) of frames of 6 elements, every second."""
    frames = np.fft.irfft(np.swapaxes(x, -1, -2), 6) * [1, 2, 3, 3, 2, 1]
    total = np.zeros((*x.shape[:-2], 2 * x.shape[-1] + 4))
    squares = np.zeros(total.shape[-1])
    for n in range(x.shape[-1]):
        total[..., 2 * n:2 * n + 6] += frames[..., n, :]
        squares[2 * n:2 * n + 6] += np.square([1, 2, 3, 3, 2, 1])
    return (total / squares)[..., 3:-3]


row("irfft", lambda x: fw.istft(x, 6, 2, window=fw.tensor(
        [1, 2, 3, 3, 2, 1], fw.float64 if x.dtype == fw.complex128 else fw.float32, x.device)),
    [arrays((2, 4, 5), dtypes=c16), arrays((4, 3), dtypes=c8)], overlapped, label="istft",
    tolerance=1e-5, errors=(
        Bad(lambda: fw.istft(fw.ones(4), 6), "istft: takes spectra (..., frequencies, frames)"),
        Bad(lambda: fw.istft(fw.ones(5, 3), 6), "istft: 5 frequencies of frames of n_fft=6"),
        Bad(lambda: fw.istft(fw.ones(4, 3), 6, return_complex=True), "istft: half spectra"),
        Bad(lambda: fw.istft(fw.ones(4, 3), 6, win_length=7), "istft: win_length=7 is above")))


# ---- windows: NumPy has four of them
def window(name: str, reference: Any, **more: Any) -> None:
    call = getattr(fw.signal.windows, name)
    row("multiply", lambda x: x * call(9, dtype=x.dtype, device=x.device, **more),
        [arrays((2, 9)), arrays((9,), dtypes=f8)], lambda x: x * reference(9), label=name, errors=(
            Bad(lambda: call(-1, **more), "M must be at least 0, got -1"),
            Bad(lambda: call(2.5, **more), "M must be a whole number, got 2.5"),
            Bad(lambda: call(3, dtype=fw.int32, **more), "a window holds real floats, not int32")))


for name, reference in (("bartlett", np.bartlett), ("blackman", np.blackman),
                        ("hamming", np.hamming), ("hann", np.hanning)):
    window(name, reference)
window("kaiser", lambda n: np.kaiser(n, 5.0), beta=5.0)
window("cosine", lambda n: np.sin(np.pi * (np.arange(n) + 0.5) / n))
window("gaussian", lambda n: np.exp(-(np.arange(n) - 4.0) ** 2 / 8), std=2.0)
window("exponential", lambda n: np.exp(-np.abs(np.arange(n) - 4.0) / 2), tau=2.0)
