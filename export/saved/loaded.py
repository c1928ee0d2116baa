"""Loads and runs saved programs, without their source and without tracing."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from typing import Any

from ...capture.cfg.ir import Branch, walk
from ...capture.guards.guards import PathCodegen
from ...capture.heap.access_path import Path
from ...capture.heap.path_reader import MISSING, PathReader
from ...capture.replay.replay import NOT_TRACED, Replay
from ...capture.runtime import profiling_spans
from ...capture.trace.value_table import ValueTable
from ...codegen.cache.json_codec import Decoder
from ...eager import interpreter
from ...eager.arrays import devices
from ...eager.core.tape import is_grad_enabled
from ...eager.core.tensor import Tensor, value_of
from ...eager.errors import ArgumentError, CaptureError, FusewireError, ImportModelError, StateError
from ...eager.nn.base.results import tensors_in
from ...eager.ops.random.generator import default_generator
from . import file
from .captured_state import is_argument_path
from .executables import CODE
from .restored_objects import Heap
from .save import FunctionRecord, save
from .trace_codecs import KINDS

_KINDS = {**KINDS, **CODE}
_MAX_REASONS = 4  # guards that an error message lists


class SavedProgram(Replay):
    """The control-flow tree of a saved program. A program recorded without gradients runs in any
    grad mode, unless a guard asks whether an argument is on the tape."""

    @functools.cached_property
    def _any_mode(self) -> bool:
        """True if the program is valid with gradients enabled and disabled."""
        guards = [*self.guards, *(g for trace_exit in self.exits() for g in trace_exit.exit_guards)]
        return not self.grad_enabled and not any(
            g.condition == "tensor on tape" and is_argument_path(g.path) for g in guards)

    def fits(self, args: Any, kwargs: Any) -> bool:
        """True if the entry guards hold for a call."""
        return not self.missed(args, kwargs)

    def missed(self, args: Any, kwargs: Any) -> str:
        """The message of the entry guard that fails for a call, with the actual value, or ""."""
        if not self._any_mode and self.grad_enabled != is_grad_enabled():
            return f"gradients are {'enabled' if self.grad_enabled else 'disabled'}"
        if interpreter.STATE.casting is not None:
            return "autocast is off"
        try:
            failed = self.check(args, kwargs)
        except MISSING:
            return "the arguments have the number and structure of the recording"
        return "" if failed < 0 else self._failure(self.guards[failed], args, kwargs)

    def _failure(self, guard: Any, args: Any, kwargs: Any) -> str:
        try:
            value = PathReader(args, kwargs, self.fn, self.names.held)(guard.path)
        except MISSING:
            return str(guard.message)
        return f"{guard.message}; got {_shown(value)}"

    def exit_failures(self, args: Any, kwargs: Any) -> list[str]:
        """Messages that say why no exit fits a call whose entry guards hold."""
        failures = []
        for trace_exit in self.exits():
            try:
                failed = trace_exit.check(args, kwargs)
            except MISSING:
                failures.append("all values that the recording read exist")
                continue
            if failed >= 0:
                failures.append(self._failure(trace_exit.exit_guards[failed], args, kwargs))
        sites = dict.fromkeys(at.site for at in walk(self.root) if isinstance(at, Branch))
        return failures or [f"the decisions have recorded outcomes ({', '.join(sites)})"]

    def _failed(self, error: Exception) -> Any:
        raise error


class _LoadContext:
    """The context of the decoders of a file: the function and its value table."""

    def __init__(self, fn: Any, names: ValueTable) -> None:
        self.fn, self.names = fn, names

    def source(self) -> PathCodegen:
        """A generator of code that reads access paths."""
        return PathCodegen(self.fn, self.names.held)


class LoadedFunction:
    """A compiled function that `fw.load_compiled` returns. It is called like the saved function and
    has its own copy of the state.

    Example:
        >>> import fusewire as fw, os, tempfile
        >>> model = fw.compile(fw.nn.Linear(2, 1))
        >>> with fw.no_grad():
        ...     _ = model(fw.ones(2))
        >>> path = os.path.join(tempfile.mkdtemp(), "model.fw")
        >>> model.forward.save(path)
        >>> loaded = fw.load_compiled(path)
        >>> loaded.load_state_dict({"weight": fw.ones(1, 2), "bias": fw.zeros(1)})
        >>> loaded(fw.ones(2))
        tensor([2.])
    """

    def __init__(self, path: Any) -> None:
        arrays, held = file.read(path)
        self.__name__ = held["name"]
        self._parameters: list[str] = held["parameters"]
        self._names, self._labels = ValueTable(), [name for _, name in held["slots"]]
        self._names.held[id(default_generator)] = default_generator
        heap = Heap(held["state"], Decoder(KINDS, arrays, None))
        self._fn = tuple([heap.cell(cell) for cell, _ in held["slots"]])
        self._tensors = heap.tensors
        reading = Decoder(_KINDS, arrays, _LoadContext(self._fn, self._names))
        reading.rows(held["rows"])
        self._programs = [self._program(row, reading) for row in held["programs"]]

    def _program(self, row: list[Any], of: Decoder) -> SavedProgram:
        guards, root, grad_enabled, varying = map(of.value, row)
        program = SavedProgram(self._fn, self._names, varying, guards, grad_enabled)
        program.root = root
        return program

    def __repr__(self) -> str:
        return f"<{self.__name__}, loaded: {len(self._programs)} programs>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The results of the function.

        Raises:
            ArgumentError: no saved program fits the arguments, or an argument is on a GPU.
            CaptureError: another function is being traced, exported or transformed.
        """
        if interpreter.in_use and interpreter.STATE.active is not None:
            raise CaptureError(
                f"{self.__name__} was loaded from a file, and cannot be traced, exported or "
                "transformed again", "call it outside of compiled and transformed functions")
        if devices.in_use:
            self._check_devices(args, kwargs)
        if not profiling_spans.on:
            for program in self._programs:
                result = program.direct(args, kwargs)
                if result is not NOT_TRACED:
                    return result
        with profiling_spans.span("call", self.__name__):
            return self._replay(args, kwargs)

    def _check_devices(self, args: Any, kwargs: Any) -> None:
        for x in tensors_in((args, kwargs)):
            if devices.is_elsewhere(x._data):
                raise ArgumentError(f"{self.__name__} was saved as code for the CPU, and an "
                                    f"argument is on {x.device}", 'move it to the CPU: x.to("cpu")')

    def _replay(self, args: Any, kwargs: Any) -> Any:
        for program in self._programs:
            if program.fits(args, kwargs):
                result = program.run(args, kwargs)
                if result is not NOT_TRACED:
                    return result
        raise self._unfit(args, kwargs)

    def _unfit(self, args: Any, kwargs: Any) -> ArgumentError:
        """The error for a call that no program fits, with the failed guards of each program."""
        reasons = []
        for program in self._programs:
            missed = program.missed(args, kwargs)
            reasons += [missed] if missed else program.exit_failures(args, kwargs)
        messages = list(map(self._with_names, dict.fromkeys(reasons)))
        text = "; or for ".join(messages[:_MAX_REASONS])
        if len(messages) > _MAX_REASONS:
            text += f"; and {len(messages) - _MAX_REASONS} more"
        return ArgumentError(f"{self.__name__} was not saved for this call, but for calls in "
                             f"which {text}",
                             "call the function with such arguments before it is saved")

    def _with_names(self, reason: str) -> str:
        """A message with names of parameters instead of their numbers."""
        def name_of(match: re.Match[str]) -> str:
            number = int(match[1])
            return self._parameters[number] if number < len(self._parameters) else match[0]

        return re.sub(r"argument (\d+)", name_of, reason)

    @property
    def needs_gradients(self) -> bool:
        """True if the programs run only where gradients are enabled, as when they were recorded."""
        return any(program.grad_enabled and not program._any_mode for program in self._programs)

    def signatures(self) -> list[dict[str, tuple[str, tuple[int | None, ...]]]]:
        """The tensors that each saved program takes by position: dtype and shape by parameter.

        A size is None if the program takes any. Arguments of other kinds are left out.
        """
        return [self._signature(program) for program in self._programs]

    def _signature(self, program: SavedProgram) -> dict[str, tuple[str, tuple[int | None, ...]]]:
        tensors = {}
        for guard in program.guards:
            path, facts = guard.path, guard.constants
            if path.parent == Path("args") and {"T", "D", "S"} <= facts.keys():
                sizes = tuple(n if isinstance(n, int) else None for n in facts["S"])
                tensors[self._parameters[path.key.value]] = facts["D"].name, sizes
        return tensors

    def save(self, path: Any) -> None:
        """Writes the function to a file, with its current state.

        Args:
            path: path of the file. An existing file is replaced.
        """
        save(FunctionRecord(self.__name__, self._parameters, self._fn, self._names, self._programs,
                            self._labels, {id(x): name for name, x in self._tensors.items()}), path)

    def state_dict(self) -> dict[str, Tensor]:
        """The tensors of the current state by name, without gradients."""
        return {name: value_of(tensor) for name, tensor in self._tensors.items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Replaces the values of all tensors of the state.

        Args:
            state: tensors by name, with the shapes and dtypes of `state_dict()`.

        Raises:
            StateError: names, shapes or dtypes differ. The state is unchanged then.
        """
        differing = sorted(state.keys() ^ self._tensors.keys())
        if differing:
            raise StateError(f"{self.__name__} has no tensor {differing[0]!r}"
                             if differing[0] in state else
                             f"the state lacks {differing[0]!r}, which {self.__name__} has",
                             "state_dict() shows the names")
        for name, tensor in self._tensors.items():
            if (state[name].shape, state[name].dtype) != (tensor.shape, tensor.dtype):
                raise StateError(f"{name!r} is {_shown(tensor.detach())}, got "
                                 f"{_shown(state[name].detach())}",
                                 "state_dict() shows the shapes and dtypes")
        for name, tensor in self._tensors.items():
            tensor._data = state[name].detach()._data


def _shown(value: Any) -> str:
    if isinstance(value, Tensor):
        grad = ", requires_grad" if value.requires_grad else ""
        return f"{value.dtype.name}[{', '.join(map(str, value.shape))}]{grad}"
    return f"{value!r:.60}"


def load_compiled(path: Any) -> LoadedFunction:
    """A function from a file that `save` of a compiled function wrote.

    The function runs without its source. Nothing is traced or compiled. Its machine code runs in
    this process: load only files that you would run as a program.

    Args:
        path: path of the file.

    Raises:
        ImportModelError: the file is damaged, has another format, or is for another processor or
            system.
        StateError: the file is no safetensors file.
        FileNotFoundError: there is no such file.

    Example:
        >>> import fusewire as fw, os, tempfile
        >>> double = fw.compile(lambda x: 2 * x)
        >>> double(fw.ones(3))
        tensor([2., 2., 2.])
        >>> path = os.path.join(tempfile.mkdtemp(), "double.fw")
        >>> double.save(path)
        >>> fw.load_compiled(path)(fw.arange(3.0))
        tensor([0., 2., 4.])
    """
    try:
        return LoadedFunction(path)
    except FusewireError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise ImportModelError(f"this version cannot read the program in {os.fspath(path)!r}: "
                               f"{type(error).__name__}: {error}",
                               "save it again with this version") from error
