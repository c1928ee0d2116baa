"""Compiled functions written to files."""

from __future__ import annotations

import importlib.metadata
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...capture.graph.device_placement import uses_gpu
from ...capture.guards.guards import Guard, PathCodegen, compile_check
from ...capture.heap.path_reader import PathReader
from ...capture.program.trace_exit import TraceExit
from ...capture.replay import compiled_function
from ...capture.replay.compiled_function import Compiled
from ...capture.replay.replay import MISSING, Replay
from ...capture.trace.side_effects import SideEffect
from ...capture.trace.value_table import ValueTable
from ...codegen.cache.json_codec import Encoder, Unsaved
from ...codegen.runtime.target import Target, host
from ...eager.core.tensor import Tensor
from ...eager.errors import ExportError
from . import file
from .captured_state import Outside, best_names, is_given
from .executables import CODE
from .trace_codecs import KINDS

_IDENTITY = ("identity", "type")


class Recorded(NamedTuple):
    """What is saved: a function, with what was recorded of it."""

    name: str
    parameters: list[str]
    fn: Any
    names: ValueTable
    programs: Sequence[Replay]
    labels: Sequence[str] = ()  # names of the function's own elements, where it is a state
    tensors: Mapping[int, str] | None = None  # names of tensors by id, where they have some


class Saving:
    """What can be saved of a function, as it is now; `about` of what is written."""

    def __init__(self, recorded: Recorded) -> None:
        self.names, self._recorded = recorded.names, recorded
        self._read = PathReader((), {}, recorded.fn, recorded.names.held)
        self.programs = list(recorded.programs)
        self._leaves = {leaf: None for p in self.programs for leaf in p.exits()}
        self.target: Target | None = None
        self.failed: list[str] = []
        guarded = (path for p in self.programs for g in p.guards for path in g.paths)
        self._tensors = recorded.tensors or best_names(guarded, self._read)
        self._settle()

    def _settle(self) -> None:
        """Leaves out what cannot be run with the present state: nothing that is left changes it
        in such a way that it could be."""
        while True:
            effects = [e for leaf in self._leaves for e in leaf.effects]
            self.outside = self._outside(effects)
            programs = [p for p in self.programs if self._holds(p.guards)]
            leaves = {leaf: None for p in programs for leaf in p.exits()
                      if leaf in self._leaves and self._holds(leaf.exit_guards)}
            same = len(programs) == len(self.programs) and len(leaves) == len(self._leaves)
            self.programs, self._leaves = programs, leaves
            if same:
                return

    def _outside(self, effects: list[SideEffect]) -> Outside:
        return Outside(self._read, effects, self._recorded.labels, self._tensors)

    def _holds(self, guards: Sequence[Guard]) -> bool:
        """Whether those conditions hold that no call can change."""
        fixed = [g for g in guards if self._is_fixed(g)]
        source = PathCodegen(self._recorded.fn, self.names.held, careful=True)
        try:
            failed = compile_check(fixed, source)((), {})
        except MISSING:
            self.failed.append("every value that the recording read exists")
            return False
        if failed >= 0:
            self.failed.append(fixed[failed].message)
        return failed < 0

    def _is_fixed(self, guard: Guard) -> bool:
        """Whether a condition is the same in all calls."""
        outside = self.outside
        if any(is_given(p) or not outside.stays(p) for p in guard.paths):
            return False
        try:
            value = self._read(guard.path)
        except MISSING:
            return True
        return guard.category in _IDENTITY or not (
            isinstance(value, Tensor) or id(value) in outside.targets)

    # ---- what the kinds ask for
    def translated(self, path: Any) -> Any:
        """See `Outside`."""
        return self.outside.translated(path)

    def hands_out(self, path: Any) -> None:
        """See `Outside`."""
        self.outside.hands_out(path)

    def live(self, guards: Sequence[Guard]) -> list[Guard]:
        """The conditions that each call has to look at."""
        return [g for g in guards if not self._is_fixed(g)]

    def keeps(self, leaf: TraceExit) -> bool:
        """Whether a leaf is saved."""
        return leaf in self._leaves

    def made_for(self, target: Target) -> None:
        """Notes the processor that code is for."""
        if self.target not in (None, target):
            raise ExportError("its programs are for different processors",
                              "forget them: clear(), and call it again")
        self.target = target


def save(recorded: Recorded, path: Any) -> None:
    """Writes what was recorded of a function, with its state. ExportError, with what and where, if
    something of it cannot be made again without the function."""
    try:
        saving = Saving(recorded)
        writing = Encoder({**KINDS, **CODE}, saving)
        description = _described(recorded, saving, writing)
    except Unsaved as error:
        raise ExportError(f"{recorded.name} cannot be saved: {error.message}", error.help) from None
    file.write(path, writing.arrays, description, saving.target or host(), version())


def _described(recorded: Recorded, saving: Saving, writing: Encoder) -> dict[str, Any]:
    if not saving.programs:
        raise Unsaved(f"nothing is recorded that fits its state as it is now: guard failed: "
                      f"{saving.failed[0]}", "call it as it is to be called once loaded, then save")
    programs = [_program(p, saving, writing) for p in saving.programs]
    writing.finish()
    rows, slots = saving.outside.rows(writing)
    return {"name": recorded.name, "parameters": recorded.parameters, "rows": writing.rows,
            "programs": programs, "state": rows, "slots": slots}


def _program(program: Replay, saving: Saving, writing: Encoder) -> list[Any]:
    if program.casting is not None:
        raise Unsaved("it was recorded under autocast", "convert the model, or call it without")
    if any(uses_gpu(stage.graph) for stage in program.segments()):
        raise Unsaved("it computes on a GPU, and what is saved runs on the CPU",
                      'bring what it reads to the CPU, model.to("cpu"), call it there, and save')
    parts = saving.live(program.guards), program.root, program.grad_enabled, program.varying
    return [writing.value(part) for part in parts]


def save_compiled(compiled: Compiled, path: Any) -> None:
    """`Compiled.save`."""
    name = compiled.__name__
    if compiled.check is not None:
        raise ExportError(f"{name} cannot be saved: its code is compared with NumPy",
                          "compile it without `check`")
    if not compiled.programs:
        refused = next(iter(compiled.refusals), "")
        raise ExportError(
            f"{name} cannot be saved: " + (f"it has a graph break: {refused}" if refused else
                                           "nothing is recorded of it"),
            "" if refused else "call it as it is to be called once loaded, then save it")
    compiled.wait()
    save(Recorded(name, _parameters(compiled.original), compiled.original, compiled.names,
                  compiled.programs), path)


def _parameters(fn: Any) -> list[str]:
    """The names of a function's parameters, where they can be told."""
    try:
        return list(inspect.signature(fn).parameters)
    except (TypeError, ValueError):
        return []


def version() -> str:
    """The version of fusewire that runs."""
    try:
        return importlib.metadata.version("fusewire")
    except importlib.metadata.PackageNotFoundError:  # it runs from a folder
        return "of a folder"


compiled_function.saver = save_compiled
