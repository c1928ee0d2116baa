"""One recorded run: its graph, when it is valid, and how to replay it."""

from __future__ import annotations

import os
import types
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ..eager import interpreter
from ..eager.ops.random import default_generator
from ..eager.tape import Entry, Leaf, is_grad_enabled
from ..eager.tensor import Tensor
from .effects import Effect, find_effects
from .graph import Graph
from .guards import Guard, Source, compile_check, find_guards
from .hook import Hook
from .paths import Path
from .recorder import Recorder
from .state import State
from .template import Make, Outputs


class Executable(Protocol):
    """What a backend makes of a graph."""

    def __call__(self, arrays: list[Any]) -> list[Any]:
        """The graph's outputs for these inputs."""

    def rows(self) -> list[dict[str, Any]]:
        """A row per kernel: name, line, seconds, bytes, flops."""

    def explain(self) -> str:
        """The kernels in words."""

    @property
    def code(self) -> str:
        """The generated code."""


Backend = Callable[[Graph], Executable]


class Recording:
    """A path a function took: valid where `guards` hold, replayed by one call of its program."""

    def __init__(
        self, graph: Graph, guards: list[Guard], check: Callable[[Any, Any], int],
        gather: Callable[[Any, Any], Any], effects: list[Effect], outputs: Outputs, result: Make,
    ) -> None:
        self.graph, self.guards, self.check, self.gather = graph, guards, check, gather
        self.effects, self.result = effects, result
        self.grad_enabled, self.casting = is_grad_enabled(), interpreter.STATE.casting
        self._tensors = [(i, _edge(t)) for i, t in outputs.tensors]
        self.executable: Executable | None = None
        self.uses = 0

    def missed(self, args: Any, kwargs: Any) -> str:
        """Why this recording does not fit the call: the condition that failed; "" where it fits."""
        if self.grad_enabled != is_grad_enabled():
            return f"gradients are {'enabled' if self.grad_enabled else 'disabled'}"
        if self.casting is not interpreter.STATE.casting:
            return f"autocast is {'off' if self.casting is None else self.casting.dtype.name}"
        try:
            failed = self.check(args, kwargs)
        except (AttributeError, KeyError, IndexError, ValueError, TypeError):
            return "what it read is no longer there"
        return "" if failed < 0 else self.guards[failed].says

    def fits(self, args: Any, kwargs: Any) -> bool:
        if self.grad_enabled != is_grad_enabled() \
                or self.casting is not interpreter.STATE.casting:
            return False
        try:
            return self.check(args, kwargs) < 0
        except (AttributeError, KeyError, IndexError, ValueError, TypeError):
            return False

    def replay(self, args: Any, kwargs: Any) -> Any:
        """What the function returns for this call, its effects done."""
        assert self.executable is not None
        sources, targets, read = self.gather(args, kwargs)
        arrays = self.executable([t.data for t in sources])
        del sources
        tensors = [Tensor(arrays[i], edge) for i, edge in self._tensors]
        result = self.result(tensors, read)
        pending = [
            (e.assign, target, e.value(tensors, read) if e.node is None else arrays[e.node])
            for e, target in zip(self.effects, targets)
        ]
        for assign, target, value in pending:
            assign(target, value)
        self.uses += 1
        return result


def _edge(tensor: Tensor) -> Any:
    """The tape of a returned tensor: that of the recorded run was used up there, and stays so."""
    if tensor.edge is None or isinstance(tensor.edge, Leaf):
        return None
    entry = Entry(tensor.edge.op, {}, (), (), None)
    entry.arrays = None  # type: ignore[assignment]
    return entry


class Run:
    """What came of recording one call: its result, and the recording or why there is none."""

    def __init__(self, result: Any, recording: Recording | None, refusal: str) -> None:
        self.result, self.recording, self.refusal = result, recording, refusal


def record(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Run:
    """Runs fn(*args, **kwargs) as eager does and notes it."""
    state = State()
    held: dict[int, Any] = {}
    recorder = Recorder(state, len(args), tuple(kwargs))

    def entered(code: types.CodeType, names: dict[str, Any]) -> None:
        held[id(names)] = names
        state.walk_globals(code.co_names, names)

    for i, arg in enumerate(args):
        state.walk(Path("args").item(i), arg)
    for key, arg in kwargs.items():
        state.walk(Path("kwargs").item(key), arg)
    state.walk(Path("function"), fn)
    held[id(default_generator)] = default_generator
    state.walk(Path("object", id(default_generator)).attr("state"), default_generator.state)
    before, interpreter.STATE.active = interpreter.STATE.active, recorder
    hook = Hook(entered, recorder.refuse)
    try:
        with hook:
            result = fn(*args, **kwargs)
    finally:
        interpreter.STATE.active = before
    recording = None
    if not recorder.refusal:
        names = None if hook.any_attribute else hook.names
        recording = _finish(fn, recorder, names, held, result)
    return Run(result, None if recorder.refusal else recording, recorder.refusal)


def _finish(
    fn: Callable[..., Any], recorder: Recorder, names: set[str] | None, held: dict[int, Any],
    result: Any,
) -> Recording | None:
    recorder.place = _place(fn)
    outputs = Outputs(recorder)
    template = outputs.template(result)
    effects = find_effects(recorder, outputs)
    guards = find_guards(recorder, names)
    if recorder.refusal:
        return None
    source = Source(fn, held)
    check = compile_check(guards, source)
    paths = list(recorder.sources)
    gather = compile_gather(paths, [e.target for e in effects], Source(fn, held))
    index = {p: i for i, p in enumerate(paths)}
    donated = {e.node: index[e.target] for e in effects
               if e.node is not None and e.target in index and _same_type(recorder, outputs, e)}
    graph = Graph(tuple(recorder.sources.values()), tuple(outputs.nodes), donated)
    return Recording(graph, guards, check, gather, effects, outputs, template)


def _place(fn: Any) -> str:
    """`file.py:line` where a function is defined, or an empty text."""
    code = getattr(fn, "__code__", None) or getattr(type(fn).__call__, "__code__", None)
    return f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}" if code else ""


def _same_type(recorder: Recorder, outputs: Outputs, effect: Effect) -> bool:
    assert effect.node is not None
    return recorder.sources[effect.target].type == outputs.nodes[effect.node].type


def compile_gather(
    paths: Sequence[Path], others: Sequence[Path], source: Source
) -> Callable[[Any, Any], Any]:
    """gather(args, kwargs) -> (tensors at `paths`, objects at `others`, a reader of any path)."""
    first, second = ([source.read(p) for p in each] for each in (paths, others))
    body = "\n".join(["def gather(args, kwargs):", *source.lines,
                      f"    return [{', '.join(first)}], [{', '.join(second)}]"])
    scope = dict(source.constants)
    exec(compile(body, "<gather>", "exec"), scope)
    found = scope["gather"]

    def gather(args: Any, kwargs: Any) -> Any:
        return *found(args, kwargs), Reader(args, kwargs, source)

    return gather


class Reader:
    """Reads paths of one call."""

    def __init__(self, args: Any, kwargs: Any, source: Source) -> None:
        self._roots = {"args": args, "kwargs": kwargs, "function": source.constants["FN"]}
        self._source = source

    def __call__(self, path: Path) -> Any:
        if path.parent is None:
            return self._source.root(path) if path.kind in ("globals", "object", "class") else \
                self._roots[path.kind]
        above = self(path.parent)
        if path.kind == "attr":
            return getattr(above, path.key)
        if path.kind == "cell":
            return above.__closure__[path.key].cell_contents
        return above[path.key.value]
