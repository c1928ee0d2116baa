"""Collects the objects that a function reads beside its arguments, as a state that is saved.

A path that no recorded program changes leads to the same object in every call. Such a path is
saved as that object. If a program changes a step of a path, each call reads the step again. Then
the state also holds the owner of the step, with everything that calls can read of the owner.
"""

from __future__ import annotations

import contextlib
import types
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ...capture.heap.access_path import Members, Path, describe, steps
from ...capture.heap.introspection import attributes
from ...capture.heap.path_reader import PathReader
from ...capture.heap.value_kinds import is_plain
from ...capture.trace.side_effects import SideEffect
from ...codegen.cache.json_codec import Encoder, Unsaved
from ...eager.core.tape import Leaf
from ...eager.core.tensor import Tensor
from ...eager.ops.random.generator import default_generator
from .restored_objects import Cells

_OF_MODULES = ("_parameters", "_modules", "_buffers")
_LINKS = {*_OF_MODULES, "__self__", "__func__", "__closure__"}
_READ_ERRORS = (AttributeError, LookupError, ValueError, TypeError)


class CapturedState:
    """The objects at the access paths that begin outside of the arguments."""

    def __init__(self, read: PathReader, effects: Iterable[SideEffect], labels: Sequence[str],
                 names: Mapping[int, str]) -> None:
        """`effects`: the side effects of all programs. `labels`: names of the elements of the
        function, if it was loaded from a file. `names`: names of tensors, by id."""
        self._read, self._labels, self._names = read, labels, names
        # Owners are noted by id.
        self.targets: set[int] = set()  # objects with side effects
        self._changed: set[tuple[int, str, Any]] = set()  # owner, kind of step, its key
        self._whole: set[int] = set()  # owners of which a call may replace any element
        self._reads: dict[int, set[tuple[str, Any]]] = {}  # kinds and keys of steps, by owner
        self._partial: set[int] = set()  # owners of which only the elements that are read are saved
        self._stable: dict[Path, bool] = {}
        self._slots: dict[Any, int] = {}
        self.objects: list[tuple[Any, str]] = []  # by slot, with names
        for effect in effects:
            if not is_argument_path(effect.target):
                self._note_effect(effect)

    def _note_effect(self, effect: SideEffect) -> None:
        owner = self._object(effect.target)
        if isinstance(owner, (type, types.MappingProxyType)):
            raise Unsaved(f"it changes {effect}, of a class",
                          "store the value in an instance or in a tensor")
        self.targets.add(id(owner))
        part = effect.part
        if part is not None:
            self._changed.add((id(owner), part.kind, part.key))
        elif not isinstance(owner, Tensor):
            self._whole.add(id(owner))

    def named(self, value: Any, name: str) -> str:
        """The known name of an object, or `name`."""
        return self._names.get(id(value), name) if name else name

    def _object(self, path: Path) -> Any:
        """The object at a path; for a module, its globals."""
        value = self._read(path)
        return vars(value.owner) if isinstance(value, Members) else value

    def is_stable(self, path: Path) -> bool:
        """True if a path leads to the same object in all calls."""
        if path.parent is None:
            return True
        if path not in self._stable:
            self._stable[path] = self.is_stable(path.parent) \
                and self._is_stable_step(path, path.parent)
        return self._stable[path]

    def _is_stable_step(self, path: Path, above: Path) -> bool:
        owner = self._object(above)
        of_tensor = isinstance(owner, Tensor) and path.key == "_grad"
        return not of_tensor and id(owner) not in self._whole and \
            (id(owner), path.kind, path.key) not in self._changed

    def translated(self, path: Path) -> Path:
        """The path to the same object from the state."""
        if is_argument_path(path) or _is_process_state(path):
            return path
        above = [step for step in steps(path) if self.is_stable(step)]
        result = Path("function").item(self._slot(above[-1]))
        for step in steps(path)[len(above):]:
            self._note_read(step)
            result = Path(step.kind, step.key, result, step.name)
        return result

    def _note_read(self, step: Path) -> None:
        """Notes a step that each call makes: its current value becomes a part of the state."""
        assert step.parent is not None
        try:
            owner = self._object(step.parent)
        except _READ_ERRORS:  # a call creates the owner
            return
        self._reads.setdefault(id(owner), set()).add((step.kind, step.key))
        if _is_scope(step.parent):
            self._partial.add(id(owner))

    def _slot(self, path: Path) -> int:
        value = self._object(path)
        if _is_scope(path):
            self._partial.add(id(value))
        key = path if is_plain(value) else id(value)
        if key not in self._slots:
            self._slots[key] = len(self.objects)
            self.objects.append((value, name_of(path, self._read, self._labels)))
        return self._slots[key]

    def check_returned(self, path: Path) -> None:
        """Raises Unsaved if the function returns the object at a path, and a file cannot hold
        all of it, or the caller could change it unnoticed."""
        if not is_argument_path(path) and not _is_process_state(path):
            value = self._read(path)
            if not is_whole(value):
                raise Unsaved(f"the function returns {describe(path)}, an object of class "
                              f"{type(value).__qualname__}", "return a copy of its contents")

    # ---- writing
    def rows(self, to: Encoder) -> tuple[list[Any], list[Any]]:
        """The rows of the state's objects, and the cell and name of each slot."""
        heap = _Rows(self, to)
        slots = [[heap.cell(value, name), name] for value, name in self.objects]
        heap.finish()
        return heap.rows, slots

    def parts(self, owner: Any) -> Mapping[Any, Any]:
        """The steps that calls read of an owner, as kinds and keys."""
        return dict.fromkeys(self._reads.get(id(owner), ()))

    def is_partial(self, owner: Any) -> bool:
        """True if only the elements of an owner that calls read are saved."""
        return id(owner) in self._partial


def best_names(paths: Iterable[Path], read: PathReader) -> dict[int, str]:
    """Names of tensors by id, from a path through a module, or else from the shortest path."""
    paths_by_id: dict[int, Path] = {}
    for path in dict.fromkeys(paths):
        with contextlib.suppress(*_READ_ERRORS):
            value = None if is_argument_path(path) else read(path)
            if isinstance(value, Tensor):
                paths_by_id[id(value)] = min(paths_by_id.get(id(value), path), path, key=_is_worse)
    return {number: name_of(path, read) for number, path in paths_by_id.items()}


def _is_worse(path: Path) -> tuple[bool, int]:
    above = steps(path)
    return not any(step.kind == "attr" and step.key in _OF_MODULES for step in above), len(above)


def name_of(path: Path, read: PathReader, labels: Sequence[str] = ()) -> str:
    """A name for the object at a path, as in a state dict."""
    parts = [part for step in steps(path) if (part := _part(step, read, labels))]
    return ".".join(parts) or "function"


def _part(step: Path, read: PathReader, labels: Sequence[str]) -> str:
    if step.parent is None:
        return describe(step) if step.kind == "class" else ""
    key = step.key.value if step.kind == "item" else step.key
    if step.kind == "cell":
        return step.name or str(key)
    if step.kind == "item" and step.parent == Path("function"):
        return labels[key]
    if not is_plain(key):  # the key is an object, such as a parameter: use its position
        key = next(i for i, other in enumerate(read(step.parent)) if other is key)
    return "" if key in _LINKS else str(key).lstrip("_")


def _is_scope(path: Path) -> bool:
    """True if a path leads to the globals of a module."""
    return path.kind == "globals" or type(path.key) is Members


def is_argument_path(path: Path) -> bool:
    """True if a path begins with an argument of the call."""
    return steps(path)[0].kind in ("args", "kwargs")


def _is_process_state(path: Path) -> bool:
    """True if a path begins with state that each process has: the generator of random numbers."""
    return steps(path)[0] == Path("object", id(default_generator))


def is_whole(value: Any) -> bool:
    """True if a file can hold all of an object, and only its tensors can change."""
    if type(value) in (tuple, frozenset):
        return all(map(is_whole, value))
    return is_plain(value) or isinstance(value, Tensor)


class _Rows:
    """Writes the objects of a state as rows, each object once."""

    def __init__(self, outside: CapturedState, to: Encoder) -> None:
        self._outside, self._to = outside, to
        self.rows: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._pending: list[tuple[int, Any, str]] = []

    def cell(self, value: Any, name: str) -> list[Any]:
        """A cell: a plain value, or the number of a row."""
        if is_plain(value):
            return ["plain", self._to.value(value)]
        if id(value) not in self._numbers:
            self._numbers[id(value)] = len(self.rows)
            self._pending.append((len(self.rows), value, self._outside.named(value, name)))
            self.rows.append(None)
        return ["row", self._numbers[id(value)]]

    def finish(self) -> None:
        """Writes the contents of all rows."""
        while self._pending:
            number, value, name = self._pending.pop()
            kind = next(write for cls, write in _WRITERS if isinstance(value, cls))
            self.rows[number] = kind(self, value, name)

    def tensor(self, x: Tensor, name: str) -> list[Any]:
        if x.edge is not None and type(x.edge) is not Leaf:
            raise Unsaved(f"{name} was computed outside of the function, or has hooks",
                          f"detach it first: {name}.detach()")
        x.numpy()  # computes a lazy value, so that `_data` is an array
        array = self._to.array(x._data, name or "gradient")
        return ["tensor", type(x).__name__, array, x.edge is not None, self.cell(x._grad, ""), name]

    def elements(self, x: Any, name: str) -> list[Any]:
        cells = [self.cell(v, f"{name}.{i}") for i, v in enumerate(x)]
        return ["elements", type(x).__name__, cells, getattr(x, "maxlen", None)]

    def items(self, x: Any, name: str) -> list[Any]:
        keys = [key.value for _, key in self._outside.parts(x)] \
            if self._outside.is_partial(x) else list(x)
        return ["items", [[self._to.value(k), self.cell(x[k], f"{name}.{k}")]
                          for k in keys if k in x]]

    def function(self, x: Any, name: str) -> list[Any]:
        read_keys = {key for kind, key in self._outside.parts(x) if kind == "cell"}
        inner = [self.cell(cell.cell_contents, f"{name}.{i}") if i in read_keys else ["plain", None]
                 for i, cell in enumerate(x.__closure__ or ())]
        return ["cells", inner, self.holder(x, name)[1]]

    def holder(self, x: Any, name: str) -> list[Any]:
        """The row of an object of a user's class: its attributes by name. The values of those that
        no call reads are left out."""
        read_keys = {key for kind, key in self._outside.parts(x) if kind == "attr"}
        values = attributes(x)
        values |= {n: getattr(x, n) for n in read_keys if n not in values and hasattr(x, n)}
        return ["attributes", [[n, self.cell(v, f"{name}.{n}")
                                if n in read_keys else ["plain", None]]
                               for n, v in values.items()]]


_WRITERS: list[tuple[Any, Callable[[_Rows, Any, str], list[Any]]]] = [
    (Tensor, _Rows.tensor), ((list, tuple, set, frozenset, deque, bytearray), _Rows.elements),
    (dict, _Rows.items), ((types.FunctionType, Cells), _Rows.function),
    (object, _Rows.holder)]
