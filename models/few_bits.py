"""Loads checkpoints whose linear layers have 4 or 8 bits, in the layouts of GPTQ and AWQ.

Both hold for a layer `qweight`, whole numbers packed into words of int32; `qzeros`, the packed zero
of each group; and `scales`. A weight is (number - zero) * scale. The layers stay in few bits.
Sources: Frantar et al., arXiv 2210.17323; Lin et al., arXiv 2306.00978.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

import fusewire as fw
from fusewire.eager.quantization.grouped import GroupedLinear

from .config import ConfigError
from .pretrained_model import PretrainedModel

_AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)  # the column of each four bits of a word, lowest first


class Codes(NamedTuple):
    """The whole numbers of a layer: weights (inputs, outputs), zeros (groups, outputs)."""

    weights: Any
    zeros: Any


def convert_layers(model: PretrainedModel, weights: Mapping[str, fw.Tensor],
                   settings: Mapping[str, Any]) -> dict[str, fw.Tensor]:
    """The weights by the names of `model`, in which layers of few bits replace linear ones.

    Args:
        model: the model of floats; its layers are replaced.
        weights: the tensors of a checkpoint.
        settings: `quantization_config` of its config.json.

    Raises:
        ConfigError: the layout is not implemented.
        StateError: a layer is incomplete, or no layer has this name.
    """
    method, bits = settings.get("quant_method"), settings.get("bits", settings.get("w_bit"))
    if method not in _LAYOUTS or bits not in (4, 8) or (method == "awq" and bits != 4):
        raise ConfigError(f"weights of {bits} bits by {method!r} are not implemented",
                          "the layouts are gptq with 4 or 8 bits and awq with 4 bits")
    converted = dict(weights)
    for name in [n.removesuffix(".qweight") for n in weights if n.endswith(".qweight")]:
        parts = {part: _take(converted, f"{name}.{part}") for part in
                 ("qweight", "qzeros", "scales")}
        order = converted.pop(f"{name}.g_idx", None)
        codes = _LAYOUTS[method](parts, bits, settings)
        _check_order(name, order, len(codes.weights) // len(codes.zeros))
        bias = converted.get(f"{name}.bias")
        layer = _layer(codes, parts["scales"], None if bias is None else bias.numpy(), bits)
        owner, _, attribute = name.rpartition(".")
        setattr(_owner(model, owner, name), attribute, layer)
        converted |= {f"{name}.{part}": x for part, x in layer.state_dict().items()}
    return converted


def _take(weights: dict[str, fw.Tensor], name: str) -> Any:
    if name not in weights:
        raise fw.StateError(f"the checkpoint has no {name}", "get another copy")
    return weights.pop(name).numpy()


def _owner(model: PretrainedModel, owner: str, name: str) -> Any:
    try:
        module = model.get_submodule(owner)
    except AttributeError:
        module = None
    if not hasattr(module, name.rpartition(".")[2]):
        raise fw.StateError(f"the checkpoint has {name}.qweight, but the model has no layer {name}",
                            "compare the names with model.named_modules()")
    return module


def _check_order(name: str, order: Any, group: int) -> None:
    """ConfigError unless groups are neighbouring inputs, the only order of layers here."""
    if order is not None and not np.array_equal(order.numpy(),
                                                np.arange(order.shape[0]) // group):
        raise ConfigError(f"{name}: the groups of its inputs are reordered (desc_act)",
                          "get a checkpoint with desc_act=false")


def _gptq(parts: Mapping[str, Any], bits: int, settings: Mapping[str, Any]) -> Codes:
    # Words hold consecutive inputs of a weight, and consecutive outputs of a zero. The first
    # version of the format holds zeros less 1.
    shift = 0 if settings.get("checkpoint_format") == "gptq_v2" else 1
    return Codes(_unpacked(parts["qweight"].T, bits).T, _unpacked(parts["qzeros"], bits) + shift)


def _awq(parts: Mapping[str, Any], bits: int, settings: Mapping[str, Any]) -> Codes:
    weights, zeros = (_unpacked(parts[name], bits) for name in ("qweight", "qzeros"))
    order = np.argsort(_AWQ_ORDER)
    return Codes(*(x.reshape(len(x), -1, 8)[..., order].reshape(x.shape) for x in (weights, zeros)))


_LAYOUTS: dict[Any, Callable[[Mapping[str, Any], int, Mapping[str, Any]], Codes]] = {
    "awq": _awq, "gptq": _gptq}


def _unpacked(words: Any, bits: int) -> Any:
    """The numbers in words of 32 bits, lowest first: (n, m) -> (n, m * 32 / bits), int32."""
    shifts = np.arange(0, 32, bits, dtype=np.uint32)
    numbers = words.view(np.uint32)[..., None] >> shifts & ((1 << bits) - 1)
    return numbers.reshape(len(words), -1).astype(np.int32)


def _layer(codes: Codes, scales: Any, bias: Any, bits: int) -> GroupedLinear:
    inputs, groups = len(codes.weights), len(codes.zeros)
    # Half of the inputs have to be whole groups: larger groups become several with one scale.
    group = math.gcd(inputs // groups, inputs * bits // 8)
    repeats = inputs // groups // group
    scale = np.repeat(scales.astype(np.float32).T, repeats, axis=1)
    zeros = np.repeat(codes.zeros.T, repeats, axis=1)
    return GroupedLinear(np.ascontiguousarray(codes.weights.T).astype(np.uint8),
                         np.ascontiguousarray(scale), -zeros * scale, bias, bits)
