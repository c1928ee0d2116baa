"""The page docs/parity_training.md: layers, losses, optimizers, schedulers against PyTorch."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import torch
from layers.every import LAYERS
from parity.cells import attempt, cell
from parity.layer_columns import COLUMNS

import fusewire as fw

HEAD = """# Layers, optimizers and schedulers against PyTorch

Written by `PYTHONPATH=tests python -m parity docs`; the same comparisons are tests in
`tests/parity`.

{summary}

## Layers and losses

Each row is a class of `nn`, made and called in as many ways as the second column says
(`tests/layers`), with the parameters of the layer of PyTorch loaded into ours. A number is the
largest difference that was found, as a share of the largest element of the result, in float32 and
float64. 0: no difference; –: nothing to compare.

- *names*: names, order, shapes and dtypes of the state dict, of parameters and of buffers.
- *signature*: names, order and defaults of the arguments of the constructor and of `forward`.
- *repr*: what is printed.
- *initial*: the distribution of the initial values of each parameter (the largest distance of the
  distribution functions of some thousand draws).
- *values*: results and buffers, in training mode and after that in evaluation.
- *grad*: the gradient of a random combination of the results by all inputs and parameters.
- *grad grad*: the gradient of that.
"""


def layers() -> tuple[list[str], list[str], int]:
    """Lines of the table, what differs, and how many comparisons were made."""
    results: dict[str, dict[str, list[Any]]] = {}
    wrong = []
    for row in LAYERS:
        columns = results.setdefault(row.name, {column: [] for column in COLUMNS})
        for column, compare in COLUMNS.items():
            value = None if column in row.differs else attempt(compare, row)
            columns[column].append(value)
            wrong += [f"{row}, {column}: {value}"] if isinstance(value, str) else []
    lines = ["| layer | ways | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 2) + "|"]
    lines += [f"| `{name}` | {len(columns['names'])} | "
              + " | ".join(map(cell, columns.values())) + " |" for name, columns in results.items()]
    made = sum(value is not None for row in results.values() for column in row.values()
               for value in column)
    return lines, wrong, made


def differences() -> Iterator[str]:
    """What is not compared, and why."""
    reasons: dict[str, list[str]] = {}
    for row in LAYERS:
        for what, why in row.differs.items():
            if row.name not in reasons.setdefault(f"{what}: {why}", []):
                reasons[f"{what}: {why}"].append(row.name)
    yield from (f"- {reason} ({', '.join(f'`{n}`' for n in names)})"
                for reason, names in reasons.items())


def text() -> tuple[str, list[str]]:
    """The page, and what differs."""
    lines, wrong, made = layers()
    count = len({row.name for row in LAYERS})
    summary = (f"fusewire {fw.__version__} beside torch {torch.__version__}, "
               f"{datetime.date.today()}: {count} layers and losses, {len(LAYERS)} ways of making "
               f"and calling them, {made} comparisons, {len(wrong)} differ.")
    page = [HEAD.format(summary=summary), *lines, "", "### Not compared", "", *differences(), ""]
    return "\n".join(page), wrong
