"""Random programs with branches, switches, loops and numbers, as control-flow graphs.

`draw(seed)` writes a program. `evaluate` runs it in Python. `build` makes its control-flow graph,
without a trace: the two share nothing but the program. All values are small integers, so that every
executor computes them exactly.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusewire.capture.cfg.ir import BackEdge, Block, Branch, Exit, IfMerge, LoopHeader, Yield
from fusewire.capture.cfg.trace_exit import TraceExit
from fusewire.capture.control_flow.decision import Decision
from fusewire.capture.control_flow.loop_elements import LoopEntry, LoopRepeat
from fusewire.capture.control_flow.merges import Merge, MergedBranch
from fusewire.capture.graph.graph import Node
from fusewire.capture.heap.access_path import Path
from fusewire.capture.heap.object_recipes import BuiltContainer, NumberOf, PassedTensor
from fusewire.capture.scalars.scalar_expr import OPERATORS, ScalarExpr, of_number
from fusewire.capture.trace.output_spec import OutputTensor, TraceOutputs
from fusewire.capture.trace.value_table import ValueTable
from fusewire.eager.arrays.shapes import TensorType
from fusewire.eager.core.tensor import Tensor

TENSORS, NUMBERS = ("a", "b", "c"), ("n", "m")
SIZE, LARGEST = 3, 40.0
Statement = tuple[Any, ...]
Environment = dict[str, Any]
_NUMPY: dict[str, Callable[..., Any]] = {
    "add": np.add, "subtract": np.subtract, "maximum": np.maximum, "minimum": np.minimum}


class Untraced(Exception):
    """A path that the graph leaves out."""


# ---- programs
class _Writer:
    def __init__(self, rng: random.Random, native: bool) -> None:
        self.rng, self.native = rng, native

    def block(self, depth: int, in_loop: bool) -> list[Statement]:
        count = self.rng.randrange(1, 4 if depth else 5)
        return [self.statement(depth, in_loop) for _ in range(count)]

    def statement(self, depth: int, in_loop: bool) -> Statement:
        rng, kind = self.rng, self.rng.random()
        if depth < 3 and kind < 0.32:
            return ("if", self.condition(), self.block(depth + 1, in_loop),
                    self.block(depth + 1, in_loop) if rng.random() < 0.7 else [],
                    rng.random() < 0.8)
        if depth < 2 and kind < 0.42:
            return ("while", rng.randrange(1, 5), self.block(depth + 1, True))
        if depth < 2 and kind < 0.47 and not self.native:
            return ("switch", rng.choice(NUMBERS),
                    [self.block(depth + 1, in_loop) for _ in range(rng.randrange(2, 4))])
        if in_loop and kind < 0.54:
            return (rng.choice(("break", "continue")), self.condition())
        if depth and kind < 0.57:
            return (rng.choice(("return", "untraced")), self.condition())
        if kind < 0.63:
            return ("swap", *rng.choice((rng.sample(TENSORS, 2), NUMBERS)))
        if kind < 0.77:
            return ("number", rng.choice(NUMBERS), rng.choice(("add", "sub", "mul")),
                    rng.choice(NUMBERS), rng.choice((*NUMBERS, 1, 2, 3)))
        if kind < 0.82:
            return ("scaled", rng.choice(TENSORS), rng.choice(TENSORS), rng.choice(NUMBERS))
        return ("tensor", rng.choice(TENSORS), rng.choice(list(_NUMPY)), rng.choice(TENSORS),
                rng.choice((*TENSORS, 1.0, -2.0)))

    def condition(self) -> Statement:
        rng = self.rng
        if rng.random() < 0.6:
            return ("sum", rng.choice(TENSORS), float(rng.randrange(-10, 10)))
        if rng.random() < 0.3:
            return ("item", rng.choice(TENSORS), rng.choice(NUMBERS))
        return ("less", rng.choice(NUMBERS), rng.choice((*NUMBERS, 2, 4)))


def draw(seed: int, native: bool = False) -> list[Statement]:
    """A program. A `native` one has no switches, which native code does not have."""
    return _Writer(random.Random(seed), native).block(0, False)


def shown(statements: Sequence[Statement], indent: str = "") -> str:
    """A program as text."""
    lines = []
    for kind, *parts in statements:
        bodies = [p for p in parts if isinstance(p, list)]
        lines.append(f"{indent}{kind} {[p for p in parts if not isinstance(p, list)]}")
        for body in bodies:
            inner = [body] if kind != "switch" else body
            lines += [shown(each, indent + "    ") + f"\n{indent}  --" for each in inner]
    return "\n".join(lines)


# ---- in Python
class _Break(Exception):
    pass


class _Continue(Exception):
    pass


class _Return(Exception):
    pass


def evaluate(program: Sequence[Statement], values: Environment) -> Environment:
    """The variables at the end of a program. Raises Untraced."""
    env = dict(values)
    try:
        _run(program, env)
    except _Return:
        pass
    return env


def _run(statements: Sequence[Statement], env: Environment) -> None:
    for kind, *parts in statements:
        if kind == "tensor":
            target, op, a, b = parts
            env[target] = np.clip(_NUMPY[op](env[a], env.get(b, b)), -LARGEST, LARGEST)
        elif kind == "scaled":
            target, a, n = parts
            env[target] = np.clip(env[a] * float(env[n]), -LARGEST, LARGEST)
        elif kind == "number":
            target, op, a, b = parts
            env[target] = OPERATORS[op](env[a], env.get(b, b)) % 7
        elif kind == "swap":
            a, b = parts
            env[a], env[b] = env[b], env[a]
        elif kind == "if":
            condition, yes, no, _ = parts
            _run(yes if _holds(condition, env) else no, env)
        elif kind == "switch":
            _run(parts[1][env[parts[0]] % len(parts[1])], env)
        elif kind == "while":
            _loop(*parts, env)
        elif _holds(parts[0], env):
            raise {"break": _Break, "continue": _Continue, "return": _Return,
                   "untraced": Untraced}[kind]


def _loop(limit: int, body: Sequence[Statement], env: Environment) -> None:
    for _ in range(limit):
        try:
            _run(body, env)
        except _Continue:
            continue
        except _Break:
            return


def _holds(condition: Statement, env: Environment) -> bool:
    kind, a, b = condition
    if kind == "sum":
        return bool(env[a].sum() > b)
    if kind == "item":
        return bool(env[a].sum() < env[b])
    return bool(env[a] < env.get(b, b))


# ---- as a graph
Then = Callable[[Environment], Block]


class Builder:
    """Builds the control-flow graph of a program."""

    def __init__(self, names: ValueTable) -> None:
        self.names, self.made = names, 0
        self.type = TensorType((SIZE,), np.dtype("float64"))
        self.env: Environment = {}
        arguments = [Path("args").item(i) for i in range(len(TENSORS) + len(NUMBERS))]
        for name, path in zip(TENSORS, arguments):
            self.env[name] = names.tensor(path, self.type, "cpu")
        for name, path in zip(NUMBERS, arguments[len(TENSORS):]):
            self.env[name] = ScalarExpr("access_path", (path,))

    def whole(self, program: Sequence[Statement]) -> Block:
        return self.block(program, self.env, self.exit, None)

    def exit(self, env: Environment) -> Block:
        nodes = list(dict.fromkeys(env[name] for name in TENSORS))
        formulas = list(dict.fromkeys(env[name] for name in NUMBERS))
        recipe = BuiltContainer("tuple", (
            *[PassedTensor(nodes.index(env[name])) for name in TENSORS],
            *[NumberOf(env[name]) for name in NUMBERS]))
        tensors = [OutputTensor(i, None, Tensor) for i in range(len(nodes))]
        leaving = TraceOutputs(nodes, formulas, tensors, {})
        return Exit(TraceExit([], [], recipe, leaving, list(self.names.paths)))

    def block(self, statements: Sequence[Statement], env: Environment, then: Then,
              loop: tuple[Then, Then] | None) -> Block:
        """The blocks of statements and what follows. `loop`: where `continue` and `break` lead."""
        env = dict(env)
        for i, (kind, *parts) in enumerate(statements):
            def rest(env: Environment, after: int = i + 1) -> Block:
                return self.block(statements[after:], env, then, loop)

            if kind in ("tensor", "scaled", "number"):
                env[parts[0]] = getattr(self, kind)(env, *parts[1:])
            elif kind == "swap":
                a, b = parts
                env[a], env[b] = env[b], env[a]
            elif kind == "if":
                condition, yes, no, merges = parts
                sides = {True: yes, False: no}
                return (self.merged if merges else self.branch)(
                    env, "bool", self.condition(env, condition), sides, rest, loop)
            elif kind == "switch":
                number, sides = parts
                subject = ScalarExpr("mod", (env[number], of_number(len(sides))))
                return self.branch(env, "int", subject, dict(enumerate(sides)), rest, loop)
            elif kind == "while":
                return self.loop(env, *parts, rest)
            else:
                branch = Branch(Decision(self.condition(env, parts[0]), "bool", None, "line"))
                branch.outcomes[False] = rest(env)
                if kind != "untraced":
                    leave = self.exit if loop is None or kind == "return" \
                        else loop[kind == "break"]
                    branch.outcomes[True] = leave(env)
                return branch
        return then(env)

    # ---- values
    def node(self, op: str, *inputs: Node, **params: Any) -> Node:
        return self.names.nodes.apply(op, inputs, params)

    def constant(self, value: float) -> Node:
        return self.names.nodes.const(value, np.dtype("float64"))

    def clipped(self, node: Node) -> Node:
        return self.node("maximum", self.node("minimum", node, self.constant(LARGEST)),
                         self.constant(-LARGEST))

    def tensor(self, env: Environment, op: str, a: str, b: Any) -> Node:
        other = env[b] if b in env else self.constant(b)
        return self.clipped(self.node(op, env[a], other))

    def scaled(self, env: Environment, a: str, n: str) -> Node:
        factor = self.names.number(env[n], TensorType((), np.dtype("float64")))
        return self.clipped(self.node("multiply", env[a], factor))

    def number(self, env: Environment, op: str, a: str, b: Any) -> ScalarExpr:
        other = env[b] if b in env else of_number(b)
        return ScalarExpr("mod", (ScalarExpr(op, (env[a], other)), of_number(7)))

    def condition(self, env: Environment, condition: Statement) -> Any:
        kind, a, b = condition
        if kind == "less":
            return ScalarExpr("lt", (env[a], env[b] if b in env else of_number(b)))
        total = self.node("sum", env[a], axis=(0,), keepdims=False)
        if kind == "sum":
            return self.node("greater", total, self.constant(b))
        return ScalarExpr("lt", (ScalarExpr("element", (total,)), env[b]))

    # ---- control flow
    def branch(self, env: Environment, kind: str, subject: Any, sides: dict[Any, Any], then: Then,
               loop: Any) -> Block:
        branch = Branch(Decision(subject, kind, None, "line"))
        for outcome, side in sides.items():
            branch.outcomes[outcome] = self.block(side, env, then, loop)
        return branch

    def merged(self, env: Environment, kind: str, subject: Any, sides: dict[Any, Any], then: Then,
               loop: Any) -> Block:
        key = self.token("merge")
        changed = [v for v in env if any(v in _assigned(side) for side in sides.values())]
        if_merge = IfMerge(MergedBranch(key, "line"))
        tensors, numbers, phis, symbols = self.phis(key, env, changed)

        def arrive(inner: Environment) -> Block:
            return Yield(Merge(key, phis, tuple([inner[v] for v in tensors]), symbols,
                               tuple([inner[v] for v in numbers]), "line"), if_merge)

        if_merge.body = self.branch(env, kind, subject, sides, arrive, loop)
        if if_merge.merge is not None:
            behind = {**env, **dict(zip(tensors, phis)), **dict(zip(numbers, symbols))}
            if_merge.continuation = then(behind)
        return if_merge

    def loop(self, env: Environment, limit: int, body: Sequence[Statement], then: Then) -> Block:
        token = self.token("loop")
        changed = ["count", *[v for v in env if v in _assigned(body)]]
        env = {**env, "count": of_number(0)}
        tensors, numbers, phis, symbols = self.phis(token, env, changed)
        entry = LoopEntry(token, phis, tuple([env[v] for v in tensors]), symbols,
                          tuple([env[v] for v in numbers]), "line")
        header = LoopHeader(entry)
        inside = {**env, **dict(zip(tensors, phis)), **dict(zip(numbers, symbols))}
        count = inside["count"]

        def repeat(inner: Environment) -> Block:
            inner = {**inner, "count": ScalarExpr("add", (count, of_number(1)))}
            return BackEdge(LoopRepeat(token, tuple([inner[v] for v in tensors]),
                                       tuple([inner[v] for v in numbers]), "line"), header)

        def leave(inner: Environment) -> Block:
            return then({v: inner[v] for v in inner if v != "count" or v in outer})

        outer = env.keys() - {"count"}
        go_on = Branch(Decision(ScalarExpr("lt", (count, of_number(limit))), "bool", None, "line"))
        header.body = go_on
        go_on.outcomes[True] = self.block(body, inside, repeat, (repeat, leave))
        go_on.outcomes[False] = leave(inside)
        return header

    def phis(self, token: Any, env: Environment, changed: Sequence[str]) -> tuple[
            list[str], list[str], tuple[Node, ...], tuple[ScalarExpr, ...]]:
        """The variables that are tensors and numbers, and a phi for each."""
        tensors = [v for v in changed if isinstance(env[v], Node)]
        numbers = [v for v in changed if v not in tensors]
        phis = self.names.phis(token, [env[v] for v in tensors])
        symbols = tuple([ScalarExpr("phi", ((token, i, 0),)) for i in range(len(numbers))])
        return tensors, numbers, phis, symbols

    def token(self, kind: str) -> Any:
        self.made += 1
        return id(self.names), kind, self.made


def _assigned(statements: Sequence[Statement]) -> set[str]:
    """The variables that statements assign."""
    found: set[str] = set()
    for kind, *parts in statements:
        if kind in ("tensor", "scaled", "number"):
            found.add(parts[0])
        elif kind == "swap":
            found |= {*parts}
        bodies = parts[1] if kind == "switch" else [p for p in parts if isinstance(p, list)]
        for body in bodies:
            found |= _assigned(body)
    return found
