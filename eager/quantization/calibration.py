"""Runs a model over calibration data and observes the inputs and results of its layers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ..core.tensor import Tensor
from ..errors import ArgumentError
from ..nn.base.module import Module

Look = Callable[[Any, tuple[Any, ...], dict[str, Any], Any], None]  # module, args, kwargs, result


class Batches:
    """Calibration data that can be read several times."""

    def __init__(self, data: Any) -> None:
        if isinstance(data, (Tensor, Mapping)) or not isinstance(data, Iterable):
            raise ArgumentError(
                f"quantize: data is an iterable of inputs, not {type(data).__name__}",
                "a list of batches, or a DataLoader: each a tensor for model(x), a tuple for "
                "model(*x), or a dict for model(**x)")
        held: Any = list(data) if iter(data) is data else data
        self.count = len(held) if hasattr(held, "__len__") else sum(1 for _ in held)
        self._data = held
        if not self.count:
            raise ArgumentError("quantize: data holds no batch",
                                "a few hundred examples like those to come are enough")

    def items(self, title: str) -> Iterator[Any]:
        """The batches, with a progress bar."""
        from tqdm import tqdm

        yield from tqdm(self._data, desc=title, total=self.count, unit="batch", leave=False,
                        disable=None)  # None: without a terminal


def called(model: Module, batch: Any) -> Any:
    """The result of the model for an item of the data."""
    if isinstance(batch, Mapping):
        return model(**batch)
    return model(*batch) if isinstance(batch, (tuple, list)) else model(batch)


@contextlib.contextmanager
def observing(layers: Iterable[Module], look: Look) -> Iterator[None]:
    """A context in which `look` is called after each call of one of these layers."""
    handles = [layer.register_forward_hook(
        lambda module, args, kwargs, out: look(module, args, kwargs, out), with_kwargs=True)
        for layer in layers]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def carry_hooks(old: Module, new: Module) -> None:
    """Gives the hooks of layer `old` to `new`, which replaces it."""
    if old._hooks is not None:
        object.__setattr__(new, "_hooks", old._hooks)


def layer_input(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Tensor:
    """The input of a layer that has one input."""
    return args[0] if args else kwargs["input"]  # type: ignore[no-any-return]
