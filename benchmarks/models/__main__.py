"""Compares whole models with random weights, each row in a process of its own.

    python -m benchmarks.models                                     # all, some hours
    python -m benchmarks.models resnet50 bert_base --batch 1        # two models
    python -m benchmarks.models --kind convolutional --mode onnx --peers onnxruntime,openvino
    python -m benchmarks.models --mode train --seconds 300          # rows until then
    python -m benchmarks.models --list
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from ..__main__ import prepare_environment


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0; 1 if a row is missing, as after wrong values."""
    prepare_environment()
    # Imports follow the settings, which NumPy and the other libraries read on import.
    import fusewire as fw

    from . import diffusion_models, image_models, transformer_models  # noqa: F401
    from .catalogue import MODELS, MODES, Case, cases

    fw.settings.disk_mb = 0  # the environment may have been read before it was set
    options = parser([*MODELS], sorted({m.kind for m in MODELS.values()}), MODES
                     ).parse_args(arguments)
    if options.alone:
        name, batch, mode = options.alone
        _alone(Case(name, int(batch), mode), options)
        return 0
    names = [n for n in options.models or MODELS
             if not options.kind or MODELS[n].kind in options.kind]
    chosen = cases(names, options.batch or [1, 8], options.mode or MODES)
    if options.list:
        print(*(f"{c}: {MODELS[c.name].kind}" for c in chosen), sep="\n")
        return 0
    return _all(chosen, options)


def _alone(case: object, options: argparse.Namespace) -> None:
    """Writes one row, in this process."""
    from .measure import measured

    row = measured(case, options.peers, options.rounds, options.files)  # type: ignore[arg-type]
    options.json.write_text(json.dumps(asdict(row)), encoding="utf-8")


def _all(chosen: Sequence[object], options: argparse.Namespace) -> int:
    """Prints the rows, and those that are missing."""
    from ..comparison.report import text
    from ..peers import present
    from .rows import NoRow, row_of

    rows, missing, began = [], list[str](), time.monotonic()
    with ExitStack() as stack:
        files = options.files or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        given = ["--peers", ",".join(present(options.peers)), "--rounds", str(options.rounds),
                 "--files", str(files)]
        for number, case in enumerate(chosen):
            if time.monotonic() - began > options.seconds:
                missing.append(f"{len(chosen) - number} of {len(chosen)} rows were not begun")
                break
            try:
                row = row_of(case, given, options.limit)  # type: ignore[arg-type]
            except NoRow as failure:
                missing.append(str(failure))
                print(failure, file=sys.stderr, flush=True)
                continue
            rows.append(row)
            print(f"{case}: {row.ratio:.2f} of {row.best} {' '.join(row.notes)}", file=sys.stderr,
                  flush=True)
            if options.json:  # after each row, in case the run is killed
                options.json.write_text(json.dumps([asdict(r) for r in rows], indent=1), "utf-8")
    for kind in ("inference", "training"):
        part = [r for r in rows if r.family.endswith("train") == (kind == "training")]
        print(f"{kind}: {text(part)}\n" if part else "", end="")
    print(*missing, sep="\n")
    return int(bool(missing))


def parser(names: list[str], kinds: list[str], modes: Sequence[str]) -> argparse.ArgumentParser:
    """The parser of the command line."""
    made = argparse.ArgumentParser("python -m benchmarks.models", description=__doc__,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("models", nargs="*", choices=[[], *names], metavar="model",
                      help=f"default: all of {', '.join(names)}")
    made.add_argument("--kind", action="append", choices=kinds, help="models of this kind only")
    made.add_argument("--batch", action="append", type=int, help="default: 1 and 8")
    made.add_argument("--mode", action="append", choices=modes,
                      help="onnx: torch's export; own: fusewire's own model; train: a training "
                           "step of it (default: all)")
    made.add_argument("--peers", metavar="A,B", type=lambda text: [p for p in text.split(",") if p],
                      default=["torch", "torch.compile", "onnxruntime", "openvino"],
                      help='default: torch,torch.compile,onnxruntime,openvino; "" for none')
    made.add_argument("--rounds", type=int, default=15, help="samples of each (default: 15)")
    made.add_argument("--limit", type=float, default=300, metavar="S",
                      help="seconds for one row (default: 300)")
    made.add_argument("--seconds", type=float, default=float("inf"), metavar="S",
                      help="begin no row after this time")
    made.add_argument("--files", type=Path, metavar="FOLDER",
                      help="keep exported models here, and read those that are there")
    made.add_argument("--json", type=Path, metavar="FILE", help="write the rows to FILE")
    made.add_argument("--list", action="store_true", help="print the rows, run nothing")
    made.add_argument("--alone", nargs=3, help=argparse.SUPPRESS)
    return made


if __name__ == "__main__":
    sys.exit(main())
