"""Implements `fusewire export`, which writes a function or module as an ONNX model."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

import fusewire as fw

from .support import inputs, targets
from .support.command import Command, Result, with_folder
from .support.screen import Screen


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    targets.add_arguments(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.onnx",
                        help="the model to write")
    inputs.add_arguments(parser)
    parser.add_argument("--opset", type=int, metavar="N",
                        help="version of ONNX's operators (default: 18)")
    parser.add_argument("--optimize", action="store_true",
                        help="fold batch norms into the layers before them")


def _run(options: argparse.Namespace, screen: Screen) -> Result:
    target = targets.from_options(options)
    arguments = inputs.arguments(options, target)
    report = fw.onnx.export(
        target.function, dict(arguments.tensors), with_folder(options.out), opset=options.opset,
        dynamic_shapes=arguments.dynamic or None, optimize=options.optimize)
    screen.say(str(report))
    screen.say(f"inputs {', '.join(report.inputs) or '-'}; outputs {', '.join(report.outputs)}")
    for sizes in filter(None, report.checked_sizes):
        screen.say("compared at " + ", ".join(f"{name} {size}" for name, size in sizes.items()))
    for note in report.notes:
        screen.say(f"note: {note}")
    return dataclasses.asdict(report)


COMMAND = Command(
    "write a function or module as an ONNX model",
    "Records a function of a Python file with example arguments, writes the recording as an ONNX "
    "model, runs the model and compares it with the function. The file runs as if it were "
    "imported; modules are exported in eval mode.",
    {"export net.py:Net --out net.onnx --input x=float32[batch,784]":
     "a module class, constructed without arguments; the size `batch` is dynamic",
     "export net.py:model.encoder --out encoder.onnx --example example.npz --dynamic tokens:0=n":
     "a submodule, with real values, saved by np.savez('example.npz', tokens=...)",
     "export maths.py:normalised --out n.onnx --input float32[3,4] --opset 21":
     "a function; its only argument needs no name"},
    _add_arguments, _run)
