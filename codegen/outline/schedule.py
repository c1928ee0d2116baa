"""The order in which a graph is computed where it is looked at for what repeats.

Only nodes that may need memory have a place in it: views of one value, what is made of nothing and
a few indices that are made of an input's are made again wherever they are read. What leads to a
contraction comes in the order of need; all else, such as the updates of a layer's parameters, as
soon as what it reads is there, so that the turns of a loop, forward and back, lie one after the
other with everything that belongs to them.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...capture.graph.graph import Graph, Node

HEAVY = ("contract", "composite")
_FEW = 64  # whole numbers that cost nothing to compute again


class Scheduler:
    """`nodes` in order, `at` their places, `reads` what each of them reads, views left out, and
    `last` the place of the last one that reads each value; past the end where it is a result."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.outputs = graph, set(graph.outputs)
        self.donated = {graph.inputs[i]: graph.outputs[j] for j, i in graph.donated.items()}
        every = [*dict.fromkeys((*graph.inputs, *graph.nodes()))]
        self.shown: set[Node] = set()
        self.heavy = {n for n in every if n.kind in HEAVY}
        base = self._bases(every)
        computed = [n for n in every if n.op != "input" and n not in self.shown]
        self.reads = {n: [*dict.fromkeys([b for i in n.inputs if (b := base[i]) is not None])]
                      for n in computed}
        self.readers = _readers(every, self.reads)
        self.nodes = self._in_time(self._as_needed(computed))
        self.at = {n: i for i, n in enumerate(self.nodes)}
        self.last = {read: i for i, n in enumerate(self.nodes) for read in self.reads[n]}
        self.last |= dict.fromkeys(self.outputs, len(self.nodes))

    def _bases(self, every: list[Node]) -> dict[Node, Node | None]:
        """What lies in memory where a node is read; None where nothing does. Notes what is shown.
        """
        base: dict[Node, Node | None] = {}
        for n in every:
            below = {b for i in n.inputs if (b := base[i]) is not None}
            if n not in self.outputs and (_is_shown(n) or _is_index(n, below)):
                self.shown.add(n)
                base[n] = next(iter(below), None)
            else:
                base[n] = n
        return base

    def has_memory(self, node: Node) -> bool:
        """Whether a value is likely to lie in memory even if all is computed together."""
        readers = self.readers[node]
        return node in self.outputs or len(readers) != 1 or readers[0] in self.heavy

    def _as_needed(self, computed: list[Node]) -> list[Node]:
        """The nodes, each right before what needs it: what takes longest comes first."""
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

    def _in_time(self, computed: list[Node]) -> list[Node]:
        """The nodes, those that lead to something heavy as they come, all others once they can."""
        leading = self._leading(computed)
        missing = {n: len(self.reads[n]) for n in computed if n not in leading}
        after = self._with_overwriting(missing)
        done: dict[Node, None] = {}
        stack: list[Node] = []

        def is_there(node: Node) -> None:
            for r in reversed(after.get(node, ())):
                if r in missing:
                    missing[r] -= 1
                    stack.extend([] if missing[r] else [r])

        def finish(node: Node) -> None:
            stack.append(node)
            while stack:
                n = stack.pop()
                done[n] = None
                is_there(n)

        for n in reversed(self.graph.inputs):
            is_there(n)
        ready, stack[:] = stack[::-1], []
        for n in (*ready, *computed):
            if n in leading or (not missing[n] and n not in done):
                finish(n)
        return [*done, *(n for n in computed if n not in done)]

    def _leading(self, computed: list[Node]) -> set[Node]:
        """The nodes of which something heavy is computed."""
        found: set[Node] = set()
        for n in reversed(computed):
            if any(r in found or r in self.heavy for r in self.readers[n]):
                found.add(n)
        return found

    def _with_overwriting(self, missing: dict[Node, int]) -> Mapping[Node, list[Node]]:
        """`readers`, with what takes the memory of an input after all that read it."""
        after = dict(self.readers)
        for source, out in self.donated.items():
            for n in self.readers[source]:
                if out in missing and n is not out:
                    after[n] = [*after[n], out]
                    missing[out] += 1
        return after


def _is_shown(node: Node) -> bool:
    """Whether a node is made again wherever it is read."""
    return node.op == "const" or (node.kind == "view" and len(node.inputs) == 1) \
        or (node.kind == "create" and not node.inputs)


def _is_index(node: Node, below: set[Node]) -> bool:
    """Whether a node is a few whole numbers, or answers, made of those of one input: what turns do
    with them can be checked before the program runs."""
    return node.kind in ("pointwise", "view") and node.type.size <= _FEW and len(below) == 1 \
        and node.type.dtype.kind in "iub" and next(iter(below)).op == "input"


def _readers(every: list[Node], reads: Mapping[Node, list[Node]]) -> dict[Node, list[Node]]:
    """What reads each node or input."""
    found: dict[Node, list[Node]] = {n: [] for n in every}
    for n, those in reads.items():
        for read in those:
            found[read].append(n)
    return found
