"""Shows tensors as text and, in notebooks, as HTML."""

from __future__ import annotations

import contextlib
import html
from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import interpreter
from ..arrays.devices import host, is_elsewhere
from ..arrays.dtypes import bfloat16, complex64, float32, int8, int64, is_stored, kind
from ..arrays.dtypes import bool as bool_
from ..core.tape import Entry
from ..core.tensor import Tensor
from ..core.transform_value import TransformValue
from ..errors import DTypeError

__all__ = ["printoptions", "set_printoptions"]

_DEFAULTS = (float32, int64, bool_, complex64)  # dtypes that `repr` leaves out
_OPTIONS: dict[str, Any] = {
    "precision": 8, "threshold": 1000, "edgeitems": 3, "linewidth": 75, "sci_mode": "auto"}
_LEAST = {"precision": 0, "threshold": 0, "edgeitems": 1, "linewidth": 1}
_LOOKED_AT = 1 << 22  # elements; the notebook's summary of a larger tensor uses a sample
_BARS, _HEIGHT = 32, 36  # of the histogram; a bar is 5 units wide


def set_printoptions(
    *, precision: int | None = None, threshold: int | None = None, edgeitems: int | None = None,
    linewidth: int | None = None, sci_mode: bool | str | None = None,
) -> None:
    """Sets how tensors are printed. Options that are None do not change.

    Args:
        precision: most digits after the point. 8 at first.
        threshold: larger tensors are shown by the ends of their axes only. 1000 at first.
        edgeitems: elements at each end of an axis that is shortened. 3 at first.
        linewidth: characters in a line. 75 at first.
        sci_mode: True writes 1e-03, False 0.001, "auto" decides by the values. "auto" at first.

    Raises:
        DTypeError: a value is not a size, or not a mode.

    Example:
        >>> import fusewire as fw
        >>> fw.set_printoptions(precision=3)
        >>> fw.tensor(0.123456)
        tensor(0.123)
        >>> fw.set_printoptions(precision=8)
    """
    options = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems,
               "linewidth": linewidth, "sci_mode": sci_mode}
    for name, value in options.items():
        if name == "sci_mode":
            fits = value in (None, True, False, "auto")
        else:
            fits = value is None or (isinstance(value, int) and value >= _LEAST[name])
        if not fits:
            raise DTypeError(f"set_printoptions: {name}={value!r} is not possible",
                             'sci_mode is True, False or "auto", the others are sizes')
    _OPTIONS.update((name, value) for name, value in options.items() if value is not None)


@contextlib.contextmanager
def printoptions(**options: Any) -> Iterator[None]:
    """A context in which other print options hold.

    Args:
        options: those of `set_printoptions`.

    Raises:
        DTypeError: a value is not possible.

    Example:
        >>> import fusewire as fw
        >>> with fw.printoptions(precision=2):
        ...     fw.tensor([1 / 3, 2 / 3])
        tensor([0.33, 0.67])
    """
    before = dict(_OPTIONS)
    try:
        set_printoptions(**options)
        yield
    finally:
        _OPTIONS.update(before)


# ---- as text
def text(self: Tensor) -> str:
    """The elements as text, such as `tensor([1., 2.])`, with an unusual dtype, device or gradient.

    The text includes the shape if the tensor is empty and has several axes.
    """
    if interpreter.STATE.active is not None:
        instead = interpreter.STATE.active.reads_values(self, "repr()")
        if isinstance(instead, str):
            return instead
    if isinstance(self._data, TransformValue):
        return self._data.text()
    notes = _notes(self)
    end = f", {', '.join(notes)})" if notes else ")"
    body = _elements(host(self._data))
    if len(body) - body.rfind("\n") - 1 + len(end) + len("tensor(") * ("\n" not in body) \
            > _OPTIONS["linewidth"]:
        end = end.replace(", ", ",\n       ", 1)  # under the first element
    return f"tensor({body}{end}"


def _notes(x: Tensor) -> list[str]:
    notes = [f"shape={x._data.shape}"] if x._data.size == 0 and x._data.ndim > 1 else []
    if is_elsewhere(x._data):
        notes.append(f"device={x.device!r}")
    if x.dtype not in _DEFAULTS:
        notes.append(f"dtype={x.dtype.name}")
    if isinstance(x.edge, Entry):
        notes.append(f"grad_fn=<{x.edge.op.name}>")
    elif x.requires_grad:
        notes.append("requires_grad=True")
    return notes


def _elements(array: Any) -> str:
    if array.size == 0:
        return "[]"
    array = _as_numpys(array)
    sci, precision = _OPTIONS["sci_mode"], _OPTIONS["precision"]
    formatter: Any = {"float_kind": lambda x: f"{x:.{precision}e}",
                      "complex_kind": lambda x: f"{x:.{precision}e}"} if sci is True else None
    with np.printoptions(legacy=False, floatmode="maxprec", sign="-", nanstr="nan", infstr="inf"):
        return np.array2string(
            array, separator=", ", prefix="tensor(", suffix=")", formatter=formatter,
            precision=precision, threshold=_OPTIONS["threshold"], edgeitems=_OPTIONS["edgeitems"],
            max_line_width=_OPTIONS["linewidth"], suppress_small=sci is False)


def _as_numpys(array: Any) -> Any:
    """The numbers in a dtype of NumPy, in place of one of ml_dtypes."""
    if array.dtype != bfloat16 and not is_stored(array.dtype):
        return array
    return array.astype(float32 if kind(array.dtype) == "f" else int8)


# ---- in a notebook
def notebook(self: Tensor) -> str:
    """HTML for notebooks: shape, dtype, device, range, histogram and elements."""
    shown = html.escape(text(self))  # raises if the values cannot be read
    if isinstance(self._data, TransformValue):
        return f"<pre>{shown}</pre>"
    array = _as_numpys(host(self._data))
    facts = [("shape", str(self._data.shape)), ("dtype", self.dtype.name), ("device", self.device),
             ("bytes", f"{self.nbytes:,}"), *_values(array)]
    cells = " &nbsp; ".join(f"<b>{name}</b>&nbsp;{html.escape(value)}" for name, value in facts)
    return (f'<div style="font-family:sans-serif;font-size:90%">{cells}</div>'
            f'{_histogram(array)}<pre style="margin-top:4px">{shown}</pre>')


def _part(array: Any) -> Any:
    """At most about _LOOKED_AT elements as float64, evenly spaced over the whole array."""
    flat = array.reshape(-1)
    return flat[::-(-flat.size // _LOOKED_AT)].astype(np.float64)


def _values(array: Any) -> list[tuple[str, str]]:
    """Names and texts: the range, counts of nan, inf and True; nothing of complex numbers."""
    if array.size == 0 or kind(array.dtype) == "c":
        return []
    if kind(array.dtype) == "b":
        return [("True", f"{np.count_nonzero(array):,} of {array.size:,}")]
    part = _part(array)
    finite = part[np.isfinite(part)]
    low, high = ((array.min(), array.max()) if kind(array.dtype) in "iu" else
                 (finite.min(), finite.max()) if finite.size else (np.nan, np.nan))
    rows = [("range", f"{_number(low)} … {_number(high)}")]
    if kind(array.dtype) == "f":
        rows += [("NaN", f"{np.isnan(part).sum():,}"), ("inf", f"{np.isinf(part).sum():,}")]
    if part.size < array.size and kind(array.dtype) == "f":
        rows.append(("sample", f"{part.size:,} of {array.size:,} elements"))
    return rows


def _number(value: Any) -> str:
    return f"{int(value):,}" if isinstance(value, np.integer) else f"{value:.5g}"


def _histogram(array: Any) -> str:
    """The finite values as bars: grey, so that they can be seen on dark and on light."""
    if array.size < 2 or kind(array.dtype) in "bc":
        return ""
    part = _part(array)
    part = part[np.isfinite(part)]
    if part.size == 0 or part.min() == part.max():
        return ""
    scale = np.abs(part).max()  # the range of the largest numbers is not finite itself
    counts, _ = np.histogram(part / scale, _BARS)
    heights = np.ceil(counts / counts.max() * (_HEIGHT - 2))
    bars = "".join(f'<rect x="{5 * i}" y="{_HEIGHT - 1 - int(h)}" width="4" height="{int(h)}"/>'
                   for i, h in enumerate(heights) if h)
    width = 5 * _BARS
    return (f'<svg width="{width}" height="{_HEIGHT}" viewBox="0 0 {width} {_HEIGHT}" '
            f'xmlns="http://www.w3.org/2000/svg" role="img" aria-label="histogram" '
            f'style="display:block;margin-top:4px" fill="#6f8fbf">{bars}'
            f'<rect y="{_HEIGHT - 1}" width="{width}" height="1" fill="#888888"/></svg>')
