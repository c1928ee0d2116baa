"""`fusewire quantize`: a trained module in small numbers, as an ONNX model."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping
from pathlib import Path

import fusewire as fw

from ..eager.core.tensor import Tensor
from ..eager.nn.base.module import Module
from .support import inputs, targets
from .support.command import Command, Failed, Found, WrongUsage, positive
from .support.screen import Screen


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    targets.add_arguments(parser)
    parser.add_argument("--data", type=Path, required=True, metavar="FILE.npz",
                        help="representative inputs by argument name, examples along the first "
                        "axis; a few hundred are enough")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.onnx",
                        help="the model to write")
    parser.add_argument("--batch", type=positive, default=32, metavar="N",
                        help="batch size of the calibration runs (default: %(default)s)")
    parser.add_argument("--to", choices=("int8", "bfloat16", "float16"), default="int8",
                        help="dtype of the quantized layers (default: %(default)s)")
    parser.add_argument("--activations", choices=("static", "dynamic"), default="static",
                        help="ranges of activations: from --data, or from each input at run "
                        "time (default: %(default)s)")
    parser.add_argument("--observer", choices=("minmax", "percentile", "mse"), default="minmax",
                        help="how a range is computed from --data (default: %(default)s)")
    parser.add_argument("--skip", action="append", default=[], metavar="LAYER",
                        help="a layer to leave unquantized, with its sublayers, or a pattern; "
                        "may be given several times")


def _run(options: argparse.Namespace, screen: Screen) -> Found:
    target = targets.chosen(options)
    if not isinstance(target.function, Module):
        raise WrongUsage(f"{target.name} is no nn.Module", "only modules have layers to quantize")
    data = inputs.by_parameter(inputs.read(options.data), target)
    batches = _batches(data, options.batch)
    small = fw.quantize(target.function, batches, to=options.to, activations=options.activations,
                        observer=options.observer, skip=options.skip)
    screen.say(str(small.report))
    written = fw.onnx.export(small.model, batches[0], options.out,
                             dynamic_shapes={name: {0: "batch"} for name in data})
    screen.say("\n".join(["", str(written), *(f"note: {note}" for note in written.notes)]))
    return {**small.report.to_dict(), "model": dataclasses.asdict(written)}


def _batches(data: Mapping[str, Tensor], size: int) -> list[dict[str, Tensor]]:
    """The data in pieces of so many examples."""
    counts = {name: t.shape[0] if t.ndim else 0 for name, t in data.items()}
    if len(set(counts.values())) != 1 or not min(counts.values()):
        raise Failed("the arrays of --data hold "
                     + ", ".join(f"{n} examples of {name}" for name, n in counts.items()),
                     "the first axis of each counts examples, of which there are as many of all")
    count = next(iter(counts.values()))
    return [{name: t[i:i + size] for name, t in data.items()} for i in range(0, count, size)]


COMMAND = Command(
    "quantize a trained module to int8 or 16 bits",
    "Copies a module with layers that compute in int8 or in 16 bits, shows the error of each layer "
    "on your data, and writes the copy as an ONNX model. Its int8 layers use the integer operators "
    "of ONNX runtimes.",
    {"quantize net.py:Net --weights net.safetensors --data data.npz --out net.int8.onnx":
     "static int8; data.npz is saved by np.savez('data.npz', x=...)",
     "quantize net.py:trained --data data.npz --out net.onnx --activations dynamic --skip head":
     "ranges computed at run time; the layer `head` stays unquantized",
     "quantize net.py:trained --data data.npz --out net.onnx --to bfloat16 --json":
     "in 16 bits; the report as JSON"},
    _add_arguments, _run)
