"""Holds the contents of objects at the start of a run, and finds those that the run has changed.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any
from weakref import ref

from ...eager.core.lazy import AbstractLazyArray
from ...eager.core.tensor import Tensor
from ...eager.core.views import base_of, bases_of, leave_family
from ...eager.errors import is_ours
from ..scalars.symbolic_scalar import plain_value
from .access_path import Members, Path
from .grad_hook_guards import hooks_of
from .introspection import (
    EMPTY,
    attributes,
    cells,
    is_hidden,
    lookup,
    of_class,
    of_instance,
    own_members,
)
from .replaced_code import part_of
from .value_kinds import FUNCTION_PARTS, LRU_CACHE, SEQUENCES, SETS, is_plain, same_contents


class HeapContents:
    """The objects that a run may have read, each with its first path and its contents at the start.

    A part of an object may be noted after the run has assigned it. Then its value at the start is
    known, since code that assigns a part has it noted before. The assigned value is not followed.
    """

    def __init__(self) -> None:
        self.values: dict[Path, Any] = {}  # by every visited path
        self.paths: dict[int, Path] = {}  # id of an object -> its first path
        self.aliases: list[tuple[Path, Path]] = []  # (further path to an object, first path)
        self.held: dict[Path, Any] = {}  # copies of the contents of mutable objects
        self.items: dict[Path, dict[Any, Any]] = {}  # of containers that are read in part
        self.tested: dict[Path, dict[Any, bool]] = {}  # keys of these, and whether they were there
        self.stored: list[tuple[Path, Path]] = []  # (owner, part) that code assigns
        self.counted: set[Path] = set()  # containers whose length was read
        self.fields: dict[Path, dict[str, Any]] = {}  # attributes of functions and containers
        self.edges: dict[Path, Any] = {}  # the tape edge of each tensor
        self.bases: dict[Path, Any] = {}  # the tensor of which each one is a view, or None
        self.hooks: dict[Path, tuple[Any, ...]] = {}  # the gradient hooks of each tensor
        self.large: list[Path] = []
        self.cached: list[Path] = []  # functions with a cache of results, to be replaced
        self._lazy: list[Path] = []  # tensors with a lazy array
        self.has_writes = False  # to tensors, in place
        # By id: a weak reference to a tensor, and its array, gradient and edge at the start.
        self._unchanged: dict[int, tuple[Any, Any, Any, Any]] = {}
        self.append_only: set[Path] = set()  # containers that the run added to and did not read
        self.absent: dict[Path, set[str]] = {}  # names in code that are not defined, by scope
        self.missing: dict[Path, set[str]] = {}  # the absent names that code reads as globals
        self._at_start: dict[Any, Any] = {}  # variables, by scope and name, and cells, by id
        self._classes: set[int] = set()  # ids, since a metaclass may define `__hash__`
        self._alive: list[Any] = []  # so that no id is used twice during the trace

    def note(self, path: Path, value: Any) -> Path:
        """Notes the value at a path, without its parts. Returns the first path to it."""
        if path in self.values:
            return self.paths.get(id(self.values[path]), path)
        value = self.values[path] = plain_value(value)  # a symbol stands here during the trace
        if is_plain(value):
            return path
        first = self.paths.get(id(value))
        if first is not None:
            self.aliases.append((path, first))
            return first
        self.paths[id(value)] = path
        self._alive.append(value)
        if type(value) is LRU_CACHE:
            self.cached.append(path)
        if isinstance(value, Tensor):
            self._note_tensor(path, value)
        return path

    def before_change(self, tensor: Tensor) -> None:
        """Notes that the run is about to change a tensor, which may be noted later."""
        self.has_writes = True
        if id(tensor) not in self.paths and self._unchanged_parts(tensor) is None:
            self._unchanged[id(tensor)] = ref(tensor), tensor._data, tensor._grad, tensor.edge

    def _unchanged_parts(self, tensor: Tensor) -> tuple[Any, Any, Any] | None:
        """The first array, gradient and edge of a tensor that changed before it was noted."""
        entry = self._unchanged.get(id(tensor))  # its id may have been that of another tensor
        return None if entry is None or entry[0]() is not tensor else entry[1:]

    def note_bases(self, tensor: Tensor) -> None:
        """Notes the bases of a view that is noted, which a change of the view changes as well."""
        path = self.paths.get(id(tensor))
        if path is not None:
            for base in bases_of(tensor):
                path = self.note(path.attr("_view").attr("base"), base)

    def _note_tensor(self, path: Path, value: Tensor) -> None:
        array, gradient, edge = self._unchanged_parts(value) or \
            (value._data, value._grad, value.edge)
        self.held[path] = (array, gradient)
        leave_family(value)  # before `bases` holds its base
        self.bases[path] = base_of(value)
        self.edges[path] = edge
        self.hooks[path] = hooks_of(edge)
        if isinstance(value._data, AbstractLazyArray):
            self._lazy.append(path)
        self.note(path.attr("_grad"), value._grad)

    # ---- scopes

    def variable(self, path: Path, name: str, scope: dict[str, Any]) -> list[tuple[Path, Any]]:
        """Notes that code reads or writes a global or a variable of a module, whose variables are
        `scope`. Returns its path and value, unless it is undefined or the run has assigned it."""
        self.values.setdefault(path, path.key if path.kind == "class" else scope)
        held, absent = self.held.setdefault(path, {}), self.absent.setdefault(path, set())
        value = plain_value(scope.get(name, EMPTY))
        before = self._at_start.setdefault((id(scope), name), value)
        if before is EMPTY:
            absent.add(name)
        else:
            held[name] = before
        return [] if value is EMPTY or value is not before else [(path.item(name), scope[name])]

    def module_variable(self, module: types.ModuleType, name: str) -> list[tuple[Path, Any]]:
        """Notes that code reads or writes a variable of a module, as `variable` does."""
        return self.variable(Path("class", Members(module)), name, vars(module))

    # ---- contents

    def hold_item(self, path: Path, key: Any) -> bool:
        """Notes that code reads or writes an item of a dictionary or list, and no other. Returns
        False if it does not exist."""
        container = self.values[path]
        exists = key in container if isinstance(container, dict) else key < len(container)
        if path not in self.held and not isinstance(container, tuple):
            items = self.items.setdefault(path, {})
            if key not in items:
                items[key] = plain_value(container[key]) if exists else EMPTY
        return exists

    def item(self, path: Path, key: Any) -> list[tuple[Path, Any]]:
        """Notes that code reads an item of a container. Returns its path and value, unless it does
        not exist or the run has assigned it."""
        if not self.hold_item(path, key):
            return []
        value = self.values[path][key]
        held = self.held.get(path)
        before = self.items.get(path, {}).get(key, EMPTY) if held is None else \
            dict(held).get(key, EMPTY)
        assigned = type(self.values[path]) is not tuple and before is not plain_value(value)
        return [] if assigned else [(path.item(key), value)]

    def test_key(self, path: Path, key: Any) -> None:
        """Notes that a run depends on whether a dictionary has a key."""
        if path not in self.held:
            exists = self.hold_item(path, key)
            self.tested.setdefault(path, {}).setdefault(key, exists)

    def hold_elements(self, path: Path) -> list[tuple[Any, Any]]:
        """Notes that code reads or writes any element of a container. Returns its keys or
        positions, with the elements."""
        container = self.values[path]
        items = container.items() if isinstance(container, dict) else enumerate(container)
        pairs = [(key, plain_value(element)) for key, element in items]
        if not isinstance(container, tuple) and path not in self.held:
            before = self.items.pop(path, {})  # what the run changed since the first read
            self.held[path] = [(k, v) for k, v in (
                *((k, before.pop(k, v)) for k, v in pairs), *before.items())
                if v is not EMPTY] if before else pairs
        if isinstance(container, tuple):
            return pairs
        before = dict(self.held[path])  # other elements were assigned by the run
        return [(k, v) for k, v in pairs if before.get(k, EMPTY) is v]

    def hold_attributes(self, path: Path) -> dict[str, Any]:
        """Notes that code reads or writes attributes of an object. Returns those at the start."""
        value = self.values[path]
        if path not in self.held:
            self.held[path] = {name: plain_value(v) for name, v in attributes(value).items()}
            self.hold_class(type(value))
        return self.held[path]  # type: ignore[no-any-return]

    def hold_cells(self, path: Path) -> tuple[Any, ...]:
        """Notes that a function is called or read. Returns the contents of its cells."""
        value = self.values[path]
        if path not in self.held:
            self.held[path] = tuple(
                self._at_start.setdefault(id(cell), plain_value(content))
                for cell, content in zip(value.__closure__ or (), cells(value)))
            if not is_ours(value.__code__):
                for name in FUNCTION_PARTS:
                    self.note(path.attr(name), part_of(value, name))
        return self.held[path]  # type: ignore[no-any-return]

    def closure(self, path: Path) -> list[tuple[str, Path, Any]]:
        """Notes that a function is called or read. Returns its closure variables, with the path and
        value of each, except for those that the run has assigned."""
        value = self.values[path]
        names, now = value.__code__.co_freevars, map(plain_value, cells(value))
        return [(name, path.cell(i, name), before) for i, (name, before, content) in enumerate(
            zip(names, self.hold_cells(path), now)) if before is content and before is not EMPTY]

    def hold_fields(self, path: Path) -> dict[str, Any]:
        """Notes that code reads or writes attributes of a container or function."""
        if path not in self.fields:
            fields = attributes(self.values[path])
            self.fields[path] = {name: plain_value(v) for name, v in fields.items()}
        return self.fields[path]

    def hold_class(self, cls: type) -> None:
        """Notes the members of a class, its bases and its metaclass, without their parts."""
        if id(cls) in self._classes:
            return
        self._classes.add(id(cls))
        self.values[Path("class", cls)] = cls
        for c in (*cls.__mro__, type(cls)):
            members = own_members(c)
            if members and Path("class", c) not in self.held:
                self.values[Path("class", c)] = c
                self.held[Path("class", c)] = {n: plain_value(v) for n, v in members.items()}

    def is_assigned(self, cls: type, name: str) -> bool:
        """True if the run has assigned the member of this name that instances of a class read."""
        owner, member = lookup(cls, name)
        before = self.held.get(Path("class", owner))
        return before is not None and not is_hidden(name) \
            and before.get(name, EMPTY) is not plain_value(member)

    def _members(self, cls: type) -> list[tuple[Path, Any]]:
        """The members of a class from before the run."""
        return [(path, value) for path, value in of_class(cls)
                if not self.is_assigned(cls, getattr(path.key, "value", path.key))]

    def _inherited(self, cls: type) -> dict[str, Any]:
        """The class attributes from before the run that instances read."""
        return {name: value for name, value in of_instance(cls).items()
                if not self.is_assigned(cls, name)}

    # ---- the end of the run

    def note_unchanged_parts(self) -> None:
        """Notes parts that code may have assigned, and that hold what they held at the start: a
        replay assigns nothing, which is right as long as they hold it."""
        for owner, part in self.stored:
            before, now = self._part_at_start(owner, part), self._part_now(owner, part)
            if before is now and now is not EMPTY:
                self.note(part, now)

    def _part_at_start(self, owner: Path, part: Path) -> Any:
        held = self.items.get(owner, self.fields.get(owner, self.held.get(owner)))
        if part.kind == "cell" and isinstance(held, tuple):
            return held[part.key]
        contents = dict(held or {})
        return contents.get(getattr(part.key, "value", part.key), EMPTY)

    def _part_now(self, owner: Path, part: Path) -> Any:
        value, key = self.values[owner], getattr(part.key, "value", part.key)
        if part.kind == "cell":
            return cells(value)[key]
        if part.kind == "attr":
            return (own_members(value) if isinstance(value, type) else attributes(value)).get(
                key, EMPTY)
        if isinstance(value, list):
            return value[key] if key < len(value) else EMPTY
        return value[key] if key in value else EMPTY

    def mark_written(self, path: Path) -> None:
        """Marks the value at `path` as assigned by the run, even if it is unchanged."""
        assert path.parent is not None
        key = getattr(path.key, "value", path.key)
        if path.parent in self.items:
            self.items[path.parent][key] = _WRITTEN
            return
        held = self.held[path.parent]
        if isinstance(held, dict):
            held[key] = EMPTY
        elif isinstance(held, tuple):
            self.held[path.parent] = (*held[:key], EMPTY, *held[key + 1:])
        else:
            self.held[path.parent] = [(k, EMPTY if k == key else v) for k, v in held]

    def resolve(self, lazy_array: Any, array: Any) -> None:
        """Replaces a lazy array by its computed array."""
        for path in self._lazy:
            data, gradient = self.held[path]
            if data is lazy_array:
                self.held[path] = array, gradient

    def changes(self) -> Iterator[tuple[Path, Any, Any]]:
        """(path, old contents, new contents) of every object that has changed."""
        for path, before in list(self.held.items()):
            now = self._current(path)
            if not same_contents(before, now):
                yield path, before, now
        for path, items in list(self.items.items()):
            changed = self._changed_items(self.values[path], items)
            if changed is not None:
                yield path, *changed

    @staticmethod
    def _changed_items(container: Any, items: dict[Any, Any]) -> Any:
        """The old and new items of a container that is read in part; None if they are equal."""
        before = [(k, v) for k, v in items.items() if v is not EMPTY]
        present = container if isinstance(container, dict) else range(len(container))
        now = [(k, container[k]) for k, _ in before if k in present]
        added = [k for k, v in items.items() if v is EMPTY and k in present]
        if len(added) > 1:  # in the order in which the run added them
            added = [k for k in container if k in added]
        now += [(k, container[k]) for k in added]
        return None if same_contents(before, now) else (before, now)

    def changed_fields(self) -> Iterator[tuple[Path, dict[str, Any], dict[str, Any]]]:
        """(path, old, new) of the changed attributes of functions and containers."""
        for path, before in list(self.fields.items()):
            now = attributes(self.values[path])
            if not same_contents(before, now):
                yield path, before, now

    def changed_functions(self) -> Iterator[tuple[Path, str]]:
        """(path, attribute) of functions whose code or defaults have changed."""
        for path, value in self.values.items():
            for name in FUNCTION_PARTS if type(value) is types.FunctionType else ():
                part = path.attr(name)
                if part in self.values and self.values[part] is not part_of(value, name):
                    yield path, name

    def _current(self, path: Path) -> Any:
        """The current contents of an object, in the format of `held`."""
        value = self.values[path]
        if isinstance(value, Tensor):
            return value._data, value._grad
        if path.kind == "globals" or isinstance(value, Members):
            names = (*self.held[path], *self.absent[path])
            return {n: value[n] for n in names if n in value}
        if isinstance(value, type):
            return own_members(value)
        if isinstance(value, types.FunctionType):
            return cells(value)
        if isinstance(value, dict):
            return list(value.items())
        if isinstance(value, SEQUENCES):
            return list(enumerate(value))
        return value if isinstance(value, SETS) else attributes(value)


_WRITTEN = object()  # the former value of an item that the run has certainly assigned
