"""Trains a small model, for tests that kill this process: `training_run.py FOLDER [OPTION ...]`.

It prints a line for each step, and writes `result.safetensors` at its end. Options: `--epochs=N`,
`--workers=N`, `--eager`, and `--die-in-write=N`, which kills the process in the middle of its N-th
checkpoint.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

import fusewire as fw
from fusewire import nn, training
from fusewire.utils.data import DataLoader, Dataset, TensorDataset, get_worker_info

SAMPLES, BATCH = 150, 16  # 10 steps for each epoch


class Noisy(Dataset[Any]):
    """Samples with noise from the random numbers of Python and NumPy; in a worker from its own."""

    def __init__(self, x: Any, y: Any) -> None:
        self.x, self.y = x.numpy(), y.numpy()

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, i: int) -> Any:
        info = get_worker_info()
        if info is None:
            noise = random.gauss(0, 0.1) + np.random.normal(0, 0.1)
        else:
            assert info.rng is not None
            noise = info.rng.random_generator.gauss(0, 0.1) \
                + info.rng.numpy_generator.normal(0, 0.1)
        return (self.x[i] + noise).astype(np.float32), self.y[i]


class Lines(training.Callback):
    """Prints a line after each step, and leaves time in which the process can be killed."""

    def on_step(self, trainer: training.Trainer) -> None:
        print(trainer.steps, flush=True)
        time.sleep(0.002)


def made(folder: Path, epochs: int, workers: int, eager: bool) -> tuple[training.Trainer, Any, Any]:
    """A trainer with everything that has a state, a loader, and batches to validate with."""
    fw.manual_seed(3), random.seed(4), np.random.seed(5)
    x = fw.randn(SAMPLES, 8)
    y = (x[:, :4].sum(axis=1) > 0).astype(fw.int64)
    model = nn.Sequential(nn.Linear(8, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Dropout(0.2),
                          nn.Linear(24, 2))
    optimizer = fw.optim.AdamW(model.parameters(), lr=1e-2)
    trainer = training.Trainer(
        model, optimizer, nn.functional.cross_entropy, accumulate=2, clip_norm=1.0, average=0.9,
        precision="float16", compile=not eager, scheduler_every="step",
        scheduler=fw.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=epochs * 5 + 1),
        callbacks=[training.EarlyStopping(patience=50), Lines(), training.CSVLog(),
                   training.Checkpoints(every_steps=4, best="val_loss")],
        folder=folder, quiet=True)
    loader = DataLoader(Noisy(x, y), BATCH, shuffle=True, num_workers=workers)
    return trainer, loader, DataLoader(TensorDataset(x, y), 64)


def die_in_write(number: int) -> None:
    """Makes the process kill itself when it has written half of its checkpoint `number`."""
    write, count = safetensors.numpy.save_file, 0

    def dying(arrays: Any, path: Any, metadata: Any) -> None:
        nonlocal count
        count += 1
        write(arrays, path, metadata)
        if count == number:
            os.truncate(path, os.path.getsize(path) // 2)
            os.kill(os.getpid(), signal.SIGKILL)

    safetensors.numpy.save_file = dying


def main(folder: Path, options: dict[str, str]) -> None:
    if "die-in-write" in options:
        die_in_write(int(options["die-in-write"]))
    epochs = int(options.get("epochs", 6))
    trainer, loader, held_out = made(folder, epochs, int(options.get("workers", 0)),
                                     "eager" in options)
    trainer.fit(loader, epochs, validate=held_out, resume=True)
    state = trainer.state_dict()
    del state["history"]["seconds"]
    for row in state["history"]["epochs"]:
        del row["seconds"]
    fw.save(state, folder / "result.safetensors")


if __name__ == "__main__":
    main(Path(sys.argv[1]), dict(option.removeprefix("--").partition("=")[::2]
                                 for option in sys.argv[2:]))
