"""Code for processors that are not here is at least made: for AArch64, on Linux and on macOS."""

from __future__ import annotations

import re
from typing import Any

import llvmlite.binding as llvm
import pytest
from kinds import KINDS, NUMBERS
from sampling import sample

from fusewire.codegen.compile import lower_graph
from fusewire.codegen.cpu_backend import machine_of
from fusewire.codegen.llvm.control_vm import CONTROL_VM
from fusewire.codegen.llvm.row_blocks import RUN
from fusewire.codegen.llvm.step_table import loop_text
from fusewire.codegen.partition.support import why_no_code
from fusewire.codegen.program.native_program import Argument, ProgramStep, program_ir, slot_of
from fusewire.codegen.runtime import object_cache
from fusewire.codegen.runtime.cpython import entry, profile_hook
from fusewire.codegen.runtime.cpython.object_layout import LAYOUT
from fusewire.codegen.runtime.jit import assembly, compile_object
from fusewire.codegen.runtime.target import Target, host
from fusewire.codegen.runtime.thread_pool import parallel_text

ARM = {
    "linux": Target("aarch64-unknown-linux-gnu", "generic", "", 16, True, True),
    "macos": Target("arm64-apple-darwin", "apple-m1", "", 16, True, True),
}
FORMAT = {"linux": b"\x7fELF", "macos": b"\xcf\xfa\xed\xfe"}  # how object files begin
MULTIPLY_ADD = {"float32": r"\.4s", "float64": r"\.2d"}
MATRICES = [name for name in KINDS if name.startswith(("matmul", "conv", "attention"))]


@pytest.fixture(scope="module", autouse=True)
def every_processor() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def module_of(name: str, dtype: str, target: Target, size: int = 37) -> str:
    """The text of a program for a target; an empty one where there is no code for it anywhere."""
    graph, _ = KINDS[name].graph(size, dtype)
    if any(map(why_no_code, graph.nodes())):
        return ""
    plan, launches = lower_graph(graph, machine_of(target))
    buffers = dict.fromkeys((*plan.arguments, *(p.buffer for x in launches for p in x.views)))
    slots = {b: Argument(i) for i, b in enumerate(buffers)}
    steps = [ProgramStep(x.kernel, [slot_of(p, slots) for p in x.views]) for x in launches]
    return program_ir(steps, name, target)[0]


def check_object(ir: str, system: str) -> None:
    """The module becomes an object file, and names nothing that only x86 has."""
    assert "x86" not in ir
    assert compile_object(ir, ARM[system]).startswith(FORMAT[system])


@pytest.mark.parametrize("name", KINDS)
def test_the_text_of_a_program_is_the_same_each_time(name: str) -> None:
    """Wherever Python's objects lie: code on disk is found by its text."""
    first, *others = [module_of(name, "float32", host()) for _ in range(4)]
    assert others == [first] * 3


@pytest.mark.parametrize("system", ARM)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int64"])
def test_every_kind_of_kernel_becomes_an_object(dtype: str, system: str) -> None:
    names = sample([n for n in KINDS if dtype != "int64" or n in NUMBERS], 10)
    modules = [module_of(name, dtype, ARM[system]) for name in names]
    for ir in filter(None, modules):
        check_object(ir, system)
    assert sum(map(bool, modules)) > 0.8 * len(names)


@pytest.mark.parametrize("dtype", MULTIPLY_ADD)
@pytest.mark.parametrize("name", sample(MATRICES, 4))
def test_products_are_vectors_of_multiply_adds(name: str, dtype: str) -> None:
    made = assembly(module_of(name, dtype, ARM["linux"]), ARM["linux"])
    assert re.search(rf"fmla\s+v\d+{MULTIPLY_ADD[dtype]}", made)


@pytest.mark.parametrize("name", ["pointwise", "softmax", "matmul"])
def test_float16_is_converted_by_the_processor(name: str) -> None:
    made = assembly(module_of(name, "float16", ARM["linux"]), ARM["linux"])
    assert re.search(r"fcvtl\s+v\d+\.4s", made) and re.search(r"fcvtn\s+v\d+\.4h", made)
    assert not re.search(r"__(extend|trunc)", made)  # functions of a library that is not there


@pytest.mark.parametrize("name", ["pointwise", "softmax", "layer_norm", "adam", "dropout"])
def test_elements_are_computed_in_vectors(name: str) -> None:
    made = assembly(module_of(name, "float32", ARM["linux"]), ARM["linux"])
    assert re.search(r"f(mul|mla|add)\s+v\d+\.4s", made)


@pytest.mark.parametrize("system", ARM)
@pytest.mark.parametrize("follows", [False, True])
def test_what_runs_programs_becomes_an_object(system: str, follows: bool) -> None:
    target = ARM[system]
    pool = parallel_text(target.triple, affinity=True)
    body = CONTROL_VM if follows else f"{pool}\n{loop_text()}{RUN}"
    check_object(f"{target.header}{body}attributes #0 = {{ {target.attributes} }}\n", system)


@pytest.mark.skipif(LAYOUT is None, reason="Python's objects are not those that we know")
@pytest.mark.parametrize("system", ARM)
def test_the_entries_become_objects(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def addresses(ir: str, names: list[str], *others: Any) -> dict[str, int]:
        made.append(ir)
        return dict.fromkeys(names, 0)

    monkeypatch.setattr(entry, "host", lambda: ARM[system])
    monkeypatch.setattr(object_cache, "loaded", addresses)
    entry._loaded.__wrapped__(LAYOUT)
    profile_hook._address.__wrapped__(LAYOUT)
    assert len(made) == 2
    for ir in made:
        check_object(ir, system)
