"""Loads the function or module that `file.py:name` names."""

from __future__ import annotations

import argparse
import difflib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from ...capture.replay.compiled_function import Compiled
from ...eager.front import serialization
from ...eager.nn.base.module import Module
from .command import Failed, WrongUsage

FORM = "file.py:name"


class UserFunction(NamedTuple):
    """A function or module that the command line names."""

    name: str
    function: Callable[..., Any]

    @property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """The parameters of the function, or of the module's `forward`."""
        called = self.function.forward if isinstance(self.function, Module) else self.function
        try:
            return inspect.signature(called).parameters
        except (TypeError, ValueError):
            return {}


def add_arguments(parser: argparse.ArgumentParser, form: str = FORM, what: str = "") -> None:
    """Adds the argument that names a function or module, and the option for its weights."""
    parser.add_argument("target", metavar=form,
                        help=f"{what}a function, an nn.Module, or a factory of one: a class or a "
                        "function without arguments")
    parser.add_argument("--weights", type=Path, metavar="FILE.safetensors",
                        help="parameters and buffers of the module, a state dict of fw.save")


def from_options(options: argparse.Namespace) -> UserFunction:
    """The function or module that the options name, with weights loaded."""
    target = load(options.target)
    if options.weights:
        if not isinstance(target.function, Module):
            raise WrongUsage(f"--weights needs an nn.Module, and {target.name} is none",
                             "name a module, or leave --weights out")
        _check_exists(options.weights)
        target.function.load_state_dict(serialization.load(options.weights))
    return target


def load(text: str) -> UserFunction:
    """The function or module that `file.py:name` names. A class is instantiated."""
    file, colon, name = text.rpartition(":")
    if not colon or not file or not name:
        whole = Path(text)
        hint = f"; the names are {_names(_run(whole))}" if whole.is_file() else ""
        raise WrongUsage(f"{text!r} names no function", f"write {FORM}{hint}")
    value: Any = _run(Path(file))
    for part in name.split("."):
        value = _attribute(value, part, file)
    return UserFunction(name, _callable_of(value, text))


def _attribute(owner: Any, name: str, file: str) -> Any:
    if hasattr(owner, name):
        return getattr(owner, name)
    where = file if isinstance(owner, ModuleType) else f"{type(owner).__name__} of {file}"
    similar = difflib.get_close_matches(name, dir(owner), 3)
    hint = _names(owner) if isinstance(owner, ModuleType) else ""
    raise Failed(f"{where} has no {name!r}", f"did you mean {' or '.join(similar)}?" if similar else
                 f"the names are {hint}" if hint else "")


def _names(module: ModuleType) -> str:
    """The names of the functions and modules that a file defines itself."""
    names = [name for name, value in vars(module).items() if callable(value)
             and not name.startswith("_") and getattr(value, "__module__", "") == module.__name__]
    names += [name for name, value in vars(module).items() if isinstance(value, (Module, Compiled))]
    return ", ".join(dict.fromkeys(names)) or "no functions"


def _run(file: Path) -> ModuleType:
    """The Python module of a file, which is run as an import would run it."""
    _check_exists(file)
    name = file.stem if file.stem not in sys.modules else f"{file.stem}_{abs(hash(str(file)))}"
    spec = importlib.util.spec_from_file_location(name, file.resolve())
    if spec is None or spec.loader is None:
        raise Failed(f"{file} is not a Python file", f"write {FORM}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # pickles and dataclasses look there
    sys.path.insert(0, str(file.resolve().parent))  # as `python file.py` does
    try:
        spec.loader.exec_module(module)
    except SystemExit as error:
        raise Failed(f"{file} exits with {error.code!r} when it is imported",
                     'move the script part below `if __name__ == "__main__":`'
                     ) from error
    return module


def _check_exists(file: Path) -> None:
    """Raises Failed if there is no such file, with similar names in its folder."""
    if not file.is_file():
        folder = file.parent if file.parent.is_dir() else Path()
        similar = difflib.get_close_matches(file.name, [p.name for p in folder.iterdir()], 3)
        raise Failed(f"there is no file {file}",
                     f"in that folder there is {' or '.join(similar)}" if similar else "")


def _callable_of(value: Any, text: str) -> Callable[..., Any]:
    """A function or module itself. The result of a factory without arguments, if it is callable."""
    if isinstance(value, (Module, Compiled)):
        return value
    if not callable(value):
        raise Failed(f"{text} is of type {type(value).__name__}, not a function or module",
                     "name a function or module that takes tensors")
    if isinstance(value, type):
        return _instance(value, text)
    if _needs_no_arguments(value):
        result = value()
        return result if callable(result) else value
    return value  # type: ignore[no-any-return]


def _instance(kind: type, text: str) -> Callable[..., Any]:
    if not _needs_no_arguments(kind):
        raise Failed(f"{text} is a class whose constructor takes arguments",
                     f"name a function without arguments that constructs one: def make(): return "
                     f"{kind.__name__}(...)")
    instance = kind()
    if not callable(instance):
        raise Failed(f"a {kind.__name__} cannot be called", "name a function or an nn.Module")
    return instance  # type: ignore[no-any-return]


def _needs_no_arguments(function: Callable[..., Any]) -> bool:
    """True for a class without required parameters, or a function without any parameters."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [p for p in parameters if p.default is p.empty and p.kind not in optional]
    return not needed and (isinstance(function, type) or not parameters)
