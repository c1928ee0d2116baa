"""Sizes that callers say: a program for all of them, programs for some, and conditions on them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from c_programs import HERE, STRICT, called, check, check_call, command, compiled
from library_models import model

import fusewire as fw

pytestmark = pytest.mark.skipif(bool(HERE.missing), reason=f"not here: {HERE.missing}")

BATCH = {"x": {0: "batch"}}


@pytest.mark.parametrize("name", ["perceptron", "block"])
def test_one_program_is_for_every_batch(name: str, tmp_path: Path) -> None:
    made, (x,) = model(name)
    built = fw.aot.build(made, (x,), tmp_path / "model", dynamic_shapes=BATCH,
                         max_sizes={"batch": 9}, library=False)
    assert built.sizes == ("for batch from 1 to 9",)
    program = compiled("model", tmp_path)
    for batch in (1, 2, 3, 8, 9):
        check_call(made, (fw.randn(batch, *x.shape[1:]),), program, "w", sizes=[batch])


def test_several_sizes_and_results_that_depend_on_them(tmp_path: Path) -> None:
    def fn(x: fw.Tensor, y: fw.Tensor) -> tuple[fw.Tensor, ...]:
        return x @ y, (x * 2).reshape(-1, 3), x.sum(0)

    spec = {"x": {0: "rows"}, "y": {1: "columns"}}
    fw.aot.build(fn, (fw.randn(4, 6), fw.randn(6, 5)), tmp_path / "model", dynamic_shapes=spec,
                 library=False)
    program = compiled("model", tmp_path)
    for rows, columns in ((4, 5), (1, 1), (64, 3), (7, 64)):
        args = fw.randn(rows, 6), fw.randn(6, columns)
        check_call(fn, args, program, sizes=[rows, columns])


def test_examples_get_code_of_their_own(tmp_path: Path) -> None:
    made, (x,) = model("perceptron")
    built = fw.aot.build(made, (x,), tmp_path / "model", dynamic_shapes=BATCH, library=False,
                         examples=[(fw.randn(1, 64),), (fw.randn(16, 64),)])
    assert built.sizes == ("for batch = 1", "for batch = 16", "for batch from 1 to 64")
    program = compiled("model", tmp_path)
    for batch in (1, 2, 16, 64):
        check_call(made, (fw.randn(batch, 64),), program, sizes=[batch])


def test_where_no_code_is_for_all_sizes_that_of_examples_is_left(tmp_path: Path) -> None:
    def fn(x: fw.Tensor) -> fw.Tensor:
        return fw.argsort(x, axis=0) + 1

    with pytest.raises(fw.ExportError, match=r"no code for all sizes.*test_library_sizes\.py"):
        fw.aot.build(fn, (fw.randn(4, 3),), tmp_path / "model", dynamic_shapes=BATCH)
    built = fw.aot.build(fn, (fw.randn(4, 3),), tmp_path / "model", dynamic_shapes=BATCH,
                         examples=[(fw.randn(5, 3),), (fw.randn(2, 3),)], library=False)
    assert built.sizes == ("for batch = 5", "for batch = 2") and "only for" in built.notes[0]
    program = compiled("model", tmp_path)
    check_call(fn, (fw.randn(5, 3),), program, sizes=[5])
    with pytest.raises(AssertionError, match="has no program"):
        check_call(fn, (fw.randn(4, 3),), program, sizes=[4])


def test_sizes_for_which_the_recording_is_not_valid_are_refused(tmp_path: Path) -> None:
    def fn(x: fw.Tensor) -> fw.Tensor:
        return x * 2 if x.shape[0] > 4 else x * 3

    built = fw.aot.build(fn, (fw.randn(8, 3),), tmp_path / "model", dynamic_shapes=BATCH,
                         max_sizes={"batch": 20}, library=False)
    assert built.sizes == ("for batch from 5 to 20",)
    program = compiled("model", tmp_path)
    check_call(fn, (fw.randn(5, 3),), program, sizes=[5])
    with pytest.raises(AssertionError, match="a size is less"):
        check_call(fn, (fw.randn(4, 3),), program, sizes=[4])
    with pytest.raises(fw.ExportError, match="the example with batch = 1 does not"):
        fw.aot.build(lambda x: x * 2 if x.shape[0] != 1 else x, (fw.randn(8, 3),),
                     tmp_path / "model", dynamic_shapes=BATCH, examples=[(fw.randn(1, 3),)])


@pytest.mark.parametrize(("options", "what"), [
    ({"max_sizes": {"rows": 3}}, "no dynamic axis has this name"),
    ({"max_sizes": {"batch": 3}}, "the maximum of batch is 3, and the example has 4"),
])
def test_largest_sizes_that_make_no_sense(options: Any, what: str, tmp_path: Path) -> None:
    with pytest.raises(fw.ExportError, match=re.escape(what)):
        fw.aot.build(lambda x: x + 1, (fw.randn(4),), tmp_path / "model", dynamic_shapes=BATCH,
                     **options)


def test_the_fast_path_takes_sizes(tmp_path: Path) -> None:
    fw.aot.build(lambda x: fw.concat([x, x]), (fw.randn(4),), tmp_path / "model",
                 dynamic_shapes={"x": {0: "class"}}, examples=[(fw.randn(4),)], library=False)
    (tmp_path / "uses.c").write_text("""
        #include "model.h"
        int main(void) {
          float x[4] = {1, 2, 3, 4}, y[8];
          int code = model_call(4, x, y);
          return code != FUSEWIRE_OK ? code : y[7] == 4.0f ? 0 : 99;
        }""")
    command("cc", *STRICT, "uses.c", "model.o", "-o", "uses", folder=tmp_path)
    command("./uses", folder=tmp_path)


def test_indices_are_checked_at_any_size(tmp_path: Path) -> None:
    table = fw.randn(5, 3)

    def fn(index: fw.Tensor) -> fw.Tensor:
        return table[index] * 2

    check(fn, (fw.tensor([0, 4, 2]),), tmp_path, sizes=[3], dynamic_shapes={"index": {0: "n"}})
    program = tmp_path / "with_o"
    check_call(fn, (fw.tensor([-1, 1]),), program, sizes=[2])
    with pytest.raises(AssertionError, match="an index is out of range"):
        called(program, [fw.tensor([1, 5]).numpy()], [], sizes=[2])


def test_indices_that_are_computed_are_checked_too(tmp_path: Path) -> None:
    table = fw.randn(5, 3)

    def fn(index: fw.Tensor) -> tuple[fw.Tensor, ...]:
        places = index * 2 - 1
        return table[places] * 2, index + 1

    check(fn, (fw.tensor([0, 1, 2]),), tmp_path, sizes=[3], dynamic_shapes={"index": {0: "n"}})
    program = tmp_path / "with_o"
    for wrong in ([0, 3], [-3, 1], [1 << 40, 1]):
        with pytest.raises(AssertionError, match="an index is out of range"):
            called(program, [fw.tensor(wrong).numpy()], [], sizes=[2])
