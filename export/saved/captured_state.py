"""What a function reads beside its arguments, as a state that is saved with it.

Where nothing that the recorded ways do leads elsewhere, a path is what stands at its end when the
function is saved: one object of the state. What ways change on the path is followed in each call,
so the object that holds it is in the state too, with as much of what it holds as can be read.
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
from ...capture.heap.snapshot import is_plain
from ...capture.trace.side_effects import SideEffect
from ...codegen.cache.json_codec import Encoder, Unsaved
from ...eager.core.tape import Leaf
from ...eager.core.tensor import Tensor
from ...eager.ops.random.generator import default_generator
from .restored_objects import Cells

_OF_MODULES = ("_parameters", "_modules", "_buffers")
_LINKS = {*_OF_MODULES, "__self__", "__func__", "__closure__"}
_LOST = (AttributeError, LookupError, ValueError, TypeError)


class Outside:
    """The objects that paths from outside of the arguments lead to."""

    def __init__(self, read: PathReader, effects: Iterable[SideEffect], labels: Sequence[str],
                 names: Mapping[int, str]) -> None:
        """`effects`: of all ways, on anything; `labels`: names of the function's own elements,
        where it is a state; `names`: of tensors, by id."""
        self._read, self._labels, self._names = read, labels, names
        self.targets: set[int] = set()  # by id, as all that follows
        self._changed: set[tuple[int, str, Any]] = set()  # owner, kind of step, its key
        self._whole: set[int] = set()  # owners of which any element may be another one
        self._asked: dict[int, set[tuple[str, Any]]] = {}  # what is read of an owner
        self._partial: set[int] = set()  # owners of which nothing else is known
        self._stable: dict[Path, bool] = {}
        self._slots: dict[Any, int] = {}
        self.objects: list[tuple[Any, str]] = []  # by slot, with names
        for effect in effects:
            if not is_given(effect.target):
                self._changes(effect)

    def _changes(self, effect: SideEffect) -> None:
        owner = self._object(effect.target)
        if isinstance(owner, (type, types.MappingProxyType)):
            raise Unsaved(f"it changes {effect}, of a class",
                          "keep what changes in the object itself, or in a tensor")
        self.targets.add(id(owner))
        part = effect.part
        if part is not None:
            self._changed.add((id(owner), part.kind, part.key))
        elif not isinstance(owner, Tensor):
            self._whole.add(id(owner))

    def named(self, value: Any, name: str) -> str:
        """The name of an object that was found by `name`."""
        return self._names.get(id(value), name) if name else name

    def _object(self, path: Path) -> Any:
        """What is at a path: of a module, its globals."""
        value = self._read(path)
        return vars(value.owner) if isinstance(value, Members) else value

    def stays(self, path: Path) -> bool:
        """Whether a path leads to the same object in all calls."""
        if path.parent is None:
            return True
        if path not in self._stable:
            self._stable[path] = self.stays(path.parent) and self._step_stays(path, path.parent)
        return self._stable[path]

    def _step_stays(self, path: Path, above: Path) -> bool:
        owner = self._object(above)
        of_tensor = isinstance(owner, Tensor) and path.key == "_grad"
        return not of_tensor and id(owner) not in self._whole and \
            (id(owner), path.kind, path.key) not in self._changed

    def translated(self, path: Path) -> Path:
        """The path to the same object from the state."""
        if is_given(path) or _is_of_process(path):
            return path
        above = [step for step in steps(path) if self.stays(step)]
        found = Path("function").item(self._slot(above[-1]))
        for step in steps(path)[len(above):]:
            self._asks(step)
            found = Path(step.kind, step.key, found, step.name)
        return found

    def _asks(self, step: Path) -> None:
        """A step is made in each call: what stands there now is in the state."""
        assert step.parent is not None
        try:
            owner = self._object(step.parent)
        except _LOST:  # calls make it
            return
        self._asked.setdefault(id(owner), set()).add((step.kind, step.key))
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

    def hands_out(self, path: Path) -> None:
        """Unsaved where what is at a path, and is handed to who calls, is nothing that a file can
        hold whole, or could be changed by who gets it without that being seen."""
        if not is_given(path) and not _is_of_process(path):
            value = self._read(path)
            if not is_whole(value):
                raise Unsaved(f"{describe(path)}, which the function gives, is an object of class "
                              f"{type(value).__qualname__}", "return a copy of what is in it")

    # ---- writing
    def rows(self, to: Encoder) -> tuple[list[Any], list[Any]]:
        """The objects of the state as rows, and the slots as numbers of rows with their names."""
        heap = _Rows(self, to)
        slots = [[heap.cell(value, name), name] for value, name in self.objects]
        heap.finish()
        return heap.rows, slots

    def parts(self, owner: Any) -> Mapping[Any, Any]:
        """What is read of an owner: kinds and keys of steps."""
        return dict.fromkeys(self._asked.get(id(owner), ()))

    def is_partial(self, owner: Any) -> bool:
        """Whether of an owner nothing is known but what was asked for."""
        return id(owner) in self._partial


def best_names(paths: Iterable[Path], read: PathReader) -> dict[int, str]:
    """Names of tensors by id: of several paths to one that through a module, or else the
    shortest."""
    found: dict[int, Path] = {}
    for path in dict.fromkeys(paths):
        with contextlib.suppress(*_LOST):
            value = None if is_given(path) else read(path)
            if isinstance(value, Tensor):
                found[id(value)] = min(found.get(id(value), path), path, key=_is_worse)
    return {number: name_of(path, read) for number, path in found.items()}


def _is_worse(path: Path) -> tuple[bool, int]:
    above = steps(path)
    return not any(step.kind == "attr" and step.key in _OF_MODULES for step in above), len(above)


def name_of(path: Path, read: PathReader, labels: Sequence[str] = ()) -> str:
    """A name for what is at a path, as in a state dict."""
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
    if not is_plain(key):  # an object as a key, such as a parameter: by its place
        key = next(i for i, other in enumerate(read(step.parent)) if other is key)
    return "" if key in _LINKS else str(key).lstrip("_")


def _is_scope(path: Path) -> bool:
    """Whether a path leads to the globals of a module."""
    return path.kind == "globals" or type(path.key) is Members


def is_given(path: Path) -> bool:
    """Whether a path begins with the arguments of the call."""
    return steps(path)[0].kind in ("args", "kwargs")


def _is_of_process(path: Path) -> bool:
    """Whether a path begins with what each process has: its random numbers."""
    return steps(path)[0] == Path("object", id(default_generator))


def is_whole(value: Any) -> bool:
    """Whether a file can hold all of an object, and only its tensors can change."""
    if type(value) in (tuple, frozenset):
        return all(map(is_whole, value))
    return is_plain(value) or isinstance(value, Tensor)


class _Rows:
    """Writes the objects of a state, each once."""

    def __init__(self, outside: Outside, to: Encoder) -> None:
        self._outside, self._to = outside, to
        self.rows: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._open: list[tuple[int, Any, str]] = []

    def cell(self, value: Any, name: str) -> list[Any]:
        """What stands at a place: a plain value, or the number of a row."""
        if is_plain(value):
            return ["plain", self._to.value(value)]
        if id(value) not in self._numbers:
            self._numbers[id(value)] = len(self.rows)
            self._open.append((len(self.rows), value, self._outside.named(value, name)))
            self.rows.append(None)
        return ["row", self._numbers[id(value)]]

    def finish(self) -> None:
        """Writes what the rows so far hold."""
        while self._open:
            number, value, name = self._open.pop()
            kind = next(write for cls, write in _WRITERS if isinstance(value, cls))
            self.rows[number] = kind(self, value, name)

    def tensor(self, x: Tensor, name: str) -> list[Any]:
        if x.edge is not None and type(x.edge) is not Leaf:
            raise Unsaved(f"{name} was computed outside of the function, or has hooks",
                          f"detach it first: {name}.detach()")
        x.numpy()  # so that its array is there
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
        asked = {key for kind, key in self._outside.parts(x) if kind == "cell"}
        inner = [self.cell(cell.cell_contents, f"{name}.{i}") if i in asked else ["plain", None]
                 for i, cell in enumerate(x.__closure__ or ())]
        return ["cells", inner, self.holder(x, name)[1]]

    def holder(self, x: Any, name: str) -> list[Any]:
        """An object of the user's: its attributes by name; of those that nobody reads no more."""
        asked = {key for kind, key in self._outside.parts(x) if kind == "attr"}
        found = attributes(x)
        found |= {n: getattr(x, n) for n in asked if n not in found and hasattr(x, n)}
        return ["attributes", [[n, self.cell(v, f"{name}.{n}") if n in asked else ["plain", None]]
                               for n, v in found.items()]]


_WRITERS: list[tuple[Any, Callable[[_Rows, Any, str], list[Any]]]] = [
    (Tensor, _Rows.tensor), ((list, tuple, set, frozenset, deque, bytearray), _Rows.elements),
    (dict, _Rows.items), ((types.FunctionType, Cells), _Rows.function),
    (object, _Rows.holder)]
