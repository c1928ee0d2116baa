"""Implements `fusewire run`, which runs an ONNX model and shows its outputs and times."""

from __future__ import annotations

import argparse
import re
import statistics
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import fusewire as fw

from ..capture.replay.report_format import aligned
from ..eager.arrays.dtypes import DTYPES
from ..eager.core.tensor import Tensor
from ..export.onnx.load.runtime.module import Declared, Model
from .support import inputs
from .support.command import Command, Failed, Result, WrongUsage, positive
from .support.screen import Screen, time_text

_NOT_IN_FILE_NAMES = re.compile(r"[^\w.-]")


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", type=Path, metavar="model.onnx", help="the model to run")
    parser.add_argument("--input", type=_named_file, action="append", default=[], dest="inputs",
                        metavar="[X=]FILE", help="an input from a .npy file of np.save, or all "
                        "inputs by name from a .npz file of np.savez; may be given several "
                        "times")
    parser.add_argument("--random", action="store_true",
                        help="fill missing inputs with random numbers")
    parser.add_argument("--size", type=_size, action="append", default=[], dest="sizes",
                        metavar="NAME=N", help="a dynamic size of random inputs (default: 1)")
    parser.add_argument("--out", type=Path, metavar="DIR",
                        help="folder for the outputs, each as NAME.npy")
    parser.add_argument("--repeat", type=positive, default=1, metavar="N",
                        help="measure N more calls")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction,
                        help="run compiled code (default), or one operation at a time")


def _named_file(text: str) -> tuple[str, Path]:
    name, sign, file = text.rpartition("=")
    return (name, Path(file)) if sign else ("", Path(text))


def _size(text: str) -> tuple[str, int]:
    name, sign, number = text.rpartition("=")
    if not sign or not number.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r}: write it like batch=8")
    return name, int(number)


def _run(options: argparse.Namespace, screen: Screen) -> Result:
    start = time.perf_counter()
    model = fw.onnx.load(options.model)
    model.eval()
    compiled = options.compile is not False  # None: neither option
    seconds: dict[str, Any] = {"load": time.perf_counter() - start}
    tensors = _inputs(model._inputs, options)
    if compiled:
        fw.compile(model)  # its `forward`
    with fw.no_grad():
        results = _measure(model, tensors, options.repeat, screen, seconds)
    outputs = {name: _summary(value) for name, value in results.items()}
    for line in aligned(_rows({name: _summary(t) for name, t in tensors.items()}, outputs)):
        screen.say(line)
    screen.say("\n" + ", ".join(_times(seconds)))
    report: Result = {"model": options.model, "compiled": compiled,
                      "inputs": {name: _summary(t) for name, t in tensors.items()},
                      "outputs": outputs, "seconds": seconds}
    if options.out:
        report["files"] = _save_outputs(results, options.out, screen)
    return report


def _measure(model: Model, tensors: Mapping[str, Any], repeat: int, screen: Screen,
             seconds: dict[str, Any]) -> dict[str, Any]:
    """The outputs by name. Writes the times of calls to `seconds`."""
    arguments = {d.parameter: tensors[d.name] for d in model._inputs if d.name in tensors}
    for name in ("first_call", "second_call"):  # these trace and compile it
        start = time.perf_counter()
        results = model(**arguments)
        seconds[name] = time.perf_counter() - start
    times = []
    for _ in screen.bar(range(repeat), "calls"):
        start = time.perf_counter()
        results = model(**arguments)
        times.append(time.perf_counter() - start)
    seconds |= {"calls": repeat, "median": statistics.median(times), "fastest": min(times)}
    several = results if isinstance(results, (tuple, list)) and len(model._outputs) > 1 else \
        [results]
    return dict(zip(model._outputs, several))


def _times(seconds: Mapping[str, Any]) -> list[str]:
    of = {name: time_text(value) for name, value in seconds.items() if name != "calls"}
    return [f"loaded in {of['load']}", f"first call {of['first_call']}",
            f"second {of['second_call']}",
            f"then {of['median']} ({seconds['calls']} more, the fastest {of['fastest']})"]


# ---- inputs

def _inputs(declared: tuple[Declared, ...], options: argparse.Namespace) -> dict[str, Tensor]:
    """Tensors for the model's inputs, in their order. Optional inputs may be missing."""
    tensors = _from_files(declared, options.inputs)
    missing = [d for d in declared if d.name not in tensors and not d.optional]
    if missing and not options.random:
        raise WrongUsage(f"missing inputs: {', '.join(map(repr, missing))}",
                         f"pass --input {missing[0].name}=file.npy, or --random")
    sizes, numbers = dict(options.sizes), np.random.default_rng(0)
    _check_sizes(sizes, missing)
    tensors |= {d.name: _random(d, sizes, numbers) for d in missing}
    return {d.name: tensors[d.name] for d in declared if d.name in tensors}


def _from_files(declared: tuple[Declared, ...], files: list[tuple[str, Path]]
                ) -> dict[str, Tensor]:
    names = [d.name for d in declared]
    default_name = names[0] if len(names) == 1 else ""
    tensors: dict[str, Tensor] = {}
    for name, file in files:
        tensors |= inputs.read(file) if file.suffix == ".npz" else \
            {name or default_name: inputs.read_one(file)}
    for name in tensors.keys() - set(names):
        raise WrongUsage(f"the model has no input {name!r}" if name else
                         "name the input: --input NAME=FILE",
                         f"it takes {', '.join(map(repr, declared)) or 'nothing'}")
    return tensors


def _check_sizes(sizes: Mapping[str, int], missing: list[Declared]) -> None:
    names = dict.fromkeys(n for d in missing for n in d.shape or () if isinstance(n, str))
    for name in sizes.keys() - names.keys():
        raise WrongUsage(f"--size: no random input has a size {name!r}",
                         f"the sizes are {', '.join(names)}" if names else "no size is dynamic")


def _random(declared: Declared, sizes: Mapping[str, int], numbers: np.random.Generator) -> Tensor:
    if declared.kind != "tensor" or declared.shape is None or declared.dtype not in DTYPES:
        raise Failed(f"{declared!r} cannot be filled with random numbers",
                     f"pass it: --input {declared.name}=file.npy")
    shape = [n if isinstance(n, int) else sizes.get(n or "", 1) for n in declared.shape]
    return inputs.random(declared.dtype, shape, numbers)


# ---- output

def _summary(value: Any) -> Result:
    """The dtype, shape and range of an input or output."""
    if not isinstance(value, Tensor):
        return {"kind": type(value).__name__}
    summary: Result = {"dtype": value.dtype.name, "shape": list(value.shape)}
    if value.size and value.dtype.kind != "c":
        array = value.numpy().astype(np.float64)
        summary |= {"min": float(array.min()), "mean": float(array.mean()),
                    "max": float(array.max())}
    return summary


def _rows(input_summaries: Mapping[str, Result],
          output_summaries: Mapping[str, Result]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("", "name", "type", "min", "mean", "max")]
    for side, group in (("in", input_summaries), ("out", output_summaries)):
        rows += [(side, name, _type(summary), *(f"{summary[key]:.6g}" if key in summary else "-"
                                                for key in ("min", "mean", "max")))
                 for name, summary in group.items()]
    return rows


def _type(summary: Result) -> str:
    return summary.get("kind") or f"{summary['dtype']}[{', '.join(map(str, summary['shape']))}]"


def _save_outputs(results: Mapping[str, Any], folder: Path, screen: Screen) -> list[Path]:
    """The paths of the files to which the outputs are written."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name, value in results.items():
        if not isinstance(value, Tensor):
            raise Failed(f"output {name!r} is a {type(value).__name__}, which a .npy file cannot "
                         "hold", "leave --out out to see the other outputs")
        file = folder / (_NOT_IN_FILE_NAMES.sub("_", name) + ".npy")
        np.save(file, value.numpy())
        screen.say(f"wrote {file}")
        files.append(file)
    return files


COMMAND = Command(
    "run an ONNX model",
    "Loads a model, runs it on arrays from files or on random numbers, and shows the type and "
    "range of each output and the times of loading, of the first two calls, which trace and "
    "compile the model, and of later calls.",
    {"run model.onnx --random --size batch=8 --repeat 100": "the time of a call",
     "run model.onnx --input images=images.npy --out results": "writes results/scores.npy etc.",
     "run model.onnx --input inputs.npz --no-compile --json": "one operation at a time"},
    _add_arguments, _run)
