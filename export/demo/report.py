"""Writes the demo's report as one self-contained HTML file."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from . import charts
from .train import History

STYLE = Path(__file__).with_name("report.css")
SHOWN = 35     # sample digits
COMPARED = 3  # losses: of the traced step, of the first compiled step, and with its weights
WINDOW = 21    # steps over which the trend of the losses is averaged
KERNELS = 15   # rows of the table; one more row sums up the others

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
             _kernels(findings), _facts(findings)]
    return ('<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            "<title>fusewire: digits, eager and compiled</title>\n"
            f"<style>\n{STYLE.read_text(encoding='utf-8')}</style>\n</head>\n<body>\n"
            + "\n".join(parts) + "\n" + FOOTER + "</body>\n</html>\n")


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
            (_milliseconds(findings.eager.typical), "eager step, median", ""),
            (_milliseconds(findings.compiled.typical), "compiled step, median", ""),
            (f"{findings.speedup:.2f}<small> ×</small>", "eager ÷ compiled time",
             "good" if findings.speedup > 1 else "")]
    if findings.exported is not None:
        rows.append((f"{findings.exported.max_error:.1e}", "largest ONNX error", ""))
    tiles = "".join(f'<div class="tile {css}"><b>{value}</b><span>{label}</span></div>'
                    for value, label, css in rows)
    return f'<div class="tiles">{tiles}</div>'


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.1f}<small> ms</small>"


def _losses(findings: Findings) -> str:
    eager, compiled = findings.eager, findings.compiled
    runs = [(run.name, run.name, run.losses) for run in (eager, compiled)]
    trend = ("compiled, on average", "trend", charts.smoothed(compiled.losses, WINDOW))
    names = {"eager": f"eager, {len(eager.losses)} steps",
             "compiled": f"compiled, {len(compiled.losses)} steps",
             "trend": f"compiled, mean of {WINDOW} steps"}
    legend = "".join(f'<span><i class="{css}"></i>{text}</span>' for css, text in names.items())
    note = (f"Both runs start from the same weights and see the same batches for {findings.shared} "
            f"steps: their first {COMPARED} losses {findings.agreement}. {WHY_LATER} "
            "Logarithmic scale.")
    chart = charts.loss_chart([*runs, trend])
    return _section("Loss", note, f'<div class="legend">{legend}</div>{chart}')


def _answers(findings: Findings) -> str:
    counts = charts.confusion(findings.labels, findings.guesses)
    note = "Rows: the written digit. Columns: the digit that the network read. Errors are red."
    matrix = _section("Confusion matrix", note, charts.heat_map(counts))
    note = ("The digits that were read wrong come first, then the least certain ones, then others. "
            "Each has the digit that the network read, and its probability.")
    samples = "".join(_sample(findings, index) for index in _chosen(findings))
    grid = _section("Test digits", note, f'<div class="digits">{samples}</div>')
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


def _kernels(findings: Findings) -> str:
    rows = sorted(findings.kernels, key=lambda row: -float(row["seconds"]))
    if not rows:
        return ""
    total = sum(float(row["seconds"]) for row in rows) or 1.0
    note = (f"The training step became {len(rows)} kernels, called by one native program. "
            f"Their times add up to {1e3 * total:.2f} ms; the slowest come first.")
    head = ("Kernel", "From line", "Time", "Share", "", "Memory", "Arithmetic")
    body = [_kernel(row, total) for row in rows[:KERNELS]]
    if rows[KERNELS:]:
        body.append(_kernel(_summed(rows[KERNELS:]), total))
    table = _table(head, body, numbers=(2, 3, 5, 6), bars=(4,))
    text = html.escape(findings.explanation)
    more = f"<details><summary>explain()</summary><pre>{text}</pre></details>" if text else ""
    return _section("Compiled program", note, table + more)


def _summed(rows: list[Mapping[str, Any]]) -> dict[str, Any]:
    sums = {key: sum(float(row[key]) for row in rows) for key in ("seconds", "bytes", "flops")}
    return {"name": f"{len(rows)} others", "line": "", **sums}


def _kernel(row: Mapping[str, Any], total: float) -> list[str]:
    seconds = float(row["seconds"])
    lines = str(row["line"]).replace("\\", "/").split(", ")
    line = ", ".join(p.rsplit("/", 1)[-1] for p in lines)  # without the folders
    share = 100 * seconds / total
    return [_code(str(row["name"])), _code(line),
            f"{1e6 * seconds:.0f} µs", f"{share:.0f} %", f'<i style="width:{share:.1f}%"></i>',
            _rate(row["bytes"], seconds, "GB/s"), _rate(row["flops"], seconds, "GFLOP/s")]


def _code(text: str) -> str:
    """`text` as one line of code, truncated if too long, with the whole text as a tooltip."""
    text = html.escape(text)
    return f'<span class="cut mono" title="{text}">{text}</span>'


def _rate(amount: Any, seconds: float, unit: str) -> str:
    return f"{float(amount) / seconds / 1e9:.1f} {unit}" if seconds > 0 and amount else "–"


def _facts(findings: Findings) -> str:
    rows: list[list[str]] = []
    if findings.stats is not None:
        s = findings.stats
        rows.append(["compilation", f"recordings {s.recordings}, replays {s.replays}, eager "
                     f"calls {s.fallbacks}, compiling {s.compile_seconds:.2f} s"])
    if findings.exported is not None:
        rows.append(["ONNX file", _exported(findings.exported)])
    rows += [[name, html.escape(value)] for name, value in findings.environment.items()]
    return _section("Environment", "", _table((), rows, css="facts"))


def _exported(report: Any) -> str:
    sizes = ", ".join(map(str, report.checked_sizes))
    return (f"{html.escape(Path(report.path).name)}, {report.bytes / 1024:.0f} KiB, opset "
            f"{report.opset}; checked against eager results with {html.escape(sizes)}")


def _section(title: str, note: str, content: str) -> str:
    text = f'<p class="note">{note}</p>' if note else ""
    return f"<section><h2>{title}</h2>{text}{content}</section>"


def _table(head: Iterable[str], body: Iterable[list[str]], numbers: tuple[int, ...] = (),
           bars: tuple[int, ...] = (), css: str = "") -> str:
    classes = {**dict.fromkeys(numbers, "number"), **dict.fromkeys(bars, "bar")}
    top = _row("th", head, classes)
    rows = "".join(_row("td", row, classes) for row in body)
    return f'<table class="{css}"><thead>{top}</thead><tbody>{rows}</tbody></table>'


def _row(tag: str, texts: Iterable[str], classes: Mapping[int, str]) -> str:
    cells = (f'<{tag} class="{classes.get(i, "")}">{text}</{tag}>' for i, text in enumerate(texts))
    return f"<tr>{''.join(cells)}</tr>"
