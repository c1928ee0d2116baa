"""Implements `fw.quantize`: quantizes the layers of a model and measures the loss of accuracy."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..arguments import check_choice, check_number, check_whole
from ..arrays.dtypes import as_dtype, kind
from ..core.tape import no_grad
from ..errors import ArgumentError
from ..nn.base.module import Module
from ..nn.base.results import tensors_in
from ..nn.layers.embedding import Embedding
from ..nn.layers.linear import Linear
from ..nn.utils.lora.model import adapted
from ..ops.elementwise.pointwise import isfinite
from . import grouped, half_layers, layers
from .attention import is_splittable_attention, with_linear_projections
from .batchnorm_folding import Readers, fold
from .calibration import Batches, called, carry_hooks, layer_input, observing
from .observers import OBSERVERS, Seen
from .qparams import QuantParams
from .report import Difference, LayerReport, Report
from .select import Skipped, chosen

__all__ = ["Quantized", "quantize"]

Layers = Mapping[str, Module]  # of a float model, by name
_TO = ("int8", "bfloat16", "float16")


@dataclass
class Quantized:
    """The result of `quantize`: the quantized `model`, and a `report` on its accuracy and size."""

    model: Module
    report: Report

    def __repr__(self) -> str:
        return str(self.report)


@dataclass(frozen=True)
class _Settings:
    """The settings of `quantize`."""

    to: str
    activations: str
    per_channel: bool
    symmetric: bool
    observer: str
    percentile: float
    weights: str | None
    group: int

    @property
    def is_whole(self) -> bool:
        """True for products of int8, False for products of floats."""
        return self.to == "int8" and self.weights is None

    @property
    def label(self) -> str:
        """The dtype of quantized layers, for the report."""
        return self.to if self.weights is None else self.weights

    @property
    def bits(self) -> int:
        """The bits of a number of a weight, where only weights are quantized."""
        return grouped.BITS[self.weights or "int8"]

    @property
    def candidates(self) -> tuple[tuple[type, ...], Callable[[Any], str]]:
        """The types of layers that are quantized, and why_not(layer) for exceptions."""
        if self.weights is not None:
            return (Linear,), lambda layer: grouped.why_not(layer, self.bits, self.group)
        if self.is_whole:
            return tuple(layers.FORMS), layers.why_not
        return half_layers.HALVED, half_layers.why_not

    @property
    def needs_ranges(self) -> bool:
        """True if calibration data has to give the ranges of inputs."""
        return self.is_whole and self.activations == "static"

    def check(self) -> None:
        check_choice("quantize", "activations", self.activations, ("static", "dynamic"))
        if self.weights is not None:
            check_choice("quantize", "weights", self.weights, tuple(grouped.BITS))
            if self.to != "int8":
                raise ArgumentError(
                    f"quantize: got weights={self.weights!r} and to={self.to!r}",
                    "with `weights`, products are floats: leave `to` out")
        check_whole("quantize", "group", self.group, 1)
        check_choice("quantize", "observer", self.observer, tuple(OBSERVERS))
        if not 50 < check_number("quantize", "percentile", self.percentile) <= 100:
            raise ArgumentError(f"quantize: percentile is above 50 and at most 100, got "
                                f"{self.percentile!r}", "99.99 leaves out one number in 10,000")

    def grid(self, seen: Seen) -> QuantParams:
        """The grid of a layer's inputs."""
        return OBSERVERS[self.observer](seen, self.symmetric, self.percentile)


def quantize(
    model: Module, data: Iterable[Any] | None = None, *, to: Any = "int8",
    activations: str = "static", per_channel: bool = True, symmetric: bool = False,
    skip: Any = (), observer: str = "minmax", percentile: float = 99.99,
    weights: str | None = None, group: int = 64,
) -> Quantized:
    """A quantized copy of `model`, as `.model`, and a `.report` on its accuracy and size.

    `model` is unchanged; the copy is in eval mode.

    Args:
        model: a Module whose parameters are floats.
        data: typical inputs, such as a list of batches: a tensor for model(x), a tuple for
            model(*x), a dict for model(**x). They give the ranges of activations, show which batch
            norms can be folded into the layers before them, and are the data of the report.
            Default None: no static activations, and no measurements.
        to: "int8"; or "bfloat16" or "float16" for parameters and products. Default "int8".
        activations: "static", in ranges taken from `data`; or "dynamic", in the range of each
            input. Default "static".
        per_channel: True has a scale for each channel of a weight, False one. Default True.
        symmetric: True has activations in int8 around 0, False in uint8 with a zero.
            Default False.
        skip: layers that stay as they are, with all below them: a name, a pattern such as
            "encoder.*", a type, or several of these. Default: none.
        observer: how `data` gives a range: "minmax" is the whole range, "percentile" omits the
            outermost numbers, "mse" has the least square error. Default "minmax".
        percentile: 100 less the percentage of numbers omitted at each end. Default 99.99.
        weights: "int8" or "int4" rounds the weights of Linear layers only, for models bound by
            memory, such as language models; their inputs and products stay floats. Default None.
        group: with `weights`, the number of neighbouring inputs that share a scale. Default 64.

    Raises:
        ArgumentError: a setting has no such value; `data` is missing, or contains nan or inf;
            `skip` names no layer; or there is no layer to quantize.

    Example:
        >>> import fusewire as fw
        >>> model = fw.nn.Sequential(fw.nn.Linear(4, 8), fw.nn.ReLU(), fw.nn.Linear(8, 2))
        >>> small = fw.quantize(model, [fw.rand(16, 4) for _ in range(8)])
        >>> small.model
        Sequential(
          (0): QuantizedLinear(4, 8)
          (1): ReLU()
          (2): QuantizedLinear(8, 2)
        )
        >>> small.report.output.decibels > 20
        True
    """
    name = to if isinstance(to, str) else as_dtype(to).name
    settings = _Settings(check_choice("quantize", "to", name, _TO), activations, per_channel,
                         symmetric, observer, percentile, weights, group)
    settings.check()
    if data is None and settings.needs_ranges:
        raise ArgumentError("quantize: static activations need calibration data",
                            "pass some inputs, fw.quantize(model, batches); or "
                            "activations=\"dynamic\", which needs none")
    plain = plain_copy(model)
    with no_grad():
        return _quantized(plain, None if data is None else Batches(data), settings,
                          Skipped(plain, skip))


def _quantized(plain: Module, batches: Batches | None, settings: _Settings, skipped: Skipped
               ) -> Quantized:
    targets, reasons = _chosen(plain, settings, skipped)
    folded, seen = dict[str, str](), dict[str, Seen]()
    if batches is not None:
        folded, seen = _look(plain, targets, batches, settings, skipped)
    forms = _quantized_layers(targets, seen, reasons, settings)
    small = replaced(plain, {targets[name]: layer for name, layer in forms.items()})
    report = _report(plain, small, forms, targets, settings)
    report.kept, report.folded = {n: w for n, w in reasons.items() if n not in folded}, folded
    if batches is not None:
        _compare(plain, small, report, forms, targets, batches)
    return Quantized(small, report)


def plain_copy(model: Module) -> Module:
    """A copy in eval mode that runs op by op even if `model` is compiled.

    The projections of attention are layers in it.
    """
    if not isinstance(model, Module):
        raise ArgumentError(f"quantize: takes a model, a fw.nn.Module, not "
                            f"{type(model).__name__}", "pass a function's layers as a Module")
    for name, x in model.named_parameters():
        if kind(x.dtype) != "f":
            raise ArgumentError(f"quantize: the parameter {name!r} is {x.dtype.name}",
                                "it takes a model of floats: model.to(fw.float32)")
    if adapted(model):
        raise ArgumentError("quantize: the model has adapters of LoRA",
                            "call lora.merge(model) first; or lora.save, and lora.load into the "
                            "quantized model")
    copied = copy.deepcopy(model).eval()
    for module in copied.modules():
        if hasattr(module.__dict__.get("forward"), "original"):
            del module.__dict__["forward"]
    if hasattr(copied, "with_layers"):  # a loaded model computes by functions
        copied = copied.with_layers()
    linears = {layer: layer.as_linear() for layer in copied.modules()
               if hasattr(layer, "as_linear")}
    attentions = {layer: with_linear_projections(layer) for layer in copied.modules()
                  if is_splittable_attention(layer)}
    return replaced(copied, linears | attentions)


def replaced(model: Module, layers: Mapping[Module, Module]) -> Module:
    """A copy of `model` in which the values of `layers` replace the keys."""
    return copy.deepcopy(model, {id(old): new for old, new in layers.items()})


def _chosen(model: Module, settings: _Settings, skipped: Skipped
            ) -> tuple[dict[str, Module], dict[str, str]]:
    targets, reasons = chosen(model, *settings.candidates, skipped)
    if not targets:
        why = "; ".join(f"{name or 'the model itself'}: {w}" for name, w in reasons.items())
        raise ArgumentError(f"quantize: there is no layer to convert to {settings.label} in "
                            f"{type(model).__name__}", why or "it has no parameters")
    return targets, reasons


# ---- observing the float model
def _look(model: Module, targets: Layers, batches: Batches, settings: _Settings, skipped: Skipped
          ) -> tuple[dict[str, str], dict[str, Seen]]:
    """The batch norms folded into layers of `model`, and the observed inputs of each layer."""
    readers, names = Readers(model), {layer: name for name, layer in targets.items()}
    seen = {name: Seen() for name in targets}

    def look(number: int, layer: Module, args: Any, kwargs: Any, out: Any) -> None:
        where = f"batch {number} of the data, at the input of " + (
            repr(names[layer]) if names[layer] else "the model")
        seen[names[layer]].look(layer_input(args, kwargs).detach().numpy(), where)

    for number, batch in enumerate(batches.items("ranges")):
        with observing(names if settings.needs_ranges else (), functools.partial(look, number)):
            readers.run(functools.partial(called, model, batch))
    folded = fold(model, {norm: layer for norm, layer in readers.pairs().items()
                          if not skipped.has(model, norm) and not skipped.has(model, layer)})
    if settings.needs_ranges and settings.observer != "minmax":
        _count(model, names, seen, batches)
    return folded, seen


def _count(model: Module, names: Mapping[Module, str], seen: Mapping[str, Seen], batches: Batches
           ) -> None:
    """Counts the inputs of each layer in histograms over their final ranges."""
    def look(layer: Module, args: Any, kwargs: Any, out: Any) -> None:
        seen[names[layer]].count(layer_input(args, kwargs).detach().numpy())

    with observing(names, look):
        for batch in batches.items("histograms"):
            called(model, batch)


# ---- quantized layers
def _quantized_layers(targets: Layers, seen: Mapping[str, Seen], reasons: dict[str, str],
                      settings: _Settings) -> dict[str, Module]:
    """The quantized form of each layer; `reasons` gets the layers that have none."""
    forms = dict[str, Module]()
    for name, layer in targets.items():
        _check_finite(name, layer)
        if settings.weights is not None:
            forms[name] = grouped.GroupedLinear.rounded(layer, settings.bits, settings.group)
        elif not settings.is_whole:
            forms[name] = half_layers.InSmallFloats(copy.deepcopy(layer), as_dtype(settings.to))
        elif isinstance(layer, Embedding):
            forms[name] = layers.QuantizedEmbedding(layer, settings.per_channel)
        elif settings.needs_ranges and not seen[name].any:
            reasons[name] = "no batch of the data calls it"
            continue
        else:
            grid = settings.grid(seen[name]) if settings.needs_ranges else None
            forms[name] = layers.FORMS[type(layer)](layer, grid, settings.per_channel)
        carry_hooks(layer, forms[name])
    return forms


def _check_finite(name: str, layer: Module) -> None:
    for what, values in layer.named_parameters():
        if not bool(isfinite(values).all()):
            raise ArgumentError(f"quantize: the {what} of {repr(name) if name else 'the model'} "
                                "has nan or inf", "train it anew, or skip the layer")


# ---- the report
def _report(plain: Module, small: Module, forms: Layers, targets: Layers, settings: _Settings
            ) -> Report:
    rows = [LayerReport(name, type(targets[name]).__name__, _bytes(targets[name]), _bytes(layer))
            for name, layer in forms.items()]
    return Report(settings.label, rows, {}, {}, Difference(), _bytes(plain), _bytes(small))


def _bytes(module: Module) -> int:
    held: list[Callable[[], Iterable[Any]]] = [module.parameters, module.buffers]
    return sum(x.nbytes for each in held for x in each())


def _compare(plain: Module, small: Module, report: Report, forms: Layers, targets: Layers,
             batches: Batches) -> None:
    """Compares each quantized layer on the inputs of its float layer, and both models."""
    rows = {targets[row.name]: row for row in report.layers}

    def look(layer: Module, args: Any, kwargs: Any, out: Any) -> None:
        row = rows[layer]
        row.difference.add(out, forms[row.name].forward(*args, **kwargs))

    for batch in batches.items("comparison"):
        with observing(rows, look):
            expected = called(plain, batch)
        for x, y in zip(tensors_in(expected), tensors_in(called(small, batch))):
            if kind(x.dtype) == "f":
                report.output.add(x, y)
