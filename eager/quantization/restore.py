"""Restores a quantized model from a state dict: quantizes its layers and loads their numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import ArgumentError
from ..nn.base.module import Module
from ..nn.base.parameter import Parameter
from ..nn.base.state import as_tensor
from ..nn.layers.linear import Identity, Linear
from ..ops.create import zeros
from .batchnorm_folding import NORMS
from .grouped import GroupedLinear
from .half_layers import HALVED, InSmallFloats
from .layers import FORMS, QuantizedEmbedding
from .qparams import QuantParams
from .quantize import plain_copy, replaced

__all__ = ["load_quantized"]


def load_quantized(model: Module, state: Mapping[str, Any]) -> Module:
    """A quantized copy of the float `model`, with the numbers of `state`.

    Args:
        model: a model of the structure that was quantized; it is unchanged.
        state: the state_dict() of `fw.quantize(...).model`.

    Raises:
        StateError: the state does not fit the model.
        ArgumentError: the state is not that of a quantized model.

    Example:
        >>> import fusewire as fw
        >>> small = fw.quantize(fw.nn.Sequential(fw.nn.Linear(4, 2)), activations="dynamic").model
        >>> fw.load_quantized(fw.nn.Sequential(fw.nn.Linear(4, 2)), small.state_dict())
        Sequential(
          (0): QuantizedLinear(4, 2, dynamic)
        )
    """
    plain = plain_copy(model)
    forms: dict[Module, Module] = {}
    for name, layer in plain.named_modules():
        own = {key[len(name) + 1 if name else 0:]: value for key, value in state.items()
               if key.startswith(f"{name}." if name else "")}
        form = _form(layer, own)
        if form is not None:
            forms[layer] = form
    if all(isinstance(layer, Identity) for layer in forms.values()):
        raise ArgumentError("load_quantized: the state is not that of a quantized model",
                            "pass the state_dict() of fw.quantize(...).model; states of "
                            "float models go into model.load_state_dict")
    small = replaced(plain, forms)
    small.load_state_dict(state)
    return small


def _form(layer: Any, state: Mapping[str, Any]) -> Module | None:
    """The quantized form that a layer had when its state was saved; None if it had none."""
    if type(layer) in NORMS and not state:
        return Identity()
    if {"shift", "layer.bias"} & {*state} and layer.bias is None:  # that of a batch norm
        layer.bias = Parameter(zeros(_channels(layer)))
    if type(layer) in HALVED and "layer.weight" in state:
        return InSmallFloats(layer, as_tensor(state["layer.weight"]).dtype)
    if type(layer) is Linear and "least" in state:
        return _grouped(layer, state)
    if type(layer) not in FORMS or "codes" not in state:
        return None
    form = FORMS[type(layer)]
    if form is QuantizedEmbedding:
        return form(layer)  # type: ignore[no-any-return]
    zero = state.get("input_zero")
    grid = None if zero is None else QuantParams(1.0, 0, as_tensor(zero).dtype)
    return form(layer, grid)  # type: ignore[no-any-return]


def _grouped(layer: Linear, state: Mapping[str, Any]) -> Module:
    """The form of a layer whose weight has few bits; its sizes show the bits and the groups."""
    codes, scale = as_tensor(state["codes"]), as_tensor(state["scale"])
    return GroupedLinear.rounded(layer, 8 * codes.shape[1] // layer.in_features,
                                 layer.in_features // scale.shape[1])


def _channels(layer: Any) -> int:
    """The number of channels of a layer's result."""
    count: int = layer.out_features if isinstance(layer, Linear) else layer.out_channels
    return count
