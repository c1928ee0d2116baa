"""Editors find the methods of Tensor: class statements list all that it has at run time."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator

import pytest

import fusewire as fw
from fusewire.eager.core import tensor
from fusewire.eager.tensor_methods import methods


def names_in(module: object, name: str) -> Iterator[str]:
    """The methods, attributes and slots that the class statement of a module lists."""
    tree = ast.parse(inspect.getsource(module))  # type: ignore[arg-type]
    body = next(x.body for x in tree.body if isinstance(x, ast.ClassDef) and x.name == name)
    for node in body:
        if isinstance(node, ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        elif isinstance(node, ast.Assign):
            yield from (x.id for x in node.targets if isinstance(x, ast.Name))


LISTED = set(names_in(methods, "TensorMethods"))
OWN = set(names_in(tensor, "Tensor"))


def test_every_attribute_is_in_a_class_statement() -> None:
    attributes = {name for name in dir(fw.ones(2)) if not name.startswith("__")}
    assert attributes - LISTED - OWN == set()
    operators = {name for name in vars(fw.Tensor) if name.startswith("__")}
    assert operators - LISTED - OWN <= {"__dir__", "__doc__", "__module__", "__weakref__",
                                        "__annotations__", "__static_attributes__",
                                        "__firstlineno__", "__annotate_func__"}


def test_every_listed_attribute_is_bound() -> None:
    assert set(methods.listed()) == LISTED
    assert len(LISTED) > 200
    for name, value in methods.listed().items():
        assert inspect.unwrap(vars(fw.Tensor)[name]) is inspect.unwrap(value), name


def test_no_attribute_is_listed_twice() -> None:
    assert sorted(names_in(methods, "TensorMethods")) == sorted(LISTED)
    assert LISTED & OWN == set()


@pytest.mark.parametrize("name", ["exp", "sum", "__add__", "reshape", "backward", "T"])
def test_the_list_is_a_base_class_for_type_checkers(name: str) -> None:
    tree = ast.parse(inspect.getsource(tensor))
    (cls,) = [x for x in tree.body if isinstance(x, ast.ClassDef) and x.name == "Tensor"]
    assert [ast.unparse(base) for base in cls.bases] == ["TensorMethods"]
    assert name in LISTED
