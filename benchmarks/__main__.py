"""Prints tables of medians, ratios, physical limits, first calls and memory."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

SETTINGS = {
    "cpu": {"JAX_PLATFORMS": "cpu"},
    # All libraries multiply in float32, without TF32, and jax does not preallocate memory.
    "cuda": {"NVIDIA_TF32_OVERRIDE": "0", "JAX_DEFAULT_MATMUL_PRECISION": "highest",
             "XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
}


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0; 1 if fusewire has no time for a workload or the run was stopped; 2 for
    wrong usage or a missing device."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    device = device_of(given)
    prepare_environment(device)
    # Imports follow the settings, which NumPy and the other libraries read on import.
    import fusewire as fw

    from . import place
    from .fresh import alone, measured_afresh
    from .run import Row, measure_all
    from .table import kernel_text, text
    from .workloads import ON_GPU, WORKLOADS

    fw.settings.disk_mb = 0  # the environment may have been read before it was set
    known = WORKLOADS if device == place.CPU else ON_GPU
    options = parser(list(known)).parse_args(given)
    try:
        place.use(device)
    except fw.DeviceError as error:
        print(f"python -m benchmarks: {error}", file=sys.stderr)
        return 2
    chosen = [known[name] for name in options.workloads or known]
    if options.alone:
        write(options.json, alone(chosen[0], *options.alone))
        return 0
    rows: list[Row] = []
    try:
        for row in measure_all(chosen, options.peers, options.rounds, options.kernels):
            if options.fresh and device == place.CPU:
                row |= measured_afresh(known[row["workload"]], row, options.peers, options.rounds)
            rows.append(row)
            if options.json:  # after each row, in case the run is killed
                write(options.json, rows)
    except KeyboardInterrupt:
        print(f"stopped: {len(rows)} of {len(chosen)} workloads are measured", file=sys.stderr)
    print(text(rows))
    if options.kernels:
        print(kernel_text(rows))
    return int(len(rows) < len(chosen) or any(row["fusewire"] is None for row in rows))


def device_of(given: Sequence[str]) -> str:
    """The device that the arguments name. It is needed before the imports."""
    made = argparse.ArgumentParser(add_help=False)
    _add_device(made)
    return made.parse_known_args(given)[0].device


def _add_device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu",
                        help="where to run: a GPU has workloads of its own (default: cpu)")


def write(place: Path, found: object) -> None:
    """Writes results as JSON."""
    place.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def prepare_environment(device: str = "cpu") -> None:
    """Sets the number of threads of every library to that of fusewire, and disables caches of
    compiled code."""
    affinity = getattr(os, "sched_getaffinity", None)
    threads = len(affinity(0)) if affinity else os.cpu_count() or 1
    for name in ("OMP", "MKL", "OPENBLAS"):
        os.environ.setdefault(f"{name}_NUM_THREADS", str(threads))
    for name, value in SETTINGS[device].items():
        os.environ.setdefault(name, value)
    # OpenMP threads that spin for long take the processor from the next library.
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    os.environ["FUSEWIRE_DISK_MB"] = "0"
    os.environ.setdefault("TORCHINDUCTOR_FORCE_DISABLE_CACHES", "1")  # compile in each run
    if "TORCHINDUCTOR_CACHE_DIR" not in os.environ:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp(prefix="benchmarks-")


def parser(names: list[str]) -> argparse.ArgumentParser:
    """The parser of the command line."""
    made = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    made.add_argument("workloads", nargs="*", metavar="workload", type=_one_of(names),
                      help=f"which to run (default: all): {', '.join(names)}")
    _add_device(made)
    made.add_argument("--peers", type=lambda text: [p for p in text.split(",") if p],
                      default=["torch", "jax", "onnxruntime", "numpy"], metavar="A,B",
                      help='libraries to compare with (default: all four; "" for none)')
    made.add_argument("--rounds", type=int, default=40, metavar="N",
                      help="samples of each, at most (default: %(default)s)")
    made.add_argument("--fresh", action=argparse.BooleanOptionalAction, default=True,
                      help="measure in fresh processes as well: code from disk, peak memory, and "
                           "others with an allocator that keeps memory (default: yes; not for "
                           "a GPU)")
    made.add_argument("--alone", nargs=2, metavar=("VARIANT", "FOLDER"), help=argparse.SUPPRESS)
    made.add_argument("--kernels", action="store_true", help="show fusewire's kernels as well")
    made.add_argument("--json", type=Path, metavar="FILE", help="write the rows to FILE")
    return made


def _one_of(names: list[str]):
    def name(text: str) -> str:
        if text not in names:
            raise argparse.ArgumentTypeError(f"no workload {text!r}; there are {', '.join(names)}")
        return text

    return name


if __name__ == "__main__":
    sys.exit(main())
