"""What is computed together, as text, and that each refusal to join says why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import assert_same, interpreted, recorded

import fusewire as fw
import fusewire.nn.functional as F
from fusewire import nn
from fusewire.capture.graph.graph import Graph, Node
from fusewire.capture.passes.bounds_checks import extract_checks
from fusewire.capture.passes.pass_manager import run
from fusewire.codegen.compile import lower_graph, passes_for, strip_reshapes
from fusewire.codegen.fusion.fusion import Group, fuse
from fusewire.codegen.ir.target_info import Machine

Golden = Callable[[str, str], None]


def groups_of(fn: Any, *args: Any) -> list[Group]:
    """The groups of what fn(*args) records."""
    ready, _ = extract_checks(run(recorded(fn, *args)[0], passes_for(Machine())))
    return fuse(strip_reshapes(ready)[0])


def as_text(groups: list[Group]) -> str:
    """Each group with its domain, its members in order, what it reads, and whom it did not join."""
    names: dict[Node, str] = {}
    lines = []
    for number, g in enumerate(groups):
        over = f" reducing {g.axes}" if g.axes else ""
        lines.append(f"{number}: {g.kind} {g.domain}{over}")
        for i, m in enumerate(g.members):
            names[m] = f"{number}.{i}"
            lines.append(f"   {number}.{i} {m.op} {m.type}")
        reads = {names.get(n, n.params.get("name", "const")) for n in g.reads - set(g.members)}
        lines.append(f"   reads {', '.join(sorted(reads)) or 'nothing'}")
        lines += [f"   refused: {why}" for why in strip_lines(g.refusals)]
    return "\n".join(lines)


def strip_lines(refusals: list[str]) -> list[str]:
    """Refusals without the lines of this file, which change."""
    out = []
    for text in refusals:
        head, _, rest = text.partition(" (")
        out.append(f"{head} {rest.partition(') ')[2]}")
    return out


def ones(*shape: int) -> fw.Tensor:
    return fw.ones(*shape)


# ---- the groups of well-known computations
def test_softmax(golden: Golden) -> None:
    golden("fuse_softmax", as_text(groups_of(lambda x: fw.softmax(x * 2, -1), ones(64, 100))))


def test_softmax_of_columns(golden: Golden) -> None:
    columns = groups_of(lambda x: fw.softmax(x * 2, 0), ones(64, 100))
    golden("fuse_softmax_columns", as_text(columns))


def layer_norm(x: fw.Tensor, w: fw.Tensor, b: fw.Tensor) -> fw.Tensor:
    mean = x.mean(axis=-1, keepdims=True)
    var = ((x - mean) * (x - mean)).mean(axis=-1, keepdims=True)
    return (x - mean) * fw.rsqrt(var + 1e-5) * w + b


def test_layer_norm(golden: Golden) -> None:
    golden("fuse_layer_norm", as_text(groups_of(layer_norm, ones(64, 100), ones(100), ones(100))))


def test_layer_norm_and_its_gradient(golden: Golden) -> None:
    def both_ways(x: fw.Tensor, w: fw.Tensor, b: fw.Tensor, g: fw.Tensor) -> Any:
        leaves = [t.detach().requires_grad_() for t in (x, w, b)]
        out = layer_norm(*leaves)
        return (out.detach(), *fw.grad(out, leaves, g))

    golden("fuse_layer_norm_gradient",
           as_text(groups_of(both_ways, ones(64, 100), ones(100), ones(100), ones(64, 100))))


def test_a_step_of_adam(golden: Golden) -> None:
    p = nn.Parameter(ones(30, 40))
    optimizer = fw.optim.AdamW([p], lr=0.1)
    p.grad = ones(30, 40)
    golden("fuse_adam", as_text(groups_of(optimizer.step)))


def test_bias_and_relu_after_a_product(golden: Golden) -> None:
    golden("fuse_bias_relu", as_text(groups_of(
        lambda x, w, b: F.relu(F.linear(x, w, b)), ones(32, 50), ones(60, 50), ones(60))))


def test_a_product_of_something_computed(golden: Golden) -> None:
    golden("fuse_product_of_exp", as_text(groups_of(
        lambda x, w: fw.exp(x) @ w.T + fw.exp(x).sum(), ones(32, 50), ones(60, 50))))


def test_cross_entropy_and_its_gradient(golden: Golden) -> None:
    def both_ways(x: fw.Tensor, t: fw.Tensor) -> Any:
        x = x.detach().requires_grad_()
        loss = F.cross_entropy(x, t)
        return (loss.detach(), *fw.grad(loss, x))

    target = fw.zeros(32, dtype=fw.int64)
    golden("fuse_cross_entropy", as_text(groups_of(both_ways, ones(32, 10), target)))


# ---- refusals say why
REFUSALS = {
    "a contraction begins a kernel of its own":
        lambda x, y: (fw.exp(x) @ fw.exp(y)) @ fw.exp(y),
    "it reads other elements of": lambda x, y: [(s := fw.exp(x)), s.flip(0)],
    "it reduces axes (0,), the kernel (1,)": lambda x, y: (x.sum(axis=1), x.sum(axis=0)),
    "sums over a contraction's result are not made in its epilogue":
        lambda x, y: (x @ y).sum(axis=1),
    "its loops run over (40, 20), the kernel's over (20, 40)":
        lambda x, y: (fw.exp(x).sum(axis=1), (fw.exp(x).T * 2 + y.T).max(axis=1)),
    "the kernel reduces outer axes": lambda x, y: (x.sum(axis=0), x * 2),
    "its shape is (20, 20), the kernel's (20, 40)": lambda x, y: [(s := x.exp()), s[:, :20] * 2],
}


@pytest.mark.parametrize("why", REFUSALS)
def test_refusals_have_reasons(why: str) -> None:
    second = ones(40, 40) if "contraction" in why else ones(20, 40)
    groups = groups_of(REFUSALS[why], ones(20, 40), second)
    assert why in "\n".join(r for g in groups for r in g.refusals)


def test_every_group_that_could_have_joined_says_why_not() -> None:
    """A group beside an earlier one with which it shares what it reads has a refusal."""
    def work(x: fw.Tensor, y: fw.Tensor) -> Any:
        a = fw.exp(x)
        return a.sum(axis=0), a.sum(axis=1), a @ y, (a * 2).T, fw.softmax(a, 0)

    seen: set[Node] = set()
    for g in groups_of(work, ones(20, 40), ones(40, 10)):
        related = bool(g.reads & seen)
        assert not related or g.refusals, as_text([g])
        seen |= g.reads | set(g.members)


# ---- properties of all groupings
STEPS: list[Callable[[fw.Tensor, fw.Tensor], fw.Tensor]] = [
    lambda x, y: x + y, lambda x, y: fw.tanh(x) * y, lambda x, y: fw.exp(-x * x),
    lambda x, y: x - x.mean(axis=1, keepdims=True), lambda x, y: x * y.sum(axis=0) * 0.1,
    lambda x, y: x.flip(0), lambda x, y: y.flip(1) + x, lambda x, y: fw.softmax(x, -1),
    lambda x, y: x * y.max(), lambda x, y: (x @ y.T) @ y * 0.01]


def random_program(seed: int) -> Any:
    """A function of three tensors (6, 8) made of random steps."""
    rng = np.random.default_rng(seed)
    plan = [(int(rng.integers(len(STEPS))), int(rng.integers(99)), int(rng.integers(99)))
            for _ in range(int(rng.integers(4, 14)))]

    def fn(*xs: fw.Tensor) -> tuple[fw.Tensor, ...]:
        pool = list(xs)
        for kind, i, j in plan:
            pool.append(STEPS[kind](pool[i % len(pool)], pool[j % len(pool)]))
        return tuple(pool[len(xs):][-3:])

    return fn


@pytest.mark.parametrize("seed", range(25))
def test_groups_hold_each_placed_node_once_in_an_order_that_runs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    given = [fw.from_numpy(rng.standard_normal((6, 8)).astype(np.float32)) for _ in range(3)]
    fn = random_program(seed)
    graph, arrays = recorded(fn, *given)
    ready: Graph = strip_reshapes(extract_checks(run(graph, passes_for(Machine())))[0])[0]
    groups = fuse(ready)
    members = [m for g in groups for m in g.members]
    assert len(members) == len(set(members))
    assert {o for o in ready.outputs if o.op != "input"} <= set(members)
    known: set[Node] = {n for n in ready.nodes() if n.op in ("input", "const")}
    for g in groups:
        assert g.reads - set(g.members) <= known
        known |= set(g.members)
    for got, want in zip(interpreted(graph, arrays), dict.fromkeys(fn(*given))):
        assert_same(got, want, 20)


def test_one_kernel_for_a_chain_of_pointwise_operations() -> None:
    graph, _ = recorded(lambda x, y: fw.tanh(x * y + 1) / (fw.exp(y) + 2) - x,
                        ones(9, 9), ones(9, 9))
    assert len(lower_graph(graph, Machine())[1]) == 1


@pytest.mark.parametrize(("fn", "shape", "kernels"), [
    (lambda x, w: x * fw.tanh(w), (64,), ["tanh", "multiply"]),  # else each row computes it anew
    (lambda x, w: x * (w + 1), (64,), ["multiply"]),  # cheap
    (lambda x, w: x * fw.tanh(w), (100, 1), ["multiply"]),  # once for a row as it is
    (lambda x, w: (x * fw.tanh(w).reshape(1, 64).broadcast_to((100, 64))).sum(1), (64,),
     ["tanh", "sum"]),  # through two views
])
def test_what_rows_would_repeat_is_computed_before(fn: Any, shape: Any, kernels: list[str]) -> None:
    groups = groups_of(fn, ones(100, 64), ones(*shape))
    assert [g.members[-1].op for g in groups] == kernels
