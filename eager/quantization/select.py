"""Selects the layers of a model to quantize."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Iterable
from typing import Any

from ..errors import ArgumentError
from ..nn.base.module import Module


class Skipped:
    """Layers to skip, with all below them: by name, by pattern such as "encoder.*", or by type."""

    def __init__(self, model: Module, skip: Any) -> None:
        rules = [skip] if isinstance(skip, (str, type)) else list(skip)
        self._texts = [x for x in rules if isinstance(x, str)]
        self._types = tuple(x for x in rules if isinstance(x, type))
        for rule in rules:
            if not isinstance(rule, (str, type)):
                raise ArgumentError(f"quantize: skip holds {rule!r}",
                                    "names, patterns such as 'encoder.*', or types such as "
                                    "fw.nn.Linear")
        names = [name for name, _ in model.named_modules() if name]
        self._texts += [name for name, layer in model.named_modules()
                        if name and isinstance(layer, self._types)]
        for text in self._texts:
            if not any(_fits(name, text) for name in names):
                raise _unknown(text, names)

    def __call__(self, name: str, layer: Module) -> bool:
        return isinstance(layer, self._types) or any(_fits(name, text) for text in self._texts)

    def has(self, model: Module, layer: Module) -> bool:
        """True if a layer of the model is skipped."""
        return any(self(name, module) for name, module in model.named_modules()
                   if module is layer)


def _fits(name: str, text: str) -> bool:
    return fnmatch.fnmatchcase(name, text) or name.startswith(f"{text}.")


def _unknown(text: str, names: list[str]) -> ArgumentError:
    near = difflib.get_close_matches(text, names, n=1, cutoff=0.0)
    return ArgumentError(f"quantize: skip names {text!r}, but there is no such layer",
                         f"the nearest is {near[0]!r}" if near else "the model has no layers")


def chosen(model: Module, types: Iterable[type], why_not: Any, skip: Skipped
           ) -> tuple[dict[str, Module], dict[str, str]]:
    """The layers of exactly these types, by name, and the reasons that exclude the others.

    Layers without parameters are in neither. A subclass of these types may compute anything, so
    it is excluded.
    """
    supported, targets, reasons = set(types), dict[str, Module](), dict[str, str]()
    for name, layer in model.named_modules():
        if not any(p is not None for p in layer._parameters.values()):
            continue
        if skip(name, layer):
            reasons[name] = "`skip` names it"
        elif type(layer) not in supported:
            reasons[name] = f"{type(layer).__name__} has no quantized form"
        elif why_not(layer):
            reasons[name] = why_not(layer)
        else:
            targets[name] = layer
    return targets, reasons
