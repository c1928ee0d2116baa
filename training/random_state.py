"""Saves and restores the state of the random numbers of fusewire, Python and NumPy."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import fusewire as fw


def random_state() -> dict[str, Any]:
    """The states of the default generators of fusewire, Python's `random` and `numpy.random`."""
    kind, keys, position, has_gauss, gauss = np.random.get_state(legacy=True)
    return {"fusewire": fw.get_rng_state(), "python": random.getstate(),
            "numpy": [kind, np.array(keys), position, has_gauss, gauss]}


def set_random_state(state: dict[str, Any]) -> None:
    """Continues all three from a result of `random_state`."""
    fw.set_rng_state(state["fusewire"])
    random.setstate(state["python"])
    kind, keys, *rest = state["numpy"]
    np.random.set_state((kind, np.asarray(keys), *rest))
