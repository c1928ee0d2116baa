"""Exports a model beyond 2 GB and runs it in onnxruntime: `python -m benchmarks.large_model`.

Its weights are in a separate file, since a model's file cannot exceed 2 GB.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

import fusewire as fw
from fusewire import nn

WIDTH = 8192


def stack(gigabytes: float) -> nn.Module:
    """Linear layers with so many bytes of weights."""
    count = max(1, round(gigabytes * 1e9 / (4 * WIDTH * WIDTH)))
    layers: list[nn.Module] = []
    for _ in range(count):
        layers += [nn.Linear(WIDTH, WIDTH), nn.Tanh()]
    return nn.Sequential(*layers).eval()


def main() -> None:
    """Exports the model, runs it, compares results, and prints times and sizes."""
    import onnxruntime

    parser = argparse.ArgumentParser("python -m benchmarks.large_model", description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=2.4, help="of weights")
    parser.add_argument("--folder", help="where the files are for a moment")
    given = parser.parse_args()
    fw.manual_seed(0)
    model, x = stack(given.gigabytes), fw.randn(2, WIDTH)
    with fw.no_grad():
        wanted = model(x).numpy()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        path, begin = Path(folder) / "large.onnx", time.perf_counter()
        report = fw.onnx.export(model, (x,), path, dynamic_shapes=({0: "n"},))
        exported = time.perf_counter()
        sizes = {p.name: p.stat().st_size for p in path.parent.iterdir()}
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        loaded = time.perf_counter()
        have, = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    for name, size in sorted(sizes.items()):
        print(f"{name}: {size:,} bytes")
    print(f"exported and verified by {report.runner} in {exported - begin:.1f} s, "
          f"loaded in {loaded - exported:.1f} s")
    print(f"largest difference {float(np.abs(have - wanted).max()):.1e}, peak memory "
          f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.1f} GB")


if __name__ == "__main__":
    main()
