"""`fw.compile`: recording, with native code as what is replayed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

from ..capture.compiled import Compiled
from ..eager.errors import CaptureError
from ..eager.nn import module
from ..eager.nn.module import Module
from .compile import compile_graph


@overload
def compile(fn: Callable[..., Any], *, fullgraph: bool = False) -> Any: ...
@overload
def compile(fn: None = None, *, fullgraph: bool = False) -> Callable[[Callable[..., Any]], Any]: ...


def compile(fn: Callable[..., Any] | None = None, *, fullgraph: bool = False) -> Any:
    """`fn`, recorded on its first call and then replayed as one native program.

    A recording is replayed while nothing that the run read differs. Takes a function, a method, or
    a module: a module is given back itself, its `forward` compiled. What cannot be recorded runs
    eagerly with one warning that names the line, or raises CaptureError with `fullgraph=True`.
    Use it bare or with options: `@fw.compile`, `@fw.compile(fullgraph=True)`.

    >>> import fusewire as fw
    >>> @fw.compile
    ... def f(x, y):
    ...     return (x * y + 1).sum()
    >>> f(fw.ones(3), fw.ones(3))
    tensor(6.)
    """
    if fn is None:
        return lambda function: compile(function, fullgraph=fullgraph)
    if isinstance(fn, Module):
        fn.forward = Compiled(fn.forward, compile_graph, fullgraph)  # type: ignore[method-assign]
        return fn
    if not callable(fn):
        raise CaptureError(f"compile takes a function, a method or a module, not {fn!r:.60}")
    return Compiled(fn, compile_graph, fullgraph)


module.compiler = compile
