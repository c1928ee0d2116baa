"""All spellings, of all tables."""

from __future__ import annotations

from . import elementwise, reductions, shapes
from .spelling import read

SPELLINGS = [spelling for table in (elementwise.TABLE, reductions.TABLE, shapes.CREATE, shapes.MOVE)
             for spelling in read(table)]
