"""The tables of spellings: their form, and the functions that are made of them."""

from __future__ import annotations

import ast
import inspect

import pytest

import fusewire.torch as torch
from fusewire.eager.front import hints
from fusewire.eager.front.spellings import same
from fusewire.eager.front.spellings.spelling import read
from fusewire.eager.front.spellings.tables import SPELLINGS
from fusewire.frontends.torch.base import meanings


def test_a_line():
    (one,) = read("fmi clamp(input, min=None, *, max=None) = f(input, min) | a note |> x.clip")
    assert one == ("fmi", "clamp", "input, min=None, *, max=None", "f(input, min)", "a note",
                   "x.clip")
    assert one.hint_for("m", ()) == "x.clip" and one.hint_for("f", ()) == "fw.clip"
    (two,) = read("m hypot(input, other)")
    assert two.expression == "fw.hypot(input, other)"
    assert two.hint_for("m", {"hypot"}) == "x.hypot" and two.hint_for("f", ()) == ""


def test_no_name_is_twice():
    for kind in "fm":
        names = [s.name for s in SPELLINGS if kind in s.kinds]
        assert sorted(names) == sorted(set(names))
    listed = [*same.FUNCTIONS.split(), *same.OTHERS.split(), *same.OF_LAYERS.split()]
    functions = {s.name for s in SPELLINGS if "f" in s.kinds}
    assert sorted(listed) == sorted(set(listed)) and functions.isdisjoint(listed)


@pytest.mark.parametrize("spelling", SPELLINGS, ids=lambda s: f"{s.kinds} {s.name}")
def test_an_expression_names_its_parameters_and_functions_that_exist(spelling):
    known = {p.arg for p in ast.walk(ast.parse(f"def f({spelling.parameters}): pass"))
             if isinstance(p, ast.arg)} | {"fw", "Tensor", "bool", "isinstance"}
    used = {n.id for n in ast.walk(ast.parse(spelling.expression, mode="eval"))
            if isinstance(n, ast.Name)}
    assert {n for n in used - known if not hasattr(meanings, n)} == set()
    if "f" in spelling.kinds:
        assert list(inspect.signature(getattr(torch, spelling.name)).parameters)[-1] == "further"
    if "m" in spelling.kinds:
        assert callable(getattr(torch.Tensor, spelling.name))
    if "i" in spelling.kinds:
        assert callable(getattr(torch.Tensor, f"{spelling.name}_"))


def test_the_hints_of_plain_fusewire_are_made_of_the_tables():
    assert hints.FUNCTIONS["amax"] == "fw.max" and hints.METHODS["amax"] == "x.max"
    assert hints.METHODS["view"] == "x.reshape" and hints.FUNCTIONS["permute"] == "fw.permute_dims"
    assert "sum" not in hints.FUNCTIONS and "max" not in hints.METHODS
