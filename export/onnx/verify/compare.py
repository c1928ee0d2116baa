"""Running a written model, and comparing what it gives with what was wanted."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ....eager.errors import ExportError

# How far a result may be off, relative to the largest element of the output.
TOLERANCE = {"float16": 1e-2, "float32": 1e-4, "float64": 1e-7}

# The same for results of what rounds in between: to so many numbers that one more or less counts.
_CODED, _SMALL = 2e-2, {"FLOAT16": 1e-2, "BFLOAT16": 5e-2}

_OURS = "this is a bug in fusewire: please report it with the function"


class Runner(NamedTuple):
    """Who runs a model: its name, run(inputs by name) -> outputs, and why it is not onnxruntime."""

    name: str
    run: Any
    note: str = ""


def check_valid(model: Any) -> None:
    """ExportError unless onnx's own checker accepts the model or the one at a path, types and
    shapes included."""
    from onnx import checker, shape_inference

    try:
        checker.check_model(model, full_check=True)
    except (checker.ValidationError, shape_inference.InferenceError) as error:
        raise ExportError(f"onnx's checker refuses the model: {error}",
                          _OURS) from None


def runner(data: bytes | str) -> Runner:
    """onnxruntime where it is installed and has all operators, else onnx's reference evaluator."""
    if importlib.util.find_spec("onnxruntime") is None:
        return reference(data, "onnxruntime is not installed")
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    try:
        session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its exceptions have no public base
        if type(error).__name__ == "NotImplemented":
            return reference(data, f"onnxruntime {ort.__version__} cannot run the model: "
                                    f"{str(error).splitlines()[0]}")
        raise ExportError(f"onnxruntime {ort.__version__} does not load the model: {error}",
                          "try another opset: export(..., opset=17)") from None
    return Runner(f"onnxruntime {ort.__version__}", lambda inputs: session.run(None, dict(inputs)))


def reference(data: bytes | str, note: str) -> Runner:
    import onnx
    from onnx.reference import ReferenceEvaluator

    model = onnx.load(data) if isinstance(data, str) else onnx.load_from_string(data)
    evaluator = ReferenceEvaluator(model)

    def run(inputs: Mapping[str, Any]) -> list[Any]:
        with np.errstate(all="ignore"):
            return [np.asarray(x) for x in evaluator.run(None, dict(inputs))]

    return Runner(f"onnx {onnx.__version__} reference", run, note)


def compare(run: Any, inputs: Mapping[str, Any], wanted: Sequence[tuple[str, Any]], where: str,
            others: Sequence[Any] = (), rounding: float = 0.0) -> float:
    """The largest difference between the model and the function. ExportError for one too large.

    `rounding`: how far results of floats may be off in any case (`rounding_of`).

    `others`: what the function gives for inputs that differ by rounding alone, where a result may
    be as far away: the direction of a gradient that should be 0, say.
    """
    try:
        got = run({name: np.ascontiguousarray(x).reshape(x.shape) for name, x in inputs.items()})
    except Exception as error:  # of whichever runtime it is
        raise ExportError(f"the model fails {where}: {error}",
                          _OURS) from None
    largest = 0.0
    for i, ((name, want), have) in enumerate(zip(wanted, got, strict=True)):
        if have.shape != want.shape or have.dtype != want.dtype:
            raise ExportError(f"{where} the output {name} is {have.dtype.name}{list(have.shape)}, "
                              f"the function gives {want.dtype.name}{list(want.shape)}",
                              _OURS)
        apart = difference(have, want)
        largest = max(largest, apart)
        usual = TOLERANCE.get(want.dtype.name, 0.0)
        limit = (max(usual, rounding) if usual else 0.0) * max(1.0, _scale(want))
        limit = max(limit, 4 * difference(others[i], want)) if others else limit
        if not apart <= limit:
            raise ExportError(f"{where} the output {name} differs by {apart:.3g} from what the "
                              f"function gives (allowed: {limit:.3g})",
                              "does the function depend on more than its arguments: random "
                              "numbers, time, state, sizes made into plain numbers?")
    return largest


def rounding_of(model: Any) -> float:
    """How far results may be off as a model rounds on its way; 0 where it does not."""
    from onnx import TensorProto

    found = [0.0]
    graphs = [model.graph]
    while graphs:
        for node in graphs.pop().node:
            graphs += [a.g for a in node.attribute if a.HasField("g")]
            if node.op_type in ("QuantizeLinear", "DynamicQuantizeLinear"):
                found.append(_CODED)
            elif node.op_type == "Cast":
                found.append(_SMALL.get(TensorProto.DataType.Name(node.attribute[0].i), 0.0))
    return max(found)


def difference(have: Any, want: Any) -> float:
    """The largest difference of two arrays; infinite where one is nan or infinite alone."""
    if have.dtype.kind not in "fc":  # Python's integers do not overflow
        pairs = zip(have[have != want].tolist(), want[have != want].tolist())
        return float(max((abs(int(a) - int(b)) for a, b in pairs), default=0))
    with np.errstate(all="ignore"):
        apart = np.abs(have.astype(np.float64) - want.astype(np.float64))
    same = (have == want) | (np.isnan(have) & np.isnan(want))
    apart = np.where(same, 0.0, np.where(np.isfinite(apart), apart, np.inf))
    return float(apart.max(initial=0.0))


def _scale(x: Any) -> float:
    return float(np.abs(x[np.isfinite(x)]).max(initial=0)) if x.dtype.kind == "f" else 0.0
