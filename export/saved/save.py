"""Saves compiled functions: selects the programs that fit the state and writes them to a file."""

from __future__ import annotations

import importlib.metadata
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...capture.cfg.ir import HostCall, walk
from ...capture.cfg.trace_exit import TraceExit
from ...capture.graph.device_placement import other_device
from ...capture.guards.guards import Guard, PathCodegen, compile_check
from ...capture.heap.path_reader import MISSING, PathReader
from ...capture.replay.compiled_function import Compiled
from ...capture.replay.replay import Replay
from ...capture.trace.side_effects import SideEffect
from ...capture.trace.value_table import ValueTable
from ...codegen.cache.json_codec import Encoder, Unsaved
from ...codegen.runtime.target import Target, host
from ...eager.core.tensor import Tensor
from ...eager.errors import ExportError
from . import file
from .captured_state import CapturedState, best_names, is_argument_path
from .executables import CODE
from .trace_codecs import KINDS

_IDENTITY = ("identity", "type")


class FunctionRecord(NamedTuple):
    """A function and its recorded programs.

    `labels`: names of the elements of `fn`, if the function was loaded from a file
    `tensors`: names of tensors by id, if they have names already
    """

    name: str
    parameters: list[str]
    fn: Any
    names: ValueTable
    programs: Sequence[Replay]
    labels: Sequence[str] = ()
    tensors: Mapping[int, str] | None = None


class Saving:
    """The programs and exits of a function that fit its current state; `about` of the encoder."""

    def __init__(self, recorded: FunctionRecord) -> None:
        self.names, self._recorded = recorded.names, recorded
        self._read = PathReader((), {}, recorded.fn, recorded.names.held)
        self.programs = list(recorded.programs)
        self._exits = {trace_exit: None for p in self.programs for trace_exit in p.exits()}
        self.target: Target | None = None
        self.failed: list[str] = []
        guarded = (path for p in self.programs for g in p.guards for path in g.paths)
        self._tensors = recorded.tensors or best_names(guarded, self._read)
        self._settle()

    def _settle(self) -> None:
        """Removes programs and exits that can never run from the current state on, until none is
        left to remove. A side effect of a removed exit may have been the reason to keep another."""
        while True:
            effects = [e for trace_exit in self._exits for e in trace_exit.effects]
            self.outside = self._outside(effects)
            programs = [p for p in self.programs if self._holds(p.guards)]
            exits = {trace_exit: None for p in programs for trace_exit in p.exits()
                     if trace_exit in self._exits and self._holds(trace_exit.exit_guards)}
            unchanged = len(programs) == len(self.programs) and len(exits) == len(self._exits)
            self.programs, self._exits = programs, exits
            if unchanged:
                return

    def _outside(self, effects: list[SideEffect]) -> CapturedState:
        return CapturedState(self._read, effects, self._recorded.labels, self._tensors)

    def _holds(self, guards: Sequence[Guard]) -> bool:
        """True if the guards that no call can change hold. Notes the message of a failed guard."""
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
        """True if a guard has the same outcome in all calls."""
        outside = self.outside
        if any(is_argument_path(p) or not outside.is_stable(p) for p in guard.paths):
            return False
        try:
            value = self._read(guard.path)
        except MISSING:
            return True
        return guard.category in _IDENTITY or not (
            isinstance(value, Tensor) or id(value) in outside.targets)

    # ---- for the codecs
    def translated(self, path: Any) -> Any:
        """See `CapturedState`."""
        return self.outside.translated(path)

    def check_returned(self, path: Any) -> None:
        """See `CapturedState`."""
        self.outside.check_returned(path)

    def live(self, guards: Sequence[Guard]) -> list[Guard]:
        """The guards that each call has to evaluate."""
        return [g for g in guards if not self._is_fixed(g)]

    def keeps(self, trace_exit: TraceExit) -> bool:
        """True if an exit is saved."""
        return trace_exit in self._exits

    def require_target(self, target: Target) -> None:
        """Notes the processor of a program. ExportError if another program has another."""
        if self.target not in (None, target):
            raise ExportError("its programs are for different processors",
                              "forget them with clear(), and call the function again")
        self.target = target


def save(recorded: FunctionRecord, path: Any) -> None:
    """Writes the programs of a function and its state to a file. ExportError, with the access path,
    if an object cannot be rebuilt without the function's source."""
    try:
        saving = Saving(recorded)
        writing = Encoder({**KINDS, **CODE}, saving)
        description = _described(recorded, saving, writing)
    except Unsaved as error:
        raise ExportError(f"{recorded.name} cannot be saved: {error.message}", error.help) from None
    file.write(path, writing.arrays, description, saving.target or host(), version())


def _described(recorded: FunctionRecord, saving: Saving, writing: Encoder) -> dict[str, Any]:
    if not saving.programs:
        raise Unsaved(f"no recording fits its current state: guard failed: {saving.failed[0]}",
                      "call it as you will call the loaded function, then save it")
    programs = [_program(p, saving, writing) for p in saving.programs]
    writing.finish()
    rows, slots = saving.outside.rows(writing)
    return {"name": recorded.name, "parameters": recorded.parameters, "rows": writing.rows,
            "programs": programs, "state": rows, "slots": slots}


def _program(program: Replay, saving: Saving, writing: Encoder) -> list[Any]:
    if program.casting is not None:
        raise Unsaved("it was recorded under autocast",
                      "convert the model, or call it without autocast")
    device = next(filter(None, [other_device(s.graph) for s in program.segments()]), "")
    if device:
        raise Unsaved(f"it computes on {device}, and saved functions run on the CPU",
                      'move its state to the CPU, model.to("cpu"), call it there, and save it')
    message = next((b for b in walk(program.root) if isinstance(b, HostCall)), None)
    if message is not None:
        raise Unsaved(f"{message.element}, and a saved function calls no Python",
                      "return the values, and print or log them where the function is called")
    parts = saving.live(program.guards), program.root, program.grad_enabled, program.varying
    return [writing.value(part) for part in parts]


def save_compiled(compiled: Compiled, path: Any) -> None:
    """Writes a compiled function to a file (`Compiled.save`). ExportError if it has no programs,
    runs under `check`, or has a graph break."""
    name = compiled.__name__
    if compiled.check is not None:
        raise ExportError(f"{name} cannot be saved: its code is compared with NumPy",
                          "compile it without `check`")
    if not compiled.programs:
        refused = next(iter(compiled.refusals), "")
        raise ExportError(
            f"{name} cannot be saved: " + (f"it has a graph break: {refused}" if refused else
                                           "it has no recording"),
            "" if refused else "call it as you will call the loaded function, then save it")
    compiled.wait()
    save(FunctionRecord(name, _parameters(compiled.original), compiled.original, compiled.names,
                        compiled.programs), path)


def _parameters(fn: Any) -> list[str]:
    """The names of a function's parameters; none if it has no signature."""
    try:
        return list(inspect.signature(fn).parameters)
    except (TypeError, ValueError):
        return []


def version() -> str:
    """The version of this package."""
    try:
        return importlib.metadata.version("fusewire")
    except importlib.metadata.PackageNotFoundError:  # it runs from a folder
        return "of a folder"
