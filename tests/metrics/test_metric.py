"""A metric has a state that resets, merges across processes, and is part of compiled steps."""

from __future__ import annotations

import io
import math
import multiprocessing
from typing import Any

import numpy as np
import pytest

import fusewire as fw
from fusewire import metrics
from fusewire.metrics import AUROC, F1, R2, Accuracy, ConfusionMatrix, MeanSquaredError

KINDS: dict[str, Any] = {
    "Accuracy": Accuracy, "Accuracy of 2": lambda: Accuracy(top_k=2),
    "ConfusionMatrix": lambda: ConfusionMatrix(4), "IoU": lambda: metrics.IoU(4),
    "F1": lambda: F1(4), "Precision": lambda: metrics.Precision(4, "weighted"),
    "Recall": lambda: metrics.Recall(4, None), "CalibrationError": metrics.CalibrationError,
    "Perplexity": metrics.Perplexity, "AUROC": lambda: AUROC("weighted")}
PAIRS: dict[str, Any] = {
    "MeanSquaredError": MeanSquaredError, "MeanAbsoluteError": metrics.MeanAbsoluteError,
    "R2": lambda: R2(4), "PSNR": lambda: metrics.PSNR(1.0)}


def batches(seed: int = 0) -> list[tuple[fw.Tensor, fw.Tensor]]:
    """Probabilities of classes and targets, of unequal sizes."""
    rng = np.random.default_rng(seed)
    return [(fw.asarray(rng.dirichlet(np.ones(4), n).astype(np.float32)),
             fw.asarray(rng.integers(0, 4, n))) for n in (5, 5, 3, 5, 5)]


def pairs(seed: int = 0) -> list[tuple[fw.Tensor, fw.Tensor]]:
    """Predictions and targets of one shape."""
    return [(x, fw.rand(*x.shape)) for x, _ in batches(seed)]


@pytest.mark.parametrize("name", [*KINDS, *PAIRS])
def test_reset_forgets_everything(name: str) -> None:
    metric = {**KINDS, **PAIRS}[name]()
    first, *others = batches() if name in KINDS else pairs()
    metric.update(*first)
    expected = metric.compute().numpy()
    for batch in others:
        metric.update(*batch)
    metric.reset()
    with pytest.raises(fw.StateError, match=r"no sample yet\n(.*\n)*.*help: call update"):
        metric.compute()
    metric.update(*first)
    np.testing.assert_array_equal(metric.compute().numpy(), expected)


@pytest.mark.parametrize("name", [name for name in (*KINDS, *PAIRS) if name != "AUROC"])
def test_a_compiled_step_updates_a_metric(name: str) -> None:
    """Without a graph break; the list of AUROC is for loops outside of compiled functions."""
    make, data = ({**KINDS, **PAIRS}[name], batches() if name in KINDS else pairs())
    compiled, eager = make(), make()
    step = fw.compile(compiled.update, fullgraph=True)
    for x, y in data:
        step(x, y)
        eager.update(x, y)
    assert step.stats.replays > 0
    np.testing.assert_allclose(compiled.compute().numpy(), eager.compute().numpy(), rtol=1e-12)


def test_a_class_out_of_range_is_an_error_in_a_compiled_step_too() -> None:
    matrix = ConfusionMatrix(3)
    step = fw.compile(matrix.update)
    for _ in range(4):
        step(fw.tensor([0, 1]), fw.tensor([2, 1]))
    with pytest.raises(fw.IndexingError):
        step(fw.tensor([0, 3]), fw.tensor([2, 1]))
    assert matrix.compute().sum().item() == 8


def in_a_process(seed: int) -> Any:
    """The metrics of the batches of one seed; runs in a process of its own."""
    found = [Accuracy(), AUROC("weighted")]
    for batch in batches(seed):
        for metric in found:
            metric.update(*batch)
    return found


def test_processes_give_what_one_loop_gives() -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        parts = pool.map(in_a_process, range(3))
    whole = [Accuracy(), AUROC("weighted")]
    for seed in range(3):
        for batch in batches(seed):
            for metric in whole:
                metric.update(*batch)
    for i, metric in enumerate(whole):
        merged = parts[0][i]
        merged.merge(*(part[i] for part in parts[1:]))
        assert merged.compute().item() == pytest.approx(metric.compute().item(), rel=1e-12)


@pytest.mark.parametrize("make", [Accuracy, lambda: AUROC("weighted"), metrics.CalibrationError])
def test_a_checkpoint_holds_the_state(make: Any) -> None:
    metric, restored, file = make(), make(), io.BytesIO()
    for batch in batches():
        metric.update(*batch)
    fw.save(metric.state_dict(), file)
    restored.load_state_dict(fw.load(io.BytesIO(file.getvalue())))
    assert restored.compute().item() == metric.compute().item()


def test_a_state_of_another_metric_is_refused() -> None:
    with pytest.raises(fw.StateError, match="keys"):
        Accuracy().load_state_dict(ConfusionMatrix(2).state_dict())
    with pytest.raises(fw.ShapeError, match=r"matrix has shape \(2, 2\), the state has \(3, 3\)"):
        ConfusionMatrix(2).load_state_dict(ConfusionMatrix(3).state_dict())


def test_only_equal_metrics_merge() -> None:
    for other in (F1(3, "micro"), F1(4), metrics.Precision(3)):
        with pytest.raises(fw.ArgumentError, match="the same settings"):
            F1(3).merge(other)
    F1(3, zero_division=math.nan).merge(F1(3, zero_division=math.nan))


def test_merging_leaves_the_other_as_it_was() -> None:
    first, second = AUROC(), AUROC()
    for metric in (first, second):
        metric.update(fw.tensor([0.2, 0.8]), fw.tensor([0, 1]))
    first.merge(second)
    first.update(fw.tensor([0.5]), fw.tensor([1]))
    assert [len(first.scores), len(second.scores)] == [3, 1]


def test_an_error_names_the_line_of_the_user() -> None:
    with pytest.raises(fw.StateError) as caught:
        Accuracy().compute()
    assert "test_metric.py" in caught.value.line


def test_settings_are_shown() -> None:
    assert repr(Accuracy(top_k=3)) == \
        "Accuracy(top_k=3, multilabel=None, threshold=0.5, ignore_index=None)"


def test_a_metric_keeps_no_graph() -> None:
    """A sum over an epoch must not hold the tapes of all its batches."""
    for name, make in {**KINDS, **PAIRS}.items():
        metric, (x, y) = make(), (batches() if name in KINDS else pairs())[0]
        metric.update(x.requires_grad_(), y)
        parts = [part for value in metric.state_dict().values()
                 for part in (value if isinstance(value, list) else [value])]
        assert not any(part.requires_grad for part in parts)
