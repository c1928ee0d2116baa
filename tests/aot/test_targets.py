"""Libraries for other processors, and what a library cannot be made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from c_programs import ARM, check, check_call, compiled, symbols
from library_models import C_LIBRARY, MODELS, model

import fusewire as fw
from fusewire.codegen.runtime import target as targets

on_arm = pytest.mark.skipif(bool(ARM.missing), reason=f"not here: {ARM.missing}")


@on_arm
@pytest.mark.parametrize("name", MODELS)
def test_aarch64_gives_what_python_gives(name: str, tmp_path: Path) -> None:
    made, args = model(name)
    check(made, args, tmp_path, mode="wmpt", tools=ARM, target="aarch64", weights="beside",
          library=False)
    assert symbols(tmp_path / "model.o", "U", "aarch64-linux-gnu-nm") <= C_LIBRARY


@on_arm
def test_aarch64_with_sizes_that_vary(tmp_path: Path) -> None:
    made, _ = model("perceptron")
    built = fw.aot.build(made, (fw.randn(4, 64),), tmp_path / "model", target="aarch64-linux-gnu",
                         cpu="cortex-a72", dynamic_shapes={"x": {0: "batch"}}, library=False)
    assert "cortex-a72" in built.target
    program = compiled("model", tmp_path, ARM)
    for batch in (1, 5, 64):
        check_call(made, (fw.randn(batch, 64),), program, tools=ARM, sizes=[batch])


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64",
                                    "aarch64-apple-darwin", "x86_64-apple-darwin"])
def test_an_object_for_elsewhere_asks_nothing_of_this_processor(
        target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, args = model("block")
    fw.aot.build(made, args, tmp_path / "model", target=target, library=False)
    first = (tmp_path / "model.o").read_bytes()

    def asked(*_: Any) -> None:
        raise AssertionError("the features of this processor do not matter")

    host = targets.named("")
    monkeypatch.setattr("fusewire.export.aot.program.host", lambda: host)  # runs what packs weights
    monkeypatch.setattr(targets.llvm, "get_host_cpu_features", asked)
    monkeypatch.setattr(targets.llvm, "get_host_cpu_name", asked)
    fw.aot.build(made, args, tmp_path / "model", target=target, library=False)
    assert (tmp_path / "model.o").read_bytes() == first


def changing_type(x: fw.Tensor) -> fw.Tensor:
    n, m = 1, 0.5
    while x.sum() > 1:
        x, n, m = x / 2, m, n  # type: ignore[assignment]
    return x * n


REFUSED: dict[str, tuple[Any, str]] = {
    "an op without code": (lambda x: fw.linalg.svdvals(x), "code generator does not support svd"),
    "a distribution without code": (lambda x: fw.random.poisson(x.abs()), "support poisson"),
    "a size that values tell": (lambda x: x[x > 0].sum(), "choose by a mask"),
    "a number as text": (lambda x: x * float(str(x.sum().item())), "used here as a plain number"),
    "a number by another op": (lambda x: x * round(x.sum().item(), 2), "Python computes a number"),
    "a number of another type": (changing_type, "has another type after an iteration"),
    "results of two shapes": (lambda x: x if x.sum() > 0 else x[0], "on one path and"),
    "an error of its own": (lambda x: x if x.sum() > 0 else fw.zeros(2) @ x, "tracing it without"),
    "a changed tensor": (lambda x: STATE.add_(x.sum()), "changed in place"),
}
STATE = fw.zeros(3)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_library_is_refused_with_its_line(name: str, tmp_path: Path) -> None:
    fn, what = REFUSED[name]
    with pytest.raises(fw.ExportError, match=what) as found:
        fw.aot.build(fn, (fw.randn(3, 3),), tmp_path / "model")
    assert "test_targets.py" in str(found.value)


@pytest.mark.parametrize(("path", "options", "what"), [
    ("no-name", {}, "cannot be the prefix of C functions"),
    ("missing/model", {}, "there is no folder"),
    ("model", {"weights": "somewhere"}, "weights="),
    ("model", {"target": "sparc"}, "no code is generated for 'sparc'"),
    ("model", {"threads": 0}, "threads=0 is less than 1"),
    ("model", {"target": "x86_64-pc-windows-msvc"}, "for the system of x86_64-pc-windows-msvc"),
    ("model", {"target": "aarch64-apple-darwin", "library": True},
     "no linker for the target is installed"),
])
def test_arguments_that_make_no_sense(path: str, options: Any, what: str, tmp_path: Path) -> None:
    with pytest.raises(fw.ExportError, match=what):
        fw.aot.build(lambda x: x + 1, (fw.randn(3),), tmp_path / path, **options)
