"""Lists the graph passes between tracing and code generation, and runs them."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Sequence

from ..graph.graph import Graph, Node
from ..graph.text import to_text
from ..graph.verify import verify
from ..runtime import debug
from .decompose import decompose
from .fold import fold_constants
from .simplify import simplify

Pass = Callable[[Graph], Graph]
CLEANUP: list[Pass] = [
    simplify,
    fold_constants,
    simplify,  # again: folding exposes x * 1
]
PIPELINE: list[Pass] = [decompose, *CLEANUP]

_WATCHERS = threading.local()  # of this thread


@contextlib.contextmanager
def watching() -> Iterator[list[tuple[str, Graph]]]:
    """A context that yields a list; each pass that runs appends (name, graph) to it."""
    seen: list[tuple[str, Graph]] = []
    before = getattr(_WATCHERS, "lists", ())
    _WATCHERS.lists = (*before, seen)
    try:
        yield seen
    finally:
        _WATCHERS.lists = before


def run(graph: Graph, passes: Sequence[Pass] = tuple(PIPELINE)) -> Graph:
    """The graph after all passes. It is verified after each of them."""
    verified: set[Node] = set()
    verify(graph, "recording", verified)
    debug.show(debug.GRAPHS, "as recorded", lambda: to_text(graph, sites=True))
    done: dict[Pass, Graph] = {}  # the last result of each pass: the pass would not change it
    for apply in passes:
        if done.get(apply) is not graph:
            graph = done[apply] = verify(apply(graph), apply.__name__, verified)
        for seen in getattr(_WATCHERS, "lists", ()):
            seen.append((apply.__name__, graph))
        debug.show(debug.PASSES, f"after {apply.__name__}", functools.partial(to_text, graph))
    return graph
