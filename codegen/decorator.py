"""`fw.compile`: traces functions and replays the traces as native code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, overload

from ..capture.graph.bind_sizes import has_symbols
from ..capture.graph.graph import Graph
from ..capture.replay.compiled_function import Compiled
from ..capture.replay.differential_check import CheckedProgram, checking, interval
from ..capture.segments.segment import Backend
from ..capture.trace.dynamic_spec import Dynamic, check_dynamic
from ..eager.errors import CaptureError
from ..eager.nn.base.module import Module
from .compile import compile_dynamic, compile_graph
from .dynamic.specializations import DynamicExecutable
from .partition.hybrid_executable import op_by_op


@dataclass(frozen=True)
class CheckedBackend:
    """A back end whose native code is compared with NumPy as often as `check` says; it can be
    pickled."""

    check: str | float
    name: str

    def __call__(self, graph: Graph) -> Any:
        fixed = checking(compile_graph, self.check, self.name)
        if not has_symbols(graph):
            return fixed(graph)
        every = interval(self.check)

        def checked(specialized: Graph, program: Any) -> CheckedProgram:
            return CheckedProgram(specialized, program, compile_graph, every, self.name)

        return DynamicExecutable(graph, fixed, compile_dynamic, checked)


@overload
def compile(fn: Callable[..., Any], *, fullgraph: bool = False,
            check: str | float | None = None, dynamic: Dynamic = None,
            background: bool = False) -> Any: ...
@overload
def compile(fn: None = None, *, fullgraph: bool = False,
            check: str | float | None = None,
            dynamic: Dynamic = None,
            background: bool = False) -> Callable[[Callable[..., Any]], Any]: ...


def compile(fn: Callable[..., Any] | None = None, *, fullgraph: bool = False,
            check: str | float | None = None, dynamic: Dynamic = None,
            background: bool = False) -> Any:
    """`fn`, traced on its first call and then replayed as one native program.

    A trace is replayed while its guards hold: while nothing that the traced call read has changed.
    Takes a function, a method, or a module; a module is returned itself, with its `forward`
    compiled. Code that cannot be traced causes a graph break: it runs in Python, and the operations
    around it run as compiled subgraphs. One warning names the line; with `fullgraph=True` it raises
    CaptureError instead.
    With `check`, replays are compared with Python and NumPy, and CheckError names the first
    operation that differs: "first" checks every program once, "always" each call, 0.01 one in 100.
    Sizes that differ from call to call become symbolic automatically; `dynamic=True` asks for that
    from the first call, {"x": [0]} for these axes of these arguments, False rules it out.
    With `background`, no call waits for compilation: another thread compiles, and calls run op by
    op until it is done, with eager's bits, so that the last bits of results depend on time.
    `wait()` on the compiled function returns when the code is ready.
    Use it bare or with options: `@fw.compile`, `@fw.compile(fullgraph=True)`.

    >>> import fusewire as fw
    >>> @fw.compile
    ... def f(x, y):
    ...     return (x * y + 1).sum()
    >>> f(fw.ones(3), fw.ones(3))
    tensor(6.)
    """
    if fn is None:
        return lambda function: compile(function, fullgraph=fullgraph, check=check,
                                        dynamic=dynamic, background=background)
    if isinstance(fn, Module):
        forward = compile(fn.forward, fullgraph=fullgraph, check=check, dynamic=dynamic,
                          background=background)
        fn.forward = forward  # type: ignore[method-assign]
        return fn
    if not callable(fn):
        raise CaptureError(f"compile takes a function, a method or a module, not {fn!r:.60}")
    check_dynamic(dynamic, fn)
    backend: Backend = compile_graph
    if check is not None:
        interval(check)  # raises for one that makes no sense
        backend = CheckedBackend(check, getattr(fn, "__name__", type(fn).__name__))
    return Compiled(fn, backend, fullgraph, check, dynamic, op_by_op if background else None)
