"""What `file.py:name` stands for: a function or a module of the user's."""

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


class NamedTarget(NamedTuple):
    """What a user named on the command line."""

    name: str
    function: Callable[..., Any]  # a Module where it is one

    @property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """What it is called with."""
        called = self.function.forward if isinstance(self.function, Module) else self.function
        try:
            return inspect.signature(called).parameters
        except (TypeError, ValueError):
            return {}


def add_arguments(parser: argparse.ArgumentParser, form: str = FORM, what: str = "") -> None:
    """Adds the argument that names a function or module, and the option of its weights."""
    parser.add_argument("target", metavar=form,
                        help=f"{what}a function, an nn.Module, or a factory of one: a class or a "
                        "function without arguments")
    parser.add_argument("--weights", type=Path, metavar="FILE.safetensors",
                        help="parameters and buffers of the module, a state dict of fw.save")


def chosen(options: argparse.Namespace) -> NamedTarget:
    """What the options name, with the weights that they name."""
    target = load(options.target)
    if options.weights:
        if not isinstance(target.function, Module):
            raise WrongUsage(f"--weights are for an nn.Module, and {target.name} is none")
        _check_there(options.weights)
        target.function.load_state_dict(serialization.load(options.weights))
    return target


def load(text: str) -> NamedTarget:
    """The function or module that `file.py:name` names; a class of modules is called for one."""
    file, colon, name = text.rpartition(":")
    if not colon or not file or not name:
        whole = Path(text)
        there = f"; in it are {_names(_run(whole))}" if whole.is_file() else ""
        raise WrongUsage(f"{text!r} names no function: write {FORM}{there}")
    found: Any = _run(Path(file))
    for part in name.split("."):
        found = _attribute(found, part, file)
    return NamedTarget(name, _made(found, text))


def _attribute(owner: Any, name: str, file: str) -> Any:
    if hasattr(owner, name):
        return getattr(owner, name)
    where = file if isinstance(owner, ModuleType) else f"{type(owner).__name__} of {file}"
    near = difflib.get_close_matches(name, dir(owner), 3)
    there = _names(owner) if isinstance(owner, ModuleType) else ""
    raise Failed(f"{where} has no {name!r}", f"did you mean {' or '.join(near)}?" if near else
                 f"there are {there}" if there else "")


def _names(module: ModuleType) -> str:
    """What a file defines itself that can be called."""
    own = [name for name, value in vars(module).items() if callable(value)
           and not name.startswith("_") and getattr(value, "__module__", "") == module.__name__]
    own += [name for name, value in vars(module).items() if isinstance(value, (Module, Compiled))]
    return ", ".join(dict.fromkeys(own)) or "no functions"


def _run(file: Path) -> ModuleType:
    """The module that a file makes when it is run, as an import of it would."""
    _check_there(file)
    name = file.stem if file.stem not in sys.modules else f"{file.stem}_{abs(hash(str(file)))}"
    spec = importlib.util.spec_from_file_location(name, file.resolve())
    if spec is None or spec.loader is None:
        raise Failed(f"{file} is no Python file", f"write {FORM}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # pickles and dataclasses look there
    sys.path.insert(0, str(file.resolve().parent))  # as `python file.py` does
    try:
        spec.loader.exec_module(module)
    except SystemExit as error:
        raise Failed(f"{file} ended the process (with {error.code!r}) when it was read",
                     'move the script part below `if __name__ == "__main__":`'
                     ) from error
    return module


def _check_there(file: Path) -> None:
    """Failed where there is no such file, with the names that are like it."""
    if not file.is_file():
        folder = file.parent if file.parent.is_dir() else Path()
        near = difflib.get_close_matches(file.name, [p.name for p in folder.iterdir()], 3)
        raise Failed(f"there is no file {file}",
                     f"in that folder there is {' or '.join(near)}" if near else "")


def _made(found: Any, text: str) -> Callable[..., Any]:
    """The function or module itself; what takes no arguments is called where it gives one."""
    if isinstance(found, (Module, Compiled)):
        return found
    if not callable(found):
        raise Failed(f"{text} is a {type(found).__name__}: no function, no module",
                     "name what is called with tensors")
    if isinstance(found, type):
        return _instance(found, text)
    if _takes_nothing(found):
        given = found()
        return given if callable(given) else found
    return found  # type: ignore[no-any-return]


def _instance(kind: type, text: str) -> Callable[..., Any]:
    if not _takes_nothing(kind):
        raise Failed(f"{text} is a class that is made with arguments",
                     f"name a function without arguments that makes one: def make(): return "
                     f"{kind.__name__}(...)")
    made = kind()
    if not callable(made):
        raise Failed(f"a {kind.__name__} cannot be called", "name a function or an nn.Module")
    return made  # type: ignore[no-any-return]


def _takes_nothing(function: Callable[..., Any]) -> bool:
    """Whether a call without arguments makes sense."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [p for p in parameters if p.default is p.empty and p.kind not in optional]
    return not needed and (isinstance(function, type) or not parameters)
