"""ResNet-18 with random weights: a file for `fusewire serve`.

BENCHMARK_ONNXRUNTIME in the environment runs the model by onnxruntime, in the same server.
"""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fusewire as fw
from fusewire.models.vision.resnet import resnet18
from fusewire.serving import Model

SHAPE, MOST = (3, 224, 224), 8


class ByOnnxruntime(Model):
    """A model that onnxruntime runs on one thread, in batches of any size that are the same."""

    def __init__(self, net: fw.nn.Module, example: dict[str, fw.Tensor]) -> None:
        super().__init__(net, example, max_batch=MOST)
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            fw.onnx.export(net, (fw.zeros(2, *SHAPE),), path, input_names=["images"],
                           dynamic_shapes={"images": {0: "n"}}, verify=False)
            self.session = onnxruntime.InferenceSession(str(path), options)

    def _call(self, arrays: Sequence[Any]) -> list[Any]:
        return list(self.session.run(None, {"images": arrays[0]}))


def load() -> Model:
    """The model that is served: images (n, 3, 224, 224) to scores (n, 1000), up to 8 at once."""
    fw.manual_seed(0)
    net, example = resnet18().eval(), {"images": fw.zeros(1, *SHAPE)}
    if os.environ.get("BENCHMARK_ONNXRUNTIME"):
        return ByOnnxruntime(net, example)
    return Model(net, example, max_batch=MOST)
