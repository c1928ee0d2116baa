"""Implements the interface with which the `onnx` package tests engines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnx.backend.base import Backend, BackendRep

from ....codegen.decorator import compile as compiled
from ....eager.core.tape import no_grad
from .load import load
from .runtime.module import Model
from .runtime.values import array_of, value_of


class LoadedModel(BackendRep):  # type: ignore[misc]
    """A model that is ready to run."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The model's outputs as arrays."""
        args = inputs if isinstance(inputs, (list, tuple)) else [inputs]
        with no_grad():
            outputs = self.model(*args)
        return tuple(map(array_of, outputs if isinstance(outputs, tuple) else (outputs,)))


class FusewireBackend(Backend):  # type: ignore[misc]
    """Runs models eagerly."""

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> LoadedModel:
        """A model that is ready to run."""
        return LoadedModel(load(model))

    @classmethod
    def run_model(cls, model: Any, inputs: Any, device: str = "CPU", **kwargs: Any
                  ) -> tuple[Any, ...]:
        """The outputs of a model."""
        return cls.prepare(model, device).run(inputs)

    @classmethod
    def run_node(cls, node: Any, inputs: Sequence[Any], device: str = "CPU",
                 outputs_info: Any = None, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs of a model of one node."""
        from onnx import helper

        named = {name: array for name, array in zip(node.input, inputs) if name}
        graph = helper.make_graph(
            [node], "node",
            [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
             for name, a in named.items()],
            [helper.make_empty_tensor_value_info(name) for name in node.output if name])
        return cls.run_model(helper.make_model(graph), list(named.values()))

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """True if models run on the device."""
        return device.startswith("CPU")


class CompiledBackend(FusewireBackend):
    """Runs models compiled: the first call traces, the second runs native code."""

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> LoadedModel:
        """A model that is ready to run."""
        return CompiledModel(compiled(load(model)))


class CompiledModel(LoadedModel):
    """A compiled model."""

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs of a replay; the first call traces."""
        tensors = value_of(list(inputs))
        super().run(tensors)
        return super().run(tensors)
