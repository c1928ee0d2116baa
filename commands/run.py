"""`fusewire run`: an ONNX model, run."""

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
from .support.command import Command, Failed, Found, WrongUsage, positive
from .support.screen import Screen, time_text

_NO_NAME = re.compile(r"[^\w.-]")  # what is not to be in the name of a file


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", type=Path, metavar="model.onnx", help="the model to run")
    parser.add_argument("--input", type=_named_file, action="append", default=[], dest="inputs",
                        metavar="[X=]FILE", help="an input from a .npy file of np.save, or all "
                        "inputs by name from a .npz file of np.savez; may be given several "
                        "times")
    parser.add_argument("--random", action="store_true",
                        help="random numbers for inputs that are not given")
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


def _run(options: argparse.Namespace, screen: Screen) -> Found:
    start = time.perf_counter()
    model = fw.onnx.load(options.model)
    model.eval()
    compiled = options.compile is not False  # None: not said
    seconds: dict[str, Any] = {"load": time.perf_counter() - start}
    given = _given(model._inputs, options)
    if compiled:
        fw.compile(model)  # its `forward`
    with fw.no_grad():
        results = _called(model, given, options.repeat, screen, seconds)
    outputs = {name: _about(value) for name, value in results.items()}
    for line in aligned(_rows({name: _about(t) for name, t in given.items()}, outputs)):
        screen.say(line)
    screen.say("\n" + ", ".join(_times(seconds)))
    found: Found = {"model": options.model, "compiled": compiled,
                    "inputs": {name: _about(t) for name, t in given.items()},
                    "outputs": outputs, "seconds": seconds}
    if options.out:
        found["files"] = _kept(results, options.out, screen)
    return found


def _called(model: Model, given: Mapping[str, Any], repeat: int, screen: Screen,
            seconds: dict[str, Any]) -> dict[str, Any]:
    """The outputs by name; `seconds` takes the times of calls."""
    arguments = {d.parameter: given[d.name] for d in model._inputs if d.name in given}
    for name in ("first_call", "second_call"):  # these record it, and make its code
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

def _given(declared: tuple[Declared, ...], options: argparse.Namespace) -> dict[str, Tensor]:
    """Tensors for the model's inputs, in their order; those with a value of their own may lack."""
    found = _from_files(declared, options.inputs)
    missing = [d for d in declared if d.name not in found and not d.optional]
    if missing and not options.random:
        raise WrongUsage(f"not given: {', '.join(map(repr, missing))}",
                         f"--input {missing[0].name}=file.npy, or --random")
    sizes, numbers = dict(options.sizes), np.random.default_rng(0)
    _check_sizes(sizes, missing)
    found |= {d.name: _random(d, sizes, numbers) for d in missing}
    return {d.name: found[d.name] for d in declared if d.name in found}


def _from_files(declared: tuple[Declared, ...], files: list[tuple[str, Path]]
                ) -> dict[str, Tensor]:
    names = [d.name for d in declared]
    only = names[0] if len(names) == 1 else ""
    found: dict[str, Tensor] = {}
    for name, file in files:
        found |= inputs.read(file) if file.suffix == ".npz" else \
            {name or only: inputs.read_one(file)}
    for name in found.keys() - set(names):
        raise WrongUsage(f"the model has no input {name!r}" if name else
                         "name the input: --input NAME=FILE",
                         f"it takes {', '.join(map(repr, declared)) or 'nothing'}")
    return found


def _check_sizes(sizes: Mapping[str, int], missing: list[Declared]) -> None:
    known = dict.fromkeys(n for d in missing for n in d.shape or () if isinstance(n, str))
    for name in sizes.keys() - known.keys():
        raise WrongUsage(f"--size: no input that is to be random has a size {name!r}",
                         f"there are {', '.join(known)}" if known else "no size varies")


def _random(declared: Declared, sizes: Mapping[str, int], numbers: np.random.Generator) -> Tensor:
    if declared.kind != "tensor" or declared.shape is None or declared.dtype not in DTYPES:
        raise Failed(f"random numbers cannot stand for {declared!r}",
                     f"give it: --input {declared.name}=file.npy")
    shape = [n if isinstance(n, int) else sizes.get(n or "", 1) for n in declared.shape]
    return inputs.random(declared.dtype, shape, numbers)


# ---- what is shown

def _about(value: Any) -> Found:
    """What is shown of an input or an output."""
    if not isinstance(value, Tensor):
        return {"kind": type(value).__name__}
    found: Found = {"dtype": value.dtype.name, "shape": list(value.shape)}
    if value.size and value.dtype.kind != "c":
        array = value.numpy().astype(np.float64)
        found |= {"min": float(array.min()), "mean": float(array.mean()),
                  "max": float(array.max())}
    return found


def _rows(given: Mapping[str, Found], outputs: Mapping[str, Found]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("", "name", "type", "min", "mean", "max")]
    for side, group in (("in", given), ("out", outputs)):
        rows += [(side, name, _type(about), *(f"{about[key]:.6g}" if key in about else "-"
                                              for key in ("min", "mean", "max")))
                 for name, about in group.items()]
    return rows


def _type(about: Found) -> str:
    return about.get("kind") or f"{about['dtype']}[{', '.join(map(str, about['shape']))}]"


def _kept(results: Mapping[str, Any], folder: Path, screen: Screen) -> list[Path]:
    """The files that the outputs are written to."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name, value in results.items():
        if not isinstance(value, Tensor):
            raise Failed(f"output {name!r} is a {type(value).__name__}, which no .npy file holds")
        file = folder / (_NO_NAME.sub("_", name) + ".npy")
        np.save(file, value.numpy())
        screen.say(f"wrote {file}")
        files.append(file)
    return files


COMMAND = Command(
    "run an ONNX model",
    "Loads a model, runs it on arrays from files or on random numbers, and shows the type and "
    "range of each output and the times: of loading, of the first two calls, which record and "
    "compile the model, and of later calls.",
    {"run model.onnx --random --size batch=8 --repeat 100": "the time of a call",
     "run model.onnx --input images=images.npy --out results": "writes results/scores.npy etc.",
     "run model.onnx --input inputs.npz --no-compile --json": "one operation at a time"},
    _add_arguments, _run)
