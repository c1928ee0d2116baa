"""Runs the demo: trains eagerly, trains compiled, tests, exports, writes the report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from ...eager import optim
from ...eager.core.tensor import Tensor
from ...eager.ops.random.generator import manual_seed
from ...eager.utils.data import DataLoader, TensorDataset
from ..report.environment import environment
from .digits import DigitSplit, split_digits
from .model import DigitNet
from .report import COMPARED, WHY_LATER, Findings, sizes_text, write_report
from .train import Batches, History, Step, predict, train, training_step

BATCH = 32
GOAL = 0.97  # test accuracy below which the demo reports failure
LEARNING_RATE = 2e-3


@dataclass(frozen=True)
class Options:
    """The user's options: folder of the results, epochs, seed, progress bars."""

    out: Path
    epochs: int = 8
    seed: int = 0
    bars: bool = True


@dataclass(frozen=True)
class Tools:
    """The functions that the demo gets from outside: fw.compile, fw.onnx.export, print."""

    compile: Callable[[Step], Any]
    export: Callable[..., Any]
    say: Callable[[str], None] = print


def run_demo(options: Options, tools: Tools) -> Findings:
    """The results of the demo. Writes the model and report.html to `options.out`."""
    digits = split_digits()
    _make_folder(options.out)
    tools.say(_opening(digits, options))
    eager, _, _ = _trained(digits, options, "eager", 1, lambda step: step)
    tools.say(f"eager      {_speed(eager)}")
    compiled, model, step = _trained(digits, options, "compiled", options.epochs, tools.compile)
    findings = _tested(digits, model, eager, compiled)
    tools.say(f"compiled   {_speed(compiled)}, {findings.speedup:.2f} times as fast")
    tools.say(f"           {_agreement(findings, step)}")
    tools.say(f"test       {100 * findings.accuracy:.1f} % of {len(findings.labels)} digits right")
    _describe(findings, step)
    findings.exported = _exported(model, digits, options, tools)
    tools.say(f"onnx       {_written(findings.exported)}")
    write_report(findings, options.out / "report.html")
    tools.say(f"report     {options.out / 'report.html'}")
    tools.say(_next(options))
    return findings


def _make_folder(folder: Path) -> None:
    """Makes a folder of results. Git does not list a new one as untracked."""
    if not folder.exists():
        folder.mkdir(parents=True)
        (folder / ".gitignore").write_text("*\n", encoding="utf-8")


def _opening(digits: DigitSplit, options: Options) -> str:
    count = sum(int(np.prod(p.shape)) for p in DigitNet().parameters())
    return (f"fusewire demo: {len(digits.train_labels)} digits to learn from, "
            f"{len(digits.test_labels)} to test with, {count:,} parameters\n")


def _trained(digits: DigitSplit, options: Options, name: str, epochs: int,
             prepare: Callable[[Step], Any]) -> tuple[History, DigitNet, Any]:
    """The history of a run, its model, and the step that `prepare` returned and trained it."""
    manual_seed(options.seed)
    model = DigitNet()
    optimizer = optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    step, history = prepare(training_step(model, optimizer)), History(name)
    loader = DataLoader(TensorDataset(digits.train_images, digits.train_labels), BATCH,
                        shuffle=True, drop_last=True)
    train(step, _batches(loader, epochs, history, options.bars), history)
    return history, model, step


def _batches(loader: DataLoader, epochs: int, history: History, bars: bool) -> Batches:
    """The batches of all epochs, with a progress bar that shows the latest loss."""
    with tqdm(total=epochs * len(loader), desc=f"{history.name:8}", unit="step", leave=False,
              disable=not bars) as bar:
        yield from _counted(loader, epochs, history, bar)


def _counted(loader: DataLoader, epochs: int, history: History,
             bar: tqdm) -> Iterator[tuple[Tensor, Tensor]]:
    for _ in range(epochs):
        for images, labels in loader:
            yield images, labels
            bar.set_postfix_str(f"loss {history.losses[-1]:.3f}", refresh=False)
            bar.update()


def _tested(digits: DigitSplit, model: DigitNet, eager: History, compiled: History) -> Findings:
    return Findings(eager, compiled, digits.test_images.numpy()[:, 0], digits.test_labels.numpy(),
                    predict(model, digits.test_images), environment=environment())


def _describe(findings: Findings, step: Any) -> None:
    """Adds the statistics, kernels and explanation of the compiled step to `findings`."""
    findings.stats, findings.kernels = step.stats, step.kernels()
    findings.explanation = step.explain()


def _exported(model: DigitNet, digits: DigitSplit, options: Options, tools: Tools) -> Any:
    model.eval()
    return tools.export(model, (digits.test_images[:2],), options.out / "digits.onnx",
                        input_names=["images"], output_names=["scores"],
                        dynamic_shapes={"images": {0: "batch"}})


def _speed(run: History) -> str:
    return f"{len(run.losses):3} steps, {1e3 * run.typical:6.2f} ms per step"


def _agreement(findings: Findings, step: Any) -> str:
    return (f"compiled in {step.stats.compile_seconds:.2f} s; "
            f"the first {COMPARED} losses {findings.agreement}\n           {WHY_LATER}")


def _written(report: Any) -> str:
    return (f"{report.path}: {report.bytes / 1024:.0f} KiB, opset {report.opset}, checked with "
            f"{sizes_text(report.checked_sizes)}: error {report.max_error:.1e} at most")


def _next(options: Options) -> str:
    """Commands and pages for users who want to go on from the demo."""
    model = options.out / "digits.onnx"
    return (f"\nnext       open {options.out / 'report.html'} in a browser\n"
            f"           fusewire run {model} --random --size batch=8 --repeat 100\n"
            f"           examples/digits.py trains such a network in a program of your own")
