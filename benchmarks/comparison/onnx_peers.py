"""Calls of the libraries that run ONNX models: onnxruntime and OpenVINO."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import fusewire as fw

from ..peers import onnx_bytes_session
from .row import Array


def onnxruntime_call(model: bytes | Path, inputs: Mapping[str, Array]) -> Callable[[], Any]:
    """A call of a model, or of one in a file, in onnxruntime. `inputs` may have unused ones."""
    import onnxruntime

    session = onnx_bytes_session(model)
    feed = {i.name: onnxruntime.OrtValue.ortvalue_from_numpy(inputs[i.name])
            for i in session.get_inputs()}
    return functools.partial(session.run_with_ort_values,
                             [o.name for o in session.get_outputs()], feed)


def openvino_call(model: bytes | Path, inputs: Mapping[str, Array]) -> Callable[[], Any]:
    """The same in OpenVINO, in float32."""
    import openvino

    core = openvino.Core()
    read = core.read_model(io.BytesIO(model) if isinstance(model, bytes) else model)
    request = core.compile_model(read, "CPU", {
        "INFERENCE_NUM_THREADS": str(fw.get_num_threads()), "INFERENCE_PRECISION_HINT": "f32",
        "PERFORMANCE_HINT": "LATENCY"}).create_infer_request()
    feed = {name: inputs[name] for i in read.inputs for name in i.names if name in inputs}

    def call() -> list[Array]:
        found = request.infer(feed, share_inputs=True, share_outputs=True)
        return [found[i] for i in range(len(read.outputs))]

    return call
