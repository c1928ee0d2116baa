"""The demo's digits are the ones named, and its report needs nothing from outside."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import fusewire as fw
from fusewire.export.demo.digits import load_arrays, load_digits, split_digits
from fusewire.export.demo.model import DigitNet
from fusewire.export.demo.report import Findings, page
from fusewire.export.demo.train import History, predict, training_step
from fusewire.export.report.charts import confusion, log_ticks, png, smoothed, whole_ticks

DIGEST = "87ff0c9e40dc7e2c0e34e7257799c2e3f3aec1a016363bb11cad869ec428a826"
PER_CLASS = [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
KERNELS = [{"name": f"kernel_{i}<", "line": f"some/folder/model.py:{i}", "seconds": 1e-5 * (i + 1),
            "bytes": 4096, "flops": i} for i in range(20)]


def findings() -> Findings:
    """Made-up findings with one wrong reading among 60."""
    labels = np.arange(60) % 10
    guesses = np.where(np.arange(60) == 7, 3, labels)
    exported = SimpleNamespace(path="a/digits.onnx", opset=20, bytes=2048, max_error=1e-6,
                               checked_sizes=[{"batch": 1}, {"batch": 2}])
    stats = SimpleNamespace(recordings=1, replays=9, fallbacks=0, compile_seconds=0.5)
    return Findings(History("eager", [2.0, 1.0], [0.02] * 2),
                    History("compiled", [2.0, 1.0, 0.5], [0.01] * 3), np.zeros((60, 8, 8)),
                    labels, np.eye(10)[guesses], stats, KERNELS, "1 path & no <more>", exported,
                    {"Python": "3"})


def test_the_file_is_the_data_set() -> None:
    images, labels = load_arrays()
    assert hashlib.sha256(images.tobytes() + labels.tobytes()).hexdigest() == DIGEST
    assert np.bincount(labels).tolist() == PER_CLASS


def test_load_digits() -> None:
    images, labels = load_digits()
    assert (images.shape, images.dtype) == ((1797, 1, 8, 8), fw.float32)
    assert (labels.shape, labels.dtype) == ((1797,), fw.int64)
    assert (float(images.min()), float(images.max())) == (0.0, 1.0)


def test_the_split_is_fixed_disjoint_and_even() -> None:
    split = split_digits()
    counts = np.bincount(split.test_labels.numpy())
    assert counts.tolist() == [round(n * 0.2) for n in PER_CLASS]
    assert len(split.train_labels) + len(split.test_labels) == 1797
    again = split_digits()
    assert all((a.numpy() == b.numpy()).all() for a, b in zip(split, again, strict=True))


def test_the_model_gives_probabilities() -> None:
    chances = predict(DigitNet(), split_digits().test_images[:5])
    assert chances.shape == (5, 10)
    np.testing.assert_allclose(chances.sum(-1), 1, rtol=1e-5)


def losses(wrap: Callable[..., Any], steps: int) -> np.ndarray:
    """The losses of the demo's training step, from one seed and over the same batches."""
    fw.manual_seed(7)
    model, split = DigitNet(), split_digits()
    step = wrap(training_step(model, fw.optim.AdamW(model.parameters(), lr=1e-3)))
    found = []
    for i in range(steps):
        part = slice(24 * i, 24 * i + 24)
        found.append(float(step(split.train_images[part], split.train_labels[part])))
    return np.array(found)


def test_the_compiled_step_follows_the_eager_one() -> None:
    eager, compiled = losses(lambda step: step, 50), losses(fw.compile, 50)
    assert eager[-1] < eager[0]
    np.testing.assert_allclose(compiled[:12], eager[:12], rtol=0, atol=1e-5)
    # By rounding a unit may fall on the other side of relu's zero, and losses part from there on.
    np.testing.assert_allclose(compiled, eager, rtol=0, atol=0.05)


def test_the_report_needs_nothing_else() -> None:
    text = page(findings())
    outside = r"(?i)<(?:script|link|iframe|object|embed)\b|@import|url\(|https?:"
    assert re.findall(outside, text) == []
    assert {address[:15] for address in re.findall(r'src="([^"]*)"', text)} == {"data:image/png;"}


def test_the_report_shows_the_findings() -> None:
    text = page(findings())
    for part in ("98.3<small> %", "1 wrong", "2.00<small> ×", "equal to the last bit", "3, not 7",
                 "kernel_19&lt;", "5 others", "model.py:19", "&amp; no &lt;more&gt;",
                 "digits.onnx, 2 KiB, opset 20"):
        assert part in text, part
    assert "some/folder" not in text


def test_losses_are_compared_while_both_runs_have_the_same_weights() -> None:
    run = findings()
    run.eager.losses, run.compiled.losses = [2.0, 1.0, 0.5, 0.4], [2.0, 1.0, 0.5 + 1e-7, 0.1]
    assert run.agreement == "differ by at most 2.0e-07 (relative)"
    assert "Later losses differ more: rounding decides" in page(run)


def test_the_report_without_kernels_and_export() -> None:
    bare = findings()
    bare.kernels, bare.exported, bare.stats, bare.explanation = [], None, None, ""
    assert "Compiled program" not in page(bare)


def test_charts() -> None:
    assert confusion(np.array([0, 1, 1]), np.array([0, 1, 0]), 2).tolist() == [[1, 0], [1, 1]]
    assert log_ticks(0.1, 3.0) == pytest.approx([0.1, 0.2, 0.5, 1.0, 2.0])
    assert smoothed([1.0, 2.0, 3.0], 3) == [1.5, 2.0, 2.5]
    assert whole_ticks(352) == [0, 50, 100, 150, 200, 250, 300, 350]
    assert png(np.zeros((8, 8))).startswith("data:image/png;base64,iVBORw0KGgo")
