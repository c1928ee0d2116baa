"""Schedules the nodes of a graph so that the iterations of an unrolled loop are contiguous.

Only nodes that may need memory have a position. Views of one value, constants, and a few indices
computed from an input's indices are recomputed wherever they are read. Nodes that lead to a
contraction come in the order of need. All others, such as parameter updates of a layer, come as
soon as their operands are ready, so that each iteration of a loop, forward and backward, is
contiguous with everything that belongs to it.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...capture.graph.graph import Graph, Node
from ..ir.sizes import upper_bound

HEAVY_KINDS = ("contract", "composite")
_MAX_INDEX_ELEMENTS = 64  # integers that cost nothing to compute again


class Scheduler:
    """The schedule of a graph.

    `nodes`: the scheduled nodes, in order
    `position`: their positions
    `reads`: the values that each of them reads, views left out
    `last_use`: the position of the last reader of each value, or the end where it is an output
    """

    def __init__(self, graph: Graph) -> None:
        self.graph, self.outputs = graph, set(graph.outputs)
        self.donated = {graph.inputs[i]: graph.outputs[j] for j, i in graph.donated.items()}
        all_nodes = [*dict.fromkeys((*graph.inputs, *graph.nodes()))]
        self.recomputed: set[Node] = set()
        self.heavy = {n for n in all_nodes if n.kind in HEAVY_KINDS}
        base = self._bases(all_nodes)
        computed = [n for n in all_nodes if n.op != "input" and n not in self.recomputed]
        self.reads = {n: [*dict.fromkeys([b for i in n.inputs if (b := base[i]) is not None])]
                      for n in computed}
        self.readers = _readers(all_nodes, self.reads)
        self.nodes = self._as_ready(self._as_needed(computed))
        self.position = {n: i for i, n in enumerate(self.nodes)}
        self.last_use = {read: i for i, n in enumerate(self.nodes) for read in self.reads[n]}
        self.last_use |= dict.fromkeys(self.outputs, len(self.nodes))

    def _bases(self, all_nodes: list[Node]) -> dict[Node, Node | None]:
        """The value in memory that each node reads from, or None. Records the recomputed nodes."""
        base: dict[Node, Node | None] = {}
        for n in all_nodes:
            below = {b for i in n.inputs if (b := base[i]) is not None}
            if n not in self.outputs and (_is_recomputed(n) or _is_small_index(n, below)):
                self.recomputed.add(n)
                base[n] = next(iter(below), None)
            else:
                base[n] = n
        return base

    def has_memory(self, node: Node) -> bool:
        """True if a value is likely to have memory even if all nodes are compiled together."""
        readers = self.readers[node]
        return node in self.outputs or len(readers) != 1 or readers[0] in self.heavy

    def _as_needed(self, computed: list[Node]) -> list[Node]:
        """The nodes, each right before the node that needs it; longer chains come first."""
        depth: dict[Node, int] = dict.fromkeys(self.graph.inputs, 0)
        for n in computed:
            depth[n] = 1 + max([depth[r] for r in self.reads[n]], default=0)
        done: dict[Node, None] = dict.fromkeys(self.graph.inputs)
        stack = [n for n in reversed(self.graph.outputs) if n in self.reads]
        while stack:
            missing = [r for r in self.reads[stack[-1]] if r not in done]
            if missing:
                stack += sorted(reversed(missing), key=depth.__getitem__)
            else:
                done[stack.pop()] = None
        return [n for n in done if n in self.reads]

    def _as_ready(self, computed: list[Node]) -> list[Node]:
        """The nodes that lead to something heavy, in order, and all others as soon as they are
        ready."""
        leading_to_heavy = self._leading_to_heavy(computed)
        missing = {n: len(self.reads[n]) for n in computed if n not in leading_to_heavy}
        readers = self._readers_with_overwriting(missing)
        done: dict[Node, None] = {}
        stack: list[Node] = []

        def release(node: Node) -> None:
            for r in reversed(readers.get(node, ())):
                if r in missing:
                    missing[r] -= 1
                    stack.extend([] if missing[r] else [r])

        def finish(node: Node) -> None:
            stack.append(node)
            while stack:
                n = stack.pop()
                done[n] = None
                release(n)

        for n in reversed(self.graph.inputs):
            release(n)
        ready, stack[:] = stack[::-1], []
        for n in (*ready, *computed):
            if n in leading_to_heavy or (not missing[n] and n not in done):
                finish(n)
        return [*done, *(n for n in computed if n not in done)]

    def _leading_to_heavy(self, computed: list[Node]) -> set[Node]:
        """The nodes from which a heavy node is computed."""
        leading: set[Node] = set()
        for n in reversed(computed):
            if any(r in leading or r in self.heavy for r in self.readers[n]):
                leading.add(n)
        return leading

    def _readers_with_overwriting(self, missing: dict[Node, int]) -> Mapping[Node, list[Node]]:
        """`readers`, with each node that overwrites an input after all that read the input."""
        readers = dict(self.readers)
        for source, out in self.donated.items():
            for n in self.readers[source]:
                if out in missing and n is not out:
                    readers[n] = [*readers[n], out]
                    missing[out] += 1
        return readers


def _is_recomputed(node: Node) -> bool:
    """True if a node is recomputed wherever it is read."""
    return node.op == "const" or (node.kind == "view" and len(node.inputs) == 1) \
        or (node.kind == "create" and not node.inputs)


def _is_small_index(node: Node, below: set[Node]) -> bool:
    """True if a node is a few integers or booleans computed from those of one input.

    Checks of such indices can run before the program."""
    return node.kind in ("pointwise", "view") and len(below) == 1 \
        and upper_bound(node.type.size) <= _MAX_INDEX_ELEMENTS \
        and node.type.dtype.kind in "iub" and next(iter(below)).op == "input"


def _readers(all_nodes: list[Node], reads: Mapping[Node, list[Node]]) -> dict[Node, list[Node]]:
    """The readers of each node or input."""
    readers: dict[Node, list[Node]] = {n: [] for n in all_nodes}
    for n, operands in reads.items():
        for read in operands:
            readers[read].append(n)
    return readers
