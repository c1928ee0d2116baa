"""Rewrites one path through merges as a path without: every phi becomes its value on the path.

The code of such a path is fused across the merges, so that no value is materialized there.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..control_flow.decision import Decision
from ..control_flow.merges import Merge
from ..graph.graph import Node, missing_below
from ..heap.object_recipes import InputOr, ObjectAtPath, Recipe, SameObject
from ..scalars.scalar_expr import ScalarExpr
from ..trace.output_spec import TraceOutputs
from ..trace.value_table import ValueTable
from .ir import Block, Branch, Element, IfMerge, Yield
from .trace_exit import TraceExit

Step = tuple[Block, Element]
EXPANDABLE = (Branch, IfMerge, Yield)  # the blocks of paths that can be expanded


class NotExpandable(Exception):
    """Raised for a path whose results have gradients."""


def expand(steps: Sequence[Step], end: Block, trace_exit: TraceExit, names: ValueTable
           ) -> tuple[list[Element], TraceExit]:
    """The path of these steps without merges, and its exit, with its values.

    Raises NotExpandable for results with gradients.
    """
    values, path, checks = _Values(names), list[Element](), list[list[Node]]()
    pending: list[Node] = []  # nodes that are computed for their errors before the next element
    decided: set[Any] = set()
    for block, element in steps:
        pending += [values.node(n) for n in block.checks]
        if isinstance(element, Merge):
            values.bind(element)
        elif isinstance(element, Decision):
            decision = element._replace(subject=values.of(element.subject))
            key = decision.subject, decision.kind
            if key not in decided and getattr(decision.subject, "op", "") != "constant":
                path.append(decision)
                checks.append(pending)
                pending = []
            decided.add(key)
    pending += [values.node(n) for n in end.checks]
    return path, _expanded_exit(trace_exit, values, [*checks, pending])


def _expanded_exit(trace_exit: TraceExit, values: _Values, checks: Sequence[Sequence[Node]]
                   ) -> TraceExit:
    if trace_exit.backward is not None:
        raise NotExpandable
    outputs = [values.node(n) for n in trace_exit.outputs]
    distinct = list(dict.fromkeys(outputs))
    index = {n: i for i, n in enumerate(distinct)}
    effects = [e._replace(value=values.recipe(e.value),
                          node=None if e.node is None else index[outputs[e.node]])
               for e in trace_exit.effects]
    holders = Counter(outputs)
    donated = {index[outputs[i]]: node for i, node in trace_exit.donated.items()
               if holders[outputs[i]] == 1}
    leaving = TraceOutputs(distinct, [], [x._replace(value=index[outputs[x.value]])
                                          for x in trace_exit.tensors], donated)
    result = values.recipe(trace_exit.result)
    leaving.formulas.extend(dict.fromkeys(values.formulas_read))
    return TraceExit(trace_exit.guards, effects, result, leaving, trace_exit.sources,
                     checks=checks)


class _Values:
    """The values of nodes and numbers on one path."""

    def __init__(self, names: ValueTable) -> None:
        self.names = names
        self.formulas_read: list[ScalarExpr] = []  # by the recipes
        self._nodes: dict[Node, Node] = {}
        self._formulas: dict[ScalarExpr, ScalarExpr] = {}
        self._recipes: dict[int, Any] = {}  # of objects that occur several times, by id

    def bind(self, merge: Merge) -> None:
        """Gives the phis of a merge their values."""
        nodes = [self.node(n) for n in merge.values]
        formulas = [self.formula(f) for f in merge.formulas]
        self._nodes.update(zip(merge.phis, nodes))
        self._formulas.update(zip(merge.symbols, formulas))

    def of(self, subject: Any) -> Any:
        """The value of a decision's subject."""
        return self.formula(subject) if type(subject) is ScalarExpr else self.node(subject)

    def node(self, node: Node) -> Node:
        """The node on this path."""
        for new in missing_below(node, self._nodes, lambda n: not n.inputs):
            self._nodes[new] = self._computed(new)
        return self._nodes[node]

    def _computed(self, node: Node) -> Node:
        if node.inputs:
            inputs = [self.node(i) for i in node.inputs]
            return self.names.nodes.with_inputs(node, inputs)
        formula = self.names.numbers.get(node)
        if formula is None or self.formula(formula) is formula:
            return node
        return self.names.number(self.formula(formula), node.type)

    def formula(self, formula: ScalarExpr) -> ScalarExpr:
        """The number on this path."""
        for part in formula.parts:
            if part not in self._formulas:
                self._formulas[part] = self._part(part)
        return self._formulas[formula]

    def _part(self, part: ScalarExpr) -> ScalarExpr:
        if part.op == "element":
            return ScalarExpr("element", (self.node(part.args[0]),))
        return ScalarExpr(part.op, tuple([
            self._formulas[a] if type(a) is ScalarExpr else a for a in part.args]))

    def recipe(self, recipe: Any) -> Any:
        """A recipe that reads the numbers of this path."""
        if isinstance(recipe, ScalarExpr):
            formula = self.formula(recipe)
            self.formulas_read.append(formula)
            return formula
        if isinstance(recipe, SameObject):
            return recipe
        if isinstance(recipe, InputOr):
            return self._input_or(recipe)
        if isinstance(recipe, tuple):
            return tuple(map(self.recipe, recipe))
        if type(recipe) is dict:
            return {key: self.recipe(value) for key, value in recipe.items()}
        if type(recipe).__module__ != InputOr.__module__:
            return recipe  # a field of a recipe, such as a path
        if id(recipe) not in self._recipes:
            self._recipes[id(recipe)] = dataclasses.replace(recipe, **{
                field.name: self.recipe(getattr(recipe, field.name))
                for field in dataclasses.fields(recipe)})
        return self._recipes[id(recipe)]

    def _input_or(self, recipe: InputOr) -> Recipe:
        """The recipe of the input or of the new tensor, if the path tells which one it is."""
        formula = self.formula(recipe.number)
        if formula.op != "constant":
            self.formulas_read.append(formula)
            return InputOr(self.recipe(recipe.recipe), formula, recipe.inputs)
        number = formula.args[0].value
        return ObjectAtPath(recipe.inputs[number - 1]) if number else self.recipe(recipe.recipe)
