"""The public modules show public names only, and everything in them says what it is."""

from __future__ import annotations

import doctest
import inspect
from types import ModuleType
from typing import Any

import pytest

import fusewire as fw
from fusewire.eager.front.hints import spaces
from fusewire.eager.front.public_modules import SECOND_NAMES

DOORS = pytest.mark.parametrize("door", spaces().values(), ids=spaces())


def shown(door: ModuleType) -> dict[str, Any]:
    """What `dir` of a module lists, without the names that Python gives to every module."""
    return {name: getattr(door, name) for name in dir(door)
            if not (name.startswith("__") and name.endswith("__"))}


def public_callables() -> dict[str, Any]:
    """Functions and classes of all public modules, each by one of its public names."""
    values = {f"{path}.{name}": value for path, door in spaces().items()
              for name, value in shown(door).items() if callable(value)}
    return {name: value for name, value in values.items() if not is_dtype(value)}


def is_dtype(value: Any) -> bool:
    """True for the scalar types of NumPy, which are dtypes of tensors too."""
    return getattr(value, "__module__", "").split(".")[0] in ("numpy", "ml_dtypes")


EVERY = public_callables()


def test_the_modules_are_those_that_users_import() -> None:
    paths = "nn nn.functional optim func linalg utils.data amp autograd random fft special cuda " \
        "onnx aot"
    assert {f"fw.{path}" for path in paths.split()} < set(spaces())


@DOORS
def test_names_are_public(door: ModuleType) -> None:
    names = shown(door)
    assert [name for name in names if name.startswith("_")] == []
    assert names, "a module without names"
    assert set(getattr(door, "__all__", names)) == set(names)


@DOORS
def test_modules_in_modules_are_public(door: ModuleType) -> None:
    public = [*spaces().values(), *SECOND_NAMES.values(), fw.onnx.operators, fw.torch]
    modules = [value for value in shown(door).values() if isinstance(value, ModuleType)]
    assert [module.__name__ for module in modules if module not in public] == []


@DOORS
def test_nothing_is_of_another_library(door: ModuleType) -> None:
    strangers = {name: value for name, value in shown(door).items()
                 if callable(value) and not is_dtype(value)
                 and getattr(value, "__module__", "").split(".")[0] != "fusewire"}
    assert strangers == {}


def test_there_is_a_docstring_for_every_name() -> None:
    own = {name: vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
           for name, value in EVERY.items()}
    assert [name for name, text in own.items() if not text] == []
    assert len(own) > 700


OF_OPS = [name for name, value in EVERY.items() if hasattr(value, "op")]


@pytest.mark.parametrize("name", OF_OPS)
def test_functions_of_declared_ops_have_their_names(name: str) -> None:
    function = EVERY[name]
    assert function.__name__ == function.__qualname__ == function.op.name
    assert function.__doc__.splitlines()[0].endswith(".")


@pytest.mark.parametrize("name", ["fw.Tensor", *OF_OPS])
def test_examples(name: str) -> None:
    """A factory makes these functions, so that doctest does not see them in their modules."""
    text = doctest.DocTestParser().get_doctest(EVERY[name].__doc__, {}, name, None, None)
    assert text.examples, "no example"
    result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(text)
    assert result.failed == 0, "the differences are in the captured output"
