"""Formats comparisons: shares, means by family, and the slowest rows with their kernels."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence

from ..table import seconds, table
from .row import Row

_WORST = 10
_KERNELS = 4  # of a row
_LONG_SECONDS = 1e-4  # of the best peer; the calls of shorter programs take part of their time


def text(rows: Sequence[Row]) -> str:
    """The report in Markdown."""
    rated = [r for r in rows if r.peers]
    if not rated:
        return f"{len(rows)} programs have the right values; none was compared"
    ahead = sum(r.ratio >= 1 for r in rated)
    slow = sum(r.ratio < 0.8 for r in rated)
    long = [r for r in rated if r.peers[r.best] >= _LONG_SECONDS]
    head = [f"{len(rated)} programs: {ahead} ({100 * ahead / len(rated):.0f} %) at or ahead of the "
            f"best peer, {slow} below 0.8, geometric mean {mean(rated):.2f}; of the fastest "
            f"samples {statistics.geometric_mean([r.ratio_of_fastest for r in rated]):.2f}",
            f"{len(long)} of them take the best peer {seconds(_LONG_SECONDS)} or more: geometric "
            f"mean {mean(long):.2f}" if long else "all are short"]
    return "\n".join([*head, "", *_families(rated), "", *_worst(rated)])


def mean(rows: Sequence[Row]) -> float:
    """The geometric mean of the ratios."""
    return statistics.geometric_mean([r.ratio for r in rows])


def _families(rows: Sequence[Row]) -> list[str]:
    by_name = defaultdict(list)
    for row in rows:
        by_name[row.family].append(row)
    body = [[name, str(len(found)), f"{mean(found):.2f}", f"{min(r.ratio for r in found):.2f}"]
            for name, found in sorted(by_name.items(), key=lambda item: mean(item[1]))]
    return table(["family", "programs", "geometric mean", "least"], body)


def _worst(rows: Sequence[Row]) -> list[str]:
    lines = []
    for row in sorted(rows, key=lambda r: r.ratio)[:_WORST]:
        lines += [f"{row.family}: {row.about}", f"  {row.ratio:.2f}: fusewire "
                  f"{seconds(row.fusewire)}, {row.best} {seconds(row.peers[row.best])}"]
        slowest = sorted(row.kernels, key=lambda k: -k["seconds"])[:_KERNELS]
        lines += [f"    {k['name']}: {seconds(k['seconds'])}, limit {seconds(k['limit'])}, "
                  f"{k['bytes'] / 1e6:.2f} MB, {k['flops'] / 1e6:.1f} Mflop, {k['tasks']} tasks"
                  for k in slowest]
    return lines
