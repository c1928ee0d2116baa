"""Makes sizes of numbers and of data, and answers questions about sizes."""

from __future__ import annotations

from typing import Any

from ...eager.core.op import Op
from ...eager.core.tensor import Tensor
from ...eager.ops.data_dependent import run
from ..control_flow.data_dependent_sizes import DataDependentSize, SizeFormula
from ..control_flow.frame_state import user_frames
from ..control_flow.loop_detection import LoopDetector
from ..control_flow.loop_elements import LoopEntry, LoopRepeat
from ..graph.graph import Node
from ..heap.loop_inversion import is_in_loop
from ..heap.source_location import user_site
from ..scalars.scalar_expr import ScalarExpr, compute, of_number
from ..scalars.symbolic_scalar import SymbolicScalar
from ..sizes.size_expr import SizeExpr
from ..sizes.symbolic_dim import Dim, ShapeEnv
from .value_table import ValueTable


class SizeQuestions:
    """The part of a tracer that is about sizes."""

    loops: LoopDetector
    names: ValueTable
    path: list[Any]
    sizes: ShapeEnv
    symbolized: dict[Any, SymbolicScalar]

    def apply_data_dependent(self, op: Op, x: Tensor) -> Tensor | None:
        """The result of an op with a data-dependent size."""
        self._flush_lazy()
        out, node = Tensor(run(op, x._data)), self.node_of(x)
        if node.op == "const":
            self.note_constant(out)
            return out
        with self.sizes.recording(False):
            measured = self.names.measured(op, node, self.sizes, out._data.shape[0])
        self.bind(out._data, measured)
        if self._is_new(measured, "measure"):
            self.path.append(DataDependentSize(measured, user_site()))
            self.loops.unroll_open()
        return out

    def size_of(self, number: SymbolicScalar) -> Any:
        """The size that a number is. The number itself inside of a loop that changes it: one
        node would stand for other sizes in other iterations."""
        if self.loops.depth_of(number.formula) and any(
                is_in_loop(f.f_code, f.f_lasti) for f in user_frames(self.loops.base)):
            return number
        self._flush_lazy()
        formula = SizeFormula(number.formula)
        values = [self._value_of(part, number) for part in formula.parts]
        if None in values:
            formula, values = SizeFormula(number.formula, expands=False), [number.value]
        return self.sizes.make(formula.expr([
            self._measured(part, value) for part, value in zip(formula.parts, values, strict=True)
            if value is not None]))

    def check_sizes(self, token: Any) -> None:
        """Refuses the run if the last iteration of a loop has made sizes of numbers that the loop
        changes."""
        begun = next(i for i in reversed(range(len(self.path)))
                     if type(self.path[i]) in (LoopEntry, LoopRepeat)
                     and self.path[i].token == token)
        if any(type(e) is DataDependentSize and e.formula is not None
               and self.loops.depth_of(e.formula) for e in self.path[begun:]):
            self.refuse("a number that a loop changes is a size")

    def _value_of(self, part: ScalarExpr, number: SymbolicScalar) -> int | None:
        """The value of a part of a number's formula in this run; None if it is not known."""
        if part is number.formula:
            return int(number.value)
        try:
            return int(compute(part, {"access_path": lambda path: self.symbolized[path].value,
                                      "size": lambda expr: expr.value(self.sizes.values)}))
        except (KeyError, TypeError):
            return None

    def _measured(self, formula: ScalarExpr, value: int) -> SizeExpr:
        """The expression of a number's value over a size, which is never negative."""
        if formula.op == "size":
            own: SizeExpr = formula.args[0]
            return own
        negative = value < 0
        # No merge point of branches: Python holds the number while it calls this.
        self._record_decision(ScalarExpr("lt", (formula, of_number(0))), "bool", negative)
        if negative:
            formula, value = ScalarExpr("neg", (formula,)), -value
        with self.sizes.recording(False):
            size, node = self.names.size_of_number(formula, self.sizes, value)
        if self._is_new(node, "measure"):
            self.path.append(DataDependentSize(node, user_site(), formula))
            self.loops.note_path_element()
        expr: SizeExpr = size.expr
        return -expr if negative else expr

    def _size(self, size: Dim) -> SymbolicScalar:
        recorder: Any = self  # with the rest of the tracer
        return SymbolicScalar(ScalarExpr("size", (size.expr,)), size.value, recorder)

    def _decide_size(self, relation: str, expr: SizeExpr, outcome: int) -> None:
        """Records a decision about a data-dependent size."""
        size = ScalarExpr("size", (expr,))
        if relation == "value":
            self.decide(size, relation, outcome)
        else:
            self._record_decision(ScalarExpr(relation, (size, of_number(0))), "bool", bool(outcome))

    # ---- the rest of the tracer

    def bind(self, array: Any, node: Node) -> None:
        """Binds an array to a node."""
        raise NotImplementedError

    def decide(self, subject: Any, kind: str, outcome: Any) -> Any:
        """Records a decision. Returns the outcome to continue with."""
        raise NotImplementedError

    def node_of(self, tensor: Tensor) -> Node:
        """The node of a tensor's current value."""
        raise NotImplementedError

    def note_constant(self, tensor: Tensor) -> None:
        """Notes a tensor made from Python values."""
        raise NotImplementedError

    def refuse(self, why: str) -> None:
        """Marks the run as one that cannot be replayed."""
        raise NotImplementedError

    def _flush_lazy(self) -> None:
        raise NotImplementedError

    def _is_new(self, subject: Any, kind: str) -> bool:
        raise NotImplementedError

    def _record_decision(self, subject: Any, kind: str, outcome: Any) -> Any:
        raise NotImplementedError
