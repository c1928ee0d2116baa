"""Registers the public modules under the names that users import, such as `fusewire.nn.functional`.

The modules lie in folders of `eager`. Programs written for PyTorch expect them below the package
itself: `import fusewire.nn.functional as F`, `from fusewire.utils.data import DataLoader`.

A module has one object under both names, because a second run would make its classes twice. So the
names of loaded modules are in `sys.modules`, and a finder imports all other modules below a public
module: those that the module has not imported, and modules of higher layers that load on first use.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from .. import amp, autograd, func, linalg, nn, optim, utils
from ..cuda import namespace as cuda
from ..namespaces import fft, lib, random, signal, special

__all__: list[str] = []

MODULES: dict[str, Any] = {
    "amp": amp, "autograd": autograd, "cuda": cuda, "fft": fft, "func": func, "lib": lib,
    "lib.stride_tricks": lib.stride_tricks, "linalg": linalg,
    "nn": nn, "nn.functional": nn.functional, "nn.init": nn.init, "nn.utils": nn.utils,
    "nn.utils.rnn": nn.utils.rnn, "optim": optim, "optim.lr_scheduler": optim.lr_scheduler,
    "optim.swa_utils": optim.swa_utils, "random": random, "signal": signal,
    "signal.windows": signal.windows, "special": special, "utils": utils,
    "utils.data": utils.data,
}
"""Public modules of `eager` by their path below the package."""

SECOND_NAMES: dict[str, Any] = {
    "autograd.function": autograd.function, "nn.attention": nn.attention,
    "nn.parameter": nn.parameter, "nn.utils.lora": nn.utils.lora,
    "nn.utils.parametrizations": nn.utils.parametrizations,
    "nn.utils.parametrize": nn.utils.parametrize, "optim.optimizer": optim.optimizer,
    "utils.checkpoint": utils.checkpoint,
}
"""More public modules: parts of MODULES under PyTorch's names."""


class AliasFinder:
    """Imports the module at home for a public name, such as `fusewire.export.onnx` for
    `fusewire.onnx`.

    `homes` are the names of public modules at home, by public name. `loaded` is called once for
    each of them that the finder loads. There is no base class, as Python asks for the methods only
    and `importlib.abc` is slow to import.
    """

    def __init__(self, package: str, homes: Mapping[str, str],
                 loaded: Callable[[str, ModuleType], None]) -> None:
        self.package, self.homes, self.loaded = f"{package}.", homes, loaded

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The spec of a module with a public name; None for other modules."""
        home = self._home_of(name)
        found = find_spec(home) if home else None
        if found is None:
            return None
        spec = ModuleSpec(name, self, origin=found.origin)  # type: ignore[arg-type]
        spec.submodule_search_locations = found.submodule_search_locations
        return spec

    def _home_of(self, name: str) -> str:
        """The name at home of the module with a public name, or an empty text."""
        public, inner = name, ""
        while public.startswith(self.package):
            if public in self.homes:
                return self.homes[public] + inner
            public, _, last = public.rpartition(".")
            inner = f".{last}{inner}"
        return ""

    def create_module(self, spec: ModuleSpec) -> None:
        """None, so that Python makes an empty module, which `exec_module` replaces."""

    def exec_module(self, module: ModuleType) -> None:
        """Puts the module at home in the place of `module`, which is new and empty."""
        name = module.__name__
        home = import_module(self._home_of(name))
        if name in self.homes:
            self.loaded(name.removeprefix(self.package), home)
        enter_aliases(name, home)


def enter_aliases(name: str, module: ModuleType) -> None:
    """Enters a module, and the loaded modules inside it, in `sys.modules` under a public name.

    The module itself is the last, because other threads may import it as soon as it is there. An
    import of a module inside it would then replace the function of the same name: `onnx.load`.
    """
    home = f"{module.__name__}."
    for inner, inner_module in list(sys.modules.items()):
        if inner.startswith(home):
            sys.modules[f"{name}.{inner.removeprefix(home)}"] = inner_module
    sys.modules[name] = module


def register(package: str, deferred: Mapping[str, str],
             loaded: Callable[[str, ModuleType], None]) -> None:
    """Makes the public modules importable below `package`.

    `deferred` are public modules that load on first use: by name, their paths below `package`.
    `loaded` is called with the name and the module when one of them loads.
    """
    for path, module in MODULES.items():
        if "." not in path:
            enter_aliases(f"{package}.{path}", module)
    aliases = {f"{package}.{path}": module for path, module in {**MODULES, **SECOND_NAMES}.items()}
    sys.modules.update(aliases)
    homes = {name: module.__name__ for name, module in aliases.items()}
    homes.update({f"{package}.{name}": f"{package}.{home}" for name, home in deferred.items()})
    sys.meta_path.insert(0, AliasFinder(package, homes, loaded))  # type: ignore[arg-type]


def list_public_names(module: Any) -> None:
    """Makes `dir` of a module list its public names and those that Python gives to every module."""
    module.__dir__ = partial(_listed_names, module)


def _listed_names(module: ModuleType) -> list[str]:
    given = [name for name in vars(module) if name.startswith("__") and name.endswith("__")]
    return sorted({*given, *public_names(module)})


def public_names(module: ModuleType) -> list[str]:
    """The names of `__all__`; of a module without it, those of public things."""
    modules = {*MODULES.values(), *SECOND_NAMES.values()}
    return getattr(module, "__all__", None) or [
        name for name, value in vars(module).items() if not name.startswith("_")
        and (not isinstance(value, ModuleType) or value in modules)]
