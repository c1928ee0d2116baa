"""Finds batch norms that alone read the results of a layer, and folds them into the layer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .. import interpreter
from ..core.dispatch import evaluate
from ..core.op import Op
from ..core.tensor import Tensor
from ..nn.base.module import Module
from ..nn.base.results import tensors_in
from ..nn.layers.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from ..nn.layers.conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from ..nn.layers.linear import Identity, Linear
from ..nn.utils.fusion import fuse_conv_bn_weights, fuse_linear_bn_weights
from .calibration import layer_input

_CONVOLUTIONS = (Conv1d, Conv2d, Conv3d)
_TRANSPOSED = (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)
NORMS = (BatchNorm1d, BatchNorm2d, BatchNorm3d)


class Readers:
    """An interpreter that runs ops and notes the layers whose results batch norms read."""

    can_read_values = False
    keeps_layers = False

    def __init__(self, model: Module) -> None:
        modules = list(model.modules())
        self._layers = [m for m in modules if type(m) in (*_CONVOLUTIONS, *_TRANSPOSED, Linear)]
        self._norms = [m for m in modules if type(m) in NORMS and not _lacks(m)]
        self._from: dict[int, tuple[Tensor, Module]] = {}  # results of layers, kept alive
        self._within: Module | None = None  # the batch norm that runs
        self.readers: dict[Module, set[Module | None]] = {}  # of a layer's results
        self.read: dict[Module, set[Module | None]] = {}  # by a batch norm: results of layers

    def run(self, call: Any) -> Any:
        """The result of `call()`, run under this interpreter."""
        handles = [x.register_forward_hook(self._note_result) for x in self._layers]
        handles += [x.register_forward_pre_hook(self._enter, with_kwargs=True) for x in self._norms]
        handles += [x.register_forward_hook(self._leave) for x in self._norms]
        before, interpreter.STATE.active = interpreter.STATE.active, self
        try:
            out = call()
        finally:
            interpreter.STATE.active = before
            for handle in handles:
                handle.remove()
        self._note(tensors_in(out), None)
        self._from.clear()
        return out

    def pairs(self) -> dict[Module, Module]:
        """The layer of each batch norm that alone reads all results of the layer."""
        return {norm: layer for norm, producers in self.read.items()
                for layer in producers if layer is not None and len(producers) == 1
                and self.readers.get(layer) == {norm}}

    def _note_result(self, layer: Module, args: Any, out: Tensor) -> None:
        if not isinstance(layer, Linear) or out.ndim == 2:  # else its channels are not the last
            self._from[id(out)] = (out, layer)

    def _enter(self, norm: Module, args: Any, kwargs: Any) -> None:
        x = layer_input(args, kwargs)
        self.read.setdefault(norm, set()).add(self._from.get(id(x), (x, None))[1])
        self._within = norm

    def _leave(self, norm: Module, args: Any, out: Any) -> None:
        self._within = None

    def _note(self, read: Iterable[Any], by: Module | None) -> None:
        for x in read:
            if id(x) in self._from:
                self.readers.setdefault(self._from[id(x)][1], set()).add(by)

    # ---- the methods of an interpreter
    def apply(self, op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> Tensor:
        self._note(inputs, self._within)
        return evaluate(op, inputs, params)

    def shape(self, tensor: Tensor) -> tuple[Any, ...]:
        return tensor._data.shape  # type: ignore[no-any-return]

    def reads_values(self, tensor: Tensor, how: str) -> None:
        self._note([tensor], None)

    def note_constant(self, tensor: Tensor) -> None: ...
    def changed(self, tensor: Tensor) -> None: ...
    def reads_grad(self, tensor: Tensor) -> None: ...
    def sets_grad(self, tensor: Tensor) -> None: ...

    def item(self, tensor: Tensor, value: Any) -> Any:
        return value

    def apply_data_dependent(self, op: Op, x: Tensor) -> Tensor | None:
        return None


def _lacks(norm: Any) -> bool:
    return norm.running_mean is None or norm.running_var is None


def fold(model: Module, pairs: dict[Module, Module]) -> dict[str, str]:
    """The name of each batch norm and of the layer it was folded into; changes `model`."""
    names = {module: name for name, module in model.named_modules()}
    for norm, layer in pairs.items():
        _take_in(layer, norm)
    for name, module in list(model.named_modules(remove_duplicate=False)):
        if module in pairs:
            model.set_submodule(name, Identity())
    return {names[norm]: names[layer] for norm, layer in pairs.items()}


def _take_in(layer: Any, norm: Any) -> None:
    statistics = (norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias)
    if isinstance(layer, Linear):
        layer.weight, layer.bias = fuse_linear_bn_weights(layer.weight, layer.bias, *statistics)
    else:
        layer.weight, layer.bias = fuse_conv_bn_weights(
            layer.weight, layer.bias, *statistics, transpose=isinstance(layer, _TRANSPOSED))
