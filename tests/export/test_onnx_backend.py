"""The official tests of the `onnx` package, run by loaded models, eager and compiled.

What fails is listed with its reason in `onnx_suite.py`; a listed test that passes fails here.
"""

from __future__ import annotations

import unittest
import warnings
from typing import Any

import numpy as np
import pytest
from onnx.backend.test import BackendTest
from onnx_suite import FAILURES, PAGE, TESTS, written

import fusewire as fw
from fusewire.export.onnx.load.backend import CompiledBackend, FusewireBackend, LoadedModel

KINDS = ("Node", "Simple", "PyTorchConverted", "PyTorchOperator")


class Eager(FusewireBackend):
    """With the same random numbers on every run."""

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> LoadedModel:
        fw.manual_seed(0)
        return super().prepare(model, device, **kwargs)


class Compiled(Eager, CompiledBackend):
    """Each model is recorded, and run once more as native code."""


def official(backend: type[FusewireBackend]) -> dict[str, type[unittest.TestCase]]:
    """The suite's own test classes, without what needs another device or a download."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # of the suite's own making, while it computes its cases
        suite = BackendTest(backend, __name__)
    for name in FAILURES:
        suite.xfail(f"^{name}_cpu$")
    found, cases = {}, suite.test_cases
    for kind in KINDS:
        case = cases[f"OnnxBackend{kind}ModelTest"]
        for name in [n for n in vars(case) if n.startswith("test_") and not n.endswith("_cpu")]:
            delattr(case, name)
        case.__name__ = case.__qualname__ = f"{backend.__name__}{kind}"
        # compiled models warn where Python runs them, for texts and float8 say
        case.pytestmark = [pytest.mark.filterwarnings("ignore")]  # type: ignore[attr-defined]
        found[case.__name__] = case
    return found


CASES = official(Eager) | official(Compiled)
globals().update(CASES)


def test_all_of_the_suite_is_here() -> None:
    names = [{n for n in vars(case) if n.startswith("test_")} for case in CASES.values()]
    assert [sum(map(len, names[:4])), sum(map(len, names[4:]))] == [TESTS, TESTS]
    assert {f"{n}_cpu" for n in FAILURES} <= set().union(*names)


def test_the_page_lists_what_fails() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == written(page), "run python tests/onnx_suite.py"
