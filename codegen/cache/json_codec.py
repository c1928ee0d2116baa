"""Encodes objects as JSON and decodes them, by one codec per class.

Numbers, texts, None and truth values encode as themselves; all else is a list that begins with the
tag of its codec. An object that occurs several times is written once, as a row, and referred to by
the row's number.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from ...eager.arrays.dtypes import DTYPES, as_dtype, is_stored
from ...eager.arrays.shapes import TensorType
from ...eager.errors import ExportError, ImportModelError

PLAIN = (type(None), bool, int, float, str)
_ROW = "@"


class Unsaved(ExportError):
    """Raised for an object that cannot be stored in a file."""


class Codec(NamedTuple):
    """Writes objects of a class as parts, and makes them from parts.

    With `key`, objects with equal keys are one object, written once. With `fill`, `read` gets no
    parts and makes an empty object that is filled later: it may contain itself.
    """

    tag: str
    write: Callable[[Any, Encoder], list[Any]]
    read: Callable[[list[Any], Decoder], Any]
    key: Callable[[Any], Any] | None = None
    fill: Callable[[Any, list[Any], Decoder], None] | None = None


def record(cls: Any) -> Codec:
    """The codec of a class whose objects are determined by their fields."""
    fields = cls._fields if hasattr(cls, "_fields") else [f.name for f in dataclasses.fields(cls)]
    return Codec(cls.__name__, lambda x, to: [to.value(getattr(x, name)) for name in fields],
                 lambda parts, of: cls(*map(of.value, parts)))


def sequence(cls: Any) -> Codec:
    """The codec of a class whose objects are determined by their elements."""
    return Codec(cls.__name__, lambda x, to: [to.value(v) for v in x],
                 lambda parts, of: cls([of.value(v) for v in parts]))


def filled(cls: type, names: Iterable[str], **others: Any) -> Codec:
    """The codec of a class whose objects may contain each other. They have attributes with these
    `names`, and `others` with constant values."""
    names = list(names)

    def fill(target: Any, parts: list[Any], of: Decoder) -> None:
        target.__dict__.update(others)
        target.__dict__.update(zip(names, map(of.value, parts), strict=True))

    return Codec(cls.__name__, lambda x, to: [to.value(getattr(x, name)) for name in names],
                 lambda parts, of: object.__new__(cls), id, fill)


class Encoder:
    """Encodes objects as JSON. `rows`: the shared objects. `arrays`: the arrays, which JSON cannot
    hold."""

    def __init__(self, kinds: dict[Any, Codec], about: Any) -> None:
        """`about`: context for the codecs."""
        self.about = about
        self.rows: list[Any] = []
        self.arrays: dict[str, Any] = {}
        self._codecs = kinds
        self._numbers: dict[Any, int] = {}
        self._names: dict[int, str] = {}  # of arrays, by id
        self._referenced: list[Any] = []  # ids stay taken
        self._unfilled: list[tuple[int, Codec, Any]] = []

    def value(self, x: Any) -> Any:
        """The JSON of an object. Raises Unsaved if its class has no codec."""
        if type(x) in PLAIN:
            return x
        kind = self._codecs.get(type(x))
        if kind is None:
            raise Unsaved(f"an object of class {type(x).__qualname__}")
        if kind.key is None:
            return [kind.tag, *kind.write(x, self)]
        key = kind.tag, kind.key(x)
        if key not in self._numbers:
            self._row(key, kind, x)
        return [_ROW, self._numbers[key]]

    def _row(self, key: Any, kind: Codec, x: Any) -> None:
        self._referenced.append(x)
        if kind.fill is None:
            row = [kind.tag, *kind.write(x, self)]
            self._numbers[key] = len(self.rows)
            self.rows.append(row)
        else:
            number = self._numbers[key] = len(self.rows)
            self.rows.append(None)
            self._unfilled.append((number, kind, x))

    def finish(self) -> None:
        """Writes the contents of the rows so far."""
        while self._unfilled:
            number, kind, x = self._unfilled.pop()
            self.rows[number] = [kind.tag, *kind.write(x, self)]

    def array(self, array: Any, name: str) -> list[Any]:
        """The JSON that refers to an array; each array is stored once."""
        if id(array) not in self._names:
            self._referenced.append(array)
            self._names[id(array)] = name = self._unused_name(name)
            self.arrays[name] = _storable(array)
        return [self._names[id(array)], array.dtype.name, list(array.shape)]

    def _unused_name(self, name: str) -> str:
        candidate, count = name, 1
        while candidate in self.arrays:
            candidate, count = f"{name}#{count}", count + 1
        return candidate


def _storable(array: Any) -> Any:
    """The array in a dtype that files support."""
    flat = np.ascontiguousarray(array)
    if is_stored(flat.dtype):
        return flat.view(np.uint8)
    return flat.reshape(-1).view(np.float64) if flat.dtype == np.complex128 else flat


class Decoder:
    """Decodes objects from JSON."""

    def __init__(self, kinds: dict[Any, Codec], arrays: dict[str, Any], about: Any) -> None:
        self.about, self.arrays = about, arrays
        self._tags = {kind.tag: kind for kind in kinds.values()}
        self._objects: list[Any] = []
        self._read_arrays: dict[str, Any] = {}
        self.later: list[Callable[[], None]] = []  # to be done when all objects are there

    def rows(self, rows: list[Any]) -> None:
        """Makes the shared objects."""
        open_rows = []
        for row in rows:
            kind = self._codec(row[0])
            self._objects.append(kind.read(row[1:] if kind.fill is None else [], self))
            if kind.fill is not None:
                open_rows.append((kind.fill, self._objects[-1], row[1:]))
        for fill, target, parts in open_rows:
            fill(target, parts, self)
        for do in self.later:
            do()

    def value(self, x: Any) -> Any:
        """The object that was encoded as `x`."""
        if type(x) is not list:
            return x
        return self._objects[x[1]] if x[0] == _ROW else self._codec(x[0]).read(x[1:], self)

    def _codec(self, tag: str) -> Codec:
        if tag not in self._tags:
            raise ImportModelError(f"a kind of object that this version does not know: {tag!r:.40}")
        return self._tags[tag]

    def array(self, name: str, dtype: str, shape: list[int]) -> Any:
        """The array of this name; each name gives one object."""
        if name not in self._read_arrays:
            flat = self.arrays[name].reshape(-1).view(as_dtype(dtype))
            self._read_arrays[name] = flat.reshape(shape)
        return self._read_arrays[name]


# ---- data that every description may hold
def _write_number(x: Any, to: Encoder) -> list[Any]:
    return [x.dtype.name, x.tobytes().hex()]


def _read_number(parts: list[Any], of: Decoder) -> Any:
    return np.frombuffer(bytes.fromhex(parts[1]), as_dtype(parts[0]))[0]


_CODES = "?bBhHiIlLqQefdFD"
_NUMBER = Codec("number", _write_number, _read_number)
_DTYPE = Codec("dtype", lambda x, to: [x.name], lambda parts, of: as_dtype(parts[0]))

DATA: dict[Any, Codec] = {
    **{np.dtype(c).type: _NUMBER for c in _CODES},
    **{type(np.dtype(c)): _DTYPE for c in _CODES}, **{type(d): _DTYPE for d in DTYPES.values()},
    **{cls: sequence(cls) for cls in (list, tuple, set, frozenset)},
    dict: Codec("dict", lambda x, to: [[to.value(k), to.value(v)] for k, v in x.items()],
                lambda parts, of: {of.value(k): of.value(v) for k, v in parts}),
    np.ndarray: Codec("array", lambda x, to: to.array(x, "$constant"),
                      lambda parts, of: of.array(*parts)),
    TensorType: record(TensorType),
}
"""The kinds of plain data."""
