"""The page docs/appendix/parity_onnx.md: models of PyTorch's exporters, exported again."""

from __future__ import annotations

import datetime
import tempfile
from pathlib import Path
from typing import Any

import onnxruntime
import torch
from parity.exported import TOLERANCE, WAYS, Trip, trip
from parity.page_training import table

import fusewire as fw
from fusewire.benchmarks.table import seconds
from fusewire.benchmarks.timing import interleaved

HEAD = """# Models of PyTorch's exporters, loaded and exported again

Written by `FUSEWIRE_DISK_MB=0 GOMP_SPINCOUNT=10000 PYTHONPATH=tests python -m parity`. The tests
in `tests/parity/test_exported_torch.py` make the same comparisons.

Each model is a published architecture, small and with random weights. `torch.onnx.export` writes it
with `dynamo=True`; rows with *before* have `dynamo=False`, where that exporter takes the model. The
file is loaded, run, compiled, and exported again with the same dynamic sizes; onnxruntime runs the
last file. Differences are from PyTorch's own results, at two sizes, as a share of the largest
element; {limit} is allowed. {versions}.
"""
ERRORS = ("onnxruntime", "eager", "compiled", "exported again")
TIMES = ("PyTorch", "onnxruntime", "compiled", "exported again")
ABOUT_TIMES = f"""
This is the time of a call at the first size, with {torch.get_num_threads()} threads: of PyTorch,
eagerly; of onnxruntime on the model of PyTorch; of the loaded model, compiled; of onnxruntime on
the model that fusewire writes from it. These models are small, so calls of some hundred kernels
take most of the time. *load* is `fw.onnx.load`; *export* is `fw.onnx.export` with its
verification at three sizes; *compile* is the first call at each of the two sizes.
"""


def text() -> tuple[str, list[str]]:
    """The page, and the models that differ."""
    found = {f"{name}{', before' if script else ''}": one(name, script) for name, script in WAYS}
    wrong = [f"{name}, {kind}: {error:.1e}" for name, (made, _) in found.items()
             for kind, error in made.errors.items() if error > TOLERANCE]
    errors = table(["model", "nodes", "again", *ERRORS], (
        [name, made.nodes, made.nodes_again, *(f"{made.errors[kind]:.0e}" for kind in ERRORS)]
        for name, (made, _) in found.items()))
    times = table(["model", "load", "export", "compile", *TIMES], (
        [name, *(seconds(made.seconds[kind]) for kind in ("load", "export", "compiled")),
         *(seconds(took[kind].median) for kind in TIMES)] for name, (made, took) in found.items()))
    head = HEAD.format(limit=f"{TOLERANCE:g}", versions=versions())
    return "\n".join([head, *errors, ABOUT_TIMES, *times, ""]), wrong


def one(name: str, script: bool) -> tuple[Trip, dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        made = trip(name, script, Path(folder))
        return made, interleaved({kind: made.calls[kind] for kind in TIMES}, 20, 2.0)


def versions() -> str:
    names = f"PyTorch {torch.__version__}", f"onnxruntime {onnxruntime.__version__}", \
        f"fusewire {fw.__version__}"
    return f"{datetime.date.today():%d %B %Y}: {', '.join(names)}"
