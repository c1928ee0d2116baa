"""Layers as functions."""

from __future__ import annotations

from inputs import ints
from parity.entry import Table
from parity.functional import functions

TABLE = Table("layers as functions")
layer = functions(TABLE)

layer("one_hot", ints(3, 2, below=4), args=(4,), kinds="i")
