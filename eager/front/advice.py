"""Adds advice to errors that Python raises for habits from other libraries.

`exp(x, out=y)` fails before any code of fusewire runs, and `x.shape.numel()` is about a tuple. So
an uncaught error gets its advice when Python shows it. Functions that cost more than `exp` answer
keywords themselves (`keywords.py`).
"""

from __future__ import annotations

import inspect
import linecache
import re
import sys
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, NamedTuple

from ..core.tensor import Tensor
from ..errors import is_ours
from ..tracebacks import NOTE, has_inner_frames, without_inner_frames
from .hints import suggestion

__all__: list[str] = []

KEYWORDS: dict[str, tuple[str, ...]] = {
    "dim": ("axis", "axes"), "dims": ("axis", "axes", "repetitions"), "keepdim": ("keepdims",),
    "dim0": ("axis0",), "dim1": ("axis1",), "diagonal": ("k",), "size": ("shape",),
    "input": ("x",), "other": ("y",), "tensors": ("arrays",), "shifts": ("shift",),
    "steps": ("num",), "n": ("num",), "ddof": ("correction",),
    "a": ("x",), "arr": ("x",), "axis": ("dim",),  # nn.functional has PyTorch's names
}
"""Another library's keyword -> ours, those of which a function has one."""

LEFT_OUT = {
    "requires_grad": "mark the result: x.requires_grad_()",
    "unbiased": "use correction=1, which is unbiased=True",
    "out": "results are new tensors; y.copy_(result) changes y",
    "pin_memory": "leave it out: copies to a GPU need no preparation",
    "memory_format": "leave it out: there is one memory format",
}
"""A keyword that no function here has -> the alternative."""

PYTHONS = (AttributeError, ImportError, ModuleNotFoundError, TypeError, ValueError)


class Habit(NamedTuple):
    """An error of Python: patterns of its text and of the user's line, and the advice."""

    text: str
    line: str
    help: str


HABITS = (
    Habit("'tuple' object is not callable", r"\.shape\(", "x.shape is a tuple: x.shape[i]"),
    Habit("'str' object is not callable", r"\.device\(", 'x.device is a name: "cpu"'),
    Habit("'tuple' object has no attribute 'numel'", r"\.shape\b", "use x.size"),
    Habit("'str' object has no attribute 'type'", r"device", 'x.device is a name: "cpu"'),
    Habit(r"values to unpack", r"\.(max|min|sort|median|mode)\(",
          "max, min, median and sort give values only; fw.argmax, argmin and argsort say where"),
)


def advice(error: BaseException) -> str:
    """The advice for an error that Python raised in user code, or an empty text."""
    if isinstance(error, ImportError):
        return _of_import(error)
    keyword = re.search(r"(\w+)\(\) got an unexpected keyword argument '(\w+)'", str(error))
    made = re.match(r"(\w+)\.__init__\(\) got an unexpected keyword argument '(\w+)'", str(error))
    lines = list(_user_lines(error.__traceback__))
    if made and isinstance(error, TypeError):
        cls = _class_in(error.__traceback__, made[1])
        return "" if cls is None else keyword_help(cls, made[2])
    if keyword and isinstance(error, TypeError):
        return _of_keyword(keyword[1], keyword[2], " ".join(lines[-1:]))
    return next((habit.help for habit in HABITS if re.search(habit.text, str(error))
                 and any(re.search(habit.line, line) for line in lines)), "")


def _of_import(error: ImportError) -> str:
    """The advice for a missing module of `fusewire`, or a missing name in one."""
    package, _, path = (error.name or "").partition(".")
    if package != __name__.partition(".")[0]:
        return ""
    name = re.search(r"cannot import name '(\w+)'", str(error))
    missing = name[1] if name else path.rpartition(".")[2]
    return suggestion(missing, "fw")


def _of_keyword(function: str, keyword: str, line: str) -> str:
    """The advice for an unknown `keyword` of one of our functions."""
    package = sys.modules[__name__.partition(".")[0]]
    spaces = (Tensor, package, package.linalg, package.fft, package.nn.functional)
    ours = next((f for space in spaces if callable(f := vars(space).get(function))
                 and keyword not in _parameters(f)), None)
    return keyword_help(ours, keyword) if ours and re.search(rf"\b{function}\(", line) else ""


def _class_in(trace: TracebackType | None, name: str) -> Any:
    """Our class with a name that the user's innermost line in a traceback calls; None for none."""
    frame: Any = None
    called = None
    while trace is not None:
        if not is_ours(trace.tb_frame.f_code):
            frame = trace.tb_frame
            line = linecache.getline(frame.f_code.co_filename, trace.tb_lineno, frame.f_globals)
            called = re.search(rf"([\w.]*\b{name})\(", line)
        trace = trace.tb_next
    if called is None:
        return None
    first, *rest = called[1].split(".")
    value = frame.f_locals.get(first, frame.f_globals.get(first))
    for attribute in rest:
        value = getattr(value, attribute, None)
    ours = getattr(value, "__module__", "").startswith(__name__.partition(".")[0] + ".")
    return value if isinstance(value, type) and ours else None


def _parameters(function: Callable[..., Any]) -> list[str]:
    """The names of the parameters of a function; none if it has no signature."""
    try:
        return [*inspect.signature(function).parameters]
    except (TypeError, ValueError):
        return []


def keyword_help(function: Callable[..., Any], keyword: str) -> str:
    """What to write for a `keyword` that a function of ours does not have."""
    parameters = _parameters(function)
    call = f"{function.__name__}({', '.join(parameters)})"
    ours = next((name for name in KEYWORDS.get(keyword, ()) if name in parameters), "")
    return f"the keyword is {ours} here: {call}" if ours else \
        LEFT_OUT.get(keyword, f"it takes {call}")


def _user_lines(trace: TracebackType | None) -> Iterator[str]:
    """The user's lines of source in a traceback, outermost first."""
    while trace is not None:
        code = trace.tb_frame.f_code
        if not is_ours(code):
            yield linecache.getline(code.co_filename, trace.tb_lineno, trace.tb_frame.f_globals)
        trace = trace.tb_next


def advise(error: BaseException) -> None:
    """Appends advice, if there is any, to the text of an error of Python."""
    if type(error) not in PYTHONS or not error.args:
        return
    help = advice(error)
    if help and isinstance(error.args[0], str) and "help: " not in error.args[0]:
        error.args = (f"{error.args[0]}\n  help: {help}", *error.args[1:])
        if isinstance(error, ImportError):
            error.msg = error.args[0]


def install() -> None:
    """Makes Python and IPython show errors with advice and without fusewire's own frames."""
    shown = sys.excepthook

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        advise(error)
        hides = has_inner_frames(error)
        shown(kind, error, without_inner_frames(error).__traceback__)
        if hides:
            print(NOTE, file=sys.stderr)

    sys.excepthook = show
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is not None and not shell.custom_exceptions:
        shell.set_custom_exc((Exception,), _show_in_notebook)


def _show_in_notebook(shell: Any, kind: Any, error: Any, trace: Any, tb_offset: Any = None) -> None:
    advise(error)
    shell.showtraceback((kind, error, without_inner_frames(error).__traceback__), tb_offset)
