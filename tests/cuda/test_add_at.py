"""Rows added at places known only at run time, on a GPU: the numbers of `numpy.add.at`, to the last
bit the same in whichever order threads come."""

from __future__ import annotations

import numpy as np
import pytest
from compiled_for_cuda import compile_on, program_of
from device_runs import assert_bits, bits, ran, resources
from emulated import EmulatedDevice
from oracle import recorded

import fusewire as fw
from fusewire.capture.graph.graph import Graph, Nodes
from fusewire.capture.graph.graph_builder import build
from fusewire.codegen.cuda.program import CUDA_LOWERING
from fusewire.codegen.partition.hybrid_executable import compile_hybrid
from fusewire.eager.arrays.shapes import TensorType
from fusewire.eager.ops.shape.take import add_at

LONG = 150  # rows of one place that fill a piece, wherever they begin


def drawn(*shape: int, dtype: str = "float32") -> fw.Tensor:
    found = np.random.default_rng(len(shape)).standard_normal(shape) * 50
    return fw.from_numpy(found.astype(dtype))


def places(*shape: int, below: int, dtype: str = "int64") -> fw.Tensor:
    return fw.from_numpy(np.random.default_rng(1).integers(0, below, shape).astype(dtype))


def one_by_one(values: fw.Tensor, i: fw.Tensor, size: int, axis: int = 0) -> np.ndarray:
    """Zeros to which NumPy adds one row after the other; floats of 16 bits in float32."""
    v, at = values.numpy(), i.numpy()
    work = np.float32 if v.dtype == np.float16 else v.dtype
    out = np.zeros((*v.shape[:axis], size, *v.shape[axis + at.ndim:]), work)
    with np.errstate(invalid="ignore"):
        np.add.at(out, (*[slice(None)] * axis, at), v.astype(work))
    return out.astype(v.dtype)


def assert_added(values: fw.Tensor, i: fw.Tensor, size: int, axis: int = 0, exact: bool = True
                 ) -> None:
    """The sums in several orders of threads, which have to be equal, are NumPy's."""
    (got,), _ = ran(lambda v, i: add_at(v, i, size, axis), values, i, interpret=values.size < 999)
    wanted = one_by_one(values, i, size, axis)
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
    if exact:
        np.testing.assert_array_equal(bits(got), bits(wanted))
    else:
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("count", [0, 1, 5, 32, 33, 100, 127])
@pytest.mark.parametrize("below", [1, 9])
def test_rows_are_added_in_the_order_in_which_they_come(count: int, below: int) -> None:
    """Each sum is what one row after the other gives, where none fill a piece of 64."""
    assert_added(drawn(count, 3), places(count, below=below), below)


@pytest.mark.parametrize("size", [1, 3, 700])
@pytest.mark.parametrize("count", [128, 300, 1100])
def test_many_rows(count: int, size: int) -> None:
    assert_added(drawn(count, 2), places(count, below=size), size, exact=size == 700)


@pytest.mark.parametrize("before", [0, 1, 63, 64, 65, 130])
def test_a_place_of_many_rows_may_begin_anywhere_in_a_piece(before: int) -> None:
    """Whole numbers, of which every sum is exact, tell that each row is added once."""
    at = np.repeat([0, 2, 3], [before, LONG, 7])
    values = np.arange(2 * at.size, dtype=np.float32).reshape(at.size, 2)
    mixed = np.random.default_rng(before).permutation(at.size)
    assert_added(fw.from_numpy(values), fw.from_numpy(at[mixed]), 5)


@pytest.mark.parametrize(("values", "at", "axis"), [
    ((6,), (6,), 0), ((2, 6), (6,), 1), ((2, 4, 5, 3), (4, 5), 1), ((3,), (), 0), ((2, 3), (), 1),
    ((2, 40), (40,), 1), ((3, 6, 8, 2), (6, 8), 1), ((1, 200, 1), (200,), 1), ((2, 0, 3), (0,), 1),
    ((40, 0), (40,), 0), ((40, 1030), (40,), 0),
])
def test_shapes_and_axes(values: tuple[int, ...], at: tuple[int, ...], axis: int) -> None:
    assert_added(drawn(*values), places(*at, below=4), 4, axis, exact=values != (1, 200, 1))


@pytest.mark.parametrize("dtype", ["float64", "float16", "int64", "int8", "uint16", "uint64",
                                   "bool"])
@pytest.mark.parametrize("count", [9, 60, 200])
def test_dtypes(count: int, dtype: str) -> None:
    """Integers that do not fit wrap around, of bools it is whether there was any."""
    values = np.random.default_rng(3).integers(0, 2 if dtype == "bool" else 120, (count, 2))
    assert_added(fw.from_numpy(values.astype(dtype)), places(count, below=3), 3)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "uint64"])
def test_dtypes_of_places(dtype: str) -> None:
    assert_added(drawn(70, 2), places(70, below=200, dtype=dtype), 200)


def test_zeros_without_rows_are_positive_and_nan_stays_where_it_is() -> None:
    values = np.array([[-0.0], [np.nan], [np.inf], [-np.inf], [1.0]], np.float32)
    assert_added(fw.from_numpy(values), fw.tensor([4, 1, 2, 2, 0]), 6)


@pytest.mark.parametrize("count", [5, 200])
def test_of_what_is_computed(count: int) -> None:
    """Values and places are computed where they are read, and the sums are read by others."""
    def sums(x: fw.Tensor, i: fw.Tensor) -> list[fw.Tensor]:
        out = add_at(x.T * 2.0, (i * 3) % 7, 7)
        return [out, out + 1.0, x + 1.0, add_at(x.T, (i * 3) % 7, 7)]

    whole = fw.from_numpy(np.arange(2.0 * count, dtype=np.float32).reshape(2, count))
    assert_bits(sums, whole, places(count, below=50), interpret=False)


def test_gradients_of_an_embedding() -> None:
    def gradients(w: fw.Tensor, i: fw.Tensor, u: fw.Tensor) -> list[fw.Tensor]:
        return fw.grad(w[i] * w[0], [w], u)

    w = fw.from_numpy(np.arange(60, dtype=np.float32).reshape(20, 3)).requires_grad_()
    u = fw.from_numpy(np.arange(210.0, dtype=np.float32).reshape(7, 10, 3))
    assert_bits(gradients, w, places(7, 10, below=20), u, interpret=False)


@pytest.mark.parametrize("reduce", ["add", None])
@pytest.mark.parametrize(("x", "i", "axis"), [((5,), (70,), 0), ((3, 4), (2, 6), 1),
                                              ((4, 9, 2), (50, 7, 2), 0), ((3, 2), (0, 2), 0)])
def test_single_elements(x: tuple[int, ...], i: tuple[int, ...], axis: int, reduce: str | None
                         ) -> None:
    """`scatter` is made of `add_at`, or of rows that are written, by places in all of the array."""
    whole = [np.random.default_rng(0).integers(-9, 9, shape) for shape in (x, i)]
    for dtype in ("float32", "float16", "int32", "bool"):
        given, values = (fw.from_numpy(w.astype(dtype)) for w in whole)
        assert_bits(lambda x, i, v: fw.scatter(x, axis, i, v, reduce), given,
                    places(*i, below=x[axis]), values, interpret=False, orders=(0, 7))


@pytest.mark.parametrize("count", [4, 200])
@pytest.mark.parametrize("bad", [-1, 5])
def test_places_out_of_range(count: int, bad: int) -> None:
    at = np.zeros(count, np.int64)
    run = compile_on(recorded(lambda v, i: add_at(v, i, 5), drawn(count), fw.from_numpy(at))[0],
                     EmulatedDevice())
    at[count // 2] = bad
    with pytest.raises(IndexError, match=f"add_at: index {bad} is out of range"):
        run([drawn(count).numpy(), at])


@pytest.mark.parametrize("bad", [-6, 5])
@pytest.mark.parametrize("apart", [False, True])
def test_places_of_single_elements_out_of_range(bad: int, apart: bool) -> None:
    """Whether the kernels look at them, or what is around a part of a graph."""
    x, at, values = drawn(5, 2), np.array([[0], [-5], [4]]), drawn(3, 1)
    graph = recorded(lambda x, i, v: fw.scatter(x, 0, i, v, "add"), x, fw.from_numpy(at), values)[0]
    run = compile_hybrid(graph, lambda part: compile_on(part.graph, EmulatedDevice(), False),
                         lambda device: CUDA_LOWERING) \
        if apart else compile_on(graph, EmulatedDevice())
    run([x.numpy(), at, values.numpy()])
    at[2] = bad
    with pytest.raises(IndexError, match=f"scatter: index {bad} is out of range"):
        run([x.numpy(), at, values.numpy()])


@pytest.mark.parametrize(("count", "size", "width", "teams"), [
    (32, 1000, 64, [250]),                       # a thread for each element
    (100, 1000, 64, [1, 4, 250]),                # the order, begins
    (8192, 50_304, 768, [4, 32, 32, 197, 384, 150_912]),  # pieces of 64 as well
])
def test_how_many_teams_there_are(count: int, size: int, width: int, teams: list[int]) -> None:
    def sums(v: fw.Tensor, i: fw.Tensor) -> fw.Tensor:
        return add_at(v, i, size)

    nodes = Nodes()
    given = (nodes.input("v", TensorType((count, width), np.dtype("float32"))),
             nodes.input("i", TensorType((count,), np.dtype("int64"))))
    made = program_of(Graph(given, (build(nodes, sums, given, {}),)))
    kernels = [k for s in made.steps for k in made.module.functions[s.function].kernels]
    assert [k.tasks for k in kernels] == teams
    assert made.arena < 60 * count + 9 * size + 4 * width * count // 50  # none of size by count


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_nothing_is_spilled(arch: str) -> None:
    for count in (20, 100, 300):
        for dtype in ("float32", "float64", "float16"):
            taken = resources(lambda v, i: add_at(v, i, 40), drawn(count, 5, dtype=dtype),
                              places(count, below=40), arch=arch)
            for each in taken.values():
                assert (each.stack, each.spill_stores, each.spill_loads) == (0, 0, 0)
