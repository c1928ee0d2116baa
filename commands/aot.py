"""Implements `fusewire aot`, which builds a C library from a model."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

import fusewire as fw

from .support import inputs, targets
from .support.command import Command, Result, positive, with_folder
from .support.inputs import Spec
from .support.screen import Screen
from .support.targets import UserFunction


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    targets.add_arguments(parser, f"model.onnx|{targets.FORM}", "an ONNX model, ")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR/NAME",
                        help="where to write NAME.o and NAME.h; NAME is the prefix of functions")
    inputs.add_arguments(parser)
    parser.add_argument("--sizes", type=inputs.sizes, action="append", default=[],
                        metavar="NAME=N,...", help="sizes to generate specialized code for, as in "
                        "batch=8; may be given several times")
    parser.add_argument("--max", type=inputs.sizes, action="append", default=[],
                        metavar="NAME=N,...", help="upper bound of a dynamic size (default: 64)")
    parser.add_argument("--target", default="native", metavar="PROCESSOR", dest="processor",
                        help="x86-64-v2, x86-64-v3, x86-64-v4, aarch64, or an LLVM target triple "
                        "(default: this machine)")
    parser.add_argument("--cpu", default="", metavar="CPU",
                        help="LLVM's name of a processor, such as cortex-a72")
    parser.add_argument("--beside", action="store_true",
                        help="write weights to a separate file, NAME.weights")
    parser.add_argument("--library", action=argparse.BooleanOptionalAction,
                        help="link a shared library (default: if there is a linker)")
    parser.add_argument("--threads", type=positive, default=4, metavar="N",
                        help="number of threads that share the work (default: %(default)s)")


def _run(options: argparse.Namespace, screen: Screen) -> Result:
    target = _target(options)
    arguments = inputs.arguments(options, target, options.sizes[0] if options.sizes else {})
    examples = [inputs.arguments(options, target, sizes) for sizes in options.sizes]
    built = fw.aot.build(
        target.function, dict(arguments.tensors), with_folder(options.out),
        dynamic_shapes=arguments.dynamic or None,
        max_sizes={name: n for sizes in options.max for name, n in sizes.items()},
        examples=[dict(example.tensors) for example in examples], target=options.processor,
        cpu=options.cpu, weights="beside" if options.beside else "inside",
        library=options.library, threads=options.threads)
    screen.say(str(built))
    return dataclasses.asdict(built)


def _target(options: argparse.Namespace) -> UserFunction:
    """The function to build. An ONNX model describes its inputs if the options do not."""
    if not options.target.endswith(".onnx"):
        return targets.from_options(options)
    model = fw.onnx.load(options.target)
    if not options.inputs and not options.example:
        options.inputs = [Spec(d.parameter, d.dtype, tuple(n or 1 for n in d.shape or ()))
                          for d in model._inputs if not d.optional]
    return UserFunction(Path(options.target).name, model)


COMMAND = Command(
    "build a C library from a model",
    "Compiles an ONNX model, or a function of a Python file, ahead of time: an object file, a C "
    "header that says how to call it, and a shared library if there is a linker. The library runs "
    "without Python. Named sizes are dynamic: they may vary from call to call.",
    {"aot model.onnx --out build/model": "build/model.o, build/model.h and build/model.so",
     "aot model.onnx --out model --target aarch64 --max batch=256 --sizes batch=1":
     "for another processor; with specialized code for batch=1",
     "aot net.py:Net --out net --input x=float32[batch,784] --weights net.safetensors --beside":
     "from a Python file; the weights in net.weights, which is memory-mapped"},
    _add_arguments, _run)
