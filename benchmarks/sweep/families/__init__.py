"""Families of computation, by the names of their functions."""

from ..program import FAMILIES as FAMILIES
from . import (
    convolutions,
    indexing,
    layers,
    moves,
    networks,
    pairs,
    pointwise,
    products,
    recurrence,
    reductions,
    training,
)
