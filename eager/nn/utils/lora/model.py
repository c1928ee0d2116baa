"""Adds adapters to the layers of a model, and merges, removes and disables them."""

from __future__ import annotations

import contextlib
import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from ....core.tape import no_grad
from ....core.tensor import Tensor
from ....errors import ArgumentError, StateError
from ....ops.elementwise.pointwise import cast
from ...base.module import Module
from ...base.parameter import Parameter
from .adapters import CHILD, Adapter, adapter_class, add_adapted

__all__ = ["add", "disabled", "load_state_dict", "merge", "parameters", "remove", "state_dict"]

M = TypeVar("M", bound=Module)


def add(model: M, rank: int = 8, alpha: float = 16,
        targets: str | Sequence[str] = ("q_proj", "v_proj"), dropout: float = 0.0,
        rslora: bool = False) -> M:
    """`model` with an adapter beside each target, and with all other parameters frozen.

    A target computes W x + B (A x) * alpha / rank. B is 0 at first, so the model computes what it
    did; of an Embedding, A is 0. A call of `add` for other targets may follow. Layers that
    MultiheadAttention holds are no targets, as it reads their weights without a call.

    Args:
        model: a model, changed in place.
        rank: the number of rows of A and of columns of B. Default 8.
        alpha: the factor of the product, before it is divided by the rank. Default 16.
        targets: names of layers: the whole dotted name, or its end after a dot. `*` stands for any
            text. Linear, Embedding, convolutions without groups, and classes that `register` knows
            are possible. Default ("q_proj", "v_proj").
        dropout: the probability that an element of the input of A is dropped in training. Default
            0.0.
        rslora: divides alpha by the root of the rank in place of the rank. Default False.

    Raises:
        ArgumentError: no layer has one of the names, or a number is out of range.
        StateError: a target has an adapter already.

    Example:
        >>> import fusewire as fw
        >>> model = fw.nn.Sequential(fw.nn.Linear(6, 4), fw.nn.ReLU(), fw.nn.Linear(4, 2))
        >>> model = fw.nn.utils.lora.add(model, rank=2, targets="0")
        >>> [name for name, p in model.named_parameters() if p.requires_grad]
        ['0.lora.A', '0.lora.B']
    """
    layers = _chosen(model, [targets] if isinstance(targets, str) else list(targets))
    attach(model, {path: new_adapter(layer, rank, alpha, dropout, rslora)
                   for path, layer in layers.items()})
    return model


def new_adapter(layer: Module, *how: Any) -> Adapter:
    """An adapter for `layer`, one of `possible`, with further arguments of `Adapter`."""
    cls = adapter_class(layer)
    assert cls is not None
    return cls(layer, *how)


def attach(model: Module, new: Mapping[str, Adapter]) -> None:
    """Freezes `model` but for its adapters, and adds adapters to the layers with these names."""
    own = {id(p) for _, layer in adapted(model) for p in layer.lora.parameters()}
    for p in model.parameters():
        if id(p) not in own:
            p.requires_grad_(False)
    for path, adapter in new.items():
        layer = model.get_submodule(path)
        layer.add_module(CHILD, adapter)
        layer.register_forward_hook(add_adapted, with_kwargs=True)


# ---- which layers
def possible(model: Module) -> dict[str, Module]:
    """The layers that may have an adapter, by name."""
    uncalled = {id(inner) for layer in model.modules() if getattr(layer, "reads_weights", False)
                for inner in layer.children()}
    return {path: layer for path, layer in model.named_modules()
            if path and adapter_class(layer) and id(layer) not in uncalled
            and "parametrizations" not in layer._modules}


def _chosen(model: Module, targets: list[str]) -> dict[str, Module]:
    """The layers that the targets name."""
    layers = possible(model)
    chosen = dict[str, Module]()
    for target in targets:
        fitting = {path: layer for path, layer in layers.items() if is_named(path, target)}
        if not fitting:
            raise ArgumentError(f"lora.add: no layer that may have an adapter fits the target "
                                f"{target!r}", f"there are {listed(layers)}")
        chosen.update(fitting)
    for path, layer in chosen.items():
        if is_adapted(layer):
            raise StateError(f"lora.add: {path} has an adapter already",
                             "call lora.merge or lora.remove first")
    return chosen


def is_named(path: str, target: str) -> bool:
    """True if the dotted name `path`, or its end after a dot, fits `target`."""
    return fnmatch.fnmatchcase(path, target) or fnmatch.fnmatchcase(path, f"*.{target}")


def listed(layers: Mapping[str, Module]) -> str:
    """The names of layers in an error, those that differ in numbers alone as one."""
    names = dict.fromkeys(".".join("*" if part.isdigit() else part for part in path.split("."))
                          if path.count(".") else path for path in layers)
    return ", ".join(names) or "none in this model"


def is_adapted(layer: Module) -> bool:
    return isinstance(layer._modules.get(CHILD), Adapter)


def adapted(model: Module) -> list[tuple[str, Any]]:
    """Names and layers of `model` that have an adapter."""
    return [(path, layer) for path, layer in model.named_modules() if is_adapted(layer)]


def need_adapted(name: str, model: Module) -> list[tuple[str, Any]]:
    """Names and layers with an adapter; a StateError if there are none."""
    found = adapted(model)
    if not found:
        raise StateError(f"lora.{name}: the {type(model).__name__} has no adapters",
                         "add them: lora.add(model), or lora.load(model, folder)")
    return found


# ---- trained parameters
def parameters(model: Module) -> list[Parameter]:
    """The parameters of the adapters of `model`, for an optimizer.

    Args:
        model: a model with adapters.

    Raises:
        StateError: the model has no adapters.

    Example:
        >>> import fusewire as fw
        >>> model = fw.nn.utils.lora.add(fw.nn.Sequential(fw.nn.Linear(6, 4)), 2, targets="0")
        >>> [p.shape for p in fw.nn.utils.lora.parameters(model)]
        [(2, 6), (4, 2)]
    """
    return [p for _, layer in need_adapted("parameters", model) for p in layer.lora.parameters()]


def state_dict(model: Module) -> dict[str, Tensor]:
    """The tensors of the adapters of `model`, by their names in the model.

    Args:
        model: a model with adapters.

    Raises:
        StateError: the model has no adapters.

    Example:
        >>> import fusewire as fw
        >>> model = fw.nn.utils.lora.add(fw.nn.Sequential(fw.nn.Linear(6, 4)), 2, targets="0")
        >>> list(fw.nn.utils.lora.state_dict(model))
        ['0.lora.A', '0.lora.B']
    """
    return {name: p.detach() for name, p in _named(need_adapted("state_dict", model)).items()}


def load_state_dict(model: Module, state: Mapping[str, Any]) -> None:
    """Sets the adapters of `model` to the tensors of `state`; other parameters stay.

    Args:
        model: a model with adapters.
        state: the result of `state_dict` for a model with the same adapters.

    Raises:
        StateError: a name is missing or unexpected, a shape differs, or there are no adapters.

    Example:
        >>> import fusewire as fw
        >>> model = fw.nn.utils.lora.add(fw.nn.Sequential(fw.nn.Linear(6, 4)), 2, targets="0")
        >>> fw.nn.utils.lora.load_state_dict(model, fw.nn.utils.lora.state_dict(model))
    """
    tree(_named(need_adapted("load_state_dict", model))).load_state_dict(state)


def _named(layers: list[tuple[str, Any]]) -> dict[str, Parameter]:
    return {f"{path}.{CHILD}.{name}": p for path, layer in layers
            for name, p in layer.lora.named_parameters()}


def tree(named: Mapping[str, Parameter]) -> Module:
    """A module that holds these parameters under their dotted names, to load a state strictly."""
    root = Module()
    for name, p in named.items():
        *folders, last = name.split(".")
        owner = root
        for folder in folders:
            if folder not in owner._modules:
                owner.add_module(folder, Module())
            owner = owner.get_submodule(folder)
        owner.register_parameter(last, p)
    return root


# ---- without adapters
def merge(model: M) -> M:
    """`model` without adapters, whose weights have become what the layers computed with them.

    A weight that another layer shares becomes a separate one. The model stays frozen;
    model.requires_grad_() ends that.

    Args:
        model: a model with adapters, changed in place.

    Raises:
        StateError: the model has no adapters, or a weight cannot be set, as one of int8.

    Example:
        >>> import fusewire as fw
        >>> model = fw.nn.utils.lora.add(fw.nn.Sequential(fw.nn.Linear(6, 4)), 2, targets="0")
        >>> fw.nn.utils.lora.merge(model)
        Sequential(
          (0): Linear(in_features=6, out_features=4, bias=True)
        )
    """
    layers = need_adapted("merge", model)
    for path, layer in layers:
        if layer._parameters.get("weight") is None:
            raise StateError(f"lora.merge: the weight of {path}, a {type(layer).__name__}, cannot "
                             "be set", "save the adapters, load them into the model of floats, and "
                             "merge there")
    with no_grad():
        for _, layer in layers:
            before = layer.weight
            value = cast(before.detach() + layer.lora.change(layer), before.dtype)
            layer.weight = Parameter(value, before.requires_grad)
    return remove(model)


def remove(model: M) -> M:
    """`model` without adapters, so that it computes the same values as before `add`.

    The model stays frozen; model.requires_grad_() ends that.

    Args:
        model: a model with adapters, changed in place.

    Raises:
        StateError: the model has no adapters.

    Example:
        >>> import fusewire as fw
        >>> model = fw.nn.utils.lora.add(fw.nn.Sequential(fw.nn.Linear(6, 4)), 2, targets="0")
        >>> list(fw.nn.utils.lora.remove(model).state_dict())
        ['0.weight', '0.bias']
    """
    for _, layer in need_adapted("remove", model):
        delattr(layer, CHILD)
        after = layer._hooks.after
        for number in [n for n, (hook, *_) in after.items() if hook is add_adapted]:
            del after[number]
        if not any(vars(layer._hooks).values()):
            del layer._hooks  # calls of a layer without hooks are faster
    return model


@contextlib.contextmanager
def disabled(model: Module) -> Iterator[None]:
    """A context in which `model` computes the same bits as before `add`.

    Args:
        model: a model with adapters.

    Raises:
        StateError: the model has no adapters.

    Example:
        >>> import fusewire as fw
        >>> model = fw.nn.utils.lora.add(fw.nn.Sequential(fw.nn.Linear(6, 4)), 2, targets="0")
        >>> with fw.nn.utils.lora.disabled(model):
        ...     model(fw.ones(6)).shape
        (4,)
    """
    adapters = [layer.lora for _, layer in need_adapted("disabled", model)]
    before = [adapter.enabled for adapter in adapters]
    try:
        for adapter in adapters:
            adapter.enabled = False
        yield
    finally:
        for adapter, was_enabled in zip(adapters, before):
            adapter.enabled = was_enabled
