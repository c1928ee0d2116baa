"""Takes comparable snapshots of running Python code: the user's frames at a decision.

Two visits of one decision with equal state continue in the same way, except for the values of
tensors and symbols. So a state that recurs is a loop, and no analysis of the code is needed.
"""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from ...eager.core.tensor import Tensor, is_bare
from ...eager.core.transform_value import TransformValue
from ...eager.core.views import root_of, text_of_path
from ...eager.interpreter import Rows
from ..graph.graph import param_key
from ..heap.access_path import KnownObject
from ..heap.code_tracker import followed
from ..heap.introspection import attributes
from ..heap.loop_inversion import header_offset
from ..heap.operand_stack import only_locals_change
from ..heap.set_local import set_local
from ..heap.value_kinds import FIXED, is_plain
from ..scalars.symbolic_scalar import SymbolicScalar
from ..sizes.symbolic_dim import Dim
from .possible_aliases import PossibleAliases, names_of_keys

_MAX_COMPARED_VALUES = 2000  # a larger state is never equal to another
_HEAP_TYPE = 1 << 9  # in the flags of a class: it is not built in
GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
IDENTITY = "identity of "  # begins the name of a number: the identity of a local tensor
Name = tuple[int, str]  # a local variable: number of the frame, and its name


def is_identity(name: int | Name) -> bool:
    """True for a number that tells which object a variable names."""
    return type(name) is tuple and name[1].startswith(IDENTITY)


def user_frames(base: Any) -> list[Any]:
    """The frames of followed code above `base`, innermost first."""
    frames = []
    frame: Any = sys._getframe(1)
    while frame is not None and frame is not base:
        if followed(frame.f_code):
            frames.append(frame)
        frame = frame.f_back
    return frames


def location_of(frames: list[Any]) -> tuple[Any, ...]:
    """The code and the current instruction of each frame."""
    return tuple((f.f_code, f.f_lasti) for f in frames)


def header_of(frames: list[Any]) -> tuple[Any, ...]:
    """`location_of` frames; in a condition before a loop, that of the loop's own condition."""
    return tuple((f.f_code, header_offset(f.f_code, f.f_lasti) if i == 0 else f.f_lasti)
                 for i, f in enumerate(frames))


def can_recur(frames: list[Any], tracked: Collection[int] = ()) -> bool:
    """True if only local variables, and iterators read at the instructions `tracked`, can differ at
    the next visit. Only the innermost frame matters: the frames around it do not move until it has
    ended, except for callers of a generator."""
    code = frames[0].f_code if frames else None
    return code is not None and not code.co_flags & GENERATORS \
        and only_locals_change(code, header_offset(code, frames[0].f_lasti), frozenset(tracked))


class FrameState:
    """The state as one comparable value (`structure`), with tensors and numbers listed separately
    in order of discovery."""

    numbers: Collection[type] = (int, float, Dim)  # types of local numbers that loops may carry

    def __init__(self, frames: list[Any], changes: Iterator[tuple[Any, Any]],
                 owned: dict[int, Any], stale: Callable[[SymbolicScalar], bool],
                 names: Sequence[Collection[str] | None] = (),
                 iterators: Sequence[Any] = (), aliases: PossibleAliases | None = None,
                 objects: Sequence[Any] = (), compares_views: bool = True) -> None:
        """`names`: the live local variables of each frame; None for all. `iterators`: those on
        the stacks of the frames whose state is known. `aliases`: None if it does not matter which
        tensors are inputs. `objects`: more objects, whose contents are compared.
        `compares_views`: it matters which tensors are views of which."""
        self.frames, self._aliases = frames, aliases
        self.named_tensors: dict[Name, int] = {}  # index of the tensor, by the identity's name
        self.tensors: list[Tensor] = []
        self.plains: dict[Name, Any] = {}  # ints, floats and sizes of local variables
        self.symbols: dict[Name, SymbolicScalar] = {}
        self.equal = True  # False if no other snapshot can equal this one
        self._owned, self._stale = owned, stale
        self._seen: dict[int, int] = {}
        self._visited: list[Any] = []  # alive, so that no id is used twice
        self.locals = [dict(f.f_locals) for f in frames]
        for live_names, variables in zip(names, self.locals):
            for name in () if live_names is None else variables.keys() - set(live_names):
                del variables[name]
        parts = [self._frame(i, names) for i, names in enumerate(self.locals)]
        self.iterators = {(frames.index(c.frame), f"for {c.offset}"): c for c in iterators}
        parts += [self._iterator_position(name, c) for name, c in self.iterators.items()]
        parts += [(path, self._value(now)) for path, now in changes]
        parts += map(self._value, objects)
        parts += self._relations() if compares_views else ()
        self.structure = tuple(parts)
        self.arrays = [t._data for t in self.tensors]

    @staticmethod
    def changes(tracer: Any) -> Iterator[tuple[Any, Any]]:
        """The objects that a run has changed: their paths, and their contents to compare."""
        for path, _, now in tracer.state.changes():
            value = tracer.state.values[path]
            yield path, value if isinstance(value, Tensor) else \
                list(now.items()) if isinstance(now, dict) else list(now)

    def _relations(self) -> Iterator[Any]:
        """The tensors that share elements with each other, or with one from outside."""
        families: dict[int, list[int]] = {}
        for i, tensor in {id(t): (i, t) for i, t in enumerate(self.tensors)}.values():
            if tensor._view is not None:
                families.setdefault(id(root_of(tensor)), []).append(i)
        for root, members in families.items():
            first = self.tensors[members[0]]
            if len(members) > 1 or (root in self._owned and id(first) != root):
                yield self._owned.get(root), tuple(
                    (i, text_of_path(self.tensors[i])) for i in members)

    def rebound(self, other: FrameState) -> bool:
        """True if a local variable names another object: then its frame has moved on."""
        return any(a.get(name) is not value for a, b in zip(self.locals, other.locals)
                   for name, value in b.items())

    def _frame(self, i: int, names: dict[str, Any]) -> Any:
        state = []
        for name, value in sorted(names.items()):
            if type(value) is SymbolicScalar:
                self.symbols[i, name] = value
                state.append((name, "number"))
            elif type(value) in self.numbers:
                self.plains[i, name] = value
                state.append((name, "number"))
            else:
                if is_bare(value) and id(value) not in self._seen:
                    self._note_identity((i, IDENTITY + name), value)
                state.append((name, self._value(value)))
        return tuple(state)

    def _note_identity(self, name: Name, tensor: Tensor) -> None:
        """Notes the identity of a local tensor that is the next one of the state."""
        if self._aliases is None:
            return
        identity, self.named_tensors[name] = self._aliases.identity(tensor), len(self.tensors)
        if type(identity) is SymbolicScalar:
            self.symbols[name] = identity
        else:
            self.plains[name] = identity

    def _iterator_position(self, name: Name, iterator: Any) -> Any:
        """The state of a `for` iterator; its position is a number like those of local variables."""
        if type(iterator.count) is SymbolicScalar:
            self.symbols[name] = iterator.count
        else:
            self.plains[name] = iterator.count
        return name, iterator.kind, iterator.limit, iterator.step, self._value(iterator.tensors)

    def replace_number(self, name: Name, value: Any) -> None:
        """Assigns the number `name` in the running code."""
        if name in self.iterators:
            self.iterators[name].count = value
        elif name in self.named_tensors:
            self.replace_identity(name, value)
        else:
            set_local(self.frames[name[0]], name[1], value)

    def replace_identity(self, name: Name, identity: SymbolicScalar, branch: Any = None) -> None:
        """Gives a local tensor another identity, behind the merge of a branch or in a loop."""
        assert self._aliases is not None
        i = self.named_tensors[name]
        tensor = self._aliases.alias_of(self.tensors[i], identity, branch)
        if tensor is not self.tensors[i]:
            self.tensors[i] = tensor
            set_local(self.frames[name[0]], name[1].removeprefix(IDENTITY), tensor)

    def _value(self, value: Any) -> Any:
        self._visited.append(value)
        if len(self._visited) > _MAX_COMPARED_VALUES:
            self.equal = False
            return None
        if type(value) is SymbolicScalar:
            self.equal = self.equal and not self._stale(value)
            return "formula", value.formula
        if type(value) is Dim:
            return "size", value.expr
        if is_plain(value):
            return "plain", type(value), _key(value)
        if id(value) in self._seen:
            return "seen", self._seen[id(value)]
        self._seen[id(value)] = len(self._seen)
        if isinstance(value, Tensor):
            return self._tensor(value)
        return self._object(value)

    def _tensor(self, tensor: Tensor) -> Any:
        self.tensors.append(tensor)
        array = tensor._data
        if isinstance(array, TransformValue):  # a transform surrounds the loop
            self.equal = False
            return None
        gradient = None if tensor._grad is None else self._value(tensor._grad)
        return "tensor", array.shape, array.dtype, tensor.edge is None, gradient

    def _object(self, value: Any) -> Any:
        kind = type(value)
        if kind in (list, tuple):
            return kind, tuple(self._value(v) for v in value)
        if kind is dict:
            return kind, tuple((self._key_of(k), self._value(v)) for k, v in value.items())
        if kind in (set, frozenset):
            return kind, frozenset(self._key_of(v) for v in value)
        if hasattr(kind, "__next__"):
            return self._iterator(value)
        if issubclass(kind, Rows):
            return kind, value.filled, self._value(value.prefix), self._value(value.rows)
        if id(value) in self._owned or isinstance(value, (*FIXED, types.CodeType)):
            return "object", id(value)  # its contents are among the changes, if they change
        if kind is types.FunctionType:
            cells = tuple(self._cell(c) for c in value.__closure__ or ())
            return "function", value.__code__, cells
        if kind is types.MethodType:
            return "method", id(value.__func__), self._value(value.__self__)
        if _has_hidden_state(value):
            self.equal = False  # its contents cannot be read
            return None
        inside = tuple((n, self._value(v)) for n, v in attributes(value).items())
        return "object", id(value), inside

    def _cell(self, cell: Any) -> Any:
        try:
            return self._value(cell.cell_contents)
        except ValueError:
            return "empty"

    def _iterator(self, value: Any) -> Any:
        """The state of an iterator. Only iterators over lists and ranges tell their position."""
        if type(value).__module__ != "builtins" or isinstance(value, types.GeneratorType):
            self.equal = False
            return None
        try:
            return "iterator", self._value(tuple(value.__reduce__()))
        except TypeError:
            self.equal = False
            return None

    def _key_of(self, key: Any) -> Any:
        return (type(key), _key(key)) if is_plain(key) else id(key)


class MergeState(FrameState):
    """A state that is compared with those of other runs of the function.

    Addresses mean nothing there. Objects from outside are told apart by their access paths, and
    objects that the run made by their classes and contents. A local variable of the innermost frame
    may name an input on one path and a new tensor on another: which one is a number of the state.
    """

    numbers = (int, float)

    @staticmethod
    def changes(tracer: Any) -> Iterator[tuple[Any, Any]]:
        """The objects that a run has changed. A gradient that it has set counts: whether it is
        another one than before depends on the call."""
        state = tracer.state
        for path, contents in FrameState.changes(tracer):
            if not isinstance(contents, Tensor) or state.held[path][0] is not contents._data:
                yield path, contents
        for path in (state.paths[key] for key in tracer.grads_set if key in state.paths):
            yield ("gradient", path), state.values[path]._grad

    def _frame(self, i: int, names: dict[str, Any]) -> Any:
        if i > 0 or self._aliases is None:
            return super()._frame(i, names)
        keys = names_of_keys(self.frames[0].f_code)
        tensors = {name: value for name, value in names.items()
                   if is_bare(value) and name not in keys}
        rest = {name: value for name, value in names.items() if name not in tensors}
        return super()._frame(i, rest), tuple(
            (name, self._local(name, value)) for name, value in sorted(tensors.items()))

    def _local(self, name: str, tensor: Tensor) -> Any:
        """The state of a local tensor. An input is not compared by its path, but by a number."""
        assert self._aliases is not None
        is_input = self._aliases.is_input(tensor)
        if id(tensor) in self._seen and not is_input:
            return self._value(tensor)
        self._note_identity((0, IDENTITY + name), tensor)
        if not is_input:
            return self._value(tensor)
        self._visited.append(tensor)
        return super()._tensor(tensor), None

    def _tensor(self, tensor: Tensor) -> Any:
        return super()._tensor(tensor), self._owned.get(id(tensor))

    def _object(self, value: Any) -> Any:
        kind, path = type(value), self._owned.get(id(value))
        if kind in (set, frozenset):  # code can read the order of the elements
            return path, kind, tuple(self._key_of(v) for v in value)
        if kind in (list, tuple, dict) or issubclass(kind, Rows):
            return path, super()._object(value)
        if path is not None:
            return "object", path
        if isinstance(value, (*FIXED, types.CodeType)):
            return "object", KnownObject(value)
        if kind is types.MethodType:
            return "method", self._value(value.__func__), self._value(value.__self__)
        if kind is types.FunctionType:
            own = value.__defaults__, value.__kwdefaults__, value.__dict__
            return tuple(map(self._value, own)), super()._object(value)
        if hasattr(kind, "__next__"):
            return self._iterator(value)
        if _has_hidden_state(value) or not _is_python_class(kind):
            self.equal = False
            return None
        inside = tuple((n, self._value(v)) for n, v in attributes(value).items())
        return "made", KnownObject(kind), inside

    def _key_of(self, key: Any) -> Any:
        path = None if is_plain(key) else self._owned.get(id(key))
        self.equal = self.equal and (is_plain(key) or path is not None)
        return super()._key_of(key) if path is None else path


def is_made(value: Any, owned: Mapping[int, Any]) -> bool:
    """True for an object that the run has made and that may change."""
    return not (is_plain(value) or id(value) in owned or isinstance(
        value, (Tensor, SymbolicScalar, Dim, types.CodeType, *FIXED)))


def _is_python_class(cls: type) -> bool:
    """True if a class and its bases are written in Python."""
    base: type | None = cls
    while base is not None and base.__flags__ & _HEAP_TYPE:
        base = base.__base__
    return base is object


def _key(value: Any) -> Any:
    return param_key(value) if isinstance(value, float) else \
        repr(value) if isinstance(value, (slice, complex)) else value


def _has_hidden_state(value: Any) -> bool:
    """True if an object may hold values that are not attributes."""
    cls = type(value)
    return not (hasattr(value, "__dict__") or any("__slots__" in c.__dict__ for c in cls.__mro__))
