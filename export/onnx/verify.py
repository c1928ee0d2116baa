"""Checks of a written model: that it is valid ONNX, and that it computes what the function does."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...capture.dims import Condition
from ...eager.errors import ExportError

# How far a result may be off, relative to the largest element of the output.
TOLERANCE = {"float16": 1e-2, "float32": 1e-4, "float64": 1e-7}
_PRIMES = (5, 7, 11, 13, 17, 19, 23, 29, 31, 37)


class Runner(NamedTuple):
    """Who runs a model: its name, run(inputs by name) -> outputs, and why it is not onnxruntime."""

    name: str
    run: Any
    note: str = ""


def check(model: Any) -> None:
    """ExportError unless onnx's own checker accepts the model, types and shapes included."""
    from onnx import checker, shape_inference

    try:
        checker.check_model(model, full_check=True)
    except (checker.ValidationError, shape_inference.InferenceError) as error:
        raise ExportError(f"onnx's checker refuses the model: {error}",
                          "this is a mistake of fusewire: please report it with the model") from None


def runner(data: bytes) -> Runner:
    """onnxruntime where it is installed and knows all operators, else onnx's reference evaluator."""
    if importlib.util.find_spec("onnxruntime") is None:
        return _reference(data, "onnxruntime is not installed")
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    try:
        session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its exceptions have no public base
        if type(error).__name__ == "NotImplemented":
            return _reference(data, f"onnxruntime {ort.__version__} cannot run the model: "
                                    f"{str(error).splitlines()[0]}")
        raise ExportError(f"onnxruntime {ort.__version__} does not load the model: {error}",
                          "try another opset: export(..., opset=17)") from None
    return Runner(f"onnxruntime {ort.__version__}", lambda inputs: session.run(None, dict(inputs)))


def _reference(data: bytes, note: str) -> Runner:
    import onnx
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(onnx.load_from_string(data))

    def run(inputs: Mapping[str, Any]) -> list[Any]:
        with np.errstate(all="ignore"):
            return [np.asarray(x) for x in evaluator.run(None, dict(inputs))]

    return Runner(f"onnx {onnx.__version__} reference", run, note)


def compare(run: Any, inputs: Mapping[str, Any], wanted: Sequence[tuple[str, Any]], where: str
            ) -> float:
    """The largest difference between the model and the function. ExportError for one too large."""
    try:
        got = run({name: np.ascontiguousarray(x).reshape(x.shape) for name, x in inputs.items()})
    except Exception as error:  # of whichever runtime it is
        raise ExportError(f"the model fails {where}: {error}",
                          "this is a mistake of fusewire: please report it") from None
    largest = 0.0
    for (name, want), have in zip(wanted, got, strict=True):
        if have.shape != want.shape or have.dtype != want.dtype:
            raise ExportError(f"{where} the output {name} is {have.dtype.name}{list(have.shape)}, "
                              f"the function gives {want.dtype.name}{list(want.shape)}",
                              "this is a mistake of fusewire: please report it")
        error = difference(have, want)
        largest = max(largest, error)
        limit = TOLERANCE.get(want.dtype.name, 0.0) * max(1.0, _scale(want))
        if not error <= limit:
            raise ExportError(f"{where} the output {name} differs by {error:.3g} from what the "
                              f"function gives (allowed: {limit:.3g})",
                              "does the function depend on more than its arguments: random "
                              "numbers, time, state, sizes made into plain numbers?")
    return largest


def difference(have: Any, want: Any) -> float:
    """The largest difference of two arrays; infinite where one is nan or infinite alone."""
    if have.dtype.kind not in "fc":
        return float(np.max(have != want, initial=0)) if have.dtype.kind == "b" else \
            float(max((abs(int(a) - int(b)) for a, b in zip(have.flat, want.flat) if a != b),
                      default=0))
    with np.errstate(all="ignore"):
        apart = np.abs(have.astype(np.float64) - want.astype(np.float64))
    same = (have == want) | (np.isnan(have) & np.isnan(want))
    apart = np.where(same, 0.0, np.where(np.isfinite(apart), apart, np.inf))
    return float(apart.max(initial=0.0))


def _scale(x: Any) -> float:
    return float(np.abs(x[np.isfinite(x)]).max(initial=0)) if x.dtype.kind == "f" else 0.0


def other_sizes(sizes: Mapping[str, int], conditions: Iterable[Condition]) -> Iterator[dict[str, int]]:
    """Further sizes to check at, different for each name, that meet the conditions."""
    asked = list(conditions)
    for values in _candidates(list(sizes.values())):
        trial = dict(zip(sizes, values))
        if all(c.holds(trial) for c in asked) and \
                all(trial[name] != size for name, size in sizes.items()):
            yield trial


def doubtful_sizes(sizes: Mapping[str, int], conditions: Sequence[Condition]
                   ) -> Iterator[dict[str, int]]:
    """Sizes at which only conditions `a != b` fail: often these were asked without need.

    All sizes 1 first, then one for each condition on one name.
    """
    unequal = [c for c in conditions if c.relation == "eq"]
    bounds = [c for c in conditions if c.relation != "eq"]
    trials = [dict.fromkeys(sizes, 1)]
    for c in unequal[:8]:
        names = c.expr.symbols()
        found = next((n for n in range(2, 4096) if not c.holds({**sizes, **dict.fromkeys(names, n)})),
                     None) if len(names) == 1 else None
        trials += [{**sizes, **dict.fromkeys(names, found)}] if found is not None else []
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
