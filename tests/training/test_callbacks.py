"""Callbacks run at their moments; checkpoints, early stopping, logs and the search of a rate."""

from __future__ import annotations

import csv
import io
import re
import time
from pathlib import Path
from typing import Any

import pytest

import fusewire as fw
from fusewire import nn, training

DATA = [(fw.full((4, 1), 2.0), fw.full((4, 1), 6.0))] * 3


def trainer(*callbacks: training.Callback, lr: float = 0.01, **options: Any) -> training.Trainer:
    fw.manual_seed(0)
    model = nn.Linear(1, 1)
    return training.Trainer(model, fw.optim.SGD(model.parameters(), lr=lr),
                            nn.functional.mse_loss, callbacks=callbacks, compile=False,
                            **{"quiet": True, **options})


class Diary(training.Callback):
    """Notes what is called, with the position."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def on_start(self, trainer: training.Trainer) -> None:
        self.lines.append(f"start {trainer.epoch}.{trainer.batch}")

    def on_step(self, trainer: training.Trainer) -> None:
        self.lines.append(f"step {trainer.epoch}.{trainer.batch}")

    def on_epoch(self, trainer: training.Trainer) -> None:
        self.lines.append(f"epoch {trainer.epoch}")

    def on_end(self, trainer: training.Trainer) -> None:
        self.lines.append(f"end {trainer.epoch}.{trainer.batch}")


def test_the_moments_of_a_training() -> None:
    diary = Diary()
    trainer(diary).fit(DATA[:2], epochs=2)
    assert diary.lines == ["start 0.0", "step 0.1", "step 0.2", "epoch 1", "step 1.1", "step 1.2",
                           "epoch 2", "end 2.0"]


def test_a_callback_may_stop_the_training_after_a_step() -> None:
    class Stop(training.Callback):
        def on_step(self, trainer: training.Trainer) -> None:
            if trainer.steps == 4:
                trainer.stop("enough")

    diary = Diary()
    one = trainer(diary, Stop())
    one.fit(DATA, epochs=9)
    assert (one.stop_reason, diary.lines[-2:]) == ("enough", ["step 1.1", "end 1.1"])


def test_the_end_comes_after_an_error_too() -> None:
    diary = Diary()
    with pytest.raises(training.StepError):
        trainer(diary).fit([(fw.ones(2, 3), fw.ones(2, 1))], epochs=1)
    assert diary.lines == ["start 0.0", "end 0.0"]


# ---- checkpoints
def test_the_newest_checkpoints_are_kept(tmp_path: Path) -> None:
    trainer(training.Checkpoints(every_steps=2, every_epochs=0, keep=2), folder=tmp_path).fit(
        DATA, epochs=3)
    assert [Path(p).name for p in training.checkpoints_in(tmp_path)] == [
        "step-000000006.safetensors", "step-000000008.safetensors"]
    assert training.latest_checkpoint(str(tmp_path)) == \
        str(tmp_path / "step-000000008.safetensors")


def test_the_best_checkpoint_is_that_of_the_best_epoch(tmp_path: Path) -> None:
    one = trainer(training.Checkpoints(best="val_loss", keep=0), folder=tmp_path, lr=0.19)
    history = one.fit(DATA, epochs=6, validate=DATA)
    values = [row["val_loss"] for row in history.epochs]
    best = fw.load(tmp_path / "best.safetensors")
    assert best["position"]["epoch"] == values.index(min(values)) + 1
    assert len(training.checkpoints_in(tmp_path)) == 6


def test_checkpoints_hold_what_all_other_callbacks_noted(tmp_path: Path) -> None:
    stopping = training.EarlyStopping("loss", patience=9)
    one = trainer(training.Checkpoints(), stopping, folder=tmp_path, lr=0.0)
    one.fit(DATA, epochs=4)
    saved = fw.load(training.latest_checkpoint(str(tmp_path)))
    assert saved["callbacks"]["EarlyStopping"]["waited"] == stopping.waited == 3


def test_early_stopping_counts_on_after_a_resume(tmp_path: Path) -> None:
    trainer(training.EarlyStopping("loss", patience=5), folder=tmp_path, lr=0.0).fit(DATA, 3)
    resumed = trainer(training.EarlyStopping("loss", patience=5), folder=tmp_path, lr=0.0)
    assert len(resumed.fit(DATA, epochs=99, resume=True).epochs) == 6


def test_a_metric_that_epochs_lack_is_an_error() -> None:
    with pytest.raises(fw.ArgumentError, match="no result 'val_loss'; it has 'epoch', 'steps'"):
        trainer(training.EarlyStopping()).fit(DATA, epochs=1)


def test_better_may_be_higher() -> None:
    rising = training.EarlyStopping("rate", patience=1, better="higher")
    one = trainer(rising)
    one.scheduler = fw.optim.lr_scheduler.LambdaLR(one.optimizer, lambda e: min(e, 3) + 1)
    assert len(one.fit(DATA, epochs=99).epochs) == 5  # 1, 2, 3, 4 times the rate, and 4 again


# ---- logs
def test_the_csv_files_have_the_history(tmp_path: Path) -> None:
    one = trainer(training.CSVLog(tmp_path))
    history = one.fit(DATA, epochs=2, validate=DATA)
    with open(tmp_path / "steps.csv", newline="") as file:
        steps = list(csv.DictReader(file))
    assert [float(row["loss"]) for row in steps] == history.losses.tolist()
    assert [int(row["epoch"]) for row in steps] == [0, 0, 0, 1, 1, 1]
    with open(tmp_path / "epochs.csv", newline="") as file:
        epochs = list(csv.DictReader(file))
    assert [float(row["val_loss"]) for row in epochs] == \
        [row["val_loss"] for row in history.epochs]


def test_tensorboard_reads_the_history(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    from tensorboardX.proto.event_pb2 import Event

    history = trainer(training.TensorBoardLog(tmp_path)).fit(DATA, epochs=2, validate=DATA)
    scalars: dict[str, list[tuple[int, float]]] = {}
    for record in records(next(tmp_path.iterdir()).read_bytes()):
        event = Event.FromString(record)
        for value in event.summary.value:
            scalars.setdefault(value.tag, []).append((event.step, value.simple_value))
    assert [step for step, _ in scalars["step/loss"]] == [1, 2, 3, 4, 5, 6]
    assert [loss for _, loss in scalars["step/loss"]] == pytest.approx(history.losses.tolist())
    assert [loss for _, loss in scalars["epoch/val_loss"]] == pytest.approx(
        [row["val_loss"] for row in history.epochs])


def records(content: bytes) -> list[bytes]:
    """The records of an event file: a length of 8 bytes, 4 of checksum, the record, 4 more."""
    found, at = [], 0
    while at < len(content):
        length = int.from_bytes(content[at : at + 8], "little")
        found.append(content[at + 12 : at + 12 + length])
        at += 16 + length
    return found


def test_the_report_is_one_file_that_needs_nothing_else(tmp_path: Path) -> None:
    x = fw.randn(64, 3)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    optimizer = fw.optim.SGD(model.parameters(), lr=0.1)
    one = training.Trainer(model, optimizer, nn.functional.mse_loss, folder=tmp_path, quiet=True,
                           scheduler=fw.optim.lr_scheduler.ExponentialLR(optimizer, 0.5),
                           callbacks=[training.HTMLReport("A <small> net")])
    history = one.fit([(x, x[:, :1])], epochs=3, validate=[(x, x[:, :1])])
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 2  # losses and rates
    assert "<title>A &lt;small&gt; net</title>" in page
    assert f"{history.epochs[-1]['val_loss']:.4g}" in page
    assert "The step is compiled as one program" in page
    assert "Compiled program" in page and "SGD" in page
    assert [word for word in ("http", "<script", "url(", "@import") if word in page] == []


def test_a_log_without_a_folder_is_an_error() -> None:
    with pytest.raises(fw.ArgumentError, match="CSVLog: neither it nor the trainer has a folder"):
        trainer(training.CSVLog()).fit(DATA, epochs=1)


def test_without_a_terminal_there_is_a_line_for_each_epoch(capsys: pytest.CaptureFixture[str]
                                                           ) -> None:
    trainer(quiet=False).fit(DATA, epochs=2, validate=DATA)
    shown = capsys.readouterr()
    assert shown.err == ""
    assert [line.split(" loss")[0] for line in shown.out.splitlines()[1:]] == \
        ["epoch 1/2:", "epoch 2/2:"]


def test_on_a_terminal_a_bar_shows_the_rate_the_remaining_time_and_the_loss(
        monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(training.Callback):
        def on_step(self, trainer: training.Trainer) -> None:
            time.sleep(0.15)  # the bar is drawn ten times a second

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("COLUMNS", "100")
    one = trainer(Slow(), quiet=False)
    one.fit(DATA, epochs=1)
    assert re.search(rf"epoch 1/1: .*2/3 \[.*<00:00, .*step/s, "
                     rf"loss {one.history.losses[1]:.4g}\]", terminal.getvalue())


# ---- the learning rate
def test_the_search_of_a_rate_changes_nothing() -> None:
    generator = fw.Generator(0)
    data = fw.utils.data.TensorDataset(fw.randn(64, 1), fw.randn(64, 1))
    loader = fw.utils.data.DataLoader(data, 8, shuffle=True, generator=generator)
    one, other = trainer(), trainer()
    state = generator.get_state()
    training.find_learning_rate(one, loader, steps=30)
    assert generator.get_state().tolist() == state.tolist()
    losses = one.fit(loader, epochs=1).losses
    generator.set_state(state)
    assert losses == other.fit(loader, epochs=1).losses


def test_the_search_ends_where_the_loss_diverges_and_suggests_a_rate_below() -> None:
    """The curvature of the loss is about 2, so that rates above 1 diverge."""
    x = fw.randn(64, 1, generator=fw.Generator(0))
    batches = [(x[i : i + 8], fw.randn(8, 1, generator=fw.Generator(i))) for i in range(0, 64, 8)]
    found = training.find_learning_rate(trainer(), batches, low=1e-4, high=1e3, steps=200)
    assert found.rates[-1] < 100
    assert found.suggestion < 1
    assert len(found.rates) == len(found.losses) < 200
