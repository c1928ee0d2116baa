"""The `fusewire` command: `fusewire demo` and `fusewire doctor`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import fusewire as fw

from .eager.errors import FusewireError
from .eager.settings import settings
from .export.demo.environment import environment, version
from .export.demo.run import GOAL, Options, Tools, run_demo

BOLD, GREEN, RED = "1", "32", "31"  # of a terminal


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status of the command: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return 2
    command: Callable[[argparse.Namespace], int] = options.run
    try:
        return command(options)
    except FusewireError as error:
        print(f"fusewire {options.command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("fusewire", description=fw.__doc__)
    parser.add_argument("--version", action="version", version=f"fusewire {version('fusewire')}")
    commands = parser.add_subparsers(dest="command", metavar="command")
    demo = commands.add_parser("demo", help="train, compile and export a small network",
                               description="Trains a network on handwritten digits, eagerly and "
                               "compiled, exports it to ONNX and writes a report.")
    demo.add_argument("--out", type=Path, default=Path("fusewire-demo"), metavar="DIR",
                      help="where the report and the model go (default: %(default)s)")
    demo.add_argument("--epochs", type=_positive, default=8, metavar="N",
                      help="passes over the data, compiled (default: %(default)s)")
    demo.add_argument("--seed", type=int, default=0, metavar="S",
                      help="of weights, batches and dropout (default: %(default)s)")
    demo.set_defaults(run=_demo)
    doctor = commands.add_parser("doctor", help="show this installation and test it",
                                 description="Shows versions, processor, settings; then compiles "
                                 "a small function and compares its results.")
    doctor.set_defaults(run=_doctor)
    return parser


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not a positive number")
    return value


def _painted(text: str, style: str) -> str:
    """`text` in a colour, where a person sees it and has not asked for none."""
    plain = os.environ.get("NO_COLOR") or not sys.stdout.isatty()
    return text if plain else f"\033[{style}m{text}\033[0m"


def _demo(options: argparse.Namespace) -> int:
    chosen = Options(options.out, options.epochs, options.seed, bars=sys.stderr.isatty())
    found = run_demo(chosen, Tools(fw.compile, fw.onnx.export, _say))
    if found.accuracy >= GOAL:
        return 0
    print(_painted(f"\nexpected at least {100 * GOAL:.0f} % right", RED), file=sys.stderr)
    return 1


def _say(line: str) -> None:
    label, space, rest = line.partition(" ")
    print(_painted(label, BOLD) + space + rest, flush=True)


def _doctor(options: argparse.Namespace) -> int:
    rows = environment()
    width = max(map(len, rows))
    for name, text in rows.items():
        print(f"{_painted(name.ljust(width), BOLD)}  {text}")
    problem = _self_test()
    verdict = _painted(problem, RED) if problem else _painted("passed", GREEN)
    print(f"{_painted('self-test'.ljust(width), BOLD)}  {verdict}")
    print(f"\n{settings!r}")
    return 1 if problem else 0


def _self_test() -> str:
    """What is wrong with compiling a small function, or an empty text."""
    def function(x: fw.Tensor) -> fw.Tensor:
        return (fw.exp(-x * x) + 1).sum()

    compiled = fw.compile(function)
    for scale in (1.0, 2.0):  # the first call records, the second one runs native code
        x = fw.arange(1000, dtype=fw.float32) * (scale / 1000)
        got, want = float(compiled(x)), float(function(x))
        if abs(got - want) > 1e-5 * abs(want):
            return f"compiled {got!r} where eager gives {want!r}"
    if not compiled.stats.replays:
        return f"no native code ran; {compiled.explain()}"
    return ""
