"""Saves memory: discards the values that a function saves for the backward, and recomputes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import interpreter
from ..arguments import check_whole
from ..autograd.engine import freed_tape_error
from ..core.in_place import replace
from ..core.observer import ObserverInterpreter
from ..core.op import Op
from ..core.tape import Entry, enable_grad, is_grad_enabled
from ..core.tensor import Tensor
from ..errors import ArgumentError, GradientError
from ..ops.random.generator import default_generator, fork_rng

__all__ = ["checkpoint", "checkpoint_sequential"]


def checkpoint(
    function: Callable[..., Any], *args: Any, use_reentrant: bool | None = None,
    preserve_rng_state: bool = True, determinism_check: str = "default", **kwargs: Any,
) -> Any:
    """The result of function(*args, **kwargs); the backward runs the function again for its values.

    Args:
        function: must compute the same in both runs.
        args: positional arguments.
        use_reentrant: accepted for PyTorch's signature, without effect.
        preserve_rng_state: both runs draw the same random numbers. Default True.
        determinism_check: "default" compares the ops of both runs, "none" only counts them. Default
            "default".
        kwargs: keyword arguments.

    Raises:
        ArgumentError: determinism_check is unknown.
        GradientError: in the backward, if the runs differ.

    Example:
        >>> import fusewire as fw
        >>> x = fw.tensor(2.0, requires_grad=True)
        >>> fw.utils.checkpoint.checkpoint(lambda x: (x * x).exp(), x).backward()
        >>> x.grad
        tensor(218.3926)
    """
    if determinism_check not in ("default", "none"):
        raise ArgumentError(f"checkpoint: determinism_check {determinism_check!r} is not known",
                            'it is "default" or "none"')
    if not is_grad_enabled():
        return function(*args, **kwargs)
    checkpointed = _CheckpointedCall(function, args, kwargs, preserve_rng_state,
                                     determinism_check == "default")
    with _Discard(checkpointed):
        return function(*args, **kwargs)


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """The result of `functions` in sequence, run in `segments` checkpoints.

    The last segment runs without checkpoint, since the backward starts with it.

    Args:
        functions: a list of functions of one value, or a Sequential.
        segments: number of segments, from 1 to the number of functions.
        input: argument of the first function.
        use_reentrant: accepted for PyTorch's signature, without effect.
        kwargs: options of `checkpoint`.

    Raises:
        ArgumentError: segments is out of range.

    Example:
        >>> import fusewire as fw
        >>> x = fw.tensor(2.0, requires_grad=True)
        >>> layers = [fw.exp, fw.log, fw.square]
        >>> fw.utils.checkpoint.checkpoint_sequential(layers, 2, x).backward()
        >>> round(x.grad.item(), 4)
        4.0
    """
    steps = list(functions)
    if not 1 <= check_whole("checkpoint_sequential", "segments", segments) <= len(steps):
        raise ArgumentError(f"checkpoint_sequential: {segments} segments of {len(steps)} functions",
                            f"segments goes from 1 to {len(steps)}")
    size = len(steps) // segments
    for i in range(segments - 1):
        part = steps[i * size:(i + 1) * size]
        input = checkpoint(_chain(part), input, **kwargs)
    return _chain(steps[(segments - 1) * size:])(input)


def _chain(steps: list[Any]) -> Callable[[Any], Any]:
    def run(x: Any) -> Any:
        for step in steps:
            x = step(x)
        return x

    return run


class _CheckpointedCall:
    """A call with discarded values: the arguments to run it again."""

    def __init__(self, function: Any, args: Any, kwargs: Any, random: bool, check: bool) -> None:
        self.function, self.check = function, check
        around = _checkpointed_calls()
        self.args = [_held(x, around) for x in args]
        self.kwargs = {name: _held(x, around) for name, x in kwargs.items()}
        self.random = default_generator.get_state() if random else None
        self.casting = interpreter.STATE.casting
        self.ops: list[tuple[str, Any]] = []  # name and shape of each entry on the tape

    def values(self, n: int, sums: dict[Any, Any], last: bool) -> tuple[Any, Any]:
        """Inputs and output of entry `n` as arrays; `last`: nothing asks for them again."""
        store = sums.get(self)
        if store is None or n not in store:
            store = sums[self] = self._run(sums)
        return store.pop(n) if last else store[n]  # type: ignore[no-any-return]

    def _run(self, sums: dict[Any, Any]) -> dict[int, Any]:
        args = [_recomputed(x, sums) for x in self.args]
        kwargs = {name: _recomputed(x, sums) for name, x in self.kwargs.items()}
        noted = _Collect(self)
        with fork_rng(), enable_grad():
            if self.random is not None:
                replace(default_generator.state, self.random)
            casting = interpreter.set_casting(self.casting)
            try:
                with noted:
                    self.function(*args, **kwargs)
            finally:
                interpreter.set_casting(casting)
        if noted.count != len(self.ops):
            raise _not_the_same(f"{noted.count} ops ran, {len(self.ops)} in the forward")
        return noted.store


def _checkpointed_calls() -> list[_CheckpointedCall]:
    """The checkpointed calls around this call, innermost first."""
    calls, active = [], interpreter.STATE.active
    while isinstance(active, _Inside):
        calls.append(active.checkpointed)
        active = active.outer
    return calls


def _held(x: Any, around: list[_CheckpointedCall]) -> Any:
    """An argument as it is now; an argument that an outer checkpoint recomputes, by its entry."""
    if not isinstance(x, Tensor):
        return x
    edge = x.edge
    is_recomputed = isinstance(edge, RecomputedEntry) and edge.arrays is not None \
        and edge.arrays[0] in around
    return edge if is_recomputed else Tensor(x._data, edge)


def _recomputed(x: Any, sums: dict[Any, Any]) -> Any:
    if not isinstance(x, RecomputedEntry):
        return x
    if x.arrays is None:
        raise freed_tape_error(x)
    checkpointed, n = x.arrays
    return Tensor(checkpointed.values(n, sums, last=False)[1], x)


class RecomputedEntry(Entry):
    """An entry without values: `arrays` holds its checkpointed call and the op's number in it."""

    __slots__ = ()

    def back(self, g: Any, sums: Any, useful: Any, keep: bool, step: Callable[..., None]) -> None:
        if self.arrays is None:
            raise freed_tape_error(self)
        checkpointed, n = origin = self.arrays
        self.arrays, self.out = checkpointed.values(n, sums, last=True)
        try:
            step(self, g, sums, useful, True)
        finally:
            self.arrays, self.out = origin, None
        if not keep:
            self.arrays = None  # type: ignore[assignment]


class _Inside(ObserverInterpreter):
    """An observer in front of everything except other checkpoints: each has its own values."""

    def __init__(self, checkpointed: _CheckpointedCall) -> None:
        super().__init__()
        self.checkpointed = checkpointed
        self.outer: Any = None

    def __enter__(self) -> Any:
        self.outer = super().__enter__().below
        while isinstance(self.below, _Inside):
            self.below = self.below.below
        return self

    def __exit__(self, *error: Any) -> None:
        self.below = self.outer
        super().__exit__(*error)


class _Discard(_Inside):
    """Discards the values of each entry as soon as it exists."""

    def saw(self, op: Op, inputs: tuple[Any, ...], out: Tensor) -> None:
        entry = out.edge
        if type(entry) is Entry:
            entry.__class__ = RecomputedEntry
            entry.arrays, entry.out = (self.checkpointed, len(self.checkpointed.ops)), None
            self.checkpointed.ops.append((op.name, out._data.shape))


class _Collect(_Inside):
    """Collects the values of each entry."""

    def __init__(self, checkpointed: _CheckpointedCall) -> None:
        super().__init__(checkpointed)
        self.store: dict[int, Any] = {}
        self.count = 0

    def saw(self, op: Op, inputs: tuple[Any, ...], out: Tensor) -> None:
        entry, n = out.edge, self.count
        if type(entry) is not Entry:
            return
        expected = self.checkpointed.ops[n] if n < len(self.checkpointed.ops) else None
        if expected is None or (self.checkpointed.check and expected != (op.name, out._data.shape)):
            raise _not_the_same(f"op {n} is {op.name} with a result of shape {out._data.shape}, "
                                f"in the forward {'nothing' if expected is None else expected}")
        self.store[n] = entry.arrays, entry.out
        self.count += 1


def _not_the_same(what: str) -> GradientError:
    return GradientError(f"checkpoint: the second run differs from the first: {what}",
                         "the function must compute the same in both runs; it may not depend on "
                         "values that change between the forward and the backward")
