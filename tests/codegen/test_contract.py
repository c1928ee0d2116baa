"""Contractions of all kinds and odd sizes against NumPy in float64, for several processors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracle import assert_same, interpreted, recorded

import fusewire as fw
import fusewire.nn.functional as F
from fusewire.capture.graph.graph import Graph, Nodes
from fusewire.codegen.compile import compile_graph, lower_graph
from fusewire.codegen.cpu.gemm.row_access import _max_rows_per_set
from fusewire.codegen.cpu.prefetch import _lane_loops
from fusewire.codegen.ir import loop_ir
from fusewire.codegen.ir.target_info import Machine
from fusewire.codegen.runtime.target import named
from fusewire.eager.arrays.shapes import TensorType
from fusewire.eager.ops.layers.conv import conv
from fusewire.eager.ops.layers.pool import max_pool
from fusewire.eager.ops.products.contract import parts

TARGETS = ["", "x86-64-v3", "x86-64"]
RELATIVE = {"float32": 1e-6, "float64": 1e-14}

# Every form that matrix products and convolutions have, and those of their gradients.
SPECS = ["ij,jk->ik", "ik,jk->ij", "ij,ik->jk", "aij,ajk->aik", "aik,ajk->aij", "aij,aik->ajk",
         "abxy,abyz->abxz", "aby,yz->abz", "abz,yz->aby", "aby,abz->yz", "ij,j->i", "j,jk->k",
         "i,i->", "i,ij->j", "i,j->ij", "ai,aj->aij", "ab,ab->ab", "ab,ab->", "aij,aj->ai",
         "ncuvxy,fcxy->nfuv", "nfuv,ncuvxy->fcxy", "ncux,fcx->nfu", "ij,kj->ki", "ji,jk->ki"]
SIZES = [1, 2, 3, 7, 16, 17, 31, 33, 64, 127, 130]


def sizes_for(spec: str, rng: np.random.Generator, most: float) -> dict[str, int]:
    """A size for each letter, the work no more than `most` multiplications."""
    letters = sorted(set(spec) - set(",->"))
    while True:
        size = {c: int(rng.choice(SIZES)) for c in letters}
        if np.prod([float(n) for n in size.values()]) <= most:
            return size


def inputs_for(spec: str, size: dict[str, int], dtype: str, rng: np.random.Generator) -> list[Any]:
    return [rng.standard_normal([size[c] for c in part]).astype(dtype) for part in parts(spec)[:2]]


def contraction(spec: str, arrays: list[Any]) -> Graph:
    made = Nodes()
    nodes = [made.input(f"x{i}", TensorType(a.shape, a.dtype)) for i, a in enumerate(arrays)]
    return Graph(tuple(nodes), (made.apply("contract", nodes, {"spec": spec}),))


def check(got: Any, spec: str, arrays: list[Any]) -> None:
    """`got` is the einsum in float64, up to the rounding of sums as long as these."""
    wide = [a.astype(np.float64) for a in arrays]
    expected = np.einsum(spec, *wide)
    size = np.einsum(spec, *map(np.abs, wide))  # rounding errors are relative to this
    assert (got.shape, got.dtype) == (expected.shape, arrays[0].dtype)
    assert (np.abs(got - expected) <= RELATIVE[arrays[0].dtype.name] * (size + 1e-30)).all(), \
        f"{spec} {[a.shape for a in arrays]}: error {np.abs(got - expected).max()}"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("spec", SPECS)
def test_specs(spec: str, dtype: str) -> None:
    rng = np.random.default_rng(len(spec))
    for trial in range(3):
        size = sizes_for(spec, rng, 2e6)
        arrays = inputs_for(spec, size, dtype, rng)
        run = compile_graph(contraction(spec, arrays), named(TARGETS[trial]))
        check(run(list(arrays))[0], spec, arrays)


@pytest.mark.parametrize("spec", SPECS)
def test_loops_of_specs(spec: str) -> None:
    """The interpreter checks every index and every read of a packed block."""
    rng = np.random.default_rng(7)
    size = sizes_for(spec, rng, 1500)
    arrays = inputs_for(spec, size, "float32", rng)
    check(interpreted(contraction(spec, arrays), arrays)[0], spec, arrays)


EDGES = [(1, 1, 1), (1, 130, 17), (127, 1, 33), (2, 3, 1), (7, 31, 1025), (33, 130, 64),
         (17, 16, 513), (64, 127, 31), (130, 64, 1025), (3, 2, 2049), (256, 17, 3), (5, 300, 1024)]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("turned", ["", "x", "y", "xy"])
def test_matrices_of_odd_sizes(turned: str, target: str) -> None:
    rng = np.random.default_rng(1)
    for rows, columns, depth in EDGES:
        spec = f"{'ki' if 'x' in turned else 'ik'},{'jk' if 'y' in turned else 'kj'}->ij"
        arrays = inputs_for(spec, {"i": rows, "j": columns, "k": depth}, "float32", rng)
        run = compile_graph(contraction(spec, arrays), named(target))
        check(run(list(arrays))[0], spec, arrays)


def test_a_product_does_not_depend_on_the_number_of_threads() -> None:
    rng = np.random.default_rng(1)
    arrays = inputs_for("ik,kj->ij", {"i": 150, "j": 140, "k": 1100}, "float32", rng)
    run = compile_graph(contraction("ik,kj->ij", arrays))
    before, results = fw.get_num_threads(), []
    try:
        for count in (1, 2):
            fw.set_num_threads(count)
            results.append(run(list(arrays))[0])
    finally:
        fw.set_num_threads(before)
    np.testing.assert_array_equal(*results)


def test_whole_numbers_are_exact() -> None:
    rng = np.random.default_rng(1)
    for dtype in ("int32", "int64", "uint8"):
        for columns in (19, 1):  # those of a vector are summed in their own dtype as well
            x, y = (rng.integers(0, 50, s).astype(dtype) for s in ((17, 33), (33, columns)))
            got, = compile_graph(contraction("ij,jk->ik", [x, y]))([x, y])
            np.testing.assert_array_equal(got, x @ y)
            assert got.dtype == dtype


def test_nan_and_infinity_stay_in_their_rows() -> None:
    x, y = np.ones((20, 30), np.float32), np.ones((30, 40), np.float32)
    x[3, 4], x[5, 6] = np.nan, np.inf
    (out,) = compile_graph(contraction("ij,jk->ik", [x, y]))([x, y])
    assert np.isnan(out[3]).all() and np.isposinf(out[5]).all()
    assert (np.delete(out, [3, 5], 0) == 30).all()


# ---- products among other operations
def agree(fn: Any, *arrays: Any, target: str = "", loose: float = 2.0) -> None:
    """fn on tensors, compiled for a processor and interpreted, is what it is eager."""
    given = [fw.from_numpy(a) for a in arrays]
    graph, sources = recorded(fn, *given)
    expected = fn(*given)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for out in (compile_graph(graph, named(target))(list(sources)),):
        for got, want in zip(out, expected):
            assert_same(got, want, loose)


def normal(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("sizes", [(17, 33, 5), (64, 64, 64), (3, 130, 1025), (130, 1, 7)])
def test_epilogues_and_prologues(sizes: tuple[int, int, int], target: str) -> None:
    m, n, k = sizes
    x, w, b, r = normal(m, k) * np.float32(k ** -0.5), normal(n, k), normal(n), normal(m, n)

    def layer(x: fw.Tensor, w: fw.Tensor, b: fw.Tensor, r: fw.Tensor) -> fw.Tensor:
        return fw.relu(fw.exp(x * 0.1) @ w.T + b) * 0.5 + r

    def others(x: fw.Tensor, w: fw.Tensor, b: fw.Tensor, r: fw.Tensor) -> tuple[fw.Tensor, ...]:
        return (x @ w.T + b).tanh(), (x @ w.T).sum(axis=1)

    agree(layer, x, w, b, r, target=target, loose=5)
    agree(others, x, w, b, r, target=target, loose=5)


@pytest.mark.parametrize("shape", [(9, 12), (9, 1), (1, 12), (8, 1, 1), (2, 8, 9, 1)])
def test_what_an_epilogue_reads_along_some_axes_only(shape: tuple[int, ...]) -> None:
    """The axes of an image are stepped through as one where everything read allows it."""
    agree(lambda x, w, r: conv(x, w, (1, 1), (1, 1), (0, 0)) * r, normal(2, 3, 10, 12),
          normal(8, 3, 2, 1), normal(*shape), loose=10)


def test_attention() -> None:
    def attention(q: fw.Tensor, k: fw.Tensor, v: fw.Tensor) -> fw.Tensor:
        heads = [t.reshape(2, 9, 3, 8).permute_dims(0, 2, 1, 3) for t in (q, k, v)]
        scores = fw.softmax(heads[0] @ heads[1].mT * 8 ** -0.5, -1)
        return (scores @ heads[2]).permute_dims(0, 2, 1, 3).reshape(2, 9, 24)

    agree(attention, *[normal(2, 9, 24) + i for i in range(3)])


def test_a_product_of_products() -> None:
    agree(lambda a, b, c: (a @ b) @ c + a @ (b @ c), normal(9, 40), normal(40, 20), normal(20, 33))


def test_one_operand_for_two_products() -> None:
    agree(lambda a: (a @ a.T, a.T @ a, a @ a.T @ a), normal(17, 31))


def test_a_broadcast_batch() -> None:
    agree(lambda a, b: a @ b, normal(3, 1, 5, 7), normal(4, 7, 6))


# ---- convolution and pooling, forward and backward
CONVOLUTIONS = [  # x, w, stride, dilation, padding
    ((2, 3, 9), (4, 3, 3), (1,), (1,), (1,)), ((2, 3, 17), (5, 3, 4), (3,), (2,), (2,)),
    ((1, 1, 12, 12), (1, 1, 3, 3), (1, 1), (1, 1), (0, 0)),
    ((2, 3, 8, 9), (4, 3, 3, 2), (2, 1), (1, 1), (1, 0)),
    ((3, 5, 7, 7), (6, 5, 1, 1), (1, 1), (1, 1), (0, 0)),
    ((2, 4, 13, 11), (7, 4, 3, 5), (2, 3), (2, 1), (2, 2)),
    ((4, 16, 14, 14), (17, 16, 3, 3), (1, 1), (1, 1), (1, 1)),
    ((2, 3, 6, 7), (2, 3, 6, 7), (1, 1), (1, 1), (0, 0)),
    ((2, 2, 5, 6, 4), (3, 2, 2, 3, 2), (1, 2, 1), (1, 1, 2), (0, 1, 1))]


@pytest.mark.parametrize("target", ["", "x86-64-v3"])
@pytest.mark.parametrize("case", CONVOLUTIONS, ids=lambda c: f"{c[0]}-{c[1]}")
def test_convolution_and_its_gradients(case: Any, target: str) -> None:
    shape, kernel, *params = case

    def both_ways(x: fw.Tensor, w: fw.Tensor, g: fw.Tensor) -> tuple[fw.Tensor, ...]:
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        out = conv(x, w, *params)
        return (out.detach(), *fw.grad(out, [x, w], g))

    x, w = normal(*shape), normal(*kernel)
    out = conv(fw.from_numpy(x), fw.from_numpy(w), *params)
    agree(both_ways, x, w, normal(*out.shape), target=target, loose=10)


@pytest.mark.parametrize(("kernel", "stride", "dilation", "pad"), [
    ((2, 2), (2, 2), (1, 1), (0, 0)), ((3, 3), (2, 2), (1, 1), (1, 1)),
    ((3, 2), (1, 2), (1, 2), (1, 1)), ((1, 3), (1, 1), (1, 1), (0, 1)),
    ((3, 3), (4, 4), (1, 1), (0, 0))])
def test_pooling_and_its_gradient(kernel: Any, stride: Any, dilation: Any, pad: Any) -> None:
    def both_ways(x: fw.Tensor) -> tuple[fw.Tensor, ...]:
        x = x.detach().requires_grad_()
        out = max_pool(x, kernel, stride, dilation, pad)
        return (out.detach(), *fw.grad(out, x, fw.full_like(out.detach(), 0.5)))

    agree(both_ways, normal(2, 3, 9, 10))


def test_a_small_network_of_images() -> None:
    def loss(x: fw.Tensor, w: fw.Tensor, v: fw.Tensor, b: fw.Tensor) -> tuple[fw.Tensor, ...]:
        leaves = [t.detach().requires_grad_() for t in (w, v, b)]
        w, v, b = leaves
        x = F.max_pool2d(F.relu(F.conv2d(x, w, b, padding=1)), 2)
        out = F.cross_entropy(x.flatten(1) @ v, fw.tensor([1, 0, 2]))
        return (out.detach(), *fw.grad(out, leaves))

    weights = normal(5, 2, 3, 3) * np.float32(0.3), normal(80, 4) * np.float32(0.1), normal(5)
    agree(loss, normal(3, 2, 8, 8), *weights, loose=10)


def test_an_epilogue_reads_others_along_columns_before_an_axis_of_size_one() -> None:
    """The columns are two letters, 3 and 1: they are stepped through as one, which both count."""
    rng = np.random.default_rng(0)
    x, w, u = (fw.tensor(rng.standard_normal(s).astype(np.float32))
               for s in [(3, 6, 5), (6, 3, 1), (3, 3, 5)])

    def moved(x: Any, w: Any, u: Any) -> Any:
        (g,) = fw.grad(F.conv_transpose1d(x, w), [w], u)
        return (w - g * 0.05).detach()

    w.requires_grad = True
    run = fw.compile(moved)
    for _ in range(3):
        assert_same(run(x, w, u), moved(x, w, u))


@pytest.mark.parametrize("kernel, size", [(2, 5), (3, 7), (3, 8)])
def test_windows_side_by_side_that_reach_beyond_the_end(kernel: int, size: int) -> None:
    x = fw.tensor(np.random.default_rng(0).standard_normal((1, 2, size, size)).astype(np.float32))
    x.requires_grad = True

    def gradient(x: Any) -> Any:
        out = F.max_pool2d(x, kernel, ceil_mode=True)
        return fw.grad((out ** 2).sum(), [x])[0]

    run = fw.compile(gradient)
    for _ in range(3):
        assert_same(run(x), gradient(x))


# ---- rows read where they lie
WEIGHTS = fw.from_numpy(np.random.default_rng(1).standard_normal((96, 520)).astype("float32"))
ROWS = {  # of 40 rows of 96, and whether tiles read them where they are
    "plain": (lambda x: x, (40, 96), True),
    "one row": (lambda x: x, (1, 96), True),
    "from inside": (lambda x: x[:, 2:98], (40, 101), True),
    "every other row": (lambda x: x[::2], (80, 96), True),
    "of several axes": (lambda x: x.reshape(5, 8, 96), (40, 96), True),
    "turned": (lambda x: x.T, (96, 40), False),
    "backwards": (lambda x: fw.flip(x, 1), (40, 96), False),
    "every other element": (lambda x: x[:, ::2], (40, 192), False),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", ROWS)
def test_rows_are_read_where_they_lie_side_by_side(case: str, target: str) -> None:
    view, shape, direct = ROWS[case]
    x = fw.from_numpy(np.random.default_rng(0).standard_normal(shape).astype("float32"))
    graph, arrays = recorded(lambda x, w: fw.relu(view(x) @ w) + 1, x, WEIGHTS)
    program = compile_graph(graph, named(target))
    (got,), wide = program(list(arrays)), [a.astype(np.float64) for a in arrays]
    wanted = np.maximum(view(fw.from_numpy(wide[0])).numpy() @ wide[1], 0) + 1
    np.testing.assert_allclose(got, wanted, 1e-4, 1e-4)
    packs = any("rows" in k.name or "rows" in [b.name for b in k.scratch] for k in program.kernels)
    assert packs != direct


def test_rows_that_drive_each_other_out_of_a_cache_are_packed() -> None:
    """Those a power of two apart lie in few sets of it."""
    assert [_max_rows_per_set(4 * pitch, 14) for pitch in (784, 512, 1024, 2048)] == [1, 7, 14, 14]


PIXELS = {  # what is done with the pixels of (2, 6, y, x): whether rows of them are one long row
    "alone": (lambda x, w: F.conv2d(x, w), True),
    "with what each filter has": (
        lambda x, w: fw.relu(F.conv2d(x, w) * w[:, :1, :, 0]), True),
    "with what is stored the same way": (lambda x, w: x[:, :1] + F.conv2d(x, w), True),
    "of every second row": (lambda x, w: F.conv2d(x[:, :, ::2], w), False),
    "with what each row has": (lambda x, w: F.conv2d(x, w) + fw.exp(x[:1, :1, :, :1]), False),
    "turned": (lambda x, w: fw.permute_dims(F.conv2d(x, w), (0, 1, 3, 2)) * 2.0, False),
    "of turned ones": (lambda x, w: F.conv2d(fw.permute_dims(x, (0, 1, 3, 2)), w), False),
}


@pytest.mark.parametrize("size", [(28, 28), (6, 33), (3, 5), (40, 1), (1, 40)])
@pytest.mark.parametrize("case", PIXELS)
def test_pixels_of_a_convolution_by_points(case: str, size: tuple[int, int]) -> None:
    """Where all reads and stores go on from the end of one row of pixels to the next, they are one
    row to the tiles, which fills vectors."""
    function, whole = PIXELS[case]
    x, w = normal(2, 7, *size), normal(6, 7, 1, 1)
    agree(function, x, w)
    graph, _ = recorded(function, fw.from_numpy(x), fw.from_numpy(w))
    _, launches = lower_graph(graph, Machine())
    tiles = [s for k in (launch.kernel for launch in launches) for s in loop_ir.walk(k.body)
             if isinstance(s, loop_ir.For) and s.lanes and any(isinstance(r, loop_ir.For)
                                                               for r in s.body)]
    if size == (28, 28):  # 784: in 24 panels of 32 and one of 16, or panels that end with rows
        assert {s.lanes for s in tiles} == ({32, 16} if whole else {32})


@pytest.mark.parametrize("kernel, stride", [(3, 1), (5, 1), (7, 2), (3, 2)])
def test_a_depthwise_convolution_and_its_activation_are_one_kernel(kernel: int, stride: int
                                                                   ) -> None:
    """With lanes along the image, not along the window."""
    rng = np.random.default_rng(kernel)
    x, w, b = (fw.from_numpy(rng.standard_normal(s).astype("float32"))
               for s in ((2, 24, 19, 17), (24, 1, kernel, kernel), (24,)))

    def layer(x: fw.Tensor, w: fw.Tensor, b: fw.Tensor) -> fw.Tensor:
        return fw.relu(F.conv2d(x, w, b, stride=stride, padding=kernel // 2, groups=24))

    graph, arrays = recorded(layer, x, w, b)
    program = compile_graph(graph)
    assert [k.name for k in program.kernels] == ["k0_sum_relu"]
    assert not any("k" in f.var.name for f in _lane_loops(program.kernels[0].body))
    np.testing.assert_allclose(program(list(arrays))[0], layer(x, w, b).numpy(), 1e-4, 1e-5)
