"""Runs a suspended call again, op by op with a tape, to differentiate gradients again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...eager.core.dispatch import evaluate
from ...eager.core.op import OPS
from ...eager.core.tape import set_grad_enabled
from ...eager.core.tensor import Tensor
from ...eager.errors import GradientError
from ..control_flow.loop_elements import LoopEntry
from ..control_flow.merges import Merge
from ..effects.effect_call import EffectCall
from ..graph.bind_sizes import bind_sizes
from ..graph.graph import Node
from ..graph.reference_interpreter import evaluate_node
from ..heap.path_reader import PathReader
from ..scalars.scalar_expr import ScalarExpr
from ..segments.segment import Segment, cone, extract_graph, operand
from ..trace.value_table import ValueTable
from .interpret import Activation
from .ir import Block, Branch

Masks = Mapping[Node, tuple[bool, ...]]  # which inputs of a node have gradients on the tape


class TapedCall(Activation):
    """An activation whose registers hold tensors with a tape. Values are computed when a block or a
    result needs them, from the inputs of the call and the phis of its loops and merges."""

    def __init__(self, inputs: Mapping[Node, Tensor], outcomes: Sequence[Any], names: ValueTable,
                 masks: Masks, numbers: Any, sizes: Mapping[str, int]) -> None:
        """outcomes: of the branches of the call, in their order. masks: () where it is not known.
        numbers: reads the number at an access path."""
        super().__init__((), {}, PathReader((), {}, None, {}), lambda read: sizes)
        self.inputs, self.names, self.masks = inputs, names, masks
        self._outcomes: Iterator[Any] = iter(outcomes)
        self._values: dict[Node, Tensor] = {}  # computed since phis have changed last
        self.origins = {**self.origins, "access_path": numbers,
                        "element": lambda node: self.tensors([node])[0]._data.item()}

    def segments_of(self, block: Block) -> Sequence[Segment]:
        return ()

    def note_effect(self, element: EffectCall) -> bool:
        return True  # the call has performed it

    def outcome(self, block: Branch) -> Any:
        return next(self._outcomes)

    def assign(self, phis_of: LoopEntry | Merge, values: Sequence[Any],
               formulas: Sequence[ScalarExpr]) -> None:
        tensors, numbers = self.tensors(values), [self.value(f) for f in formulas]
        self._values = {}
        self.registers.update(zip(phis_of.phis, tensors))
        self.symbols.update(zip((s.args[0] for s in phis_of.symbols), numbers))

    def tensors(self, nodes: Sequence[Node]) -> list[Tensor]:
        """The values of nodes, on the tape."""
        known = {**self.inputs, **self._values, **self.registers}
        order = [n for n in cone(nodes, known) if n not in known]
        for node in order:
            if node in self.names.numbers:
                known[node] = Tensor(operand(self.value(self.names.numbers[node]), node))
        inner = [n for n in order if n not in known]
        leaves = [n for n in cone(inner, known) if n in known]
        graph = bind_sizes(extract_graph([*leaves, *inner], inner, leaves), self.sizes())
        for node, bound in zip(inner, graph.outputs):
            known[node] = self._values[node] = self._evaluated(
                node, bound, [known[i] for i in node.inputs])
        return [known[n] for n in nodes]

    def _evaluated(self, node: Node, bound: Node, inputs: Sequence[Tensor]) -> Tensor:
        """The result of a node. Of the inputs, only those have gradients that had them in the
        trace."""
        if node.op == "const":
            return Tensor(evaluate_node(bound, []))
        mask = self.masks.get(node, ())
        if len(mask) != len(inputs) and any(x.edge is not None for x in inputs):
            raise GradientError(
                f"{node.site}: no trace tells if the result of {node.op} has a gradient, which "
                "is differentiated again", "compute the gradient inside of the compiled function")
        with set_grad_enabled(any(mask)):
            return evaluate(OPS[node.op], tuple([
                Tensor(x._data, x.edge if has_gradient else None)
                for x, has_gradient in zip(inputs, mask or [False] * len(inputs))]),
                dict(bound.params))
