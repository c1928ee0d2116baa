"""Serves a `Model` by KServe's Python server, for those who run KServe on Kubernetes.

It needs the package `kserve`, which is imported when a model is made.
"""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np

from .base.statistics import Statistics
from .batching import Batcher
from .model import Model


def kserve_model(name: str, model: Model) -> Any:
    """A `kserve.Model` that runs a model in batches, for `kserve.ModelServer().start([...])`.

    Args:
        name: of the model in requests.
        model: is loaded when the server loads it.

    Example:
        >>> import kserve  # doctest: +SKIP
        >>> from fusewire.serving.kserve import kserve_model  # doctest: +SKIP
        >>> kserve.ModelServer().start([kserve_model("digits", model)])  # doctest: +SKIP
    """
    import kserve

    class FusewireModel(kserve.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(name)
            self.batcher: Batcher | None = None
            self.load()

        def load(self) -> bool:
            model.load()
            self.ready = True
            return True

        async def predict(self, payload: Any, headers: Any = None, response_headers: Any = None
                          ) -> Any:
            if self.batcher is None:  # the event loop is known now
                self.batcher = Batcher(model, Statistics())
            given = {tensor.name: tensor.as_numpy() for tensor in payload.inputs}
            arrays = [np.asarray(given[spec.name], spec.dtype) for spec in model.inputs]
            results = await asyncio.shield(self.batcher.submit(arrays))
            outputs = []
            for spec, array in zip(model.outputs, results):
                output = kserve.InferOutput(spec.name, list(array.shape),
                                            spec.metadata()["datatype"])
                output.set_data_from_numpy(array, binary_data=True)
                outputs.append(output)
            # KServe's answer needs an id, even if the request has none.
            return kserve.InferResponse(payload.id or "-", name, outputs)

    return FusewireModel()
