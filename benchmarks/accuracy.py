"""Measures errors of sums against float64, by length and offset, beside PyTorch and NumPy.

`python -m benchmarks.accuracy` writes docs/appendix/accuracy.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import fusewire as fw

from .__main__ import prepare_environment
from .peers import installed

LENGTHS = [10 ** n for n in (2, 3, 4, 5, 6, 7, 8)]
OFFSETS = [0.0, 1e2, 1e3, 1e4, 1e5, 1e6]
CHUNK = 1 << 20  # numbers converted to float64 at once
LIBRARIES = ["fusewire", "fusewire eager", "torch", "NumPy"]
PAGE = Path(__file__).parents[1] / "docs/appendix/accuracy.md"

Function = Callable[[Any], Any]
Rows = Iterator[list[str]]


class Measured(NamedTuple):
    """A function in each library, its result in float64, and its largest length."""

    about: str
    run: Function
    torch: Function
    numpy: Function
    exact: Function
    columns: int = 1
    most: int = LENGTHS[-1]


def chunks(x: Any) -> Iterator[Any]:
    """The rows of an array in float64, in chunks."""
    each = CHUNK // x.shape[1]
    return (x[i:i + each].astype(np.float64) for i in range(0, len(x), each))


def exact_sum(x: Any) -> Any:
    return np.sum([np.ascontiguousarray(c.T).sum(1) for c in chunks(x)], 0)


def exact_variance(x: Any) -> Any:
    mean = exact_sum(x) / len(x)
    parts = [np.ascontiguousarray(((c - mean) ** 2).T).sum(1) for c in chunks(x)]
    return np.sum(parts, 0) / len(x)


def exact_norm(x: Any) -> Any:
    return np.sqrt(exact_sum(np.square(x, dtype=np.float64)))


def exact_batch_norm(x: Any) -> Any:
    return (x - exact_sum(x) / len(x)) / np.sqrt(exact_variance(x) + 1e-5)


def numpy_batch_norm(x: Any) -> Any:
    return (x - x.mean(0)) / np.sqrt(x.var(0) + np.float32(1e-5))


def torch_batch_norm(x: Any) -> Any:
    import torch

    return torch.nn.functional.batch_norm(x, None, None, training=True)


def batch_norm(x: Any) -> Any:
    return fw.nn.functional.batch_norm(x, None, None, training=True)


MEASURED = {
    "sum": Measured("of a vector", lambda x: x.sum(), lambda x: x.sum(), np.sum, exact_sum),
    "sum(axis=0)": Measured("of eight columns", lambda x: x.sum(0), lambda x: x.sum(0),
                            lambda x: x.sum(0), exact_sum, 8),
    "var": Measured("of a vector", lambda x: x.var(), lambda x: x.var(correction=0), np.var,
                    exact_variance),
    "vector_norm": Measured("of a vector", fw.linalg.vector_norm, lambda x: x.norm(),
                            np.linalg.norm, exact_norm, most=10 ** 7),
    "cumulative_sum": Measured(
        "of a vector", lambda x: fw.cumulative_sum(x.reshape(-1)), lambda x: x.cumsum(0),
        lambda x: x.cumsum(0), lambda x: x.cumsum(0, np.float64), most=10 ** 7),
    "batch_norm": Measured("of eight channels", batch_norm, torch_batch_norm, numpy_batch_norm,
                           exact_batch_norm, 8, 10 ** 6),
}


def error(got: Any, exact: Any) -> float:
    """The largest error, relative to the largest result."""
    got = np.asarray(got, np.float64).reshape(exact.shape)
    return float(np.max(np.abs(got - exact)) / np.max(np.abs(exact)))


def errors(how: Measured, length: int, offset: float) -> list[str]:
    """The errors of all libraries for one length and offset."""
    rows = max(1, length // how.columns)
    draw = np.random.default_rng(0).standard_normal
    x = draw((rows, how.columns), np.float32)
    x += np.float32(offset)
    exact = how.exact(x)
    results = {"NumPy": lambda: how.numpy(x if how.columns > 1 else x[:, 0])}
    compiled = fw.compile(how.run)
    given = fw.from_numpy(x if how.columns > 1 else x[:, 0])
    results["fusewire eager"] = lambda: how.run(given).numpy()
    results["fusewire"] = lambda: [compiled(given) for _ in range(3)][-1].numpy()
    if installed("torch"):
        import torch

        results["torch"] = lambda: how.torch(torch.tensor(given.numpy())).numpy()
    return [f"{error(results[name](), exact):.1e}" if name in results else "–"
            for name in LIBRARIES]


def table(name: str, lengths: list[int]) -> list[str]:
    """The rows of a function, as Markdown."""
    how = MEASURED[name]
    lines = [f"## {name} {how.about}", "", f"| length | offset | {' | '.join(LIBRARIES)} |",
             "| --- | --- |" + " --- |" * len(LIBRARIES)]
    for length in (n for n in lengths if n <= how.most):
        for offset in OFFSETS:
            print(name, length, offset, flush=True)
            found = " | ".join(errors(how, length, offset))
            lines.append(f"| {length:.0e} | {offset:g} | {found} |")
    return [*lines, ""]


HEAD = """# Errors of sums

Written by `python -m benchmarks.accuracy`. Numbers are drawn from a normal distribution of standard
deviation 1 around an offset, in float32. An error is the largest difference from float64 as a share
of the largest result. Sums around 0 cancel, so their relative errors are large in every library.
A float32 itself has 6e-08.

Long sums are made of blocks of 32 elements for each lane of a vector, and the sums of blocks are
added in float64, whatever the axis: compiled for processors and GPUs, and in eager's native code.
Eager's sums by NumPy are made in blocks along axes where NumPy adds row by row. Running sums are
carried in float64. The variance is that of the distances from the mean, in a second pass; its
error for a large offset comes from the mean, which is a float32. Results do not depend on the
number of threads.

The tests (`tests/codegen/test_sum_errors.py`) hold every sum, mean, variance, norm, softmax, scan
and normalization to 4 times the error of NumPy's sum along a contiguous axis."""


def main() -> None:
    """Writes the page."""
    parser = argparse.ArgumentParser("python -m benchmarks.accuracy", description=__doc__)
    parser.add_argument("--longest", type=float, default=LENGTHS[-1], help="numbers of a sum")
    parser.add_argument("--page", type=Path, default=PAGE, help="where to write the tables")
    given = parser.parse_args()
    lengths = [n for n in LENGTHS if n <= given.longest]
    tables = [line for name in MEASURED for line in table(name, lengths)]
    given.page.write_text("\n".join([HEAD, "", *tables]), encoding="utf-8")


if __name__ == "__main__":
    prepare_environment()
    main()
