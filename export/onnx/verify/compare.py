"""Runs an exported model and compares its outputs with the expected ones."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ....eager.arrays.dtypes import STORED, finfo, kind
from ....eager.errors import ExportError
from ..writer.element_types import name_in_schema

# The error that a result may have, relative to the largest element of the output.
TOLERANCE = {"float16": 1e-2, "float32": 1e-4, "float64": 1e-7,
             **{d.name: 2 * finfo(d).eps for d, k in STORED.items() if k == "f"}}

# Tolerances for models that round intermediate values, where one step of rounding is large.
_QUANTIZED = 2e-2
_SMALL = {"FLOAT16": 1e-2, "BFLOAT16": 5e-2, "FLOAT8E4M3FN": 0.1, "FLOAT8E4M3FNUZ": 0.1,
          "FLOAT8E5M2": 0.2, "FLOAT8E5M2FNUZ": 0.2, "FLOAT4E2M1": 0.5, "FLOAT8E8M0": 1.0}

_REPORT_BUG = "this is a bug in fusewire: please report it with the function"


class Runner(NamedTuple):
    """A runtime for a model: its name, and run(inputs by name) -> outputs.

    `note` says why it is not onnxruntime.
    """

    name: str
    run: Any
    note: str = ""


def check_valid(model: Any) -> None:
    """Raises ExportError if onnx's checker, with shape inference, rejects a model or a file."""
    from onnx import checker, shape_inference

    try:
        checker.check_model(model, full_check=True)
    except (checker.ValidationError, shape_inference.InferenceError) as error:
        raise ExportError(f"onnx's checker rejects the model: {error}",
                          _REPORT_BUG) from None


# What onnxruntime says of models that are newer than it is.
_TOO_NEW = ("Unsupported model IR version", "is not currently registered or supported",
            "is under development and support for this is limited")


def runner(data: bytes | str) -> Runner:
    """onnxruntime if it is installed and has all operators, dtypes and the opset of the model, else
    onnx's reference evaluator."""
    if importlib.util.find_spec("onnxruntime") is None:
        return reference(data, "onnxruntime is not installed")
    import onnxruntime as ort

    try:
        session = ort.InferenceSession(data, exact_options(), providers=["CPUExecutionProvider"])
    except Exception as error:  # its exceptions have no public base
        if type(error).__name__ == "NotImplemented" or any(t in str(error) for t in _TOO_NEW):
            return reference(data, f"onnxruntime {ort.__version__} cannot run the model: "
                             f"{str(error).splitlines()[0]}")
        raise ExportError(f"onnxruntime {ort.__version__} cannot load the model: {error}",
                          "try another opset: export(..., opset=17)") from None
    types = {name_in_schema(v.type.removeprefix("tensor(").removesuffix(")"))
             for v in (*session.get_inputs(), *session.get_outputs())}
    if names := sorted({d.name for d in STORED} & types):
        return reference(data, f"onnxruntime {ort.__version__} takes no arrays of {names[0]} from "
                         "Python")
    return Runner(f"onnxruntime {ort.__version__}", lambda inputs: session.run(None, dict(inputs)))


def exact_options() -> Any:
    """Options of an onnxruntime session that adds products of 8-bit codes exactly and logs
    nothing. By default a processor without VNNI adds pairs of products in 16 bits, which saturates.
    """
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry("session.x64quantprecision", "1")
    return options


def reference(data: bytes | str, note: str) -> Runner:
    import onnx
    from onnx.reference import ReferenceEvaluator

    model = onnx.load(data) if isinstance(data, str) else onnx.load_from_string(data)
    evaluator = ReferenceEvaluator(model)

    def run(inputs: Mapping[str, Any]) -> list[Any]:
        with np.errstate(all="ignore"):
            return [np.asarray(x) for x in evaluator.run(None, dict(inputs))]

    return Runner(f"onnx {onnx.__version__} reference", run, note)


def compare(run: Any, inputs: Mapping[str, Any], expected: Sequence[tuple[str, Any]], where: str,
            others: Sequence[Any] = (), rounding: float = 0.0) -> float:
    """The largest difference between the model's outputs and the expected ones.

    Raises ExportError if one is beyond its tolerance.

    `rounding`: the relative error that float results may have in any case (`rounding_of`).

    `others`: the function's results for inputs perturbed by rounding. A result may be as far off as
    these, such as the direction of a gradient that should be 0.
    """
    try:
        outputs = run({name: np.ascontiguousarray(x).reshape(x.shape)
                       for name, x in inputs.items()})
    except Exception as error:  # of whichever runtime it is
        raise ExportError(f"the model fails {where}: {error}",
                          _REPORT_BUG) from None
    largest = 0.0
    for i, ((name, correct), output) in enumerate(zip(expected, outputs, strict=True)):
        if output.shape != correct.shape or output.dtype != correct.dtype:
            raise ExportError(f"{where} the output {name} is "
                              f"{output.dtype.name}{list(output.shape)}, the function returns "
                              f"{correct.dtype.name}{list(correct.shape)}", _REPORT_BUG)
        apart = difference(output, correct)
        largest = max(largest, apart)
        usual = TOLERANCE.get(correct.dtype.name, 0.0)
        limit = (max(usual, rounding) if usual else 0.0) * max(1.0, _scale(correct))
        limit = max(limit, 4 * difference(others[i], correct)) if others else limit
        if not apart <= limit:
            raise ExportError(f"{where} the output {name} differs by {apart:.3g} from the "
                              f"function's result (tolerance {limit:.3g})",
                              "does the function depend on more than its arguments: random "
                              "numbers, time, state, sizes converted to plain numbers?")
    return largest


def rounding_of(model: Any) -> float:
    """The relative error due to rounding of intermediate values; 0 if the model rounds none."""
    from onnx import TensorProto

    errors = [0.0]
    graphs = [model.graph]
    while graphs:
        for node in graphs.pop().node:
            graphs += [a.g for a in node.attribute if a.HasField("g")]
            if node.op_type in ("QuantizeLinear", "DynamicQuantizeLinear"):
                errors.append(_QUANTIZED)
            elif node.op_type == "Cast":
                errors.append(_SMALL.get(TensorProto.DataType.Name(node.attribute[0].i), 0.0))
    return max(errors)


def difference(output: Any, expected: Any) -> float:
    """The largest difference of two arrays; infinite where only one is nan or infinite."""
    if kind(output.dtype) not in "fc":  # Python's integers do not overflow
        pairs = zip(output[output != expected].tolist(), expected[output != expected].tolist())
        return float(max((abs(int(a) - int(b)) for a, b in pairs), default=0))
    with np.errstate(all="ignore"):
        apart = np.abs(output.astype(np.float64) - expected.astype(np.float64))
    same = (output == expected) | (np.isnan(output) & np.isnan(expected))
    apart = np.where(same, 0.0, np.where(np.isfinite(apart), apart, np.inf))
    return float(apart.max(initial=0.0))


def _scale(x: Any) -> float:
    wide = x.astype(np.float64) if kind(x.dtype) == "f" else np.zeros(0)
    return float(np.abs(wide[np.isfinite(wide)]).max(initial=0))
