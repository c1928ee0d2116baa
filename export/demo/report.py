"""Writes the demo's report as one self-contained HTML file."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..report import charts
from ..report.page import compiled_program, document, legend, milliseconds, section, table, tiles
from .train import History

SHOWN = 35     # sample digits
COMPARED = 3  # losses: of the traced step, of the first compiled step, and with its weights
WINDOW = 21    # steps over which the trend of the losses is averaged

WHY_LATER = ("Later losses differ more: rounding decides on which side of a relu a number falls, "
             "and training amplifies this.")


@dataclass
class Findings:
    """The results that the report shows."""

    eager: History
    compiled: History
    images: np.ndarray         # of the test: (n, 8, 8), 0 to 1
    labels: np.ndarray         # (n,)
    probabilities: np.ndarray  # (n, 10)
    stats: Any = None          # of the compiled step
    kernels: list[Mapping[str, Any]] = field(default_factory=list)
    explanation: str = ""
    exported: Any = None       # the report of onnx.export
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def guesses(self) -> np.ndarray:
        """The most probable class of each test image."""
        return self.probabilities.argmax(-1)

    @property
    def accuracy(self) -> float:
        """The share of test images that are classified correctly."""
        return float((self.guesses == self.labels).mean())

    @property
    def speedup(self) -> float:
        """The median time of the eager step divided by that of the compiled step."""
        return self.eager.typical / self.compiled.typical

    @property
    def shared(self) -> int:
        """The number of steps that both runs have."""
        return min(len(self.eager.losses), len(self.compiled.losses))

    @property
    def agreement(self) -> str:
        """A text on the largest relative difference of the first losses. Up to there both runs have
        the same weights, but for one compiled update."""
        pairs = list(zip(self.eager.losses, self.compiled.losses, strict=False))[:COMPARED]
        worst = max((abs(a - b) / max(abs(a), 1e-12) for a, b in pairs), default=0.0)
        return f"differ by at most {worst:.1e} (relative)" if worst else "are equal to the last bit"


def write_report(findings: Findings, path: Path) -> None:
    """Writes the report of `findings` to `path`."""
    path.write_text(page(findings), encoding="utf-8")


def page(findings: Findings) -> str:
    """The report as one HTML document."""
    parts = [_head(findings), _tiles(findings), _losses(findings), _answers(findings),
             compiled_program(findings.kernels, findings.explanation), _facts(findings)]
    return document("fusewire: digits, eager and compiled", parts, FOOTER)


FOOTER = ("<footer>Digits: E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, "
          "UCI Machine Learning Repository, doi 10.24432/C50P49, CC BY 4.0.</footer>\n")


def _head(findings: Findings) -> str:
    seen = len(findings.labels)
    return ("<h1>Handwritten digits, eager and compiled</h1>\n"
            '<p class="lead">A small convolutional network learned to read digits of 8 × 8 '
            "pixels. The same training step (forward, backward and AdamW) ran once as plain "
            "Python and once compiled to native code by <code>@fw.compile</code>. "
            f"All figures below are of this run; {seen} digits were held out for the test.</p>")


def _tiles(findings: Findings) -> str:
    wrong = int((findings.guesses != findings.labels).sum())
    share = f"{100 * findings.accuracy:.1f}<small> %</small>"
    rows = [(share, f"test accuracy, {wrong} wrong", ""),
            (milliseconds(findings.eager.typical), "eager step, median", ""),
            (milliseconds(findings.compiled.typical), "compiled step, median", ""),
            (f"{findings.speedup:.2f}<small> ×</small>", "eager ÷ compiled time",
             "good" if findings.speedup > 1 else "")]
    if findings.exported is not None:
        rows.append((f"{findings.exported.max_error:.1e}", "largest ONNX error", ""))
    return tiles(rows)


def _losses(findings: Findings) -> str:
    eager, compiled = findings.eager, findings.compiled
    runs = [charts.Series(run.name, run.name, run.losses) for run in (eager, compiled)]
    trend = charts.Series("compiled, on average", "trend",
                          charts.smoothed(compiled.losses, WINDOW))
    names = {"eager": f"eager, {len(eager.losses)} steps",
             "compiled": f"compiled, {len(compiled.losses)} steps",
             "trend": f"compiled, mean of {WINDOW} steps"}
    note = (f"Both runs start from the same weights and see the same batches for {findings.shared} "
            f"steps: their first {COMPARED} losses {findings.agreement}. {WHY_LATER} "
            "Logarithmic scale.")
    chart = charts.log_chart([*runs, trend], "Loss by training step")
    return section("Loss", note, legend(names) + chart)


def _answers(findings: Findings) -> str:
    counts = charts.confusion(findings.labels, findings.guesses)
    note = "Rows: the written digit. Columns: the digit that the network read. Errors are red."
    matrix = section("Confusion matrix", note, charts.heat_map(counts))
    note = ("The digits that were read wrong come first, then the least certain ones, then others. "
            "Each has the digit that the network read, and its probability.")
    samples = "".join(_sample(findings, index) for index in _chosen(findings))
    grid = section("Test digits", note, f'<div class="digits">{samples}</div>')
    return f'<div class="pair">{matrix}{grid}</div>'


def _chosen(findings: Findings) -> Iterable[int]:
    """Indices of test images to show: wrong ones, then uncertain ones, then the first others."""
    certainty = findings.probabilities.max(-1)
    wrong = np.flatnonzero(findings.guesses != findings.labels)
    rest = [i for i in np.argsort(certainty, kind="stable") if i not in set(wrong)]
    head = [*wrong, *rest][: SHOWN // 2]
    others = [i for i in range(len(certainty)) if i not in set(head)]
    return [*head, *others[: SHOWN - len(head)]]


def _sample(findings: Findings, index: int) -> str:
    guess, label = int(findings.guesses[index]), int(findings.labels[index])
    share = 100 * findings.probabilities[index, guess]
    css = "" if guess == label else ' class="wrong"'
    text = f"{guess}" if guess == label else f"{guess}, not {label}"
    return (f'<figure{css}><img alt="a handwritten {label}" width="8" height="8" '
            f'src="{charts.png(findings.images[index])}">'
            f"<figcaption>{text}<small>{share:.0f} %</small></figcaption></figure>")


def _facts(findings: Findings) -> str:
    rows: list[list[str]] = []
    if findings.stats is not None:
        s = findings.stats
        rows.append(["compilation", f"recordings {s.recordings}, replays {s.replays}, eager "
                     f"calls {s.fallbacks}, compiling {s.compile_seconds:.2f} s"])
    if findings.exported is not None:
        rows.append(["ONNX file", _exported(findings.exported)])
    rows += [[name, html.escape(value)] for name, value in findings.environment.items()]
    return section("Environment", "", table((), rows, css="facts"))


def _exported(report: Any) -> str:
    return (f"{html.escape(Path(report.path).name)}, {report.bytes / 1024:.0f} KiB, opset "
            f"{report.opset}; checked against eager results with "
            f"{html.escape(sizes_text(report.checked_sizes))}")


def sizes_text(checked: Iterable[Mapping[str, int]]) -> str:
    """The sizes of the verified runs of an export, as in "batch=2, batch=5"."""
    return ", ".join(" ".join(f"{name}={size}" for name, size in sizes.items())
                     for sizes in checked)
