"""Each rule of the passes as text before and after, and that no pass changes a graph's values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fusewire as fw
from fusewire.capture.graph.graph import Graph, Node, Nodes, topological
from fusewire.capture.graph.reference_interpreter import evaluate
from fusewire.capture.graph.text import parse, to_text
from fusewire.capture.graph.verify import verify
from fusewire.capture.passes import pass_manager
from fusewire.capture.passes.bounds_checks import BoundsCheck, extract_checks
from fusewire.capture.passes.decompose import decompose
from fusewire.capture.passes.fold import fold_constants
from fusewire.capture.passes.matvec import decompose_vector_products
from fusewire.capture.passes.simplify import RULES, simplify
from fusewire.capture.passes.transpose_matmul import transpose_products
from fusewire.codegen.compile import passes_for
from fusewire.codegen.ir.target_info import Machine
from fusewire.eager.arrays.shapes import TensorType
from fusewire.eager.core.op import OPS

F32 = np.dtype("float32")


def lines(text: str) -> str:
    return "\n".join(line.strip() for line in text.strip().splitlines())


def becomes(apply: Any, before: str, after: str) -> None:
    """`apply` turns one text into the other, and the result is a well-formed graph."""
    graph = verify(apply(verify(parse(before), "the test")), "the pass")
    assert to_text(graph) == lines(after)


# ---- layout
def test_a_product_that_is_read_transposed_is_computed_so() -> None:
    becomes(transpose_products, """
        x = input()  # float32[4, 3]
        g = input()  # float32[4, 5]
        v2 = contract(x, g, spec='ij,ik->jk')  # float32[3, 5]
        v3 = permute_dims(v2, axes=(1, 0))  # float32[5, 3]
        return v3""", """
        x = input()  # float32[4, 3]
        g = input()  # float32[4, 5]
        v2 = contract(x, g, spec='ij,ik->kj')  # float32[5, 3]
        return v2""")


def test_a_product_that_is_also_read_as_it_is_stays() -> None:
    text = lines("""
        x = input()  # float32[4, 3]
        v1 = contract(x, x, spec='ij,ik->jk')  # float32[3, 3]
        v2 = permute_dims(v1, axes=(1, 0))  # float32[3, 3]
        v3 = add(v1, v2)  # float32[3, 3]
        return v3""")
    becomes(transpose_products, text, text)


# ---- text
def test_text_reads_back() -> None:
    text = lines("""
        x = input()  # float32[2, 3]
        i = input()  # int64[4]
        v2 = multiply(x, float32(2.5))  # float32[2, 3]
        v3 = sum(v2, axis=(1,), keepdims=False)  # float32[2]
        v4 = cast(v3, dtype=float64)  # float64[2]
        v5 = take(v4, i, axis=0)  # float64[4]
        return v5, v3""")
    assert to_text(parse(text)) == text


def test_text_tells_special_numbers_apart() -> None:
    made = Nodes()
    x = made.input("x", TensorType((), F32))
    outs = [made.apply("add", [x, made.const(v, F32)], {}) for v in
            (0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1e-30)]
    text = to_text(Graph((x,), tuple(outs)))
    assert to_text(parse(text)) == text
    assert "float32(-0.0)" in text and "float32(nan)" in text and "float32(-inf)" in text


@pytest.mark.parametrize(("bad", "says"), [
    ("x = input()  # float32[2]", "no line that begins with return"),
    ("x := 3\nreturn x", "not a line")])
def test_text_that_is_no_graph(bad: str, says: str) -> None:
    with pytest.raises(fw.GraphError, match=says):
        parse(bad)


# ---- simplify: one case per rule, and one where it must not apply
SIMPLE = {
    "alias(x) -> x": ("v1 = alias(x)  # float32[2, 3]", "x"),
    "cast(x, dtype of x) -> x": ("v1 = cast(x, dtype=float32)  # float32[2, 3]", "x"),
    "reshape(x, shape of x) -> x": ("v1 = reshape(x, shape=(2, 3))  # float32[2, 3]", "x"),
    "x * 1 -> x": ("v1 = multiply(float32(1.0), x)  # float32[2, 3]", "x"),
    "x / 1 -> x": ("v1 = divide(x, float32(1.0))  # float32[2, 3]", "x"),
    "x + -0.0 -> x": ("v1 = add(x, float32(-0.0))  # float32[2, 3]", "x"),
    "x - 0.0 -> x": ("v1 = subtract(x, float32(0.0))  # float32[2, 3]", "x"),
    "-(-x) -> x": ("v0 = negative(x)  # float32[2, 3]\nv1 = negative(v0)  # float32[2, 3]", "x"),
}


@pytest.mark.parametrize("rule", SIMPLE)
def test_what_vanishes(rule: str) -> None:
    before, after = SIMPLE[rule]
    becomes(simplify, f"x = input()  # float32[2, 3]\n{before}\nreturn v1",
            f"x = input()  # float32[2, 3]\nreturn {after}")


KEPT = {
    "x + 0.0 turns -0.0 into 0.0": "add(x, float32(0.0))",
    "x - -0.0 turns -0.0 into 0.0": "subtract(x, float32(-0.0))",
    "1 / x": "divide(float32(1.0), x)",
    "x * 0 is nan for nan": "multiply(x, float32(0.0))",
    "0 - x is not -x for 0": "subtract(float32(0.0), x)",
    "x - x is nan for infinity": "subtract(x, x)",
    "-x": "negative(x)",
}


@pytest.mark.parametrize("case", KEPT)
def test_what_must_stay(case: str) -> None:
    text = f"x = input()  # float32[2, 3]\nv1 = {KEPT[case]}  # float32[2, 3]\nreturn v1"
    becomes(simplify, text, text)


def test_one_that_broadcasts_stays() -> None:
    becomes(simplify, """
        x = input()  # float32[3]
        one = broadcast_to(float32(1.0), shape=(2, 3))  # float32[2, 3]
        v = multiply(x, one)  # float32[2, 3]
        return v""", """
        x = input()  # float32[3]
        v1 = broadcast_to(float32(1.0), shape=(2, 3))  # float32[2, 3]
        v2 = multiply(x, v1)  # float32[2, 3]
        return v2""")


def test_reshapes_and_orders_combine() -> None:
    becomes(simplify, """
        x = input()  # float32[2, 3, 4]
        a = reshape(x, shape=(6, 4))  # float32[6, 4]
        b = reshape(a, shape=(4, 6))  # float32[4, 6]
        c = permute_dims(x, axes=(1, 2, 0))  # float32[3, 4, 2]
        d = permute_dims(c, axes=(1, 0, 2))  # float32[4, 3, 2]
        e = permute_dims(d, axes=(2, 1, 0))  # float32[2, 3, 4]
        return b, d, e""", """
        x = input()  # float32[2, 3, 4]
        v1 = reshape(x, shape=(4, 6))  # float32[4, 6]
        v2 = permute_dims(x, axes=(2, 1, 0))  # float32[4, 3, 2]
        return v1, v2, x""")


def test_a_filled_tensor_is_a_number_repeated() -> None:
    becomes(simplify, """
        a = full(shape=(2, 3), value=1.5, dtype=float32)  # float32[2, 3]
        b = reshape(a, shape=(6,))  # float32[6]
        c = full(shape=(), value=2.0, dtype=float32)  # float32[]
        return b, c""", """
        v0 = broadcast_to(float32(1.5), shape=(6,))  # float32[6]
        return v0, float32(2.0)""")


def test_every_rule_names_ops_that_exist() -> None:
    assert all(op in OPS for rule in RULES for op in rule.ops)
    assert len({rule.name for rule in RULES}) == len(RULES)


# ---- fold
def test_numbers_are_computed_at_once() -> None:
    becomes(fold_constants, """
        x = input()  # float32[2]
        a = add(float32(1.5), float32(2.0))  # float32[]
        b = exp(multiply)  # float32[]
        return a""".replace("\n        b = exp(multiply)  # float32[]", ""), """
        x = input()  # float32[2]
        return float32(3.5)""")


def test_a_number_stays_what_its_dtype_holds() -> None:
    becomes(fold_constants, """
        a = divide(float32(1.0), float32(3.0))  # float32[]
        b = divide(float32(1.0), float32(0.0))  # float32[]
        return a, b""", f"return float32({float(np.float32(1) / np.float32(3))!r}), float32(inf)")


def test_what_depends_on_an_input_is_not_folded() -> None:
    text = """
        x = input()  # float32[]
        v1 = add(x, float32(2.0))  # float32[]
        return v1"""
    becomes(fold_constants, text, text)


# ---- decompose
def test_a_composite_opens() -> None:
    graph = decompose(parse("""
        x = input()  # float32[2, 3]
        v = softmax(x, axis=1)  # float32[2, 3]
        return v"""))
    ops = [n.op for n in graph.nodes()]
    assert "softmax" not in ops and {"exp", "max", "sum", "divide"} <= set(ops)


def test_a_composite_that_is_asked_for_stays() -> None:
    text = lines("""
        x = input()  # float32[2, 3]
        v1 = softmax(x, axis=1)  # float32[2, 3]
        return v1""")
    assert to_text(decompose(parse(text), keep={"softmax"})) == text


def test_no_composite_is_left() -> None:
    graph = pass_manager.run(parse("""
        x = input()  # float32[4, 3]
        t = input()  # int64[4]
        a = cross_entropy_rows(x, t, ignore=-100)  # float32[4]
        b = gelu(x, approximate='none')  # float32[4, 3]
        return a, b"""))
    assert all(n.kind != "composite" for n in graph.nodes())


# ---- vectors
def test_a_product_with_a_vector_is_a_sum() -> None:
    becomes(lambda g: simplify(decompose_vector_products(g)), """
        x = input()  # float32[5, 3]
        y = input()  # float32[3]
        v = contract(x, y, spec='ij,j->i')  # float32[5]
        return v""", """
        x = input()  # float32[5, 3]
        y = input()  # float32[3]
        v2 = reshape(y, shape=(1, 3))  # float32[1, 3]
        v3 = multiply(x, v2)  # float32[5, 3]
        v4 = sum(v3, axis=(1,), keepdims=False)  # float32[5]
        return v4""")


def test_a_product_of_few_rows_with_small_numbers_is_a_sum() -> None:
    becomes(lambda g: simplify(decompose_vector_products(g)), """
        x = input()  # float32[2, 30]
        y = input()  # int8[8, 30]
        w = cast(y, dtype=float32)  # float32[8, 30]
        v = contract(x, w, spec='ij,kj->ik')  # float32[2, 8]
        return v""", """
        x = input()  # float32[2, 30]
        y = input()  # int8[8, 30]
        v2 = reshape(x, shape=(2, 1, 30))  # float32[2, 1, 30]
        v3 = broadcast_to(v2, shape=(2, 8, 30))  # float32[2, 8, 30]
        v4 = cast(y, dtype=float32)  # float32[8, 30]
        v5 = reshape(v4, shape=(1, 8, 30))  # float32[1, 8, 30]
        v6 = multiply(v3, v5)  # float32[2, 8, 30]
        v7 = sum(v6, axis=(2,), keepdims=False)  # float32[2, 8]
        return v7""")


def test_a_product_of_matrices_stays() -> None:
    text = """
        x = input()  # float32[5, 3]
        y = input()  # float32[3, 4]
        v2 = contract(x, y, spec='ij,jk->ik')  # float32[5, 4]
        return v2"""
    becomes(decompose_vector_products, text, text)


@pytest.mark.parametrize(("spec", "shapes"), [
    ("ij,j->i", ((5, 3), (3,))), ("ij,jk->ik", ((5, 0), (0, 4))), ("i,j->ij", ((5,), (4,))),
    ("i,i->", ((6,), (6,))), ("ij,jk->ik", ((1, 3), (3, 4))), ("ij,jk->ik", ((5, 1), (1, 4))),
    ("aij,aj->ai", ((2, 3, 4), (2, 4))), ("ij,ij->ji", ((3, 4), (3, 4))),
    ("ij,jk->ki", ((0, 3), (3, 2)))])
def test_opened_products_are_products(spec: str, shapes: Any) -> None:
    made = Nodes()
    nodes = [made.input(f"x{i}", TensorType(s, F32)) for i, s in enumerate(shapes)]
    graph = Graph(tuple(nodes), (made.apply("contract", nodes, {"spec": spec}),))
    opened = verify(decompose_vector_products(graph), "opening")
    assert all(n.op != "contract" for n in opened.nodes())
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s).astype(F32) for s in shapes]
    (got,) = evaluate(opened, arrays)
    np.testing.assert_allclose(got, np.einsum(spec, *arrays), 1e-5, 1e-6)


# ---- checks
def test_checks_are_taken_out_and_kept_aside() -> None:
    graph, checks = extract_checks(parse("""
        i = input()  # int64[4]
        j = add(i, int64(1))  # int64[4]
        a = check_index(i, size=5, what='rows')  # int64[4]
        b = check_index(j, size=6, what='rows')  # int64[4]
        c = multiply(a, b)  # int64[4]
        return c"""))
    assert to_text(graph) == lines("""
        i = input()  # int64[4]
        v1 = add(i, int64(1))  # int64[4]
        v2 = multiply(i, v1)  # int64[4]
        return v2, i, v1""")
    assert sorted(checks) == [BoundsCheck(1, 5, "rows"), BoundsCheck(2, 6, "rows")]


def checks_of(index: str) -> list[tuple[str, int, int]]:
    """What is looked at of rows taken by an index made of x: its op, and its lowest and size."""
    graph, checks = extract_checks(parse(f"""
        t = input()  # float32[5, 2]
        x = input()  # int64[3]
        low = less(x, int64(0))  # bool[3]
        more = add(x, int64(5))  # int64[3]
        {index}
        r = take(t, i, axis=0)  # float32[3, 2]
        return r"""))
    return [(graph.outputs[c.output].op, c.low, c.size) for c in checks]


def test_of_an_index_that_may_count_from_the_end_the_index_itself_is_looked_at() -> None:
    assert checks_of("i = where(low, more, x)  # int64[3]") == [("input", -5, 5)]
    assert checks_of("""w = where(low, more, x)  # int64[3]
        i = alias(w)  # int64[3]""") == [("input", -5, 5)]


@pytest.mark.parametrize("index", [
    "i = where(low, x, more)  # int64[3]",  # the other way round
    "i = where(low, more, more)  # int64[3]",
    """other = add(x, int64(6))  # int64[3]
        i = where(low, other, x)  # int64[3]""",  # of an axis of another size
    """one = less(x, int64(1))  # bool[3]
        i = where(one, more, x)  # int64[3]"""])
def test_of_what_only_looks_like_it_the_value_is_looked_at(index: str) -> None:
    assert checks_of(index) == [("where", 0, 5)]


@pytest.mark.parametrize(("size", "looked"), [(5, []), (6, [("take", 0, 5)])])
def test_an_index_that_counts_an_axis_is_not_looked_at(size: int, looked: Any) -> None:
    found = checks_of(f"""n = iota(shape=({size},), axis=0, dtype=int64)  # int64[{size}]
        j = alias(x)  # int64[3]
        i = take(n, j, axis=0)  # int64[3]""")
    assert [c for c in found if c[0] != "input"] == looked


@pytest.mark.parametrize(("made", "looked"), [
    ("argsort(f, axis=0, count=3, descending=False)", []),
    ("argmax(m, axis=1)", []), ("true_indices(five, size=3)", []),
    ("true_indices(six, size=3)", ["true_indices"])])
def test_places_among_the_elements_of_an_axis_are_not_looked_at(made: str, looked: Any) -> None:
    found = checks_of(f"""f = input()  # float32[5]
        m = input()  # float32[3, 5]
        five = input()  # bool[5]
        six = input()  # bool[2, 3]
        i = {made}  # int64[3]""")
    assert [op for op, _, _ in found] == looked


# ---- verify
def test_a_malformed_graph_is_named_with_its_pass() -> None:
    wrong = parse("""
        x = input()  # float32[2, 3]
        v = sum(x, axis=(1,), keepdims=False)  # float32[3]
        return v""")
    says = r"after my pass: sum has type float32\[3\], its rule gives float32\[2\]"
    with pytest.raises(fw.GraphError, match=says):
        verify(wrong, "my pass")


def test_verify_names_operands_that_do_not_fit() -> None:
    wrong = parse("""
        x = input()  # float32[2]
        y = input()  # float32[3]
        v = add(x, y)  # float32[3]
        return v""")
    with pytest.raises(fw.GraphError, match="after p: add does not accept its inputs: add: shapes"):
        verify(wrong, "p")


def test_verify_names_an_unknown_op_and_a_lost_input() -> None:
    made = Nodes()
    x = made.input("x", TensorType((2,), F32))
    with pytest.raises(fw.GraphError, match="unknown op 'frobnicate'"):
        verify(Graph((x,), (made.make("frobnicate", [x], {}, x.type),)), "p")
    with pytest.raises(fw.GraphError, match="input 'x' is not among the graph's inputs"):
        verify(Graph((), (x,)), "p")


def test_verify_refuses_an_impossible_donation() -> None:
    made = Nodes()
    x = made.input("x", TensorType((2,), F32))
    y = made.apply("sum", [x], {"axis": (0,), "keepdims": False})
    with pytest.raises(fw.GraphError, match="output 0 cannot take the memory of input 0"):
        verify(Graph((x,), (y,), {0: 0}), "p")


def test_the_runner_checks_after_each_pass() -> None:
    def breaks(graph: Graph) -> Graph:
        made = Nodes()
        out = graph.outputs[0]
        return Graph(graph.inputs, (made.make("exp", [out], {}, TensorType((9,), F32)),))

    with pytest.raises(fw.GraphError, match="after breaks: exp has type"):
        pass_manager.run(parse("x = input()  # float32[2]\nreturn x"), [simplify, breaks, simplify])


# ---- the graph
def test_equal_nodes_are_one_and_others_are_not() -> None:
    made = Nodes()
    x = made.input("x", TensorType((2,), F32))
    same = [made.apply("multiply", [x, made.const(2.0, F32)], {}) for _ in range(2)]
    assert same[0] is same[1]
    numbers = [made.const(v, d) for v, d in ((0.0, F32), (-0.0, F32), (0, np.dtype("int64")),
                                             (False, np.dtype("bool")), (0.0, np.dtype("float64")))]
    assert len(set(numbers)) == 5
    assert made.const(float("nan"), F32) is made.const(float("nan"), F32)


def test_a_graph_deeper_than_pythons_stack() -> None:
    made = Nodes()
    node = first = made.input("x", TensorType((), F32))
    for _ in range(20000):
        node = made.apply("negative", [node], {})
    assert len(topological([node])) == 20001
    assert simplify(Graph((first,), (node,))).outputs[0].op == "input"


# ---- random graphs keep their values
UNARY = ["negative", "exp", "tanh", "abs", "floor", "alias", "square", "softmax", "sum", "max",
         "reshape", "permute_dims", "broadcast_to", "cast", "isnan"]
BINARY = ["add", "subtract", "multiply", "divide", "maximum", "where", "contract"]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, float("inf"), float("nan")]


def extended(data: Any, made: Nodes, pool: list[Node]) -> Node:
    """A node more, of a random op over the nodes that are there."""
    op = data.draw(st.sampled_from(UNARY + BINARY))
    x = data.draw(st.sampled_from(pool))
    ndim, size = len(x.type.shape), x.type.size
    if op in UNARY:
        axis = data.draw(st.integers(0, max(0, ndim - 1)))
        params: dict[str, Any] = {
            "softmax": {"axis": axis},
            "sum": {"axis": (axis,), "keepdims": data.draw(st.booleans())},
            "max": {"axis": (axis,), "keepdims": True}, "reshape": {"shape": (size, 1)},
            "permute_dims": {"axes": tuple(data.draw(st.permutations(range(ndim))))},
            "broadcast_to": {"shape": (2, *x.type.shape)}, "cast": {"dtype": F32}}.get(op, {})
        if op == "isnan":
            return made.apply("cast", [made.apply(op, [x], {})], {"dtype": F32})
        if (ndim == 0 and op in ("softmax", "sum", "max")) or (op == "broadcast_to" and ndim > 3):
            return made.apply("negative", [x], {})
        return made.apply(op, [x], params)
    y = data.draw(st.sampled_from([n for n in pool if n.type.shape == x.type.shape]))
    if op == "where":
        return made.apply(op, [made.apply("greater", [x, y], {}), y, x], {})
    if op == "contract":
        if ndim != 2:
            return made.apply("add", [x, y], {})
        spec = data.draw(st.sampled_from(["ij,kj->ik", "ij,ij->i", "ij,ik->jk"]))
        return made.apply(op, [x, y], {"spec": spec})
    return made.apply(op, [x, y], {})


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_the_pipeline_keeps_values(data: Any) -> None:
    made = Nodes()
    inputs = [made.input(f"x{i}", TensorType(s, F32)) for i, s in enumerate([(2, 3), (2, 3), ()])]
    numbers = data.draw(st.lists(st.sampled_from(SPECIAL), max_size=3))
    pool = [*inputs, *[made.const(v, F32) for v in numbers]]
    pool += [made.apply("full", [], {"shape": (2, 3), "value": v, "dtype": F32}) for v in (1.0, 0)]
    for _ in range(data.draw(st.integers(1, 8))):
        pool.append(extended(data, made, pool))
    graph = Graph(tuple(inputs), (pool[-1], data.draw(st.sampled_from(pool))))
    rng = np.random.default_rng(0)
    arrays = [np.asarray(rng.choice([*SPECIAL, 3.7, -0.2], n.type.shape), F32) for n in inputs]
    with np.errstate(all="ignore"):
        expected = evaluate(graph, arrays)
        after = pass_manager.run(graph, passes_for(Machine()))
        for got, want in zip(evaluate(after, arrays), expected):
            assert (got.shape, got.dtype) == (want.shape, want.dtype)
            np.testing.assert_allclose(got, want, 1e-5, 1e-6)
    assert len(after.nodes()) == len({id(n) for n in after.nodes()})
    assert to_text(parse(to_text(after))) == to_text(after)
