"""Whatever becomes of a model's file, it loads and runs, or an error of ours says why not: it ends,
and the process stays.

More mutants: `python tests/onnx_mutants.py 10000`.
"""

from __future__ import annotations

import numpy as np
import onnx
import onnx_mutants
import pytest
from onnx import helper
from onnx_mutants import model, node, value

import fusewire as fw

MUTANTS = 400
TEXTS = {"s": np.array([["aa"], ["b"]], object), "t": np.array(["ab", "c"], object)}
def branch(name: str) -> onnx.GraphProto:
    """A graph that gives a value from outside of it."""
    return helper.make_graph([node("Identity", name, "r")], "g", [], [value("r")])


# Over the first of these the inference of shapes that onnx has ends the process; the others never
# came to an end.
WERE_TOO_MUCH = [
    *[model([node(kind, "s t", "u"), node("Identity", "x")], **TEXTS) for kind in (
        "MaxUnpool", "AveragePool", "ImageDecoder", "ReduceLogSumExp")],
    model([node("Split", "x", "a b y d", axis=1, num_outputs=3)]),
    model([node("Split", "x", "a b y", axis=1, num_outputs=(1 << 31) - 1)]),
    model([node("Einsum", "x", equation="a.b")]),
    model([node("Relu", "s", "u"), node("If", "t", then_branch=branch("x"), else_branch=branch(
        "x"))], **TEXTS),
    model([node("Shape", "x", "i"), node("Split", "i", "a b y", axis=0)]),
    *[model([node("TfIdfVectorizer", "k", max_gram_length=large, max_skip_count=skips,
                  min_gram_length=1, mode="TF", ngram_counts=[0, end], ngram_indexes=[0, 1, 2],
                  pool_int64s=[1, 2, 1, 2])], k=np.int64([1, 2, 1]))
      for large, skips, end in ((1 << 62, 0, 2), (2, 1 << 62, 2), (2, 0, 1 << 62))],
]


@pytest.mark.parametrize("number", range(len(onnx_mutants.models())))
def test_the_models_that_mutants_are_made_of(number: int) -> None:
    made = onnx_mutants.models()[number]
    assert onnx_mutants.outcome(made.SerializeToString()) == "runs"


def test_mutants() -> None:
    outcomes, wrong, _ = onnx_mutants.run(MUTANTS, 50_000)
    assert wrong == [] and sum(outcomes.values()) == MUTANTS
    assert outcomes["refused"] and outcomes["runs"]


@pytest.mark.parametrize("number", range(len(WERE_TOO_MUCH)))
def test_files_that_were_too_much(number: int) -> None:
    assert onnx_mutants.outcome(WERE_TOO_MUCH[number].SerializeToString())


def test_each_seed_is_one_mutant() -> None:
    assert onnx_mutants.mutant(7) == onnx_mutants.mutant(7) != onnx_mutants.mutant(8)


def test_errors_that_are_not_ours_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fw.onnx, "load", lambda *args, **kwargs: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        onnx_mutants.outcome(b"")
