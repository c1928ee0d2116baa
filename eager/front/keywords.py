"""Public functions that answer a keyword of another library with the one that they take.

Python raises `TypeError: sum() got an unexpected keyword argument 'dim'` before code of ours runs.
So a public function with keywords of its own is a function of the same parameters that also takes
unknown ones: it raises the same error with the right keyword, for code that catches or logs it.
Functions of numbers and tensors alone, such as `exp`, stay as they are, as each call counts there.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any, NoReturn

from ..core.tensor import Tensor
from .advice import KEYWORDS, keyword_help
from .public_modules import MODULES

__all__: list[str] = []

SPACES = ("linalg", "fft", "special")


def install(package: Any) -> None:
    """Makes the functions of `package` and the methods of tensors answer unknown keywords."""
    made: dict[Any, Any] = {}
    space: Any
    for space in (package, *(MODULES[name] for name in SPACES), Tensor):
        for name, function in list(vars(space).items()):
            if not name.startswith("_") and _answers(function):
                if function not in made:
                    made[function] = answering(function)
                setattr(space, name, made[function])
    for plain, answer in made.items():
        home, name = sys.modules[plain.__module__], plain.__name__
        if vars(home).get(name) is plain:  # where pickle looks for it
            setattr(home, name, answer)


def _answers(function: Any) -> bool:
    """True for a function of ours with a keyword that has another name elsewhere."""
    if not isinstance(function, FunctionType):
        return False
    parameters = inspect.signature(function).parameters
    return not {*parameters}.isdisjoint(_OURS) and all(
        p.kind is not p.VAR_KEYWORD for p in parameters.values())


_OURS = {ours for names in KEYWORDS.values() for ours in names} - {"x", "y", "dim"}


def answering(function: Any) -> Any:
    """A function that does what `function` does, and raises a TypeError with a hint for a keyword
    that it does not have."""
    parameters = inspect.signature(function).parameters
    source = _source(function.__name__, parameters.values())
    made: dict[str, Any] = {}
    code = compile(source, function.__code__.co_filename, "exec")
    exec(code, function.__globals__, made)
    defaults = {f"_{name}": p.default for name, p in parameters.items()}
    return functools.wraps(function)(made["_make"](function, _refuse, defaults))


def _source(name: str, parameters: Any) -> str:
    """The source of a function that makes the answering one."""
    heads, values, kinds = [], [], set()
    for p in parameters:
        kinds.add(p.kind)
        default = "" if p.default is p.empty else f"=_defaults['_{p.name}']"
        if p.kind is p.KEYWORD_ONLY and p.VAR_POSITIONAL not in kinds and "*" not in heads:
            heads.append("*")
        star = "*" if p.kind is p.VAR_POSITIONAL else ""
        heads.append(f"{star}{p.name}{default}")
        values.append(f"{p.name}={p.name}" if p.kind is p.KEYWORD_ONLY else f"{star}{p.name}")
    first = [p.kind for p in parameters].count(inspect.Parameter.POSITIONAL_ONLY)
    heads[first:first] = ["/"] if first else []
    return (f"def _make(_function, _refuse, _defaults):\n"
            f"    def {name}({', '.join(heads)}, **_unknown):\n"
            f"        if _unknown:\n"
            f"            _refuse(_function, _unknown)\n"
            f"        return _function({', '.join(values)})\n"
            f"    return {name}\n")


def _refuse(function: Callable[..., Any], unknown: dict[str, Any]) -> NoReturn:
    name = next(iter(unknown))
    raise TypeError(f"{function.__name__}() got an unexpected keyword argument {name!r}\n"
                    f"  help: {keyword_help(function, name)}")
