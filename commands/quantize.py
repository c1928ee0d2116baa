"""Implements `fusewire quantize`, which quantizes a trained module and writes an ONNX model."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping
from pathlib import Path

import fusewire as fw

from ..eager.core.tensor import Tensor
from ..eager.nn.base.module import Module
from .support import inputs, targets
from .support.command import Command, Failed, Result, WrongUsage, positive, with_folder
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


def _run(options: argparse.Namespace, screen: Screen) -> Result:
    target = targets.from_options(options)
    if not isinstance(target.function, Module):
        raise WrongUsage(f"{target.name} is no nn.Module", "only modules have layers to quantize")
    data = inputs.from_file(options.data, target)
    batches = _batches(data, options.batch)
    quantized = fw.quantize(target.function, batches, to=options.to,
                            activations=options.activations,
                            observer=options.observer, skip=options.skip)
    screen.say(str(quantized.report))
    exported = fw.onnx.export(quantized.model, batches[0], with_folder(options.out),
                              dynamic_shapes={name: {0: "batch"} for name in data})
    screen.say("\n".join(["", str(exported), *(f"note: {note}" for note in exported.notes)]))
    return {**quantized.report.to_dict(), "model": dataclasses.asdict(exported)}


def _batches(data: Mapping[str, Tensor], size: int) -> list[dict[str, Tensor]]:
    """The data in batches of `size` examples. Failed if the arrays differ in length."""
    counts = {name: t.shape[0] if t.ndim else 0 for name, t in data.items()}
    if len(set(counts.values())) != 1 or not min(counts.values()):
        raise Failed("the arrays of --data hold "
                     + ", ".join(f"{n} examples of {name}" for name, n in counts.items()),
                     "make the first axis of all arrays equal: it counts examples")
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
