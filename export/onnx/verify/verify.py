"""Verifies a model: runs it beside the function at the sizes of the example and at others."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ....capture.sizes.size_condition import SizeCondition
from ....capture.trace.export_tracer import unchanged
from ....eager.arrays.devices import host
from ....eager.errors import ExportError, FusewireError
from ..model.arguments import ExportArguments, drawn, leaves
from ..model.training_state import ModelState
from ..writer.files import Files
from .compare import check_valid, compare, rounding_of, runner

_PRIMES = (5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
_STEPS = 3  # of training
_TRIES = 3  # sizes tried until the function accepts one


@dataclass
class Check:
    """The result of verifying a model."""

    error: float | None = None
    sizes: list[dict[str, int]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    runner: str = ""
    conditions: list[SizeCondition] = field(default_factory=list)


def verify_model(unpublished: Files, calls: Sequence[ExportArguments], outputs: Sequence[str],
                 held: Sequence[ModelState], check: Check) -> None:
    """Compares the model with the function on the examples and at other sizes, and fills `check`.

    A function that changes state is run several times in a row.
    """
    source = unpublished.loadable()
    check_valid(unpublished.model if isinstance(source, bytes) else source)
    runtime = runner(source)
    check.runner, check.error = runtime.name, 0.0
    check.notes += [runtime.note] if runtime.note else []
    call, rounding = calls[0], rounding_of(unpublished.model)

    def at(sizes: dict[str, int], arrays: Sequence[Any]) -> None:
        where = "at " + ", ".join(f"{k} = {v}" for k, v in sizes.items()) if sizes else \
            "on the example"
        feed = dict(zip(call.names, arrays))
        perturbed = _eager(call, _perturbed(arrays), held) if held else []
        for step, expected in enumerate(_eager(call, arrays, held)):
            step_label = f"{where}, in step {step + 1}," if step else where
            error = compare(runtime.run, feed, list(zip(outputs, expected)), step_label,
                            perturbed[step] if held else (), rounding)
            check.error = max(check.error or 0.0, error)
            feed |= dict(zip((h.name for h in held), expected[len(expected) - len(held):]))
        if sizes not in check.sizes:
            check.sizes.append(sizes)

    for each in calls:
        at(each.sizes(), each.arrays)
    if call.sizes():
        _compare_elsewhere(at, call, call.sizes(), check)


def _compare_elsewhere(at: Any, call: ExportArguments, example: dict[str, int],
                       check: Check) -> None:
    """Compares at other sizes, with all of them 1, and where only conditions `a != b` fail."""
    rng = np.random.default_rng(0)

    def drawn_at(sizes: dict[str, int]) -> bool:
        """True if the function accepts these sizes; the model is compared there."""
        arrays = [drawn(a, axes, sizes, rng) for a, axes in zip(call.arrays, call.axes)]
        try:
            _eager(call, arrays, ())
        except FusewireError:
            return False
        at(sizes, arrays)
        return True

    for sizes, _ in zip(other_sizes(example, check.conditions), range(_TRIES)):
        if drawn_at(sizes):
            break
    else:
        check.notes.append("not checked at other sizes: the function accepts none of those tried")
    for sizes in doubtful_sizes(example, check.conditions):
        if sizes in check.sizes:
            continue
        try:
            drawn_at(sizes)
        except ExportError:
            if all(c.holds(sizes) for c in check.conditions):
                raise
            # else the model differs where a condition fails, so the condition is needed
    check.conditions = [c for c in check.conditions if all(map(c.holds, check.sizes))]


def _eager(call: ExportArguments, arrays: Sequence[Any],
           held: Sequence[ModelState]) -> list[list[Any]]:
    """The function's results and changed state as arrays, for each of several calls in a row.

    A function without state is called once.
    """
    steps = []
    with unchanged(call.fn):  # each run starts from the state that was recorded
        for _ in range(_STEPS if held else 1):
            args, kwargs = call.call(call.tensors_of(arrays))
            result = call.fn(*args, **kwargs)
            steps.append([host(t._data) for t in (*(t for _, t in leaves(result, "")),
                                                  *(h.tensors[0] for h in held))])
    return steps


def _perturbed(arrays: Sequence[Any]) -> list[Any]:
    """The arrays with errors as from summation in another order."""
    rng = np.random.default_rng(0)
    return [(a * (1 + 1e-6 * rng.standard_normal(a.shape))).astype(a.dtype)
            if a.dtype.kind == "f" else a for a in arrays]


def other_sizes(sizes: Mapping[str, int], conditions: Iterable[SizeCondition]
                ) -> Iterator[dict[str, int]]:
    """Further sizes that fulfil the conditions, a different one for each name."""
    required = list(conditions)
    for values in _candidates(list(sizes.values())):
        trial = dict(zip(sizes, values))
        if all(c.holds(trial) for c in required) and \
                all(trial[name] != size for name, size in sizes.items()):
            yield trial


def doubtful_sizes(sizes: Mapping[str, int], conditions: Sequence[SizeCondition]
                   ) -> Iterator[dict[str, int]]:
    """Sizes at which only conditions `a != b` fail, which traces often record needlessly.

    All sizes 1 first, then one for each condition on one name.
    """
    unequal = [c for c in conditions if c.relation == "eq"]
    bounds = [c for c in conditions if c.relation != "eq"]
    trials = [dict.fromkeys(sizes, 1)]
    for c in unequal[:8]:
        names = c.expr.symbols()
        if len(names) == 1:
            all_of = ({**sizes, **dict.fromkeys(names, n)} for n in range(2, 4096))
            trials += [next((trial for trial in all_of if not c.holds(trial)), trials[0])]
    yield from (trial for trial in trials if all(c.holds(trial) for c in bounds))


def _candidates(sizes: Sequence[int]) -> Iterator[list[int]]:
    for start in range(len(_PRIMES)):
        yield [_PRIMES[(start + i) % len(_PRIMES)] for i in range(len(sizes))]
    for scale, more in itertools.product((2, 3), (0, 1)):
        yield [scale * n + more * i for i, n in enumerate(sizes)]
    for step in range(1, 9):
        yield [n + step for n in sizes]
        yield [max(1, n - step) for n in sizes]
    yield [max(1, n // 2) for n in sizes]
