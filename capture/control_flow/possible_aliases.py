"""Tracks tensors that are inputs on some paths and new tensors on others.

After `y = x` and `if c: y = y * 2`, the variable `y` names the input `x` or a new tensor. Behind
the merge its value is a phi. Its identity is a phi as well: a number that is 0 for a new tensor,
and otherwise tells the input. The exit of the trace returns the input or a new tensor by it.
Code that could tell the two apart in any other way makes the merge fail.
"""

from __future__ import annotations

import dis
import functools
import types
from typing import Any, NamedTuple

from ...eager.core.tape import Leaf
from ...eager.core.tensor import Tensor, is_bare, with_class
from ...eager.core.views import is_shared, move_views
from ..heap.access_path import Path
from ..heap.bytecode import instructions
from ..heap.set_local import set_local
from ..scalars.symbolic_scalar import SymbolicScalar

# Names and instructions in code that can tell two equal tensors apart; sets compare identities.
_IDENTITY_NAMES = {"id", "is_", "is_not", "set", "frozenset", "dict", "Counter", "fromkeys"}
_SET_OPS = ("BUILD_SET", "SET_ADD", "SET_UPDATE")
_DISPLAYS = ("BUILD_TUPLE", "BUILD_LIST")  # containers compare elements by identity first
_SUBSCRIPTS = ("BINARY_SUBSCR", "STORE_SUBSCR", "DELETE_SUBSCR")


@functools.lru_cache(maxsize=4096)
def compares_identities(code: types.CodeType) -> bool:
    """True if code can compare the identities of tensors. `x is None` and its kind cannot."""
    if not _IDENTITY_NAMES.isdisjoint(code.co_names):
        return True
    steps = _steps(code)
    return any(step.opname in _SET_OPS or (
        step.opname == "IS_OP" and not _loads_constant(steps[n - 1])) or (
        step.opname in ("COMPARE_OP", "CONTAINS_OP") and steps[n - 1].opname in _DISPLAYS)
        for n, step in enumerate(steps))


@functools.lru_cache(maxsize=4096)
def names_of_keys(code: types.CodeType) -> frozenset[str]:
    """The local variables that code uses as keys, as dicts compare the identities of tensors."""
    steps = _steps(code)
    loads = [steps[n - 1] for n, step in enumerate(steps) if step.opname in _SUBSCRIPTS]
    loads += [steps[n - 2] for n, step in enumerate(steps)
              if step.opname in ("BUILD_MAP", "MAP_ADD")]
    return frozenset(name for step in loads if step.opname.startswith("LOAD_FAST")
                     for name in (step.argval if isinstance(step.argval, tuple)
                                  else (step.argval,)))


def _steps(code: types.CodeType) -> list[dis.Instruction]:
    """The instructions of code without those that only extend others."""
    return [s for s in instructions(code) if s.opname not in ("CACHE", "EXTENDED_ARG")]


def _loads_constant(step: dis.Instruction) -> bool:
    return step.opname == "LOAD_CONST"


class _Alias(NamedTuple):
    tensor: Tensor
    identity: SymbolicScalar
    actual: Tensor  # the object that plain Python would have in its place in this run
    branch: Any  # key of the branch whose paths differ


class PossibleAliases:
    """The tensors of one run that may be inputs."""

    def __init__(self, tracer: Any, inputs: list[Path]) -> None:
        """inputs: those that have numbers so far, the first one 1."""
        self.tracer: Any = tracer
        self.inputs = inputs
        self.in_use = False  # True if variables may name an input on some paths only
        self._aliases: dict[int, _Alias] = {}
        self._changed: list[Tensor] = []  # whose aliases have an older value

    def identity(self, tensor: Tensor) -> int | SymbolicScalar:
        """A number that tells which object a tensor is on this path: 0 for a new one, otherwise
        that of the input."""
        alias = self._aliases.get(id(tensor))
        if alias is not None:
            return alias.identity
        # Views and gradients of an input, which may come and go, do not make it another object.
        is_outside = self._is_unchanged(tensor)
        return self._number(self.tracer.state.paths[id(tensor)]) if is_outside else 0

    def _is_unchanged(self, tensor: Tensor) -> bool:
        """True for a tensor from outside that has the array that it had at the begin of the run."""
        state = self.tracer.state
        path = state.paths.get(id(tensor))
        return path is not None and is_bare(tensor) and state.held[path][0] is tensor._data

    def is_input(self, tensor: Tensor) -> bool:
        """True for a tensor from outside of which only the object itself is in use: the run has not
        changed it, and it has no gradient and no views."""
        return self._is_unchanged(tensor) and tensor.edge is None \
            and tensor._grad is None and not is_shared(tensor)

    def _number(self, path: Path) -> int:
        if path not in self.inputs:
            self.inputs.append(path)
        return self.inputs.index(path) + 1

    def may_be_input(self, tensor: Any) -> bool:
        """True if a tensor is an input on this path or on another."""
        return id(tensor) in self._aliases or (is_bare(tensor) and self.is_input(tensor))

    def alias_of(self, tensor: Tensor, identity: SymbolicScalar, branch: Any) -> Tensor:
        """The tensor for a variable that has this identity behind the merge of `branch`, or in a
        loop. It is another object than an input, so that it can have a value of its own."""
        before = self._aliases.get(id(tensor))
        branch = before.branch if before is not None and branch is None else branch
        actual = tensor if before is None else before.actual
        out = with_class(type(tensor), tensor._data) if self.is_input(tensor) else tensor
        self._aliases[id(out)] = _Alias(out, identity, actual, branch)
        return out

    def get(self, tensor: Tensor) -> SymbolicScalar | None:
        """The identity of a possible alias; None for other tensors."""
        alias = self._aliases.get(id(tensor))
        return None if alias is None else alias.identity

    def end(self) -> dict[int, Tensor]:
        """Ends the run. Returns the object that plain Python has in place of each possible alias,
        by id; views of an alias are now views of this object."""
        self.copy_changes()
        self.in_use = False
        for alias in self._aliases.values():
            if isinstance(alias.tensor.edge, Leaf) and alias.actual is not alias.tensor:
                alias.actual.requires_grad_()
                alias.actual._grad = alias.tensor._grad
        for alias in self._aliases.values():
            if alias.actual is not alias.tensor:
                move_views(alias.tensor, alias.actual)
        actual, self._aliases = self._actual(), {}
        return actual

    def _actual(self) -> dict[int, Tensor]:
        return {key: alias.actual for key, alias in self._aliases.items()
                if alias.actual is not alias.tensor}

    def restore(self, frames: list[Any]) -> None:
        """Assigns the actual objects to local variables, as code is about to compare them."""
        actual = self._actual()
        for frame in frames if actual else ():
            for name, value in list(frame.f_locals.items()):
                if id(value) in actual:
                    set_local(frame, name, actual[id(value)])

    def note_change(self, tensor: Tensor) -> None:
        """Notes that a tensor is about to get a new value."""
        self.copy_changes()
        if self._aliases:
            self._changed.append(tensor)

    def copy_changes(self) -> None:
        """Gives tensors that are one object in plain Python the new value of one of them."""
        changed, self._changed = self._changed, []
        for tensor in changed:
            alias = self._aliases.get(id(tensor))
            actual = tensor if alias is None else alias.actual
            for other in [actual, *(a.tensor for a in self._aliases.values()
                                    if a.actual is actual)]:
                other._data, other.edge = tensor._data, tensor.edge

    def branches(self) -> set[Any]:
        """The keys of the branches behind which tensors are possible aliases."""
        return {alias.branch for alias in self._aliases.values()}

    def observes(self, tensor: Any) -> bool:
        """True if a change of this tensor shows whether a possible alias is an input."""
        if id(tensor) in self._aliases:
            return True
        return is_bare(tensor) and id(tensor) in self.tracer.state.paths and any(
            alias.tensor.shape == tensor.shape and alias.tensor.dtype == tensor.dtype
            for alias in self._aliases.values())

    def observed_at_end(self) -> bool:
        """True if a possible alias has gradients or a view at the end of the run, or an input has
        changed without a notice."""
        if not self._aliases:
            return False
        own = any(a.tensor.edge is not None or a.tensor._grad is not None or is_shared(a.tensor)
                  for a in self._aliases.values())
        return own or any(map(self.observes, self._silently_changed()))

    def _silently_changed(self) -> list[Any]:
        """The outside objects that have another tape edge, or a change without a notice."""
        state, noticed = self.tracer.state, self.tracer.changed_tensors
        changed = [state.values[path] for path, _, _ in state.changes()]
        return [*(value for value in changed if id(value) not in noticed),
                *(state.values[path] for path, edge in state.edges.items()
                  if state.values[path].edge is not edge)]
