"""Measures the size of ahead-of-time libraries, and the time of a process with one result.

Two models run as a library that is linked to a C program, and as an ONNX file in onnxruntime, from
C and from Python. Times are those of whole processes. Run `python -m benchmarks.libraries`.
"""

from __future__ import annotations

import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import fusewire as fw
from fusewire import nn
from fusewire.export.demo.model import DigitNet

TURNS, AT_LEAST = 15, 0.5  # processes, and seconds of them, behind a median
RUNTIME = Path(__file__).with_name("start_onnxruntime.c")


class Residual(nn.Module):
    """Two convolutions with a residual connection."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            nn.Conv2d(channels, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU(),
            nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out))
        self.beside = nn.Conv2d(channels, out, 1, stride) if (channels, 1) != (out, stride) \
            else nn.Identity()

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        return fw.relu(self.inner(x) + self.beside(x))


def small_resnet() -> nn.Module:
    """Three stages of two blocks each, for images of 32 by 32."""
    sizes = [(16, 16, 1), (16, 16, 1), (16, 32, 2), (32, 32, 1), (32, 64, 2), (64, 64, 1)]
    return nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1), *[Residual(*s) for s in sizes],
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "digits": (DigitNet, (1, 1, 8, 8)),
    "small ResNet": (small_resnet, (1, 3, 32, 32)),
}
_MAIN = """
#include "model.h"
#include <stdio.h>
int main(void) {{
  static float x[{count}], y[10];
  int code = model_call(x, y);
  printf("%g\\n", y[0]);
  return code;
}}
"""
_PYTHON = """
import sys, numpy, onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
name = session.get_inputs()[0].name
print(session.run(None, {name: numpy.zeros(tuple(map(int, sys.argv[2:])), "float32")})[0].flat[0])
"""


def seconds(command: Sequence[object], wanted: float | None = None) -> float:
    """The median seconds of a process, from start to end. Asserts that it prints `wanted`."""
    words = [str(w) for w in command]
    if wanted is not None:
        printed = float(subprocess.run(words, check=True, capture_output=True).stdout)
        assert abs(printed - wanted) < 1e-4, (words, printed, wanted)
    found = list[float]()
    while len(found) < TURNS or sum(found) < AT_LEAST:
        start = time.perf_counter()
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        found.append(time.perf_counter() - start)
    return statistics.median(found)


def native(folder: Path, source: str, *objects: str) -> Path:
    """A C program, compiled."""
    (folder / "main.c").write_text(source)
    subprocess.run(["cc", "-O2", "main.c", *objects, "-lm", "-ldl", "-o", "main"], cwd=folder,
                   check=True)
    return folder / "main"


def runtime() -> Path | None:
    """The path of onnxruntime's shared library in its package."""
    found = importlib.util.find_spec("onnxruntime")
    folder = Path(found.origin).parent / "capi" if found is not None and found.origin else None
    return next(folder.glob("libonnxruntime.so.*"), None) if folder is not None else None


def kilobytes(*paths: Path) -> str:
    return f"{sum(os.path.getsize(p) for p in paths) / 1e3:,.0f} kB"


def rows(name: str, folder: Path) -> Iterator[tuple[str, str, str, float]]:
    """The rows of a model: runner, files beside the program, their sizes, the time of a process."""
    make, shape = MODELS[name]
    fw.manual_seed(0)
    model, x = make().eval(), fw.zeros(shape)
    fw.aot.build(model, (x,), folder / "model", library=True)
    wanted = float(model(x).numpy().flat[0])
    program = native(folder, _MAIN.format(count=x.size), "model.o")
    yield "fusewire, C", "model.so", kilobytes(folder / "model.so"), seconds([program], wanted)
    report = fw.onnx.export(model, (x,), folder / "model.onnx", verify=False)
    library = runtime()
    if library is None:
        return
    files = kilobytes(folder / "model.onnx"), kilobytes(library)
    words = folder / "model.onnx", *report.inputs, *report.outputs, *shape
    program = native(folder, RUNTIME.read_text())
    yield ("onnxruntime, C", "model.onnx, libonnxruntime.so", " + ".join(files),
           seconds([program, library, *words], wanted))
    yield ("onnxruntime, Python", "the same, and Python", " + ".join(files),
           seconds([sys.executable, "-c", _PYTHON, folder / "model.onnx", *shape], wanted))


def main() -> None:
    """Prints the table."""
    print("| model | run by | files | size | process, ms |\n| - | - | - | -: | -: |")
    with tempfile.TemporaryDirectory() as place:
        empty = native(Path(place), "int main(void) { return 0; }\n")
        print(f"| none | C | | | {seconds([empty]) * 1e3:.1f} |", flush=True)
        for name in MODELS:
            for how, files, size, took in rows(name, Path(place)):
                print(f"| {name} | {how} | {files} | {size} | {took * 1e3:.1f} |", flush=True)


if __name__ == "__main__":
    main()
