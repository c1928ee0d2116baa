"""Runs a compiled function so that each result is of compiled code, in every process.

The call that is traced computes operation by operation, and its last bits can differ from those of
a replay. A resumed training traces at another step than the training that it continues. So a call
that was not a replay is undone and repeated, and all numbers are of replays.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import fusewire as fw

MOST_TRIES = 3  # with graph breaks no call is a replay; the third runs the code of later ones


class Repeatable:
    """A function that is compiled, and whose calls with new shapes are repeated from equal state.

    Args:
        function: what to compile.
        save: returns the state that a call changes.
        restore: takes such a state back.
        compile: False calls the function itself.
        exact: a program for each shape, as the numbers of one for all sizes depend on the sizes
            before; and calls that were traced are undone. False saves the memory of the saved
            state, and the compilation of many shapes.
    """

    def __init__(self, function: Callable[..., Any], save: Callable[[], Any],
                 restore: Callable[[Any], None], *, compile: bool, exact: bool) -> None:
        self.compiled = fw.compile(function, dynamic=False if exact else None) if compile else None
        self._function, self._save, self._restore = function, save, restore
        self._exact = exact
        self._settled: set[Hashable] = set()  # signatures whose calls are replays

    def __call__(self, *args: Any) -> Any:
        if self.compiled is None:
            return self._function(*args)
        if not self._exact:
            return self.compiled(*args)
        signature = _signature(args)
        if signature in self._settled:
            return self.compiled(*args)
        result = self._settle(args)
        self._settled.add(signature)
        return result

    def expect_changes(self) -> None:
        """Makes the next call of each signature one that is undone if it is traced.

        Call it where what a step reads may have changed, such as a layer that is now trained.
        """
        self._settled.clear()

    def _settle(self, args: tuple[Any, ...]) -> Any:
        """The result of the first replay, or of the last try."""
        assert self.compiled is not None
        before = self._save()
        for attempt in range(MOST_TRIES):
            if attempt:
                self._restore(before)
            replays = self.compiled.stats.replays
            result = self.compiled(*args)
            if self.compiled.stats.replays > replays:
                break
        return result

    def report(self) -> str:
        """One line: the step is compiled, compiled in parts, or runs in Python, and why."""
        if self.compiled is None:
            return "the step runs op by op: compile=False"
        stats = self.compiled.stats
        seconds = f"in {stats.compile_seconds:.2f} s"
        if stats.replays:
            return f"the step is compiled as one program, {seconds}"
        why = next(iter(self.compiled.refusals), "it was not called twice")
        if stats.subgraphs:
            return f"the step is compiled in {stats.subgraphs} parts, {seconds}: {why}"
        return f"the step runs op by op: {why}"


def _signature(value: Any) -> Hashable:
    """Shape, dtype and device of each tensor in nested lists, tuples and dicts, and each bool."""
    if isinstance(value, fw.Tensor):
        return value.shape, value.dtype, value.device
    if isinstance(value, (list, tuple)):
        return tuple([_signature(part) for part in value])
    if isinstance(value, Mapping):
        return tuple([(key, _signature(part)) for key, part in value.items()])
    return value if isinstance(value, bool) else type(value).__qualname__
