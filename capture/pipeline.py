"""The passes between recording and code, as a list one can read aloud."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from ..eager.settings import settings
from .graph import Graph
from .passes.decompose import decompose
from .passes.fold import fold_constants
from .passes.simplify import simplify
from .text import to_text
from .verify import verify

Pass = Callable[[Graph], Graph]
PIPELINE: list[Pass] = [
    decompose,
    simplify,
    fold_constants,
    simplify,  # again: folding exposes x * 1
]


def run(graph: Graph, passes: Sequence[Pass] = tuple(PIPELINE)) -> Graph:
    """The graph after all passes, verified after each."""
    verify(graph, "recording")
    _show("recording", graph, 3)
    for apply in passes:
        graph = verify(apply(graph), after=apply.__name__)
        _show(apply.__name__, graph, 5)
    return graph


def _show(title: str, graph: Graph, level: int) -> None:
    if settings.debug >= level:
        print(f"# after {title}\n{to_text(graph)}\n", file=sys.stderr)
