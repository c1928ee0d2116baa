"""Registers the public modules under the names that users import, such as `fusewire.nn.functional`.

The modules lie in folders of `eager`. Programs written for PyTorch expect them below the package
itself: `import fusewire.nn.functional as F`, `from fusewire.utils.data import DataLoader`.
"""

from __future__ import annotations

import sys
from functools import partial
from types import ModuleType
from typing import Any

from .. import amp, autograd, func, linalg, nn, optim, utils
from ..namespaces import cuda, fft, random, signal, special

__all__: list[str] = []

MODULES: dict[str, Any] = {
    "amp": amp, "autograd": autograd, "cuda": cuda, "fft": fft, "func": func, "linalg": linalg,
    "nn": nn, "nn.functional": nn.functional, "nn.init": nn.init, "nn.utils": nn.utils,
    "nn.utils.rnn": nn.utils.rnn, "optim": optim, "optim.lr_scheduler": optim.lr_scheduler,
    "optim.swa_utils": optim.swa_utils, "random": random, "signal": signal,
    "signal.windows": signal.windows, "special": special, "utils": utils,
    "utils.data": utils.data,
}
"""Public modules of `eager` by their path below the package."""

SECOND_NAMES: dict[str, Any] = {
    "autograd.function": autograd.function, "nn.attention": nn.attention,
    "nn.parameter": nn.parameter, "nn.utils.parametrizations": nn.utils.parametrizations,
    "nn.utils.parametrize": nn.utils.parametrize, "optim.optimizer": optim.optimizer,
    "utils.checkpoint": utils.checkpoint,
}
"""More public modules: parts of MODULES under PyTorch's names."""


def register(package: str, **modules: ModuleType) -> None:
    """Enters the public modules, and the modules inside them, in `sys.modules` below `package`.

    `modules` are those that lie above `eager`, by name. An import of a module that is left out
    would run it again and make its classes a second time.
    """
    for path, public_module in {**MODULES, **modules}.items():
        if "." in path:
            continue
        home = public_module.__name__
        for name, module in list(sys.modules.items()):
            if f"{name}.".startswith(f"{home}."):
                sys.modules[f"{package}.{path}{name[len(home):]}"] = module
    for path, module in {**MODULES, **SECOND_NAMES}.items():
        sys.modules[f"{package}.{path}"] = module


def show_public_names(modules: list[Any]) -> None:
    """Makes `dir` of `modules` list public names only; one of `modules` is a public name."""
    public = {*map(id, modules), *map(id, MODULES.values()), *map(id, SECOND_NAMES.values())}
    for module in modules:
        module.__dir__ = partial(_public_names, module, public)


def _public_names(module: ModuleType, public_modules: set[int]) -> list[str]:
    """The names of `__all__`; of a module without it, those of public things and of Python."""
    names = getattr(module, "__all__", None)
    if names is None:
        names = [name for name, value in vars(module).items()
                 if (not name.startswith("_") or name.endswith("__"))
                 and (not isinstance(value, ModuleType) or id(value) in public_modules)]
    return sorted(names)
