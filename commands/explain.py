"""Implements `fusewire explain`, which shows guards, graph breaks and kernels of a function."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fusewire as fw

from ..capture.replay.compiled_function import ATTEMPTS, Compiled
from ..eager.nn.base.module import Module
from .support import inputs, targets
from .support.command import Command, Result, positive
from .support.screen import Screen, bytes_text

_CALLS = 3  # the first traces, the others run compiled code
_MORE_CALLS = ATTEMPTS + 2  # after a graph break: until the subgraphs between breaks are compiled


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    targets.add_arguments(parser)
    inputs.add_arguments(parser)
    parser.add_argument("--html", type=Path, metavar="FILE.html",
                        help="also write a page that shows control flow, kernels, code and memory")
    parser.add_argument("--calls", type=positive, metavar="N",
                        help=f"number of calls (default: {_CALLS}, or {_CALLS + _MORE_CALLS} if "
                        "there are graph breaks)")


def _run(options: argparse.Namespace, screen: Screen) -> Result:
    target = targets.from_options(options)
    arguments = inputs.arguments(options, target)
    call, compiled = _compiled(target.function, arguments)
    _call(call, arguments, options.calls or _CALLS, screen)
    if compiled.refusals and options.calls is None:
        _call(call, arguments, _MORE_CALLS, screen)
    explanation = compiled.explain(html=options.html)
    screen.say(f"{target.name}({arguments})\n")
    screen.say(str(explanation))
    result = {"name": target.name, "arguments": str(arguments), **_result(compiled, explanation)}
    if options.html:
        screen.say(f"\n{options.html}: {bytes_text(options.html.stat().st_size)}")
        result["html"] = options.html
    return result


def _call(function: Callable[..., Any], arguments: inputs.Arguments, calls: int,
          screen: Screen) -> None:
    """Calls a function so many times."""
    for _ in screen.bar(range(calls), "calls"):
        function(**arguments.tensors)


def _compiled(function: Callable[..., Any], arguments: inputs.Arguments
              ) -> tuple[Callable[..., Any], Compiled]:
    """The callable, and the compiled function that counts its calls."""
    if isinstance(function, Compiled):
        return function, function
    dynamic = {name: list(axes) for name, axes in arguments.dynamic.items()}
    compiled = fw.compile(function, dynamic=dynamic or None)
    return compiled, vars(compiled)["forward"] if isinstance(compiled, Module) else compiled


def _result(compiled: Compiled, explanation: str) -> Result:
    stats = compiled.stats
    return {"explanation": str(explanation), "recordings": stats.recordings,
            "replays": stats.replays, "fallbacks": stats.fallbacks,
            "refusals": compiled.refusals, "compile_seconds": stats.compile_seconds,
            "kernels": compiled.kernels()}


COMMAND = Command(
    "show guards, graph breaks and kernels of a function",
    "Compiles a function of a Python file, calls it a few times, and shows the guards of its "
    "recording, the lines of its graph breaks, and for each kernel its time and how near that is "
    "to the limit of the machine.",
    {"explain net.py:Net --input x=float32[64,784]": "a network on random numbers",
     "explain train.py:step --example batch.npz --html step.html":
     "a training step on real values, also as an HTML page",
     "explain maths.py:f --input x=float32[n] --json": "kernels and counts as JSON"},
    _add_arguments, _run)
