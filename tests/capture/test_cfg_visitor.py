"""Visitors: one method for each kind of block, and a clear error for other kinds."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from fusewire.capture.cfg import ir
from fusewire.capture.cfg.ir import Block, Branch, Exit, LoopHeader
from fusewire.capture.cfg.visitor import METHODS, UnsupportedBlock, Visitor
from fusewire.capture.control_flow.decision import Decision
from fusewire.capture.control_flow.loop_elements import LoopEntry
from fusewire.capture.scalars.scalar_expr import of_number

BRANCH = Branch(Decision(of_number(1), "bool", None, "f.py:3"))
LOOP = LoopHeader(LoopEntry("loop", (), (), (), (), "f.py:4"))


class Names(Visitor[str]):
    def branch(self, block: Branch, mark: str) -> str:
        return f"branch at {block.site}{mark}"


class AllNames(Names):
    def other(self, block: Block, mark: str) -> str:
        return f"other at {block.site}{mark}"


def test_each_kind_has_its_method() -> None:
    assert Names().visit(BRANCH, "!") == AllNames().visit(BRANCH, "!") == "branch at f.py:3!"
    assert AllNames().visit(LOOP, "?") == "other at f.py:4?"


def test_an_unsupported_kind_is_named() -> None:
    with pytest.raises(UnsupportedBlock, match=r"Names has no rule for the block LoopHeader at "
                                               r"f.py:4: add the method 'loop_header'"):
        Names().visit(LOOP, "!")


def test_the_table_has_every_kind() -> None:
    kinds = {cls for _, cls in inspect.getmembers(ir, inspect.isclass)
             if issubclass(cls, Block) and cls is not Block and not cls.__name__.startswith("_")}
    assert METHODS.keys() == kinds and Exit in kinds
    assert all(callable(getattr(Visitor, name)) for name in METHODS.values())


@pytest.mark.parametrize("module", [
    "capture.cfg.interpret", "capture.cfg.text", "capture.cfg.verify"])
def test_those_that_need_every_kind_have_it(module: str) -> None:
    """The interpreter, the printer and the verifier have a method of their own for each kind."""
    found: Any = __import__(f"fusewire.{module}", fromlist=["*"])
    visitor, = [cls for _, cls in inspect.getmembers(found, inspect.isclass)
                if issubclass(cls, Visitor) and cls is not Visitor
                and cls.__module__ == found.__name__]
    assert all(name in vars(visitor) for name in METHODS.values())
