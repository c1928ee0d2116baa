"""Registers the functions that upper layers provide to lower ones.

Imports go down only. Where a lower layer has to call an upper one, it calls a function of `UPPER`.
The root package registers them in one call of `register`, except for those of collectives: the
start of a process group registers them. No import fills one on its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any


class Upper:
    """The functions of upper layers, by name. None: this process has no such function.

    `compile`: `fw.compile`, for `Module.compile`
    `save`: save(compiled, path) writes a compiled function to a file
    `gradients`: gradients(y, xs, g) of the tape, for the vjp of composites
    `large_op`: large_op(op, arrays, params) is the result of an op on large arrays of the CPU, or
        None to leave it to NumPy
    `large_vjp`: large_vjp(entry, needs, g) are the gradients of an entry's inputs, or None
    `recurrent_layer`: `nn.functional.recurrence.run` with all steps as one program, or None
    `device_op`: device_op(op, arrays, params, device) is the result of an op on arrays of a device,
        of any strides, and numbers; None without code for it
    `device_in_range`: device_in_range(x, size, low) is True if the elements of a device's array are
        low ... size - 1; None without code for it
    `observer`: observer(event) makes a profile hook that is faster than Python's
    `fast_path`: the operations of the fast path in native code (`capture/replay/fast_path.py`)
    `code_kinds`: code_kinds() names the languages in which code of a segment can be shown
    `code_of`: code_of(segment, kind) is the code of a segment in one of these languages
    `write_page`: write_page(data, path, open) writes the data of `explain()` as an HTML page to a
        path, or to a temporary file if that is None; `open` shows it in the browser
    `iterate`: iterate(x, plain, frame) is the iterator with which a frame begins a `for` over a
        tensor or a container: while a trace follows the frame, one that knows its position, else
        plain()
    `collective`: collective(kind, array, params) is the result of a collective operation on this
        rank; `distributed` registers it when a process group begins
    `begin_collective`: the same, as a Future of the result
    `builtin_ops`: the ops that fusewire's own sources define, by name
    """

    compile: Callable[..., Any] | None = None
    save: Callable[[Any, Any], None] | None = None
    gradients: Callable[[Any, list[Any], Any], tuple[Any, ...]] | None = None
    large_op: Callable[[Any, Any, dict[str, Any]], Any] | None = None
    large_vjp: Callable[[Any, Any, Any], Any] | None = None
    recurrent_layer: Callable[..., Any] | None = None
    device_op: Callable[[Any, Any, dict[str, Any], str], Any] | None = None
    device_in_range: Callable[[Any, int, int], bool | None] | None = None
    observer: Callable[[Callable[[Any, str, Any], None]], Any] | None = None
    fast_path: Any = None
    code_kinds: Callable[[], tuple[str, ...]] = staticmethod(lambda: ())
    code_of: Callable[[Any, str], str] = staticmethod(lambda segment, kind: "")
    write_page: Callable[[Any, Any, bool], None] = staticmethod(lambda data, path, open: None)
    iterate: Callable[[Any, Any, Any], Any] = staticmethod(lambda x, plain, frame: plain())
    collective: Callable[[str, Any, Mapping[str, Any]], Any] | None = None
    begin_collective: Callable[[str, Any, Mapping[str, Any]], Any] | None = None
    builtin_ops: Mapping[str, Any] = MappingProxyType({})


UPPER = Upper()


def register(**functions: Any) -> None:
    """Provides functions to lower layers. TypeError for a name that is not documented above."""
    unknown = functions.keys() - Upper.__annotations__.keys()
    if unknown:
        raise TypeError(f"no lower layer calls {', '.join(sorted(unknown))}")
    for name, function in functions.items():
        setattr(UPPER, name, function)
