"""Makes calls of the public functions and classes with one bad argument.

The valid calls behind them are recorded while the examples of all docstrings run.
"""

from __future__ import annotations

import contextlib
import copy
import doctest
import inspect
import io
import math
import re
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import fusewire as fw

MORE = """
fw.any(fw.ones((2, 3)), axis=1)
fw.argmax(fw.ones((2, 3)), axis=1)
fw.argmin(fw.ones((2, 3)), axis=1)
fw.astype(fw.ones(2), fw.int64)
fw.binomial(fw.full((2,), 3.0), fw.full((2,), 0.5))
fw.clip(fw.ones(3), 0.0, 1.0)
fw.digamma(fw.ones(2))
fw.entr(fw.ones(2))
fw.erfc(fw.ones(2))
fw.erfcx(fw.ones(2))
fw.erfinv(fw.zeros(2))
fw.lgamma(fw.ones(2))
fw.log_softmax(fw.ones((2, 3)), axis=1)
fw.logsumexp(fw.ones((2, 3)), axis=1)
fw.masked_fill(fw.ones(2), fw.tensor([True, False]), 2.0)
fw.matmul(fw.ones((2, 3)), fw.ones((3, 2)))
fw.max(fw.ones((2, 3)), axis=1)
fw.mean(fw.ones((2, 3)), axis=1)
fw.min(fw.ones((2, 3)), axis=1)
fw.poisson(fw.ones(3))
fw.prod(fw.ones((2, 3)), axis=1)
fw.reshape(fw.ones((2, 3)), (3, 2))
fw.softmax(fw.ones((2, 3)), axis=1)
fw.std(fw.ones((2, 3)), axis=1)
fw.sum(fw.ones((2, 3)), axis=1)
fw.take(fw.ones((2, 3)), fw.tensor([0, 1]), axis=1)
fw.var(fw.ones((2, 3)), axis=1)
fw.xlogy(fw.ones(2), fw.ones(2))
fw.linalg.tensordot(fw.ones((2, 3)), fw.ones((3, 2)), axes=1)
fw.nn.Embedding(3, 2)
fw.nn.EmbeddingBag(3, 2)
fw.nn.SyncBatchNorm(3)
fw.nn.functional.adaptive_avg_pool2d(fw.ones((1, 2, 4, 4)), 2)
fw.nn.functional.adaptive_avg_pool3d(fw.ones((1, 2, 4, 4, 4)), 2)
fw.nn.functional.adaptive_max_pool2d(fw.ones((1, 2, 4, 4)), 2)
fw.nn.functional.adaptive_max_pool3d(fw.ones((1, 2, 4, 4, 4)), 2)
fw.nn.functional.avg_pool3d(fw.ones((1, 2, 4, 4, 4)), 2)
fw.nn.functional.fractional_max_pool3d(fw.ones((1, 2, 5, 5, 5)), 2, 3)
fw.nn.functional.lp_pool2d(fw.ones((1, 2, 4, 4)), 2.0, 2)
fw.nn.functional.lp_pool3d(fw.ones((1, 2, 4, 4, 4)), 2.0, 2)
fw.nn.functional.max_pool2d(fw.ones((1, 2, 4, 4)), 2)
fw.nn.functional.max_pool3d(fw.ones((1, 2, 4, 4, 4)), 2)
fw.nn.functional.max_unpool2d(fw.ones((1, 1, 1, 1)), fw.tensor([[[[0]]]]), 2)
fw.nn.functional.max_unpool3d(fw.ones((1, 1, 1, 1, 1)), fw.tensor([[[[[0]]]]]), 2)
fw.nn.utils.parameters_to_vector([fw.ones(2)])
fw.nn.utils.vector_to_parameters(fw.ones(2), [fw.ones(2)])
fw.optim.Adafactor([fw.ones((2, 2))])
fw.random.Generator(3)
fw.random.fork_rng()
fw.random.manual_seed(3)
"""
"""Calls of functions whose examples call a method of a tensor or another function."""

SPACES = ("fw", "fw.nn", "fw.nn.functional", "fw.nn.init", "fw.linalg", "fw.fft", "fw.random",
          "fw.special", "fw.optim", "fw.nn.utils", "fw.optim.lr_scheduler", "fw.signal.windows",
          "fw.nn.utils.rnn", "fw.func", "fw.optim.swa_utils", "fw.amp")


# Functions that change files or the state of the process.
EFFECTS = ("compile", "export", "load", "load_compiled", "manual_seed", "profile", "save",
           "set_grad_enabled", "set_num_threads", "set_printoptions", "set_rng_state")
QUESTIONS = ("is_autocast_available", "is_autocast_enabled")  # False for what does not exist
OTHERS = ("device", "generator")  # parameters that all functions check by the same code
AXES = ("axes", "axis", "dim", "dim0", "dim1", "dims", "end_dim", "k", "start_dim")
INTEGERS = ("int", "int | None", "Axis", "Sequence[int]", "Sequence[int] | None",
            "int | Sequence[int]")


@dataclass(frozen=True)
class Call:
    """A call of the public function or class `name`, such as fw.nn.functional.relu."""

    name: str
    function: Callable[..., Any]
    arguments: inspect.BoundArguments

    def run(self, **changed: Any) -> Any:
        """The result of the call with copies of its arguments, and with those `changed`."""
        arguments = inspect.BoundArguments(
            self.arguments.signature, copy.deepcopy(dict(self.arguments.arguments)))
        arguments.arguments.update(changed)
        return self.function(*arguments.args, **arguments.kwargs)


class Recorder:
    """Stands for a public module in an example and notes the calls of its functions."""

    def __init__(self, path: str, module: Any, calls: list[Call]) -> None:
        self._path, self._module, self._calls = path, module, calls

    def __getattr__(self, name: str) -> Any:
        value, path = getattr(self._module, name), f"{self._path}.{name}"
        if isinstance(value, types.ModuleType):
            return Recorder(path, value, self._calls)
        if not callable(value) or (isinstance(value, type) and issubclass(value, BaseException)):
            return value

        def noted(*args: Any, **kwargs: Any) -> Any:
            with contextlib.suppress(TypeError, ValueError):
                bound = inspect.signature(value).bind(*args, **kwargs)
                bound.apply_defaults()
                with contextlib.suppress(Exception):
                    self._calls.append(Call(path, value, copy.deepcopy(bound)))
            return value(*args, **kwargs)

        return noted


def space(path: str) -> Any:
    """The public module `path`, such as fw.nn.init."""
    module: Any = fw
    for name in path.split(".")[1:]:
        module = getattr(module, name)
    return module


def public() -> Iterator[tuple[str, Any]]:
    """(path, function or class) of all public names."""
    for path in SPACES:
        module = space(path)
        for name in dir(module):
            value = getattr(module, name)
            if not name.startswith("_") and callable(value):
                yield f"{path}.{name}", value


def recorded(source: str) -> list[Call]:
    """The calls of public functions in an example."""
    calls: list[Call] = []
    scope = {"fw": Recorder("fw", fw, calls)}
    examples = doctest.DocTestParser().get_examples(source)
    with contextlib.redirect_stdout(io.StringIO()):
        for example in examples:
            if not example.source.startswith("import fusewire"):
                try:
                    exec(compile(example.source, "<example>", "single"), scope)
                except Exception:
                    break
    return calls


def valid_calls() -> dict[str, Call]:
    """A valid call for each public function and class that has an example."""
    by_function: dict[int, Call] = {}
    sources = [inspect.getdoc(function) or "" for _, function in public()]
    for source in (*(f">>> {line}" for line in MORE.split("\n")), *sources):
        for call in recorded(source):
            by_function.setdefault(id(call.function), call)
    names = {call.name: call for call in by_function.values()}
    return {name: call for name, call in names.items() if name.split(".")[-1] not in EFFECTS}


# ---- bad arguments
@dataclass(frozen=True)
class Bad:
    """A bad value of the parameter `name`; it `must_fail` if no meaning of it is thinkable."""

    name: str
    value: Any
    must_fail: bool = False


def bad_arguments(call: Call) -> Iterator[Bad]:
    """Bad values for each parameter that takes integers, floats, choices, dtypes or tensors."""
    for name, parameter in call.arguments.signature.parameters.items():
        if name in OTHERS or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        kind = _kind(name, str(parameter.annotation), call.arguments.arguments[name])
        annotated = str(parameter.annotation).removesuffix(" | None") == kind
        for value, wrong_kind in _values(kind, name, call.arguments.arguments[name]):
            if not (value is None and parameter.default is None):
                yield Bad(name, value, wrong_kind and annotated and value is not None)


def _kind(name: str, annotation: str, value: Any) -> str:
    """int, float, str, dtype or Tensor for a parameter; an empty text for others."""
    if name == "dtype":
        return "dtype"
    if annotation.startswith("bool") or isinstance(value, bool):
        return ""
    if isinstance(value, fw.Tensor):
        return "Tensor"
    if annotation in INTEGERS or _is_whole(value):
        return "int"
    if annotation.startswith("float") or isinstance(value, float):
        return "float"
    return "str" if annotation.startswith("str") or isinstance(value, str) else ""


def _is_whole(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return bool(value) and all(map(_is_whole, value))
    return isinstance(value, int)


def _values(kind: str, name: str, value: Any) -> Iterator[tuple[Any, bool]]:
    """Bad values of a kind, and True for those that are of another kind."""
    if kind == "Tensor":
        yield value.detach().astype(fw.complex64), False
    elif kind == "dtype":
        yield from ((v, False) for v in ("a", 2.5, fw.complex64, fw.int64))
    elif kind == "str":
        yield from ((v, True) for v in (0, "a", None))
    elif kind:
        numbers: tuple[Any, ...] = (0, -1, -7) + ((10 ** 9, 2 ** 70) if name in AXES else ())
        yield from ((v, False) for v in numbers)
        yield from ((v, kind == "int") for v in (2.5, math.nan))
        yield from ((v, True) for v in ("a", None, fw.tensor([1 + 2j, 3j, 0j])))


def names_it(error: BaseException, call: Call) -> bool:
    """True if an error names the function or a layer inside of it, or a wrong dtype."""
    text = str(error)
    name = re.escape(call.name.split(".")[-1].replace("_with_indices", "").rstrip("_"))
    return bool(re.search(rf"\b{name}_?\b", text)) or "in layer:" in text \
        or "is not a dtype" in text


def tensors_of(out: Any) -> list[fw.Tensor]:
    """The tensors of a result."""
    if isinstance(out, (tuple, list)):
        return [x for part in out for x in tensors_of(part)]
    return [out] if type(out) in (fw.Tensor, fw.nn.Parameter) else []
