"""Libraries that C programs call: what they give, and what they are made of."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from c_programs import ARM, HERE, STRICT, check, check_call, command, compiled, symbols
from library_models import C_LIBRARY, MODELS, model

import fusewire as fw
from fusewire.eager.arrays.dtypes import STORED
from house.pages import TEXTS, blocks

pytestmark = pytest.mark.skipif(bool(HERE.missing), reason=f"not here: {HERE.missing}")


@pytest.mark.parametrize("weights", ["inside", "beside"])
@pytest.mark.parametrize("name", MODELS)
def test_a_library_gives_what_python_gives(name: str, weights: str, tmp_path: Path) -> None:
    made, args = model(name)
    built = check(made, args, tmp_path, mode="m", weights=weights)
    program = compiled("model", tmp_path)
    check_call(made, args, program, "mwt")  # memory of the caller; two threads at once
    check_call(made, args, program, "mp")
    assert (tmp_path / "model.weights").exists() is (weights == "beside")
    assert built.weights > 0 and str(tmp_path) in str(built)


def test_long_work_is_shared_by_threads_of_the_caller(tmp_path: Path) -> None:
    weight = fw.randn(256, 512) / 16
    args = (fw.randn(256, 256),)
    check(lambda x: fw.tanh(x @ weight), args, tmp_path, library=False)
    program = tmp_path / "with_o"
    assert check_call(lambda x: fw.tanh(x @ weight), args, program, "pw") > 0


@pytest.mark.parametrize("name", MODELS)
def test_a_shared_library_gives_the_same(name: str, tmp_path: Path) -> None:
    made, args = model(name)
    check(made, args, tmp_path, shared=True)


@pytest.mark.parametrize("name", MODELS)
def test_an_object_needs_nothing_but_the_c_library(name: str, tmp_path: Path) -> None:
    made, args = model(name)
    fw.aot.build(made, args, tmp_path / "model", weights="beside", library=False)
    assert symbols(tmp_path / "model.o", "U") <= C_LIBRARY
    seen = symbols(tmp_path / "model.o", "T") | symbols(tmp_path / "model.o", "D") | \
        symbols(tmp_path / "model.o", "R")
    assert all(symbol.startswith("model_") for symbol in seen), seen
    assert not symbols(tmp_path / "model.o", "B") | symbols(tmp_path / "model.o", "b")
    assert not (tmp_path / "model.so").exists()


@pytest.mark.parametrize("flags", [("-xc", "-std=c99"), ("-xc", "-std=c11"),
                                   ("-xc++", "-std=c++11"), ("-xc++", "-std=c++17")], ids=str)
def test_the_header_is_clean_c_and_cpp(flags: tuple[str, str], tmp_path: Path) -> None:
    def fn(x: fw.Tensor, double: fw.Tensor, mask: fw.Tensor) -> tuple[fw.Tensor, ...]:
        return x + 1, double * 2, mask

    args = (fw.randn(3), fw.tensor(2.0, dtype=fw.float64), fw.tensor([True, False]))
    fw.aot.build(fn, args, tmp_path / "model", library=False)
    source = '#include "model.h"\nint main(void) { return model_run(NULL); }\n'
    (tmp_path / "uses.c").write_text(source)
    command("cc", "-fsyntax-only", *STRICT, *flags, "uses.c", folder=tmp_path)
    text = (tmp_path / "model.h").read_text()
    assert "const float *x, const double *x_double, const uint8_t *mask" in text


def test_two_libraries_in_one_program(tmp_path: Path) -> None:
    for name, number in (("one", 1.0), ("two", 2.0)):
        fw.aot.build(lambda x, n=number: x * n, (fw.ones(4),), tmp_path / name, library=False)
    (tmp_path / "both.c").write_text("""
        #include "one.h"
        #include "two.h"
        int main(void) {
          float x[4] = {1, 2, 3, 4}, y[4], z[4];
          if (one_call(x, y) != FUSEWIRE_OK || two_call(y, z) != FUSEWIRE_OK) return 1;
          return z[3] == 8.0f ? 0 : 2;
        }""")
    command("cc", *STRICT, "both.c", "one.o", "two.o", "-o", "both", folder=tmp_path)
    command("./both", folder=tmp_path)


def test_outputs_that_nothing_computes(tmp_path: Path) -> None:
    """Inputs, weights, constants, and the same value twice."""
    weight = fw.randn(3, 4)

    def fn(x: fw.Tensor) -> tuple[fw.Tensor, ...]:
        y = x + 1
        return x, weight, y, y, y.reshape(-1), fw.tensor([1.0, 2.0])

    check(fn, (fw.randn(2, 3),), tmp_path)


def test_no_input_at_all(tmp_path: Path) -> None:
    weight = fw.randn(3, 4)
    check(lambda: weight * 2, (), tmp_path)


def test_writes_through_views(tmp_path: Path) -> None:
    def fn(x: fw.Tensor, row: fw.Tensor) -> tuple[fw.Tensor, ...]:
        table = x * 2
        table[1:3].mul_(3)
        table.T[0].add_(row)
        flat = table.reshape(-1)
        flat[::4] = row
        return table[2], flat, table

    check(fn, (fw.randn(4, 4), fw.randn(4)), tmp_path)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int8", "int64", "uint8",
                                   "bool"])
def test_dtypes(dtype: str, tmp_path: Path) -> None:
    x = fw.arange(40).reshape(5, 8).astype(getattr(fw, dtype))
    check(lambda x: fw.where(x > 3, x, x[:1]), (x,), tmp_path)


@pytest.mark.parametrize("dtype", STORED, ids=lambda d: d.name)
def test_dtypes_that_are_only_stored(dtype: Any, tmp_path: Path) -> None:
    """They are inputs, weights and outputs, as bytes."""
    x, weight = fw.arange(40).reshape(5, 8).astype(dtype), fw.randn(5, 8).astype(dtype)
    check(lambda x: (fw.where(x == weight, x, x[:1]), x.astype(fw.float32) + weight.astype(
        fw.float32), (weight.astype(fw.float32) * 2).astype(dtype)), (x,), tmp_path)


def test_level_2_of_x86_runs_here(tmp_path: Path) -> None:
    """And calls no function of the compiler's own library, as for floats of 16 bits."""
    weight = fw.randn(16, 16)
    x = fw.randn(4, 16).astype(fw.float16)
    built = check(lambda x: fw.tanh(x.astype(fw.float32) @ weight), (x,), tmp_path,
                  target="x86-64-v2")
    assert symbols(tmp_path / "model.o", "U") <= C_LIBRARY
    assert "x86-64-v2" in built.target


def test_a_model_of_onnx_becomes_a_library(tmp_path: Path) -> None:
    made, args = model("block")
    fw.onnx.export(made, args, tmp_path / "block.onnx", verify=False)
    built = fw.aot.build(tmp_path / "block.onnx", args, tmp_path / "model", library=False)
    assert built.inputs == ("x: float32[2, 3, 32, 32]",)
    check_call(made, args, compiled("model", tmp_path))


@pytest.mark.parametrize("target", ["native", "x86-64-v2", "aarch64"])
def test_a_quantized_model_gives_the_same_numbers(target: str, tmp_path: Path) -> None:
    """Products of whole numbers are exact on every processor."""
    tools = ARM if target == "aarch64" else HERE
    if tools.missing:
        pytest.skip(f"not here: {tools.missing}")
    made, args = model("block")
    small = fw.quantize(made, [args]).model.eval()
    fw.aot.build(small, args, tmp_path / "model", target=target, library=False)
    check_call(small, args, compiled("model", tmp_path, tools), tools=tools)


def test_weights_that_repeat_are_held_once(tmp_path: Path) -> None:
    table = fw.randn(1000, 64)
    built = fw.aot.build(lambda i: table[i] + fw.tensor(table.numpy())[i], (fw.tensor([1, 2]),),
                         tmp_path / "model", library=False)
    assert 256_000 <= built.weights < 260_000
    assert built.files[str(tmp_path / "model.o")] > built.weights


def test_equal_builds_are_equal_files(tmp_path: Path) -> None:
    made, args = model("block")
    files = []
    for _ in range(2):
        fw.aot.build(made, args, tmp_path / "model", weights="beside", library=False)
        files.append([(tmp_path / f"model.{end}").read_bytes() for end in ("o", "h", "weights")])
    assert files[0] == files[1]


@pytest.mark.parametrize("page", ["native_library", "embedded"])
def test_the_pages_about_libraries(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
                                   ) -> None:
    """The program in C runs with the library that the Python builds, on whatever processor."""
    text = TEXTS[f"docs/how_to/deploy/{page}.md"]
    source = re.search("^```c\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert source is not None
    monkeypatch.chdir(tmp_path)
    program = next(blocks(text)).source
    exec(re.sub(r'target="[^)]*", library', 'target="native", library', program), {})
    (tmp_path / "main.c").write_text(source[1])
    command("cc", *STRICT, "main.c", "digits.o", "-lm", "-o", "main", folder=tmp_path)
    assert command("./main", folder=tmp_path).strip() != ""
