"""Ctrl-C ends a training after its step, with a checkpoint; a second Ctrl-C ends it at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fusewire as fw
from fusewire import nn, training

DATA = [(fw.ones(4, 3), fw.ones(4, 1))] * 6


@pytest.fixture(autouse=True)
def interrupts_are_not_ignored() -> Iterator[None]:
    """A shell starts background processes with an ignored SIGINT."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, former)


class CtrlC(training.Callback):
    """Sends SIGINT to the process after some step."""

    def __init__(self, step: int, times: int = 1) -> None:
        self.step, self.times = step, times

    def on_step(self, trainer: training.Trainer) -> None:
        if trainer.steps == self.step:
            for _ in range(self.times):
                signal.raise_signal(signal.SIGINT)


def trainer(*callbacks: training.Callback, **options: Any) -> training.Trainer:
    fw.manual_seed(0)
    model = nn.Linear(3, 1)
    return training.Trainer(model, fw.optim.SGD(model.parameters(), lr=0.1), nn.functional.mse_loss,
                            callbacks=callbacks, compile=False, **options)


def test_the_first_one_saves_a_checkpoint_from_which_the_training_continues(
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    through = trainer(quiet=True)
    through.fit(DATA, epochs=2)
    capsys.readouterr()
    stopped = trainer(CtrlC(step=4), folder=tmp_path)
    stopped.fit(DATA, epochs=2)
    assert stopped.steps == 4
    assert capsys.readouterr().out.splitlines()[-2:] == [
        f"saved {tmp_path}/step-000000004.safetensors; fit(..., resume=True) continues",
        "stopped after 4 steps: Ctrl-C"]
    resumed = trainer(folder=tmp_path, quiet=True)
    assert resumed.fit(DATA, epochs=2, resume=True).losses == through.history.losses


def test_without_a_folder_it_ends_the_training_cleanly() -> None:
    stopped = trainer(CtrlC(step=2), quiet=True)
    stopped.fit(DATA, epochs=2)
    assert (stopped.steps, stopped.stop_reason) == (2, "Ctrl-C")


def test_in_the_validation_it_leaves_the_validation_for_the_resumed_training(tmp_path: Path
                                                                             ) -> None:
    def interrupting(prediction: Any, target: Any) -> float:
        signal.raise_signal(signal.SIGINT)
        return 0.0

    through = trainer(quiet=True)
    through.fit(DATA, epochs=2, validate=DATA)
    stopped = trainer(folder=tmp_path, quiet=True, metrics={"interrupt": interrupting})
    stopped.fit(DATA, epochs=2, validate=DATA)
    assert (stopped.steps, stopped.history.epochs) == (6, [])
    resumed = trainer(folder=tmp_path, quiet=True)
    history = resumed.fit(DATA, epochs=2, validate=DATA, resume=True)
    assert history.losses == through.history.losses
    assert [row["val_loss"] for row in history.epochs] == \
        [row["val_loss"] for row in through.history.epochs]


def test_a_second_one_interrupts_at_once() -> None:
    stopped = trainer(CtrlC(step=2, times=2), quiet=True)
    with pytest.raises(KeyboardInterrupt):
        stopped.fit(DATA, epochs=2)


@pytest.mark.parametrize("ending", ["end", "break", "error", "Ctrl-C", "two"])
def test_the_former_handler_is_put_back(ending: str) -> None:
    former = signal.getsignal(signal.SIGINT)
    one = trainer(*([CtrlC(2, times=2 if ending == "two" else 1)] if ending in ("Ctrl-C", "two")
                    else []), quiet=True)
    inside = []
    try:
        for batch in one.batches(DATA, epochs=1):
            inside.append(signal.getsignal(signal.SIGINT))
            one.step(batch)
            if ending == "break":
                break
            if ending == "error":
                raise OSError
    except (OSError, KeyboardInterrupt):
        pass
    assert inside[0] != former
    assert signal.getsignal(signal.SIGINT) is former


def test_another_thread_trains_without_a_handler() -> None:
    one = trainer(quiet=True)
    thread = threading.Thread(target=one.fit, args=(DATA, 1))
    thread.start()
    thread.join()
    assert one.steps == 6
