"""Notes loops that are unrolled since each iteration changes the shape or kind of a variable.

On a path that no example takes, nothing ends such a loop. It would compute larger and larger
tensors until memory is full, so the sizes of a forced run are limited.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from ...eager.errors import CaptureError
from .frame_state import FrameState

_LEAST_LIMIT_BYTES = 1 << 26  # a forced run may always compute tensors of this size
_GROWTH = 16  # and tensors so many times as large as any on the paths of examples


class UnboundedLoop(CaptureError):
    """A path that no example takes computes ever larger tensors."""


class UnrolledLoop(NamedTuple):
    """A loop that is unrolled: its line, the variable that changes, and its kind before and after
    the last iteration."""

    site: str
    variable: str
    before: str
    after: str
    iterations: int

    def __str__(self) -> str:
        return (f"this loop is unrolled, since each iteration changes `{self.variable}` from "
                f"{self.before} to {self.after}")


class UnrolledLoops:
    """The unrolled loops of a run, by line, and the largest tensor of the runs of examples."""

    HELP = ("write into a tensor that is made before the loop, as in y[t] = ..., or bound the loop "
            "by a size: while condition and y.shape[0] < 32")

    def __init__(self) -> None:
        self._loops: dict[str, UnrolledLoop] = {}
        self._iterations: Counter[str] = Counter()  # of the present run, by line
        self._largest_bytes = 0

    def begin(self) -> None:
        """Begins a run."""
        self._iterations.clear()

    def note(self, before: FrameState | None, state: FrameState, site: str) -> None:
        """Notes an iteration that ends in another state than it began with."""
        if before is None or before.structure == state.structure:
            return
        change = _change(before, state)
        if change is not None:
            self._iterations[site] += 1
            self._loops.pop(site, None)  # the last one of the dictionary is the latest
            self._loops[site] = UnrolledLoop(site, *change, self._iterations[site])

    def at(self, site: str) -> UnrolledLoop | None:
        """The loop with its condition at a line, if it was unrolled for two iterations or more."""
        loop = self._loops.get(site)
        return loop if loop is not None and loop.iterations > 1 else None

    def check_size(self, array: Any, forced: bool) -> None:
        """Raises UnboundedLoop for a result of a forced run that is much larger than those of
        examples."""
        if not forced:
            self._largest_bytes = max(self._largest_bytes, array.nbytes)
        elif array.nbytes > max(_LEAST_LIMIT_BYTES, _GROWTH * self._largest_bytes):
            self._refuse(array)

    def _refuse(self, array: Any) -> None:
        size = f"a tensor of {array.nbytes / 1e6:.0f} MB, shape {array.shape}"
        loop = next((self.at(site) for site in reversed(self._loops) if self.at(site)), None)
        if loop is None:
            raise UnboundedLoop(f"a path that no example takes computes {size}",
                                "give an example that takes this path: examples=[(x,), ...]")
        error = UnboundedLoop(f"{loop}; nothing bounds the number of iterations, and after "
                              f"{loop.iterations} of them it computes {size}", self.HELP)
        error.line = loop.site
        raise error


def _change(before: FrameState, state: FrameState) -> tuple[str, str, str] | None:
    """The first local variable whose kind or shape has changed, and its descriptions."""
    frames = len(state.frames)
    for one, two in zip(before.structure[:frames], state.structure[:frames]):
        old = dict(one)
        for name, value in two:
            if name in old and old[name] != value:
                return str(name), _description(old[name]), _description(value)
    return None


def _description(value: Any) -> str:
    """The kind of a value in a state: of a tensor its shape."""
    if isinstance(value, tuple) and value[0] == "tensor":
        return f"shape {value[1]}"
    if isinstance(value, tuple) and isinstance(value[0], type):
        kind = value[0].__name__
        return f"a {kind} of {len(value[1])}" if kind in ("list", "tuple", "dict") else f"a {kind}"
    return "one kind of value" if isinstance(value, str) else "another value"
