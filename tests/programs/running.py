"""Runs a program eagerly and compiled, and says where the two differ."""

from __future__ import annotations

import contextlib
import io
import linecache
import re
import types
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import fusewire as fw
from fusewire import nn
from fusewire.capture.graph.bind_sizes import has_symbols
from fusewire.capture.graph.graph import Graph
from fusewire.capture.graph.reference_interpreter import evaluate
from fusewire.capture.replay.compiled_function import Compiled
from fusewire.capture.runtime.metrics import Memory
from fusewire.capture.runtime.warnings import CaptureWarning
from fusewire.codegen.dynamic.specializations import DynamicExecutable

from .writing import Program

RELATIVE = {4: 1e-4, 8: 1e-9}  # by size of the dtype; programs are some dozens of ops long
Wrap = Callable[[Any], Any]


class Evaluated:
    """A graph as a backend's executable, run with NumPy: nothing is compiled."""

    code = ""
    memory = Memory(0, 0, 0)

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def __call__(self, arrays: list[Any]) -> list[Any]:
        return [np.array(a) for a in evaluate(self.graph, arrays)]

    def rows(self) -> list[dict[str, Any]]:
        return []

    def explain(self) -> str:
        return ""


@dataclass
class Outcome:
    """What is seen after a call: result or exception, arguments, and all that the program keeps."""

    error: str
    seen: Any
    lasting: Any  # of `seen`, what was there before the call as well


@dataclass
class Comparison:
    """Where compiled differs from eager, if it does, and what the compiled function did."""

    difference: str = ""
    calls: int = 0
    stats: Any = None  # its counts


def with_numpy(graph: Graph) -> Any:
    """A graph as an executable that NumPy runs."""
    return DynamicExecutable(graph, Evaluated) if has_symbols(graph) else Evaluated(graph)


def numpy_backed(fn: Any) -> Compiled:
    """`fn` compiled with NumPy as its backend."""
    return Compiled(fn, with_numpy)


def compare(program: Program, wrap: Wrap = numpy_backed) -> Comparison:
    """Runs all calls eagerly, then compiled, each with a state of its own."""
    expected, _ = outcomes(program, lambda fn: fn)
    found, compiled = outcomes(program, wrap)
    stats = getattr(compiled, "stats", None)
    before: Any = None
    for number, (got, want) in enumerate(zip(found, expected)):
        text = _difference_of_call(got, want)
        if text and want.error and got.error == want.error:
            if before is not None and not differs(got.lasting, before):
                break  # the exception left everything as it was before the call
        if text:
            return Comparison(f"call {number}: {text}", len(found), stats)
        before = want.lasting
    return Comparison("", len(found), stats)


def _difference_of_call(got: Outcome, want: Outcome) -> str:
    if got.error != want.error:
        return f"raises {got.error or 'nothing'}, eager {want.error or 'nothing'}"
    return differs(got.seen, want.seen)


def outcomes(program: Program, wrap: Wrap) -> tuple[list[Outcome], Any]:
    """What is seen after each call of the program's function, wrapped, and that function."""
    name = f"program_{program.seed}.py"
    linecache.cache[name] = (len(program.source), None, program.source.splitlines(True), name)
    scope: dict[str, Any] = {"__name__": f"program_{program.seed}"}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        fw.manual_seed(program.seed)
        exec(compile(program.source, name, "exec"), scope)
        scope["run"] = wrap(scope["f"])
        results: list[Any] = []
        return [_call(text, scope, results) for text in program.calls], scope["run"]


def _call(text: str, scope: dict[str, Any], results: list[Any]) -> Outcome:
    error, scope["result"] = "", scope.get("result")
    with Output() as output:
        try:
            exec(text, scope)
            results.append(scope["result"])
        except Exception as raised:  # whatever a program raises
            error = f"{type(raised).__name__}: {raised}"
    if "RECORDS" in scope:
        results.append([*output.lines(), *map(words, scope.pop("RECORDS"))])
        scope["RECORDS"] = []
    kept = {key: value for key, value in scope.items()
            if not key.startswith("__") and key not in ("run", "result", "W")
            and not isinstance(value, (types.ModuleType, types.FunctionType, type))}
    if "peek" in scope:
        kept["closure"] = scope["peek"]()
    lasting = freeze({key: value for key, value in kept.items() if key not in ("x", "v")})
    return Outcome(error, freeze([kept, results]), lasting)


# ---- what is printed
NUMBER = re.compile(r"(-?\d+\.\d*(?:e[-+]?\d+)?|-?inf|nan)")


def words(value: Any) -> list[Any]:
    """A text, or a tuple of texts, as words and numbers."""
    return [float(part) if i % 2 else part for i, part in enumerate(NUMBER.split(str(value)))]


class Output:
    """A context that gathers what a program writes to its streams, and its warnings."""

    def __enter__(self) -> Output:
        self._streams = [io.StringIO(), io.StringIO()]
        self._stack = contextlib.ExitStack()
        self._stack.enter_context(contextlib.redirect_stdout(self._streams[0]))
        self._stack.enter_context(contextlib.redirect_stderr(self._streams[1]))
        self._warned = self._stack.enter_context(warnings.catch_warnings(record=True))
        warnings.simplefilter("ignore", CaptureWarning)
        warnings.filterwarnings("default", module="program_")
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def lines(self) -> list[Any]:
        """The texts, as words and numbers."""
        warned = [(str(w.message), w.filename, w.lineno) for w in self._warned
                  if not issubclass(w.category, CaptureWarning)]
        return [words(value) for value in (*[s.getvalue() for s in self._streams], *warned)]


# ---- values as seen
def freeze(value: Any) -> Any:
    """Nested tuples that say all there is to see of a value, and which parts are one object."""
    return _freeze(value, {})


def _freeze(value: Any, known: dict[int, tuple[int, Any]]) -> Any:
    kind = type(value)
    if value is None or kind in (bool, int, float, str, complex):
        return (kind.__name__, value)
    if id(value) in known:
        return ("again", known[id(value)][0])
    known[id(value)] = (len(known), value)  # held, so that no other object gets its id
    if isinstance(value, fw.Tensor):
        array = np.array(value._data)
        return ("tensor", array, value.requires_grad, _freeze(value._grad, known))
    if kind in (list, tuple):
        return (kind.__name__, *[_freeze(v, known) for v in value])
    if kind is dict:
        return ("dict", *[(str(k), _freeze(v, known)) for k, v in value.items()])
    if isinstance(value, nn.Module):
        return ("module", _freeze(dict(value.named_parameters()), known))
    if isinstance(value, fw.optim.Optimizer):
        return ("optimizer", _freeze(list(value.state.values()), known))
    return (kind.__name__, _freeze(vars(value), known) if hasattr(value, "__dict__") else "?")


def differs(got: Any, want: Any, where: str = "") -> str:
    """The first difference of two frozen values in words, or an empty text."""
    if isinstance(want, np.ndarray) and isinstance(got, np.ndarray):
        return "" if _close(got, want) else f"{where or 'it'} is {_text(got)}, eager {_text(want)}"
    if isinstance(want, tuple) and isinstance(got, tuple):
        if len(got) != len(want):
            return f"{where or 'it'} is {_short(got)}, eager {_short(want)}"
        name = f" {want[0]}" if want and isinstance(want[0], str) else ""
        parts = (differs(g, w, f"{where}{name}") for g, w in zip(got, want))
        return next(filter(None, parts), "")
    if type(got) is type(want) is float:
        same = bool(np.isclose(got, want, 1e-4, 1e-5, equal_nan=True))
    else:
        same = type(got) is type(want) and got == want
    return "" if same else f"{where or 'it'} is {_short(got)}, eager {_short(want)}"


def _close(got: np.ndarray, want: np.ndarray) -> bool:
    if (got.shape, got.dtype) != (want.shape, want.dtype):
        return False
    if got.dtype.kind != "f":
        return bool((got == want).all())
    relative = RELATIVE[got.dtype.itemsize]
    return bool(np.allclose(got, want, relative, relative, equal_nan=True))


def _text(array: np.ndarray) -> str:
    return f"{array.dtype.name}{list(array.shape)} {array.ravel()[:6].tolist()}"


def _short(value: Any) -> str:
    return f"{value!r:.120}"
