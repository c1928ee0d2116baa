"""The page docs/appendix/parity.md: every function against PyTorch."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

import torch
from parity.cells import attempt, cell
from parity.columns import COLUMNS, DERIVED, TOLERANCE, applies
from parity.coverage import WITHOUT, public
from parity.entry import Entry
from parity.tables import ENTRIES

import fusewire as fw

HEAD = """# Every function against PyTorch

Written by `PYTHONPATH=tests python -m parity`. The tests in `tests/parity` make the same
comparisons. An *entry* there is a function with one set of arguments.

{summary}

A number is the largest difference over all entries and dtypes, as a share of the largest element
of the result.

- *values*: in all dtypes of the entries. The largest differences are those of float16 and bfloat16,
  where they are compared.
- *grad*: the gradient of a random combination of the results by all inputs, also in float32.
- *grad grad*: the gradient of a random combination of that gradient, by the inputs and by the
  factors of the first combination.
- *forward*: the derivative along a random direction by forward mode, `fw.func.jvp`.
- *vmap*: `fw.func.vmap` over batches along the first and the last axis, of all inputs and of each
  alone, compared with a loop over torch.
- *vmap of grad*: the gradients of all examples of a batch in one call.

The tests allow {tolerances} for values,
{derived:g} times as much for derivatives and batches, and more where the tables in `tests/parity`
have other limits. 0: no difference; –: nothing to compare.
"""


def found(entry: Entry, column: str) -> float | str | None:
    """The largest difference, what is wrong, or None where there is nothing to compare."""
    return attempt(COLUMNS[column], entry) if applies(entry, column) else None


def table(names: list[str], results: dict[str, dict[str, list[float | str | None]]]
          ) -> Iterator[str]:
    yield "| function | entries | " + " | ".join(COLUMNS) + " |"
    yield "|---" * (len(COLUMNS) + 2) + "|"
    for name in names:
        cells = [cell(results[name][column]) for column in COLUMNS]
        count = len(results[name]["values"])
        yield f"| `{name}` | {count} | " + " | ".join(cells) + " |"


def text() -> tuple[str, list[str]]:
    """The page, and what differs."""
    results: dict[str, dict[str, list[float | str | None]]] = {}
    families: dict[str, list[str]] = {}
    wrong, count = [], 0
    for entry in ENTRIES:
        row = results.setdefault(entry.name, {column: [] for column in COLUMNS})
        if entry.name not in families.setdefault(entry.family, []):
            families[entry.family].append(entry.name)
        for column in COLUMNS:
            value = found(entry, column)
            row[column].append(value)
            count += value is not None
            wrong += [f"{entry}, {column}: {value}"] if isinstance(value, str) else []
    summary = (f"fusewire {fw.__version__} beside torch {torch.__version__}, "
               f"{datetime.date.today()}: {len(results)} functions, {len(ENTRIES)} "
               f"entries, {count} comparisons, {len(wrong)} differ.")
    lines = [HEAD.format(summary=summary, derived=DERIVED, tolerances=", ".join(
        f"{value:g} in {name}" for name, value in TOLERANCE.items() if "complex" not in name))]
    for family, names in families.items():
        lines += [f"## {family.capitalize()}", "", *table(names, results), ""]
    lines += ["## Intended differences", "", *differences(), "", "## Without an entry", "",
              *without(), ""]
    return "\n".join(lines), wrong


def differences() -> Iterator[str]:
    """Reasons, each with the functions that it holds for."""
    reasons: dict[str, list[str]] = {}
    for entry in ENTRIES:
        for what, why in entry.differs.items():
            if entry.name not in reasons.setdefault(f"{what}: {why}", []):
                reasons[f"{what}: {why}"].append(entry.name)
    yield from (f"- {reason} ({', '.join(f'`{n}`' for n in names)})"
                for reason, names in reasons.items())


def without() -> Iterator[str]:
    reasons: dict[str, list[str]] = {}
    for name in sorted(WITHOUT.keys() & public().keys()):
        reasons.setdefault(WITHOUT[name], []).append(f"`{name}`")
    yield from (f"- {', '.join(names)}: {why}" for why, names in reasons.items())
