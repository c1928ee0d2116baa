"""Saved programs that run: without their source, and without recording anything."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from typing import Any

from ...capture.guards.guards import PathCodegen
from ...capture.heap.path_reader import PathReader
from ...capture.program.cfg import Branch
from ...capture.program.segment_planner import walk
from ...capture.replay.replay import MISSING, UNSEEN, Replay
from ...capture.runtime import profiling_spans
from ...capture.trace.value_table import ValueTable
from ...codegen.cache.json_codec import Decoder
from ...eager import interpreter
from ...eager.arrays import devices
from ...eager.core.tape import is_grad_enabled
from ...eager.core.tensor import Tensor
from ...eager.errors import ArgumentError, CaptureError, FusewireError, ImportModelError, StateError
from ...eager.nn.base.results import tensors_in
from ...eager.ops.random.generator import default_generator
from . import file
from .captured_state import is_given
from .executables import CODE
from .restored_objects import Heap
from .save import Recorded, save
from .trace_codecs import KINDS

_KINDS = {**KINDS, **CODE}
_SHOWN = 4  # reasons why a call does not fit


class SavedWays(Replay):
    """Ways that were recorded elsewhere. What was recorded without gradients runs without them in
    any mode, unless an argument asks for some."""

    @functools.cached_property
    def _any_mode(self) -> bool:
        """Whether they are right with and without gradients."""
        asked = [*self.guards, *(g for leaf in self.exits() for g in leaf.exit_guards)]
        return not self.grad_enabled and not any(
            g.condition == "tensor on tape" and is_given(g.path) for g in asked)

    def fits(self, args: Any, kwargs: Any) -> bool:
        """Whether the entry guards hold."""
        return not self.missed(args, kwargs)

    def missed(self, args: Any, kwargs: Any) -> str:
        """Why a call does not fit: the condition that fails, and what there is; "" where it
        fits."""
        if not self._any_mode and self.grad_enabled != is_grad_enabled():
            return f"gradients are {'enabled' if self.grad_enabled else 'disabled'}"
        if interpreter.STATE.casting is not None:
            return "autocast is off"
        try:
            failed = self.check(args, kwargs)
        except MISSING:
            return "as many arguments, of the same structure"
        return "" if failed < 0 else self._failure(self.guards[failed], args, kwargs)

    def _failure(self, guard: Any, args: Any, kwargs: Any) -> str:
        try:
            found = PathReader(args, kwargs, self.fn, self.names.held)(guard.path)
        except MISSING:
            return str(guard.message)
        return f"{guard.message}; got {_shown(found)}"

    def unmet(self, args: Any, kwargs: Any) -> list[str]:
        """Why no end fits a call whose entry guards hold."""
        found = []
        for leaf in self.exits():
            try:
                failed = leaf.check(args, kwargs)
            except MISSING:
                found.append("every value that the recording read exists")
                continue
            if failed >= 0:
                found.append(self._failure(leaf.exit_guards[failed], args, kwargs))
        sites = dict.fromkeys(at.site for at in walk(self.root) if isinstance(at, Branch))
        return found or [f"decisions as they were recorded ({', '.join(sites)})"]

    def _failed(self, error: Exception) -> Any:
        raise error


class _Loading:
    """What the kinds ask for while a file is read."""

    def __init__(self, fn: Any, names: ValueTable) -> None:
        self.fn, self.names = fn, names

    def source(self) -> PathCodegen:
        """For generated functions that read paths."""
        return PathCodegen(self.fn, self.names.held)


class LoadedFunction:
    """A saved function: called like the one that was saved, with a state of its own."""

    def __init__(self, path: Any) -> None:
        arrays, held = file.read(path)
        self.__name__ = held["name"]
        self._parameters: list[str] = held["parameters"]
        self._names, self._labels = ValueTable(), [name for _, name in held["slots"]]
        self._names.held[id(default_generator)] = default_generator
        heap = Heap(held["state"], Decoder(KINDS, arrays, None))
        self._fn = tuple([heap.cell(cell) for cell, _ in held["slots"]])
        self._tensors = heap.tensors
        reading = Decoder(_KINDS, arrays, _Loading(self._fn, self._names))
        reading.rows(held["rows"])
        self._programs = [self._program(row, reading) for row in held["programs"]]

    def _program(self, row: list[Any], of: Decoder) -> SavedWays:
        guards, root, grad_enabled, varying = map(of.value, row)
        made = SavedWays(self._fn, self._names, varying, guards, grad_enabled)
        made.root = root
        return made

    def __repr__(self) -> str:
        return f"<{self.__name__}, loaded: {len(self._programs)} programs>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the saved function returns. ArgumentError for a call that no saved way fits."""
        if interpreter.in_use and interpreter.STATE.active is not None:
            raise CaptureError(
                f"{self.__name__} was loaded from a file, and cannot be recorded, exported or "
                "transformed again", "call it outside of what does that")
        if devices.in_use:
            self._check_devices(args, kwargs)
        if not profiling_spans.on:
            for program in self._programs:
                result = program.direct(args, kwargs)
                if result is not UNSEEN:
                    return result
        with profiling_spans.span("call", self.__name__):
            return self._replay(args, kwargs)

    def _check_devices(self, args: Any, kwargs: Any) -> None:
        for x in tensors_in((args, kwargs)):
            if x.is_cuda:
                raise ArgumentError(f"{self.__name__} was saved as code for the CPU, an argument "
                                    f"is on {x.device}", 'bring it to the CPU: x.to("cpu")')

    def _replay(self, args: Any, kwargs: Any) -> Any:
        for program in self._programs:
            if program.fits(args, kwargs):
                result = program.run(args, kwargs)
                if result is not UNSEEN:
                    return result
        raise self._unfit(args, kwargs)

    def _unfit(self, args: Any, kwargs: Any) -> ArgumentError:
        """The error for a call that no way fits: of each, what is not as it was."""
        reasons = []
        for program in self._programs:
            missed = program.missed(args, kwargs)
            reasons += [missed] if missed else program.unmet(args, kwargs)
        found = list(map(self._with_names, dict.fromkeys(reasons)))
        listed = "; or for ".join(found[:_SHOWN])
        if len(found) > _SHOWN:
            listed += f"; and {len(found) - _SHOWN} more"
        return ArgumentError(f"{self.__name__} was not saved for this call, but for {listed}",
                             "call the function with such arguments before it is saved")

    def _with_names(self, reason: str) -> str:
        """A reason with the names of parameters in place of their numbers."""
        def named(found: re.Match[str]) -> str:
            number = int(found[1])
            return self._parameters[number] if number < len(self._parameters) else found[0]

        return re.sub(r"argument (\d+)", named, reason)

    def save(self, path: Any) -> None:
        """Writes it to a file again, with its state as it is now."""
        save(Recorded(self.__name__, self._parameters, self._fn, self._names, self._programs,
                      self._labels, {id(x): name for name, x in self._tensors.items()}), path)

    def state_dict(self) -> dict[str, Tensor]:
        """The tensors of its state by name, those that calls change as they are now."""
        return {name: tensor.detach() for name, tensor in self._tensors.items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Takes other values for all tensors of its state. StateError where names, shapes or dtypes
        differ; nothing has changed then."""
        differing = sorted(state.keys() ^ self._tensors.keys())
        if differing:
            raise StateError(f"{self.__name__} has no tensor {differing[0]!r}"
                             if differing[0] in state else
                             f"the state lacks {differing[0]!r}, which {self.__name__} has",
                             "state_dict() shows the names")
        for name, tensor in self._tensors.items():
            if (state[name].shape, state[name].dtype) != (tensor.shape, tensor.dtype):
                raise StateError(f"{name!r} is {_shown(tensor.detach())}, got "
                                 f"{_shown(state[name].detach())}")
        for name, tensor in self._tensors.items():
            tensor._data = state[name].detach()._data


def _shown(value: Any) -> str:
    if isinstance(value, Tensor):
        grad = ", requires_grad" if value.requires_grad else ""
        return f"{value.dtype.name}[{', '.join(map(str, value.shape))}]{grad}"
    return f"{value!r:.60}"


def load_compiled(path: Any) -> LoadedFunction:
    """What was saved by `save` of a compiled function, as a function of its own: it runs without
    the source and without recording or compiling anything.

    ImportModelError for a file that is damaged, of another format, or for another processor. Its
    machine code runs: load only files that you would run as a program.

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
        raise ImportModelError(f"{os.fspath(path)!r} is no program that this version reads: "
                               f"{type(error).__name__}: {error}") from error
