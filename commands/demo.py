"""Implements `fusewire demo`, which trains, compiles and exports a small network."""

from __future__ import annotations

import argparse
from pathlib import Path

import fusewire as fw

from ..export.demo.report import Findings
from ..export.demo.run import GOAL, Options, Tools, run_demo
from .support.command import Command, Failed, Result, positive
from .support.screen import BOLD, Screen, painted


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, default=Path("fusewire-demo"), metavar="DIR",
                        help="where to write the report and the model (default: %(default)s)")
    parser.add_argument("--epochs", type=positive, default=8, metavar="N",
                        help="epochs of compiled training (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, metavar="S",
                        help="random seed of weights, batches and dropout (default: %(default)s)")


def _run(options: argparse.Namespace, screen: Screen) -> Result:
    chosen = Options(options.out, options.epochs, options.seed, screen.bars)

    def say(line: str) -> None:
        label, space, rest = line.partition(" ")
        screen.say(painted(label, BOLD) + space + rest)

    findings = run_demo(chosen, Tools(fw.compile, fw.onnx.export, say))
    result = _result(findings, options.out)
    if findings.accuracy < GOAL:
        raise Failed(f"the accuracy is below {100 * GOAL:.0f} %", result=result)
    return result


def _result(findings: Findings, out: Path) -> Result:
    return {
        "accuracy": findings.accuracy, "tested": len(findings.labels),
        "eager_seconds_per_step": findings.eager.typical,
        "compiled_seconds_per_step": findings.compiled.typical,
        "speedup": findings.speedup, "compile_seconds": findings.stats.compile_seconds,
        "losses": {run.name: run.losses for run in (findings.eager, findings.compiled)},
        "model": findings.exported.path, "max_error": findings.exported.max_error,
        "report": out / "report.html",
    }


COMMAND = Command(
    "train, compile and export a small network",
    "Trains a network on handwritten digits, eagerly and compiled, exports it to ONNX and writes a "
    "report. It fails if too few test digits are classified correctly.",
    {"demo": "under a minute; open fusewire-demo/report.html afterwards",
     "demo --out digits --epochs 3 --seed 1": "fewer epochs, another folder, another seed"},
    _add_arguments, _run)
