"""Collectives of a group of one rank, which change nothing; tests/distributed has larger groups."""

from __future__ import annotations

from typing import Any

import numpy as np

from fusewire.eager.ops.collectives.collective import perform_collective

from .row import arrays, b1, c8, f4, f8, i8, row, strided

ANY = [arrays((3, 4), dtypes=d) for d in (f4, f8, i8, c8, b1)] + [arrays((0, 2)), strided(1)]
NUMBERS = ANY[:4] + ANY[5:]
PARAMS: dict[str, tuple[dict[str, Any], Any]] = {
    "all_reduce": ({"reduce": "sum"}, NUMBERS), "all_gather": ({"axis": 1}, ANY),
    "reduce_scatter": ({"axis": 0}, NUMBERS), "all_to_all": ({"split": 0, "concat": 1}, ANY),
    "broadcast": ({"root": 0}, ANY), "reduce_to": ({"root": 0}, NUMBERS), "shift": ({"by": 1}, ANY),
    "replicate": ({}, ANY), "barrier": ({}, ANY)}
for name, (params, makers) in PARAMS.items():
    everything = {"group": "world", "size": 1, "site": "", **params}
    row(name, lambda x, n=name, p=everything: perform_collective(n, x, **p), makers, np.array,
        grad=name != "barrier")
