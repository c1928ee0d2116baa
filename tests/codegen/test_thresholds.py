"""Both sides of every size from which on other code runs: eager native code, compiled code and
gradients give what NumPy gives, for operands of every layout and size.

Most tests lower these sizes (`thresholds.py`), so that small arrays take every path; some have
arrays of the true sizes. All rows and more seeds: `FUSEWIRE_TEST_WHOLE=1 pytest ...`.
"""

from __future__ import annotations

import ast
import contextlib
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from layers.every import LAYERS, Layer
from layers.row import scalar
from oracle import assert_same
from row_programs import TREES
from samples import ROWS, Row
from sampling import WHOLE, sample
from thresholds import LOWERED, by_numpy, laid_out, lower, repeated, resized

import fusewire as fw
from fusewire.eager.core import dispatch
from fusewire.eager.core.op import OPS

PACKAGE = Path(fw.__file__).parent
SIZED = re.compile("pool|window|fold|conv|attention")  # ops whose params say how large inputs are
SINGULAR = re.compile("svd|eig|solve|inv|cholesky|qr|^lu|det")  # where values do not come again


def case_inputs(row: Row, sizes: Sequence[int] = (1, 37)) -> Iterator[tuple[str, list[Any]]]:
    """The row's inputs in every layout, and some of them in other sizes."""
    makes = row.inputs(np.random.default_rng(0))
    for number, inputs in enumerate(makes):
        for name, arrays in laid_out(inputs):
            yield f"inputs {number}, {name}", arrays
    for inputs in makes[:2] if not (SIZED.search(row.op) or SINGULAR.search(row.op)) else ():
        for name, arrays in resized(inputs, sizes):
            yield f"sizes {name}", arrays


def results(call: Callable[..., Any], arrays: Sequence[Any], grad: bool) -> list[Any]:
    """What a call gives, and the gradients of a weighted and of a plain sum of it."""
    xs = [fw.Tensor(a).requires_grad_(grad and a.dtype.kind in "fc") for a in arrays]
    out = call(*xs)
    if not out.requires_grad:
        return [out]
    real = fw.real(out) if out.dtype.kind == "c" else out
    weights = fw.linspace(0.5, 1.5, max(real.size, 1), dtype=real.dtype)[:real.size]
    losses = (real * weights.reshape(real.shape)).sum(), real.sum()
    leaves = [x for x in xs if x.requires_grad]
    return [out, *[g for loss in losses for g in
                   fw.grad(loss, leaves, allow_unused=True, retain_graph=True)]]


def assert_agree(got: Any, expected: Any, loose: float, where: str) -> None:
    """Results of two ways to run something: tensors that are the same, or None in both."""
    for a, b in zip(got, expected, strict=True):
        assert (a is None) == (b is None), where
        if b is not None:
            assert_same(a, b, loose, where)


# ---- the table
def thresholds_in(file: Path) -> Iterator[str]:
    """Names of the file's constants that are sizes by their value: a power of two, or many."""
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 \
                and isinstance(node.targets[0], ast.Name) and node.targets[0].id.isupper():
            text = ast.unparse(node.value)
            if re.fullmatch(r"1 << (9|1\d|2[0-4])|4096|8192", text):
                yield node.targets[0].id


def test_every_lowered_size_is_there() -> None:
    for module, names in LOWERED.items():
        text = (PACKAGE / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
        for name in names:
            assert re.search(rf"\b{name}\b", text), f"{module} has no {name}"


NO_PATHS = {
    "codegen/cpu/attention/select.py": {"_MAX_SCRATCH_ELEMENTS": "a limit of memory"},
    "codegen/cpu/attention/panels.py": {"_MAX_STACK_ELEMENTS": "a limit of memory"},
    "codegen/program/prepack.py": {"_MAX_SKIPPED_CALLS": "a number of calls"},
    "codegen/eager_jit/op_compiler.py": {
        "_MAX_ROW_ELEMENTS": "longer rows are NumPy's",
        "_MIN_NUMBERS_COUNTED_PER_CALL": "test_eager_row_blocks.py lowers it",
        "_NUMBERS_BEFORE_COMPILING": "test_eager_row_blocks.py lowers it",
        "_RANDOM_ROW": "random numbers of a row", "_SHORT_RANDOM_ROW": "of a short row"},
    "codegen/program/roofline.py": {"_MIN_BYTES_PER_TRY": "measures the machine"},
    "codegen/runtime/cpython/mutation_watch.py": {"_COUNTER_COUNT": "words of a table"},
    "codegen/control_vm/native_control.py": {"_MAX_UNUSED_RESULT_BYTES": "bytes in vain",
                                             "_MAX_ARENA_BYTES": "bytes of an arena"},
    "codegen/llvm/emit.py": {"_NEAR_BYTES": "which cache is asked for, not what is computed"},
    "codegen/llvm/half.py": {"_SIGN": "a bit", "_QUIET": "a bit"},
    "codegen/runtime/cpython/profile_hook.py": {"_TABLE_WORDS": "words of a table"},
    "codegen/gpu/cost_model.py": {"REGISTERS_PER_PROCESSOR": "a fact about processors"},
    "codegen/gpu/lower.py": {"MIN_SPLIT_ROW": "the tests of CUDA lower it"},
}
"""Constants that look like sizes of arrays, and why they are not lowered."""


def test_every_size_of_the_sources_is_lowered_or_says_why_not() -> None:
    for file in sorted((PACKAGE / "codegen").rglob("*.py")):
        name = file.relative_to(PACKAGE).as_posix()
        if name.startswith("codegen/cuda/"):
            continue
        known = {*LOWERED.get(name[:-3].replace("/", "."), ()), *NO_PATHS.get(name, ())}
        assert set(thresholds_in(file)) <= known, f"{name}: add it to thresholds.LOWERED"


# ---- eager: native code against NumPy
@pytest.mark.parametrize("row", sample(ROWS, 25, seed=2), ids=str)
def test_native_code_takes_operands_of_every_layout_and_size(
    row: Row, monkeypatch: pytest.MonkeyPatch
) -> None:
    lower(monkeypatch, elements=1 if len(str(row)) % 2 else 24)
    for where, arrays in sample(list(case_inputs(row)), 8, seed=len(str(row))):
        with np.errstate(all="ignore"):
            expected = by_numpy(monkeypatch, results, row.call, arrays, row.grad)
            if not isinstance(expected, Exception):
                got = results(row.call, arrays, row.grad)
                assert_agree(got, expected, row.tolerance / 2e-7, where)


@pytest.mark.parametrize("seed", range(200 if WHOLE else 6))
def test_elements_that_stand_everywhere_in_any_operands(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shapes that broadcast, and in each operand any axes along which nothing changes."""
    rng = np.random.default_rng(seed)
    lower(monkeypatch)
    for _ in range(20):
        out = tuple(rng.choice([1, 2, 3, 9], rng.integers(1, 4)))
        call = (fw.add, fw.multiply, fw.maximum, lambda a, b: fw.where(a > 0, a, b),
                lambda a, b: fw.sin(a) - b)[rng.integers(5)]
        arrays = [broadcast(rng, out), broadcast(rng, out)]
        expected = by_numpy(monkeypatch, results, call, arrays, True)
        where = str([(a.shape, a.strides) for a in arrays])
        assert_agree(results(call, arrays, True), expected, 10, where)


def broadcast(rng: np.random.Generator, out: tuple[int, ...]) -> Any:
    """Random numbers that broadcast to a shape: some axes left out, of size 1, or of stride 0."""
    held = tuple(n if rng.random() < 0.5 else 1 for n in out)
    shown = tuple(n if rng.random() < 0.6 else m for n, m in zip(out, held))
    array = np.broadcast_to(rng.standard_normal(held).astype("float32"), shown)
    first = next((i for i, n in enumerate(shown) if n > 1), len(shown))
    return array.reshape(shown[rng.integers(first + 1):])


# ---- layers, eager and compiled
def step_of(row: Layer) -> Callable[..., list[Any]]:
    """A function of a layer's inputs to the sum of what it gives, and all gradients."""
    module, call, options = row.make(), row.call, dict(row.options)
    parameters = list(module.parameters())

    def step(*inputs: fw.Tensor) -> list[Any]:
        out = module(*inputs, **options) if call is None else call(fw, module, *inputs)
        loss = scalar(out)
        if not getattr(loss, "requires_grad", False):
            return [loss]
        leaves = [t for t in (*inputs, *parameters) if t.requires_grad]
        return [loss, *fw.grad(loss, leaves, allow_unused=True)]

    return step


def stepped(row: Layer, arrays: Sequence[Any], compiled: bool = False) -> list[Any]:
    """What such a function of a new layer gives."""
    fw.manual_seed(0)
    step = fw.compile(step_of(row)) if compiled else step_of(row)
    for _ in range(1 + compiled):  # a first call is run eagerly
        fw.manual_seed(1)
        found = step(*[fw.Tensor(a).requires_grad_(a.dtype.kind == "f") for a in arrays])
    return [part if isinstance(part, fw.Tensor) else None for part in found]


@pytest.mark.parametrize("row", sample(LAYERS, 10, seed=3), ids=str)
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_layers_are_the_same_above_every_size(row: Layer, compiled: bool,
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    layouts = list(laid_out(row.arrays()))
    for number in range(2):
        where, arrays = layouts[(len(str(row)) + 3 * number) % len(layouts)]
        with np.errstate(all="ignore"), warnings.catch_warnings(), monkeypatch.context() as patch:
            warnings.simplefilter("ignore")
            expected = by_numpy(patch, stepped, row, arrays)
            if not isinstance(expected, Exception):
                lower(patch, elements=1 if number else 64)
                assert_agree(stepped(row, arrays, compiled), expected, 20 * row.loose, where)


# ---- compiled code
def chosen(row: Row, count: int) -> list[list[Any]]:
    """The inputs of some calls of a row that NumPy takes."""
    found = []
    for _, arrays in sample(list(case_inputs(row)), count, seed=len(str(row))):
        with contextlib.suppress(fw.FusewireError), np.errstate(all="ignore"):
            row.call(*map(fw.Tensor, arrays))
            found.append(arrays)
    return found


# The indices of combinations are constants, and a trace takes those of up to 64 elements.
TRACED = [r for r in ROWS if r not in TREES and not r.label.startswith("combinations")]


@pytest.mark.parametrize("row", sample(TRACED, 18, seed=4), ids=str)
def test_compiled_code_is_the_same_above_every_size(row: Row, monkeypatch: pytest.MonkeyPatch
                                                    ) -> None:
    call, given = row.call, chosen(row, 6)
    cases = [[fw.Tensor(a) for a in arrays] for arrays in given]
    with np.errstate(all="ignore"):
        expected = [call(*xs) for xs in cases]
        lower(monkeypatch)
        compiled = fw.compile(lambda cases: [call(*xs) for xs in cases], fullgraph=True)
        for _ in range(2):
            assert_agree(compiled(cases), expected, row.tolerance / 2e-7, str(row))


# ---- true sizes
MOST_ELEMENTS = 1 << 22  # of an array; others have the size along several axes


def just_around(row: Row, arrays: Sequence[Any]) -> Iterator[list[Any]]:
    """The inputs with one size such that they are just too small for native code, and just not."""
    largest = max(arrays, key=lambda a: a.size, default=np.zeros(0))
    sizes = [n for n in largest.shape if n > 1]
    if sizes and largest.size:
        rest = largest.size // sizes[-1] ** sizes.count(sizes[-1]) * OPS[row.op].passes
        enough = (-(-dispatch.LARGE // rest)) ** (1 / sizes.count(sizes[-1]))
        for size in (int(enough) - 1, int(enough) + 1):
            if all(a.size // sizes[-1] ** (count := a.shape.count(sizes[-1])) * size ** count
                   <= MOST_ELEMENTS for a in arrays):
                yield [repeated(a, sizes[-1], size) for a in arrays]


LONG = [r for r in ROWS if OPS[r.op].kind in ("pointwise", "reduce", "scan", "sort", "composite")
        and not (SIZED.search(r.op) or SINGULAR.search(r.op))]


@pytest.mark.parametrize("row", sample(LONG, 15, seed=5), ids=str)
def test_arrays_just_below_and_above_the_true_sizes(row: Row, monkeypatch: pytest.MonkeyPatch
                                                    ) -> None:
    for arrays in just_around(row, row.inputs(np.random.default_rng(0))[0]):
        with np.errstate(all="ignore"):
            expected = by_numpy(monkeypatch, results, row.call, arrays, row.grad)
            if not isinstance(expected, Exception):
                assert_agree(results(row.call, arrays, row.grad), expected, row.tolerance / 2e-8,
                             str([a.shape for a in arrays]))


def test_a_scalar_broadcast_to_many_elements() -> None:
    found = fw.exp(fw.broadcast_to(fw.asarray(1.0), (400, 400)))
    np.testing.assert_allclose(found.numpy(), np.full((400, 400), np.exp(1.0)), 1e-6)


def test_the_gradient_of_a_sum_goes_back_through_a_compiled_function() -> None:
    x = fw.linspace(-3, 3, 160_000).requires_grad_()
    fw.compile(lambda x: x.sin())(x).sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), np.cos(x.numpy()), 1e-4, 1e-6)


def test_a_column_and_a_row_of_one_element() -> None:
    column = fw.arange(1 << 17).reshape(-1, 1).astype(fw.float32)
    found = column + fw.broadcast_to(fw.asarray(1.0), (5,))
    np.testing.assert_array_equal(found.numpy(), np.repeat(column.numpy() + 1, 5, axis=1))


@pytest.mark.parametrize("size", [99, 100, 400])  # the rows are native code from 100 on
def test_instance_norm_of_images(size: int) -> None:
    layer = fw.nn.InstanceNorm2d(4, affine=True)
    with fw.no_grad():
        layer.weight.copy_(fw.tensor([1.0, 2.0, 3.0, 4.0]))
    x = fw.rand(2, 4, size, 41)
    spread = layer(x).numpy().std((2, 3))
    np.testing.assert_allclose(spread, [[1, 2, 3, 4]] * 2, 1e-3)


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_results_that_are_stored_past_the_caches(more: int) -> None:
    x = np.arange((1 << 22) + more, dtype=np.float32)
    compiled = fw.compile(lambda x: x * 2.0 + 1.0)
    for _ in range(2):
        np.testing.assert_array_equal(compiled(fw.Tensor(x)).numpy(), x * 2 + 1)
