"""Traces `rows.append(row)` in a `for` over a dynamic size: the rows are those of one tensor.

A list that grows has another state in each iteration, so a loop that fills one would have a path
for each number of iterations. If a loop has filled a local list with tensors of one type, as many
in each iteration, the next trace replaces this list by a `GrowingList`. It writes the tensors to
the rows of a tensor that is made before the loop. `fw.stack`, `fw.concat`, `sum`, `len`, indices
and a `for` read the rows; all other uses give up the replacement in later traces.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from ...eager.arrays.shapes import TensorType, same
from ...eager.core.tensor import Tensor, is_bare
from ...eager.core.views import bases_of, family_of, root_of
from ...eager.interpreter import Rows, as_size
from ...eager.ops.create import zeros
from ...eager.ops.shape.join import concat, stack
from ..heap.set_local import set_local
from ..scalars.stand_in import StandIn
from ..sizes.symbolic_dim import Dim, size_expr_of
from .frame_state import location_of
from .possible_aliases import compares_identities
from .symbolic_range import SymbolicIterator, iterated

_MAX_CHANGES = 4  # of the types of rows, in all traces of a function


class _Appended(NamedTuple):
    """What each iteration appends to a list: tensors of one type, and how many."""

    type: TensorType
    each: int


RowTypes = dict[str, _Appended | None]  # by local variable; None: it is no such list


class ListChanged(BaseException):
    """Ends a run in which a tensor of such a list is changed in place, or may be changed behind it:
    the row would not change with it. The run is undone, and the call traced again without such
    lists."""


class GrowingList(StandIn, Rows):
    """Stands for a list to which each iteration of a `for` appends as many tensors of one type."""

    def __init__(self, lists: GrowingLists, name: str, prefix: list[Any], rows: Tensor,
                 iterator: SymbolicIterator, types: RowTypes, each: int) -> None:
        """prefix: the list before the loop. rows: a tensor with `each` rows for each iteration.
        types: those of the loop's lists."""
        self.lists, self.name, self.iterator, self.types = lists, name, iterator, types
        self.prefix, self.rows, self.each = prefix, rows, each
        self.filled = 0  # the rows that the current iteration has appended
        self.is_given_up = False
        self.value: list[Any] = [*prefix]  # the list of this run

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # isinstance(x, list) holds
        return list

    def give_up(self, type_of_rows: TensorType | None = None) -> list[Any]:
        """The list of this run, which takes the place of this object. In later traces, too, unless
        the rows are of another type than before."""
        if not self.is_given_up:
            self.is_given_up = True
            self.lists.give_up(self, type_of_rows)
        return self.value

    # ---- within the loop

    def append(self, row: Any) -> None:
        """Writes a row of the current iteration."""
        if self.is_given_up or self.filled == self.each or not self._takes(row):
            is_first = len(self.value) == len(self.prefix)
            self.give_up(self.lists.type_of(row) if is_first else None).append(row)
            return
        self.lists.write(self.rows, self._count(), row)
        self.value.append(row)
        self.filled += 1

    def extend(self, rows: Any) -> None:
        """Writes rows of the current iteration."""
        if type(rows) not in (list, tuple):
            self.give_up().extend(rows)
            return
        for row in rows:
            self.append(row)

    def __iadd__(self, rows: Any) -> Any:
        self.extend(rows)
        return self.value if self.is_given_up else self

    def _takes(self, row: Any) -> bool:
        at = self.iterator
        return at.is_in_loop and not at.is_finished and is_bare(row) \
            and row.dtype == self.rows.dtype and same(row.shape, self.rows.shape[1:])

    def _count(self) -> Any:
        """The number of rows so far, as a number that the iterator's position gives."""
        at, left = self.iterator, self.each - self.filled
        begun = at.count - at.start
        begun = begun if at.step == 1 else begun // at.step
        ends = begun if self.each == 1 else begun * self.each
        return ends - left if left else ends

    def end_iteration(self) -> None:
        """Notes that the next iteration begins."""
        if self.filled != self.each:
            self.give_up()
        self.filled = 0

    # ---- behind the loop

    def joined(self) -> Tensor | None:
        """All tensors of the list as the rows of one; None if it has none, or in the loop."""
        count = self._number_of_rows()
        if count is None or not (self.prefix or count > 0):
            self.give_up()
            return None
        rows = self.rows if self.iterator.is_finished else self.rows[:count]
        return self.lists.with_elements(
            concat([stack(self.prefix), rows]) if self.prefix else rows)

    def _number_of_rows(self) -> Any:
        """The number of appended rows; None if it is not known."""
        if self.is_given_up or (self.iterator.is_in_loop and not self.iterator.is_finished):
            return None
        if self.iterator.is_finished:
            return self.rows.shape[0]
        count = as_size(self._count())
        return count if type(count) in (int, Dim) else None

    @property
    def size(self) -> Any:
        """The number of tensors, which may be symbolic."""
        count = self._number_of_rows()
        return len(self.give_up()) if count is None else len(self.prefix) + count

    def __len__(self) -> int:
        return operator.index(self.size)

    def __bool__(self) -> bool:
        return bool(self.size > 0)

    def __iter__(self) -> Iterator[Any]:
        rows = self.joined()
        return iter(self.value) if rows is None else \
            iterated(rows, lambda: iter(self.give_up()), sys._getframe(1))

    def __getitem__(self, index: Any) -> Any:
        rows = self.joined() if not isinstance(index, slice) else None
        return self.give_up()[index] if rows is None else self.lists.watched(rows[index])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.give_up(), name)


def _with_list(name: str) -> Any:
    """A method that computes with the plain list."""
    def method(self: GrowingList, *others: Any) -> Any:
        return getattr(self.give_up(), name)(*others)

    return method


for _name in ("__add__", "__mul__", "__rmul__", "__eq__", "__ne__", "__lt__",
              "__le__", "__gt__", "__ge__", "__contains__", "__setitem__",
              "__delitem__", "__reversed__", "__repr__", "__reduce_ex__"):
    setattr(GrowingList, _name, _with_list(_name))


class _Candidate(NamedTuple):
    values: list[Any]
    length: int


class GrowingLists:
    """The local lists that the loops of one run fill."""

    def __init__(self, tracer: Any) -> None:
        self.tracer = tracer
        self._replaced: dict[int, list[GrowingList]] = {}  # by id of the iterator
        self._candidates: dict[int, dict[str, _Candidate]] = {}
        # By id: tensors that are in the lists or that were read from them.
        self._watched: WeakValueDictionary[int, Tensor] = WeakValueDictionary()
        # By id: the roots of the tensors in the lists, and tensors whose rows stand for them.
        self._roots: WeakValueDictionary[int, Tensor] = WeakValueDictionary()
        self._joined: WeakValueDictionary[int, Tensor] = WeakValueDictionary()
        self._writes = False
        self.is_changed = False

    def visit(self, iterator: SymbolicIterator, frames: list[Any]) -> None:
        """Notes that a `for` asks for its next element."""
        types = self.tracer.names.row_types.setdefault(location_of(frames), {})
        replaced = self._replaced.get(id(iterator))
        if replaced is None:
            self._replaced[id(iterator)] = list(self._replace(iterator, frames[0], types))
            self._candidates[id(iterator)] = {
                name: _Candidate(value, len(value)) for name, value in frames[0].f_locals.items()
                if type(value) is list and name not in types}
            return
        for each in replaced:
            each.end_iteration()
        for name, (values, before) in self._candidates.pop(id(iterator), {}).items():
            count = len(values) - before
            if frames[0].f_locals.get(name) is values and (
                    count == 1 or (count > 1 and not self._is_of_another_loop(name, types))):
                types[name] = self._appended(values[before:])

    def _is_of_another_loop(self, name: str, types: RowTypes) -> bool:
        """True if another loop fills a list of this name, such as one in the iteration."""
        return any(name in other and other is not types
                   for other in self.tracer.names.row_types.values())

    def _appended(self, rows: list[Any]) -> _Appended | None:
        """What an iteration appends that has appended these; None for tensors of several types."""
        first, *others = map(self.type_of, rows)
        is_one_type = first is not None and all(
            t is not None and t.dtype == first.dtype and same(t.shape, first.shape)
            for t in others)
        return _Appended(first, len(rows)) if first is not None and is_one_type else None

    def type_of(self, row: Any) -> TensorType | None:
        """The type of a tensor of this run, with symbols for dynamic sizes."""
        if not is_bare(row) or not self.tracer.knows(row):
            return None
        found: TensorType = self.tracer.node_of(row).type
        return found

    def _replace(self, iterator: SymbolicIterator, frame: Any, types: RowTypes
                 ) -> Iterator[GrowingList]:
        """Replaces the lists that the loop fills."""
        if compares_identities(frame.f_code):
            return
        for name in [name for name, type in types.items() if not self._has_sizes_of(type)]:
            del types[name]  # it is learnt anew, with the sizes of this run
        for name, appended in types.items():
            count = _number_of_iterations(iterator) if appended is not None else None
            if count is None or not self._is_own(frame, name):
                continue
            assert appended is not None
            row, each = appended
            rows = zeros((count * each, *row.shape), dtype=row.dtype)
            for tensor in frame.f_locals[name]:
                self._note_root(tensor)
            growing = GrowingList(self, name, frame.f_locals[name], rows, iterator, types, each)
            set_local(frame, name, growing)
            yield growing

    def _has_sizes_of(self, appended: _Appended | None) -> bool:
        """True if this run has the dynamic sizes of a type: a size of 0 or 1 is a plain number."""
        known = self.tracer.sizes.values.keys()
        return appended is None or all(
            size_expr_of(size).symbols() <= known for size in appended.type.shape)

    def _is_own(self, frame: Any, name: str) -> bool:
        """True if a local variable alone holds a list that the run has made."""
        values = frame.f_locals.get(name)
        return type(values) is list and id(values) not in self.tracer.state.paths \
            and all(map(is_bare, values)) and _references(values) == _ONE_VARIABLE

    def write(self, rows: Tensor, position: Any, row: Tensor) -> None:
        """Writes a tensor to a row, and watches it."""
        self._writes = True
        rows[position] = row
        self._writes = False
        self._note_root(row)
        self.watched(row)

    def _note_root(self, tensor: Tensor) -> None:
        root = root_of(tensor)
        self._roots[id(root)] = root

    def with_elements(self, joined: Tensor) -> Tensor:
        """The tensor, whose rows stand for the elements of a list from now on."""
        self._joined[id(joined)] = joined
        return self.watched(joined)

    def watched(self, tensor: Tensor) -> Tensor:
        """The tensor, which must not change in place from now on."""
        self._watched[id(tensor)] = tensor
        return tensor

    def note_change(self, tensor: Tensor) -> None:
        """Ends the run before a watched tensor changes."""
        if self._watched and not self._writes and any(
                self._watched.get(id(t)) is t for t in family_of(tensor)):
            self._end_run()

    def check_results(self, results: Sequence[Tensor]) -> None:
        """Ends the run if an element of a list outlives it, and so does another tensor that it is,
        or shares elements with: a row is a tensor of its own."""
        elements = [t for t in results if any(self._joined.get(id(b)) is b for b in bases_of(t))]
        others = {id(root_of(t)) for t in results}
        if len(elements) > 1 or (elements and any(
                key in others or key in self.tracer.state.paths for key in self._roots)):
            self._end_run()

    def _end_run(self) -> None:
        for types in self.tracer.names.row_types.values():
            types.update(dict.fromkeys(types))
        self.is_changed = True
        self.check()

    def check(self) -> None:
        """Ends the run if a watched tensor has changed; user code may have caught the first
        exception."""
        if self.is_changed:
            raise ListChanged

    def give_up(self, growing: GrowingList, type_of_rows: TensorType | None) -> None:
        """Gives a list back to its variable. In later traces it has rows of this type, or is not
        replaced."""
        tracer, frame = self.tracer, growing.iterator.frame
        tracer.names.changed_row_types += 1
        growing.types[growing.name] = None if type_of_rows is None \
            or tracer.names.changed_row_types > _MAX_CHANGES else \
            _Appended(type_of_rows, growing.each)
        if frame is not None and frame.f_locals.get(growing.name) is growing:
            set_local(frame, growing.name, growing.value)
        tracer.can_retry = True
        tracer.refuse("a list that a loop fills is used otherwise than by fw.stack, fw.concat, "
                      "sum, len, an index or a for; the next call is traced with this knowledge")


def _number_of_iterations(iterator: SymbolicIterator) -> Any:
    """The number of iterations as a size; None if loops around it change it."""
    step = iterator.step
    ahead = iterator.stop - iterator.start if step > 0 else iterator.start - iterator.stop
    count = as_size(ahead if abs(step) == 1 else (ahead + abs(step) - 1) // abs(step))
    if type(count) not in (int, Dim):
        return None
    return count if count > 0 else 0


def _references(values: list[Any]) -> int:
    return sys.getrefcount(values)


def _references_by_one_variable() -> int:
    """The number of references to a list that only a local variable of a frame holds."""
    values: list[Any] = []
    held = sys._getframe().f_locals["values"]
    assert held is values
    return _references(held)


_ONE_VARIABLE = _references_by_one_variable()
