"""Records which tensors are views of which, so that a write to one of them reaches all others.

Arrays never change, so a view and its base hold arrays of their own. Each view has a `ViewNode`
with its base, and an `Access`: how to read the view from its base, and how to write a new value of
the view into the base. `in_place` uses both when a tensor is changed.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar
from weakref import ref

import numpy as np

from .. import interpreter

T = TypeVar("T")
_MIN_LIMIT = 16  # views that a tensor may have before those that are gone are removed
_LOCK = threading.Lock()


class Access(NamedTuple):
    """One kind of view. `params`, an argument of both functions, says which elements it has.

    `write` is None if several elements of the view may be one element of the base.
    """

    name: str
    read: Callable[[Any, Any], Any]  # (base, params) -> view
    write: Callable[[Any, Any, Any], Any] | None  # (base, new value of the view, params) -> base
    is_on_tape: bool = True  # False: gradients do not flow between the view and its base


ACCESSES: dict[str, Access] = {}
_NONE = Access("none", lambda base, params: base, None)  # of a tensor that is no view


def define_access(name: str, read: Callable[[Any, Any], Any],
                  write: Callable[[Any, Any, Any], Any] | None, is_on_tape: bool = True) -> Access:
    """A new kind of view, which is now in the table."""
    ACCESSES[name] = access = Access(name, read, write, is_on_tape)
    return access


class Views(list[Any]):
    """Weak references to views of a tensor. Those that are gone are removed beyond `limit`."""

    __slots__ = ("limit",)

    def __init__(self) -> None:
        super().__init__()
        self.limit = _MIN_LIMIT

    def remove_dead(self) -> None:
        """Removes the views that are gone."""
        with _LOCK:  # another thread may append meanwhile
            count = len(self)
            self[:count] = [r for r in self[:count] if r() is not None]
            self.limit = max(_MIN_LIMIT, 2 * len(self))


class ViewNode(NamedTuple):
    """The base of which a tensor is a view, and its own views; either may be None."""

    base: Any
    access: Access
    params: Any
    views: Views | None


_make: Any = tuple.__new__  # faster than the constructor of a named tuple


def view_of(x: Any, out: T, access: Access, params: Any = None) -> T:
    """`out`, a new tensor, marked as a view of `x`: it is access.read(x, params)."""
    node = x._view
    views = None if node is None else node.views
    if views is None:
        views = _with_views(x)
    views.append(ref(out))
    if len(views) > views.limit:
        views.remove_dead()
    out._view = _make(ViewNode, (x, access, params, None))  # type: ignore[attr-defined]
    return out


def _with_views(x: Any) -> Views:
    """The views of a tensor, to which one can be added."""
    with _LOCK:
        node = x._view or ViewNode(None, _NONE, None, None)
        if node.views is not None:
            return node.views  # type: ignore[no-any-return]
        views = Views()
        x._view = node._replace(views=views)
        return views


def is_shared(x: Any) -> bool:
    """True if `x` is a view, or has a view that is alive."""
    node = x._view
    if node is None:
        return False
    if has_base(x):
        return True
    for reference in node.views or ():
        if reference() is not None:
            return True
    if node.views:
        node.views.remove_dead()
    return False


def has_base(x: Any) -> bool:
    """True if `x` is a view of a tensor that somebody else has, or through which elements repeat.
    """
    return base_of(x) is not None and not leave_family(x)


def leave_family(x: Any) -> bool:
    """Makes `x` no view if nobody else has a tensor that shares elements with it. True if so.

    `fw.arange(6).reshape((2, 3))` is a view of a tensor that is gone for the user. The result of
    `.T` remains a view: a reshape of it copies, whoever has the other tensor.
    """
    tensor = x
    while (node := tensor._view) is not None and node.base is not None:
        if node.access.write is None or _references(node) > _ONE_REFERENCE \
                or any(view is not tensor for view in views_of(node.base)):
            return False
        tensor = node.base
    if tensor is x:
        return True
    if strides_of(x):
        return False
    views = x._view.views
    x._view = None if views is None else ViewNode(None, _NONE, None, views)
    return True


def _references(node: ViewNode) -> int:
    """The number of references to the base of a view."""
    return sys.getrefcount(node.base)


_ONE_REFERENCE = _references(ViewNode(object(), _NONE, None, None))


def base_of(x: Any) -> Any:
    """The tensor of which `x` is a view, or None."""
    return None if x._view is None else x._view.base


def views_of(x: Any) -> Iterator[Any]:
    """The views of `x` that are alive, without views of these."""
    node = x._view
    if node is not None and node.views:
        for reference in list(node.views):
            view = reference()
            if view is not None:
                yield view


def move_views(x: Any, other: Any) -> None:
    """Makes the views of `x` views of another tensor, which has the same elements."""
    for view in views_of(x):
        _with_views(other).append(ref(view))
        view._view = view._view._replace(base=other)


def root_of(x: Any) -> Any:
    """The tensor that is no view itself, of which `x` is a view, or a view of a view; or `x`."""
    while x._view is not None and x._view.base is not None:
        x = x._view.base
    return x


def family_of(x: Any) -> list[Any]:
    """All tensors that are alive and share elements with `x`, bases before their views."""
    family = [root_of(x)]
    for tensor in family:  # which grows
        family.extend(views_of(tensor))
    return family


def bases_of(x: Any) -> Iterator[Any]:
    """The tensor of which `x` is a view, its base, and so on up to the root."""
    while x._view is not None and x._view.base is not None:
        x = x._view.base
        yield x


def repeats_elements(x: Any) -> bool:
    """True if several elements of a view may be one element of its root."""
    node = x._view
    while node is not None and node.base is not None:
        if node.access.write is None:
            return True
        node = node.base._view
    return False


def path_to(x: Any, base: Any = None) -> tuple[tuple[str, Any], ...]:
    """The accesses that lead to `x` from a base, by name, with their parameters. None: the root."""
    path = []
    while x is not base and x._view is not None and x._view.base is not None:
        path.append((x._view.access.name, x._view.params))
        x = x._view.base
    return tuple(reversed(path))


def relations(tensors: Sequence[Any]) -> str:
    """A text that says which of these tensors share elements, and how. Empty if none do."""
    roots: dict[int, list[int]] = {}
    for i, tensor in enumerate(tensors):
        if tensor._view is not None:
            roots.setdefault(id(root_of(tensor)), []).append(i)
    related = [[(i, text_of_path(tensors[i])) for i in members]
               for members in roots.values() if len(members) > 1]
    return repr(related) if related else ""


def text_of_path(x: Any) -> tuple[tuple[str, str], ...]:
    """`path_to` with parameters as text. Symbolic parameters are equal to themselves only."""
    return tuple((name, _text_of(params)) for name, params in path_to(x))


def _text_of(params: Any) -> str:
    if isinstance(params, tuple):
        return f"({', '.join(map(_text_of, params))})"
    if isinstance(params, slice):
        return _text_of((params.start, params.stop, params.step))
    is_plain = params is None or params is Ellipsis or type(params) in (int, str, bool)
    return repr(params) if is_plain else str(id(params))


def is_fixed(params: Any) -> bool:
    """True if no parameter of an access is a tensor or a symbol, whose values vary with the call.
    """
    if isinstance(params, slice):
        params = params.start, params.stop, params.step
    if isinstance(params, tuple):
        return all(map(is_fixed, params))
    is_size = isinstance(params, int) and type(params) not in (int, bool)
    return not (is_size or isinstance(params, interpreter.Symbol) or hasattr(params, "_data"))


def joined_access(x: Any, base: Any) -> tuple[str, Any]:
    """The name and the parameters of the access that leads from a base to its view `x`, or to a
    view of a view."""
    nodes: list[ViewNode] = []
    while x is not base:
        nodes.insert(0, x._view)
        x = x._view.base
    if len(nodes) == 1:
        return nodes[0].access.name, nodes[0].params
    chain = _CHAIN
    if any(node.access.write is None for node in nodes):
        chain = _OVERLAPPING_CHAIN
    elif not all(node.access.is_on_tape for node in nodes):
        chain = _DETACHED_CHAIN
    return chain.name, tuple((node.access.name, node.params) for node in nodes)


def read_chain(base: Any, steps: Any) -> Any:
    for name, params in steps:
        base = ACCESSES[name].read(base, params)
    return base


def _write_chain(base: Any, value: Any, steps: Any) -> Any:
    (name, params), *inner = steps
    access = ACCESSES[name]
    if inner:
        value = _write_chain(access.read(base, params), value, inner)
    assert access.write is not None
    return access.write(base, value, params)


_CHAIN = define_access("chain", read_chain, _write_chain)
_DETACHED_CHAIN = define_access("detached chain", read_chain, _write_chain, is_on_tape=False)
_OVERLAPPING_CHAIN = define_access("overlapping chain", read_chain, None)


def layout(x: Any) -> Any:
    """An array whose elements lie in memory as those of `x` do in its root, which counts as
    row-major, whatever its array is. Nothing but the layout of the result has a meaning."""
    root = root_of(x)
    if _is_row_major(root._data) and _lies_in(x._data, root._data):
        return x._data
    array = np.empty(root._data.shape, root._data.dtype)
    steps = [(name, plain(params)) for name, params in path_to(x)]
    return interpreter.outside(read_chain, _tensor_like(root, array), steps)._data


def _is_row_major(array: Any) -> bool:
    return type(array) is np.ndarray and array.flags.c_contiguous


def _lies_in(part: Any, whole: Any) -> bool:
    """True if an array is, or has, elements of the memory of another one."""
    return part is whole or (type(part) is np.ndarray and part.base is not None
                             and (part.base is whole or part.base is whole.base))


def strides_of(x: Any) -> str:
    """A text of the distances between the elements of `x` in its root; empty if they follow each
    other in row-major order, so that every reshape is a view."""
    array = layout(x)
    return "" if array.flags.c_contiguous else repr(array.strides)


def _tensor_like(x: Any, array: Any) -> Any:
    """A tensor of `array` of the class of `x`, whose constructor may take other arguments."""
    out = object.__new__(type(x))
    out._data, out.edge, out._grad, out._view = array, None, None, None
    return out


def plain(params: Any) -> Any:
    """Parameters of an access with numbers in place of symbols."""
    if isinstance(params, tuple):
        return tuple(map(plain, params))
    if isinstance(params, slice):
        return slice(*map(plain, (params.start, params.stop, params.step)))
    return getattr(params, "value", params)


def is_stale(params: Any) -> bool:
    """True if a parameter of an access is a number of an earlier iteration of a loop."""
    if isinstance(params, slice):
        params = params.start, params.stop, params.step
    if isinstance(params, tuple):
        return any(map(is_stale, params))
    return isinstance(params, interpreter.Symbol) and params.is_stale


def overlap(views: list[Any]) -> bool:
    """True if two views of one tensor may have an element in common, now or in another call."""
    if len(views) > 1 and not all(is_fixed(path_to(view)) for view in views):
        return True
    root = root_of(views[0])
    dummy = _tensor_like(root, np.empty(root._data.shape, root._data.dtype))
    arrays = [interpreter.outside(read_chain, dummy, path_to(view))._data for view in views]
    return any(_share_memory(dummy._data, a, b) for i, a in enumerate(arrays) for b in arrays[:i])


def _share_memory(whole: Any, a: Any, b: Any) -> bool:
    """True if two parts of an array may have memory in common; also for parts that were copied."""
    try:
        return a.base is not whole or b.base is not whole or \
            np.shares_memory(a, b, max_work=10_000)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True
