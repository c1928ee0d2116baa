"""Rows of the ops whose result has a size that only its values tell."""

from __future__ import annotations

import numpy as np
from rows.row import Bad, arrays, b1, row, u1

import fusewire as fw
from fusewire.eager.ops import data_dependent

row("true_indices", data_dependent.where_true,
    [arrays((7,), dtypes=b1), lambda rng: (np.zeros(3, bool),), lambda rng: (np.zeros(0, bool),)],
    lambda mask: np.flatnonzero(mask))
row("repeats", data_dependent.repeated,
    [arrays((5,), dtypes=u1), lambda rng: (np.array([0, 3, 1]),), lambda rng: (np.zeros(2, int),)],
    lambda times: np.repeat(np.arange(len(times)), times),
    errors=(Bad(lambda: data_dependent.repeated(fw.tensor([1, -1])), "repeat: -1 repeats"),))
