"""Objects as JSON, and back: for each kind of object one entry, which says how.

Numbers, texts, None and truth values are themselves; all else is a list that begins with the tag of
its kind. What is met at several places is written once, as a row, and meant by the row's number.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from ...eager.arrays.dtypes import as_dtype
from ...eager.arrays.shapes import TensorType
from ...eager.errors import ExportError, ImportModelError

PLAIN = (type(None), bool, int, float, str)
_ROW = "@"


class Unsaved(ExportError):
    """Something that has no place in a file."""


class Kind(NamedTuple):
    """How objects of a class are written as parts, and made again of these.

    With `key`, equal keys are one object, which is written once. With `fill`, `read` is given no
    parts and makes an empty object, which is filled later: it may hold itself.
    """

    tag: str
    write: Callable[[Any, Writing], list[Any]]
    read: Callable[[list[Any], Reading], Any]
    key: Callable[[Any], Any] | None = None
    fill: Callable[[Any, list[Any], Reading], None] | None = None


def record(cls: Any) -> Kind:
    """The kind of a class whose objects are their fields."""
    fields = cls._fields if hasattr(cls, "_fields") else [f.name for f in dataclasses.fields(cls)]
    return Kind(cls.__name__, lambda x, to: [to.value(getattr(x, name)) for name in fields],
                lambda parts, of: cls(*map(of.value, parts)))


def sequence(cls: Any) -> Kind:
    """The kind of a class whose objects are their elements."""
    return Kind(cls.__name__, lambda x, to: [to.value(v) for v in x],
                lambda parts, of: cls([of.value(v) for v in parts]))


def filled(cls: type, names: Iterable[str], **others: Any) -> Kind:
    """The kind of a class whose objects may hold each other: attributes with these `names`, beside
    `others`, which are the same in each."""
    names = list(names)

    def fill(made: Any, parts: list[Any], of: Reading) -> None:
        made.__dict__.update(others)
        made.__dict__.update(zip(names, map(of.value, parts), strict=True))

    return Kind(cls.__name__, lambda x, to: [to.value(getattr(x, name)) for name in names],
                lambda parts, of: object.__new__(cls), id, fill)


class Writing:
    """Turns objects into JSON. `rows` are those that are shared, `arrays` what JSON is not for."""

    def __init__(self, kinds: dict[Any, Kind], about: Any) -> None:
        """`about` is for the kinds to use."""
        self.about = about
        self.rows: list[Any] = []
        self.arrays: dict[str, Any] = {}
        self._kinds = kinds
        self._numbers: dict[Any, int] = {}
        self._names: dict[int, str] = {}  # of arrays, by id
        self._kept: list[Any] = []  # ids stay taken
        self._open: list[tuple[int, Kind, Any]] = []

    def value(self, x: Any) -> Any:
        """The JSON of an object. Unsaved where its class has no kind."""
        if type(x) in PLAIN:
            return x
        kind = self._kinds.get(type(x))
        if kind is None:
            raise Unsaved(f"an object of class {type(x).__qualname__}")
        if kind.key is None:
            return [kind.tag, *kind.write(x, self)]
        key = kind.tag, kind.key(x)
        if key not in self._numbers:
            self._row(key, kind, x)
        return [_ROW, self._numbers[key]]

    def _row(self, key: Any, kind: Kind, x: Any) -> None:
        self._kept.append(x)
        if kind.fill is None:
            row = [kind.tag, *kind.write(x, self)]
            self._numbers[key] = len(self.rows)
            self.rows.append(row)
        else:
            number = self._numbers[key] = len(self.rows)
            self.rows.append(None)
            self._open.append((number, kind, x))

    def finish(self) -> None:
        """Writes what the rows so far hold."""
        while self._open:
            number, kind, x = self._open.pop()
            self.rows[number] = [kind.tag, *kind.write(x, self)]

    def array(self, array: Any, name: str) -> list[Any]:
        """What says which array it is: the same one is written once."""
        if id(array) not in self._names:
            self._kept.append(array)
            self._names[id(array)] = name = self._free(name)
            self.arrays[name] = _storable(array)
        return [self._names[id(array)], array.dtype.name, list(array.shape)]

    def _free(self, name: str) -> str:
        found, count = name, 1
        while found in self.arrays:
            found, count = f"{name}#{count}", count + 1
        return found


def _storable(array: Any) -> Any:
    """An array of a dtype that files have."""
    whole = np.ascontiguousarray(array)
    return whole.reshape(-1).view(np.float64) if whole.dtype == np.complex128 else whole


class Reading:
    """Turns JSON into objects again."""

    def __init__(self, kinds: dict[Any, Kind], arrays: dict[str, Any], about: Any) -> None:
        self.about, self.arrays = about, arrays
        self._tags = {kind.tag: kind for kind in kinds.values()}
        self._made: list[Any] = []
        self._known: dict[str, Any] = {}
        self.later: list[Callable[[], None]] = []  # to be done when all objects are there

    def rows(self, rows: list[Any]) -> None:
        """Makes the shared objects."""
        open_rows = []
        for row in rows:
            kind = self._kind(row[0])
            self._made.append(kind.read(row[1:] if kind.fill is None else [], self))
            if kind.fill is not None:
                open_rows.append((kind.fill, self._made[-1], row[1:]))
        for fill, made, parts in open_rows:
            fill(made, parts, self)
        for do in self.later:
            do()

    def value(self, x: Any) -> Any:
        """The object that `Writing.value` made the JSON of."""
        if type(x) is not list:
            return x
        return self._made[x[1]] if x[0] == _ROW else self._kind(x[0]).read(x[1:], self)

    def _kind(self, tag: str) -> Kind:
        if tag not in self._tags:
            raise ImportModelError(f"a kind of object that this version does not know: {tag!r:.40}")
        return self._tags[tag]

    def array(self, name: str, dtype: str, shape: list[int]) -> Any:
        """An array, the same one for one name."""
        if name not in self._known:
            self._known[name] = self.arrays[name].reshape(-1).view(as_dtype(dtype)).reshape(shape)
        return self._known[name]


# ---- data that every description may hold
def _write_number(x: Any, to: Writing) -> list[Any]:
    return [x.dtype.name, x.tobytes().hex()]


def _read_number(parts: list[Any], of: Reading) -> Any:
    return np.frombuffer(bytes.fromhex(parts[1]), as_dtype(parts[0]))[0]


_CODES = "?bBhHiIlLqQefdFD"
_NUMBER = Kind("number", _write_number, _read_number)
_DTYPE = Kind("dtype", lambda x, to: [x.name], lambda parts, of: as_dtype(parts[0]))

DATA: dict[Any, Kind] = {
    **{np.dtype(c).type: _NUMBER for c in _CODES},
    **{type(np.dtype(c)): _DTYPE for c in _CODES}, type(as_dtype("bfloat16")): _DTYPE,
    **{cls: sequence(cls) for cls in (list, tuple, set, frozenset)},
    dict: Kind("dict", lambda x, to: [[to.value(k), to.value(v)] for k, v in x.items()],
               lambda parts, of: {of.value(k): of.value(v) for k, v in parts}),
    np.ndarray: Kind("array", lambda x, to: to.array(x, "$constant"),
                     lambda parts, of: of.array(*parts)),
    TensorType: record(TensorType),
}
"""The kinds of plain data."""
