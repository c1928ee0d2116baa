"""Changes tensors in place: a change of a tensor changes its base and all of their views."""

from __future__ import annotations

import sys
from typing import Any
from weakref import ref

import numpy as np

from .. import interpreter
from ..arrays.dtypes import int64
from ..arrays.memory import is_whole
from ..errors import DTypeError, GradientError, ViewError
from .dispatch import apply
from .op import OPS
from .tape import MODE, Leaf, with_tape
from .tensor import DETACH, Tensor
from .views import (
    ViewNode,
    base_of,
    bases_of,
    family_of,
    is_shared,
    is_stale,
    path_to,
    plain,
    read_chain,
    repeats_elements,
    view_of,
    views_of,
)


def replace(tensor: Tensor, new: Tensor) -> Tensor:
    """`tensor`, changed in place to the value of `new`, which has its shape and dtype. Its base and
    all views change with it.

    GradientError for a leaf that requires a gradient, or a view of one, while the tape is on;
    ViewError for a view whose elements are not distinct elements of its base. The caller checks
    shape and dtype.
    """
    if tensor._view is not None and is_shared(tensor):
        return _replace_shared(tensor, new)
    if tensor.edge is not None or new.edge is not None:
        _set_edge(tensor, new.edge)
    if interpreter.STATE.active is not None:
        interpreter.STATE.active.changed(tensor)
    tensor._data = new._data
    return tensor


def _set_edge(tensor: Tensor, edge: Any) -> None:
    if MODE.enabled:
        if isinstance(tensor.edge, Leaf):
            raise _leaf_error("a leaf")
        tensor.edge = edge


def _replace_shared(tensor: Tensor, new: Tensor) -> Tensor:
    """`replace` for a tensor with a base or views."""
    if MODE.enabled:
        _check_leaf(tensor)
    if new._data.size and not _written_in_memory(tensor, new):
        _replace_family(tensor, new)
    return tensor


def set_array(tensor: Tensor, array: Any) -> None:
    """Gives a tensor another array of its shape and dtype, without the tape."""
    if not is_shared(tensor):
        tensor._data = array
    else:
        with_tape(False, replace, tensor, Tensor(array))


def set_data(tensor: Tensor, value: Tensor) -> None:
    """Makes a tensor a view of `value` off the tape, whose shape it gets. Its former base and views
    do not change."""
    if not isinstance(value, Tensor) or value.dtype != tensor.dtype:
        raise DTypeError(f"x.data = value takes a tensor of {tensor.dtype.name}, got "
                         f"{value.dtype.name if isinstance(value, Tensor) else value!r:.80}",
                         f"cast it: value.astype(fw.{tensor.dtype.name})")
    if value is tensor:
        return
    _announce(tensor)
    _leave_family(tensor)
    tensor._data = value._data
    view_of(value, tensor, DETACH)


def _leave_family(tensor: Tensor) -> None:
    """Puts another tensor in the place of a tensor among its base and views."""
    node = tensor._view
    if node is not None:
        other = Tensor(tensor._data, tensor.edge)
        other._view, tensor._view = node, None
        for view in views_of(other):
            view._view = view._view._replace(base=other)
        if node.base is not None:
            node.base._view.views.append(ref(other))


def set_edge(tensor: Tensor, edge: Any) -> None:
    """Gives a tensor another edge, and its views the edges of views of it."""
    tensor.edge = edge
    for view in views_of(tensor):
        node = view._view
        if node.access.is_on_tape and not isinstance(view.edge, Leaf):
            set_edge(view, with_tape(True, node.access.read, tensor, node.params).edge)


def _check_leaf(tensor: Tensor) -> None:
    """Raises GradientError for a leaf that requires a gradient, and for a view of one."""
    if isinstance(tensor.edge, Leaf):
        raise _leaf_error("a leaf")
    node = tensor._view
    while node is not None and node.base is not None and node.access.is_on_tape:
        if isinstance(node.base.edge, Leaf):
            raise _leaf_error("a view of a leaf")
        node = node.base._view


def _leaf_error(kind: str) -> GradientError:
    return GradientError(
        f"{kind} that requires a gradient cannot be changed in place while the tape is on",
        "put the update under fw.no_grad()")


def _assign(tensor: Tensor, new: Tensor, is_on_tape: bool = True) -> None:
    """Gives one tensor the value of another, and its edge unless the tape is off."""
    if is_on_tape and MODE.enabled and not isinstance(tensor.edge, Leaf):
        tensor.edge = new.edge
    tensor._data = new._data


def _announce(tensor: Tensor) -> None:
    if interpreter.STATE.active is not None:
        interpreter.STATE.active.changed(tensor)


def _replace_family(tensor: Tensor, new: Tensor, is_uniform: bool = False) -> None:
    """`replace` for a tensor with a base or views. It raises before anything changes."""
    for member in [tensor, *bases_of(tensor)] if interpreter.in_use else ():
        _announce(member)
    changes = _changes_of_bases(tensor, new, is_uniform)
    changes += _changes_of_views(changes)
    for target, value, is_on_tape in changes:
        _announce(target)
        _assign(target, value, is_on_tape)


_Change = tuple[Tensor, Tensor, bool]  # (tensor, new value, if its edge changes)


def _changes_of_bases(tensor: Tensor, new: Tensor, is_uniform: bool) -> list[_Change]:
    """The changes of a tensor and of the bases that it is a view of."""
    changes: list[_Change] = [(tensor, new, True)]
    target, value, is_on_tape = tensor, new, True
    node = tensor._view
    while node is not None and node.base is not None:
        is_on_tape = is_on_tape and node.access.is_on_tape
        write = node.access.write
        if write is None:
            changes.clear()  # other elements of these views change as well: they are read again
            if not is_uniform:
                _check_distinct(node.base, target)
            steps = path_to(target, node.base)
            new = with_tape(MODE.enabled and is_on_tape, _write_elements, node.base, steps, value)
        else:
            new = with_tape(MODE.enabled and is_on_tape, write, node.base, new, node.params)
        tensor = node.base
        changes.append((tensor, new, is_on_tape))
        node = tensor._view
    return changes


def _changes_of_views(changes: list[_Change]) -> list[_Change]:
    """The changes of all other views of tensors that change."""
    done = {id(tensor) for tensor, _, _ in changes}
    more: list[_Change] = []
    todo = list(changes)
    for base, value, is_on_tape in todo:  # which grows
        for view in views_of(base):
            if id(view) in done:
                continue
            node = view._view
            follows = is_on_tape and node.access.is_on_tape
            new = _reread(value, node, MODE.enabled and follows)
            new._view = None
            change = view, new, follows
            more.append(change)
            todo.append(change)
    return more


def _reread(base: Tensor, node: ViewNode, is_on_tape: bool) -> Tensor:
    """The view of a new value of its base."""
    if interpreter.in_use and is_stale(node.params):
        # Probably only the interpreter still holds this view. It does not know the new value, and
        # so notices a use of it.
        return interpreter.outside(node.access.read, base, plain(node.params))  # type: ignore
    return with_tape(is_on_tape, node.access.read, base, node.params)  # type: ignore


def _write_elements(base: Tensor, steps: Any, value: Tensor) -> Tensor:
    """`base` with the elements of a view replaced, by their positions: for a view of a view in
    which elements repeat."""
    positions = with_tape(False, _positions, base, steps)  # they may depend on numbers of the call
    flat = apply(OPS["reshape"], (base,), {"shape": (-1,)})
    values = apply(OPS["reshape"], (value,), {"shape": (-1,)})
    out = apply(OPS["index_put"], (flat, values, positions))
    return apply(OPS["reshape"], (out,), {"shape": base.shape})


def _check_distinct(base: Tensor, view: Tensor) -> None:
    """ViewError if several elements of a view are one element of its base."""
    steps = path_to(view, base)
    positions = interpreter.outside(_positions, base, steps)._data
    if np.unique(positions).size < positions.size:
        raise ViewError(
            f"a tensor of shape {view.shape} cannot be changed in place: several of its elements "
            f"are one element of the tensor of shape {base.shape} that it is a view of "
            f"({steps[0][0]})", "copy it first: y = fw.asarray(y, copy=True)")


def fill_elements(tensor: Tensor, new: Tensor) -> None:
    """`replace` for a view in which elements repeat, by a tensor whose elements are all equal."""
    if MODE.enabled:
        _check_leaf(tensor)
    _replace_family(tensor, new, is_uniform=True)


def _positions(base: Tensor, steps: Any) -> Tensor:
    """The position in `base`, in row-major order, of each element of a view."""
    params = {"shape": (base._data.size,), "axis": 0, "dtype": int64}
    numbers = apply(OPS["reshape"], (apply(OPS["iota"], (), params),), {"shape": base.shape})
    return apply(OPS["reshape"], (read_chain(numbers, steps),), {"shape": (-1,)})


# ---- in memory
def _references(tensor: Tensor) -> int:
    array = tensor._data
    return sys.getrefcount(array)


# References to an array that only its tensor holds, as `shares_memory` counts them.
_EXCLUSIVE = _references(Tensor(np.empty(1)))


def shares_memory(tensor: Tensor) -> bool:
    """True if a write to the memory of a tensor changes its base and all of their views, and no one
    else holds that memory. False if elements repeat: a write to them may be an error."""
    if interpreter.in_use or tensor.edge is not None or repeats_elements(tensor):
        return False
    family = family_of(tensor)
    array = family[0]._data
    if type(array) is not np.ndarray or not is_whole(array) or not array.flags.writeable:
        return False
    for view in family[1:]:
        data = view._data
        if data.base is not array or view.edge is not None or sys.getrefcount(data) > _EXCLUSIVE:
            return False
        del data
    return family[0].edge is None and sys.getrefcount(array) == _EXCLUSIVE + len(family) - 1


def _written_in_memory(tensor: Tensor, new: Tensor) -> bool:
    """True if the values of `new` were written to the memory of the tensor."""
    if new.edge is not None or base_of(tensor) is None or not shares_memory(tensor):
        return False
    array: Any = tensor._data
    if not array.flags.writeable or type(new._data) is not np.ndarray:
        return False
    array[...] = new._data
    return True
