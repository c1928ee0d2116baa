"""Products with a matrix of few bits: sums of whole numbers, next to the exact product."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from loop_kernels import TARGETS
from oracle import interpreted, recorded

import fusewire as fw
from fusewire.codegen.compile import compile_graph, lower_graph
from fusewire.codegen.ir.target_info import Machine
from fusewire.codegen.runtime.target import host, named
from fusewire.eager.ops.products.grouped_product import grouped_matrix, grouped_product

DOT = Machine(dot8=True)
ROUNDING = 2.0**-22  # of an element of a row, beside the largest one: half of a step
FLOATS = 2.0**-20  # of sums of floats, beside the sum of magnitudes


@dataclass(frozen=True)
class Case:
    """Sizes of a product: `groups` of `group` inputs."""

    rows: int
    outputs: int
    groups: int
    group: int
    bits: int
    dtype: str = "float32"

    def inputs(self, seed: int = 0) -> tuple[fw.Tensor, ...]:
        """Rows whose magnitudes differ, codes with both ends, scales, and least numbers."""
        rng = np.random.default_rng(seed)
        inputs = self.groups * self.group
        x = rng.standard_normal((self.rows, inputs)) * 10.0 ** rng.integers(-3, 4, (self.rows, 1))
        codes = rng.integers(0, 256, (self.outputs, inputs * self.bits // 8)).astype(np.uint8)
        codes.flat[0], codes.flat[-1] = 0, 255
        scale, least = (rng.standard_normal((self.outputs, self.groups)).astype(np.float32)
                        for _ in range(2))
        rows = fw.Tensor(x.astype(np.float32)).astype(getattr(fw, self.dtype))
        return rows, fw.Tensor(codes), fw.Tensor(scale), fw.Tensor(least)

    def function(self) -> Any:
        return lambda *inputs: grouped_product(*inputs, bits=self.bits)

    def check(self, found: Any, inputs: tuple[fw.Tensor, ...]) -> None:
        """Asserts that each result is as near to the exact one as the docs say."""
        x = inputs[0].astype(fw.float64).numpy()
        codes, scale, least = (t.numpy().astype(np.float64) for t in inputs[1:])
        if self.bits == 4:
            whole = inputs[1].numpy()
            codes = np.concatenate([whole & 15, whole >> 4], 1).astype(np.float64)
        scale, least = (np.repeat(t, self.group, 1) for t in (scale, least))
        matrix, largest = codes * scale + least, abs(codes * scale) + abs(least)
        bound = ROUNDING * abs(x).max(1)[:, None] * abs(matrix).sum(1) + FLOATS * (
            abs(x) @ largest.T)
        wanted = x @ matrix.T
        eps = {"float32": 0, "bfloat16": 2**-8, "float16": 2**-11}[self.dtype]
        error = abs(np.asarray(found).astype(np.float64).reshape(wanted.shape) - wanted)
        # Without the instruction, the matrix is rounded to the dtype of x, and so is the result.
        bound += eps * (abs(x) @ abs(matrix).T)
        assert (error <= bound).all(), (error / bound).max()


CASES = {
    "a vector": Case(1, 33, 2, 64, 4), "a vector, 8 bits": Case(1, 33, 2, 64, 8),
    "one output": Case(1, 1, 2, 16, 4), "an odd number of groups": Case(2, 5, 3, 32, 8),
    "groups of 16": Case(3, 7, 10, 16, 4), "groups of 48": Case(2, 7, 6, 48, 4),
    "groups of 128": Case(4, 9, 2, 128, 4), "groups of 256": Case(1, 9, 3, 256, 8),
    "more groups than lanes": Case(2, 4, 38, 32, 4), "as many groups": Case(1, 4, 16, 64, 8),
    "five rows": Case(5, 6, 4, 64, 4), "nine rows": Case(9, 6, 4, 64, 8),
    "sixteen rows": Case(16, 40, 2, 64, 4), "many outputs": Case(2, 700, 2, 64, 4),
    "bfloat16": Case(2, 9, 2, 64, 4, "bfloat16"),
    "float16": Case(1, 9, 3, 32, 8, "float16"),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", CASES)
def test_results_are_close_to_float64(name: str, target: str) -> None:
    case = CASES[name]
    if case.dtype == "float16":  # has no numbers beyond 65,504
        inputs = tuple(t * 2**-8 if n == 0 else t for n, t in enumerate(case.inputs()))
    else:
        inputs = case.inputs()
    graph, given = recorded(case.function(), *inputs)
    case.check(compile_graph(graph, named(target))(list(given))[0], inputs)


@pytest.mark.parametrize("machine", [DOT, Machine(32, 16, 1, dot8=True)])
@pytest.mark.parametrize("name", [n for n, c in CASES.items() if c.outputs < 40
                                  and c.dtype == "float32"])
def test_the_kernels_mean_the_same_to_the_interpreter(name: str, machine: Machine) -> None:
    case = CASES[name]
    graph, given = recorded(case.function(), *case.inputs())
    case.check(interpreted(graph, given, machine)[0], case.inputs())


def kernels(case: Case, machine: Machine) -> list[str]:
    graph, _ = recorded(case.function(), *case.inputs())
    return [x.kernel.name.split("_", 1)[1] for x in lower_graph(graph, machine)[1]]


@pytest.mark.parametrize("name", CASES)
def test_the_matrix_is_read_in_its_few_bits(name: str) -> None:
    assert kernels(CASES[name], DOT) == ["grouped_product_digits", "grouped_product"]


@pytest.mark.parametrize(("case", "machine"), [
    (Case(1, 4, 2, 64, 4), Machine()), (Case(17, 4, 2, 64, 4), DOT), (Case(1, 4, 4, 8, 4), DOT),
    (Case(1, 4, 2, 18, 4), DOT)], ids=["no instruction", "many rows", "short groups", "no words"])
def test_other_products_are_those_of_floats(case: Case, machine: Machine) -> None:
    assert "grouped_product" not in kernels(case, machine)


def test_a_row_with_inf_or_nan_gives_nan_and_a_row_of_zeros_gives_zeros() -> None:
    case = Case(4, 3, 2, 64, 8)
    x, *matrix = case.inputs()
    rows = x.numpy().copy()
    rows[0], rows[1, 5], rows[2, 7] = 0, np.inf, np.nan
    graph, given = recorded(case.function(), fw.Tensor(rows), *matrix)
    for found in (interpreted(graph, given, DOT)[0], compile_graph(graph, host())(list(given))[0]):
        found = np.asarray(found).reshape(4, 3)
        assert (found[0] == 0).all() and np.isfinite(found[3]).all()
        assert not np.isfinite(found[1]).any() and np.isnan(found[2]).all()


def test_tiny_and_huge_rows_keep_their_digits() -> None:
    case = Case(2, 3, 2, 64, 4)
    x, *matrix = case.inputs()
    rows = np.abs(x.numpy()) / np.abs(x.numpy()).max(1, keepdims=True) * [[1e-25], [1e30]]
    inputs = (fw.Tensor(rows.astype(np.float32)), *matrix)
    graph, given = recorded(case.function(), *inputs)
    case.check(interpreted(graph, given, DOT)[0], inputs)
    case.check(compile_graph(graph, host())(list(given))[0], inputs)


def test_the_matrix_is_what_its_codes_stand_for() -> None:
    _, codes, scale, least = Case(1, 1, 2, 2, 4).inputs()
    low, high = codes.numpy()[0] & 15, codes.numpy()[0] >> 4
    wanted = np.stack([low, high]) * scale.numpy().T + least.numpy().T
    np.testing.assert_allclose(grouped_matrix(codes, scale, least, 4).numpy()[0], wanted.ravel(),
                               rtol=1e-6)
