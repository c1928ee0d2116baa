"""The page docs/appendix/parity_training.md: layers, losses and optimizers against PyTorch."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from layers.every import LAYERS
from optimizers import OPTIMIZERS
from parity.cells import attempt, cell
from parity.layer_columns import COLUMNS
from parity.test_optim_torch import TOLERANCE, largest_difference
from parity.test_schedulers_torch import OPTIONS, SCHEDULERS, forty_epochs

import fusewire as fw

Lines = tuple[list[str], list[str], int]  # a table, what differs, how many comparisons were made

HEAD = """# Layers, optimizers and schedulers against PyTorch

Written by `PYTHONPATH=tests python -m parity`. The tests in `tests/parity` make the same
comparisons. They also compare trainings that continue from a state dict of the other library,
averages of models, clipping, autocast, loaders, and the checkpoints of well-known models.

{summary}
"""
ABOUT_LAYERS = """## Layers and losses

Each row is a class of `nn`. The second column is the number of its configurations: arguments of the
constructor and of the call (`tests/layers`). The layer gets the parameters of PyTorch's layer. A
number is the largest difference in float32 and float64, as a share of the largest element of the
result. 0: no difference; –: nothing to compare.

- *names*: names, order, shapes and dtypes of the state dict, of parameters and of buffers.
- *signature*: names, order and defaults of the arguments of the constructor and of `forward`.
- *repr*: the text that `print` shows.
- *initial*: the distribution of the initial values of each parameter (the largest distance of the
  distribution functions of some thousand draws).
- *values*: results and buffers, in training mode and after that in evaluation.
- *grad*: the gradient of a random combination of the results by all inputs and parameters.
- *grad grad*: the gradient of that.
"""
ABOUT_OPTIMIZERS = """## Optimizers

The largest difference of parameters and state after 20 steps, with parameters of all shapes, some
without gradients, two groups and a rate that changes.
"""
ABOUT_SCHEDULERS = f"""## Schedulers

The largest relative difference of rates and momentum over 40 epochs, with
{" and ".join(OPTIONS)}.
"""


def layers() -> Lines:
    results: dict[str, dict[str, list[Any]]] = {}
    wrong = []
    for row in LAYERS:
        columns = results.setdefault(row.name, {column: [] for column in COLUMNS})
        for column, compare in COLUMNS.items():
            value = None if column in row.differs else attempt(compare, row)
            columns[column].append(value)
            wrong += [f"{row}, {column}: {value}"] if isinstance(value, str) else []
    lines = table(["layer", "configurations", *COLUMNS], (
        [f"`{name}`", len(columns["names"]), *map(cell, columns.values())]
        for name, columns in results.items()))
    made = sum(value is not None for row in results.values() for column in row.values()
               for value in column)
    return lines, wrong, made


def optimizers() -> Lines:
    return compared(["optimizer", "settings", *TOLERANCE], [
        ([f"`{name}`", str(dict(settings) or "")],
         [within(largest_difference, (name, settings), dtype, TOLERANCE[dtype])
          for dtype in TOLERANCE]) for name, settings in OPTIMIZERS])


def schedulers() -> Lines:
    return compared(["scheduler", *OPTIONS], [
        ([name], [within(rates_differ, name, kind, 1e-12) for kind in OPTIONS])
        for name in SCHEDULERS])


def rates_differ(name: str, kind: str) -> float:
    ours, theirs = forty_epochs(name, kind)
    return float((np.abs(ours - theirs) / np.maximum(np.abs(theirs), 1e-5)).max())


def within(compare: Callable[..., float], row: Any, how: str, limit: float) -> float | str | None:
    """What `compare` gives; a text where it is more than is allowed."""
    found = attempt(lambda r: compare(r, how), row)
    return f"{found:.1e} is more than {limit:g}" if isinstance(found, float) and found > limit \
        else found


def compared(head: list[str], rows: list[tuple[list[str], list[Any]]]) -> Lines:
    wrong = [f"{' '.join(names)}: {value}" for names, values in rows for value in values
             if isinstance(value, str)]
    lines = table(head, ([*names, *(cell([value]) for value in values)] for names, values in rows))
    return lines, wrong, sum(len(values) for _, values in rows)


def table(head: list[str], rows: Any) -> list[str]:
    return [f"| {' | '.join(map(str, row))} |" for row in (head, ["---"] * len(head), *rows)]


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
    parts = [layers(), optimizers(), schedulers()]
    wrong = [line for _, lines, _ in parts for line in lines]
    summary = (f"fusewire {fw.__version__} beside torch {torch.__version__}, "
               f"{datetime.date.today()}: {len({row.name for row in LAYERS})} layers and losses in "
               f"{len(LAYERS)} configurations, {len(OPTIMIZERS)} configurations of optimizers and "
               f"{len(SCHEDULERS)} of schedulers, {sum(made for _, _, made in parts)} comparisons, "
               f"{len(wrong)} differ.")
    page = [HEAD.format(summary=summary)]
    for about, (lines, _, _) in zip((ABOUT_LAYERS, ABOUT_OPTIMIZERS, ABOUT_SCHEDULERS), parts):
        page += [about, *lines, ""]
    return "\n".join([*page, "## Not compared", "", *differences(), ""]), wrong
