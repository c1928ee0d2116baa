"""A training that is killed and resumed ends with the bits of one that ran through."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fusewire as fw
from fusewire import nn, training

CHILD = [sys.executable, str(Path(__file__).parents[1] / "training_run.py")]
KILLS = int(os.environ.get("FUSEWIRE_TEST_KILLS", 2))  # as many while writing


def ran(folder: Path, *options: str) -> int:
    """The exit code of a training in a process of its own."""
    done = subprocess.run([*CHILD, str(folder), *options], capture_output=True, text=True)
    assert done.stderr == ""
    return done.returncode


def killed(folder: Path, steps: int, *options: str) -> bool:
    """Whether a training still ran when it was killed, in about so many steps."""
    child = subprocess.Popen([*CHILD, str(folder), *options], stdout=subprocess.PIPE)
    assert child.stdout is not None
    for _ in range(steps):
        child.stdout.readline()
    child.send_signal(signal.SIGKILL)
    with child.stdout:
        child.stdout.read()
    return child.wait() == -signal.SIGKILL


def bits(value: Any) -> Any:
    """A nested result in which each tensor is its bytes."""
    if isinstance(value, dict):
        return {key: bits(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [bits(part) for part in value]
    return np.asarray(value).tobytes() if isinstance(value, fw.Tensor) else value


def result(folder: Path) -> Any:
    """The bits of everything that a training leaves: weights, averages, optimizer, losses, ..."""
    return bits(fw.load(folder / "result.safetensors"))


@pytest.mark.parametrize("options", [(), ("--eager", "--workers=2")], ids=["compiled", "eager"])
def test_kills_change_no_bit(options: tuple[str, ...], tmp_path: Path) -> None:
    """Some at random moments, and as many while half of a checkpoint is written."""
    rng, through, resumed = random.Random(f"{KILLS} {options}"), tmp_path / "a", tmp_path / "b"
    options = (*options, f"--epochs={2 * KILLS}")  # more steps than the killed processes make
    assert ran(through, *options) == 0
    kills = ["moment"] * KILLS + ["writing"] * KILLS
    rng.shuffle(kills)
    for kind in kills:
        if kind == "moment":
            assert killed(resumed, rng.randint(1, 7), *options)
        else:
            number = rng.randint(1, 3)
            assert ran(resumed, f"--die-in-write={number}", *options) == -signal.SIGKILL
    assert ran(resumed, *options) == 0
    assert result(resumed) == result(through)
    assert [p.name for p in resumed.iterdir() if p.name.startswith(".")] == []  # no half files


def test_the_log_of_a_resumed_training_has_each_step_once(tmp_path: Path) -> None:
    assert killed(tmp_path, 30)
    assert ran(tmp_path) == 0
    rows = (tmp_path / "steps.csv").read_text().splitlines()[1:]
    assert [int(row.split(",")[0]) for row in rows] == list(range(1, 61))
    logged = [float(row.split(",")[2]) for row in rows]
    losses = fw.load(tmp_path / "result.safetensors")["history"]["losses"]
    assert logged == losses.tolist()


# ---- in one process


def small(**options: Any) -> training.Trainer:
    """A trainer of a linear model whose steps are not compiled."""
    fw.manual_seed(0)
    model = nn.Linear(3, 1)
    settings = {"compile": False, "quiet": True, **options}
    return training.Trainer(model, fw.optim.Adam(model.parameters()), nn.functional.mse_loss,
                            **settings)


def batches(count: int = 5, size: int = 4) -> list[Any]:
    """Batches as a list, which has no state of its own."""
    generator = fw.Generator(7)
    return [(fw.randn(size, 3, generator=generator), fw.randn(size, 1, generator=generator))
            for _ in range(count)]


@pytest.mark.parametrize("stop_after", range(1, 11))
def test_a_list_of_batches_continues_at_the_batch_where_it_stopped(stop_after: int, tmp_path: Path
                                                                   ) -> None:
    through = small()
    through.fit(batches(), epochs=2)
    first = small(folder=tmp_path)
    for batch in first.batches(batches(), epochs=2):
        first.step(batch)
        if first.steps == stop_after:
            path = first.save()
            break
    second = small(folder=tmp_path)
    second.fit(batches(), epochs=2, resume=path)
    assert second.history.losses == through.history.losses
    assert bits(second.model.state_dict()) == bits(through.model.state_dict())


def test_a_loop_that_was_left_continues_in_the_same_process() -> None:
    data = fw.utils.data.DataLoader(fw.utils.data.TensorDataset(fw.randn(40, 3), fw.randn(40, 1)),
                                    4, shuffle=True, generator=fw.Generator(2))
    seen = []
    trainer = small()
    for batch in trainer.batches(data, epochs=1):
        seen.append(batch[0])
        trainer.step(batch)
        if trainer.steps == 4:
            break
    for batch in trainer.batches(data, epochs=1):
        seen.append(batch[0])
        trainer.step(batch)
    assert len({x.numpy().tobytes() for x in seen}) == len(seen) == 10


class Unfreezes(training.Callback):
    """Trains the first layer from the second epoch on."""

    def on_start(self, trainer: training.Trainer) -> None:
        trainer.model[0].requires_grad_(trainer.epoch > 0)

    on_epoch = on_start


def test_a_change_of_the_model_between_epochs_changes_no_bit(tmp_path: Path) -> None:
    """It is traced anew, in another step of the resumed training than of the other one."""
    def trainer(**options: Any) -> training.Trainer:
        fw.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 64), nn.Linear(64, 1))
        return training.Trainer(model, fw.optim.Adam(model.parameters()), nn.functional.mse_loss,
                                callbacks=[Unfreezes()], quiet=True, **options)

    data = batches(5, size=33)
    through = trainer()
    through.fit(data, epochs=3)
    first = trainer(folder=tmp_path)
    for batch in first.batches(data, epochs=3):
        first.step(batch)
        if first.steps == 5:  # the next epoch begins in the resumed one
            break
    first.save()
    second = trainer(folder=tmp_path)
    second.fit(data, epochs=3, resume=True)
    assert second.history.losses == through.history.losses
    assert bits(second.model.state_dict()) == bits(through.model.state_dict())


def test_gradients_that_await_their_update_are_kept(tmp_path: Path) -> None:
    through = small(accumulate=3)
    through.fit(batches(), epochs=1)
    first = small(accumulate=3, folder=tmp_path)
    for batch in first.batches(batches(), epochs=1):
        first.step(batch)
        if first.steps == 2:
            break
    first.save()
    second = small(accumulate=3, folder=tmp_path)
    second.fit(batches(), epochs=1, resume=True)
    assert bits(second.model.state_dict()) == bits(through.model.state_dict())


def test_a_new_folder_starts_from_the_beginning(tmp_path: Path) -> None:
    assert small(folder=tmp_path / "new").fit(batches(), 1, resume=True).losses


def test_a_state_of_other_settings_is_an_error(tmp_path: Path) -> None:
    path = small(folder=tmp_path, average=0.9).save()
    with pytest.raises(fw.StateError, match=r"average= was given to only one"):
        small().resume(path)
    path = small(folder=tmp_path).save()
    wider = nn.Linear(3, 2)
    other = training.Trainer(wider, fw.optim.Adam(wider.parameters()), nn.functional.mse_loss)
    with pytest.raises(fw.StateError, match=rf"(?s)checkpoint {path} is .*shape of wei") as caught:
        other.resume(path)
    assert "begin in another folder" in caught.value.help
    with pytest.raises(fw.StateError, match="no state of a trainer"):
        small().load_state_dict({"model": 1})
    with pytest.raises(fw.ArgumentError, match="no folder"):
        small().fit(batches(), 1, resume=True)


def test_a_resume_keeps_the_history(tmp_path: Path) -> None:
    first = small(folder=tmp_path)
    first.fit(batches(), epochs=1)
    second = small(folder=tmp_path)
    history = second.fit(batches(), epochs=3, resume=True)
    assert [row["epoch"] for row in history.epochs] == [0, 1, 2]
    assert history.losses[:5] == first.history.losses


# ---- any training
def network(kind: str) -> Any:
    """A small network that takes (n, 1, 6, 6) and returns 3 scores."""
    if kind == "convolutions":
        return nn.Sequential(nn.Conv2d(1, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2),
                             nn.Flatten(), nn.Dropout(0.2), nn.Linear(24, 3))
    if kind == "attention":
        layer = nn.TransformerEncoderLayer(6, 2, 16, dropout=0.1, batch_first=True)
        return nn.Sequential(nn.Flatten(1, 2), layer, nn.Flatten(), nn.Linear(36, 3))
    if kind == "recurrent":
        return Recurrent()
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 32), nn.GELU(), nn.LayerNorm(32),
                         nn.Dropout(0.3), nn.Linear(32, 3))


class Recurrent(nn.Module):
    """A GRU over the rows of an image."""

    def __init__(self) -> None:
        super().__init__()
        self.gru, self.out = nn.GRU(6, 12, batch_first=True), nn.Linear(12, 3)

    def forward(self, x: fw.Tensor) -> Any:
        return self.out(self.gru(x[:, 0])[0][:, -1])


OPTIMIZERS = {
    "SGD": lambda p: fw.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
    "AdamW": lambda p: fw.optim.AdamW(p, lr=1e-2, amsgrad=True),
    "RMSprop": lambda p: fw.optim.RMSprop(p, lr=1e-3, centered=True),
    "NAdam": lambda p: fw.optim.NAdam(p, lr=1e-3),
    "Adagrad": lambda p: fw.optim.Adagrad(p, lr=1e-2),
    "RAdam": lambda p: fw.optim.RAdam(p, lr=1e-2),
    "Adafactor": lambda p: fw.optim.Adafactor(p),
    "Rprop": lambda p: fw.optim.Rprop(p),
}
SCHEDULERS = {
    "none": lambda o: None,
    "cosine": lambda o: fw.optim.lr_scheduler.CosineAnnealingLR(o, 20),
    "warm up": lambda o: fw.optim.lr_scheduler.SequentialLR(o, [
        fw.optim.lr_scheduler.LinearLR(o, total_iters=3),
        fw.optim.lr_scheduler.ExponentialLR(o, 0.9)], [3]),
    "plateau": lambda o: fw.optim.lr_scheduler.ReduceLROnPlateau(o, patience=0),
}


def chosen(seed: int, **more: Any) -> tuple[training.Trainer, Any, Any]:
    """A trainer, a loader and batches to validate with, chosen by a seed."""
    rng = random.Random(seed)
    fw.manual_seed(seed), random.seed(seed), np.random.seed(seed)
    model = network(rng.choice(["convolutions", "attention", "recurrent", "linear"]))
    optimizer = OPTIMIZERS[rng.choice(list(OPTIMIZERS))](model.parameters())
    scheduler = rng.choice(list(SCHEDULERS))
    trainer = training.Trainer(
        model, optimizer, nn.functional.cross_entropy, quiet=True,
        scheduler=SCHEDULERS[scheduler](optimizer), accumulate=rng.choice([1, 1, 3]),
        scheduler_every="epoch" if scheduler == "plateau" else rng.choice(["epoch", "step"]),
        clip_norm=rng.choice([None, 0.5]), clip_value=rng.choice([None, 0.01]),
        precision=rng.choice([None, None, "bfloat16", "float16"]),
        average=rng.choice([None, 0.9]), compile=rng.random() < 0.7, **more)
    x, y = fw.randn(50, 1, 6, 6), fw.randint(0, 3, (50,))
    data = fw.utils.data.TensorDataset(x, y)
    loader = fw.utils.data.DataLoader(
        data, rng.choice([8, 10, 16]), shuffle=True, drop_last=rng.random() < 0.3,
        num_workers=rng.choice([0, 2]), generator=rng.choice([None, fw.Generator(seed)]))
    return trainer, loader, rng.choice([None, fw.utils.data.DataLoader(data, 20)])


def final(trainer: training.Trainer) -> Any:
    """The bits of everything but durations, and the place in the data, which has ended."""
    state = trainer.state_dict()
    del state["loader"]
    del state["history"]["seconds"]
    for row in state["history"]["epochs"]:
        del row["seconds"]
    return bits({name: np_free(part) for name, part in state.items()})


def np_free(value: Any) -> Any:
    """A nested state in which arrays are tensors, as `fw.load` returns it."""
    if isinstance(value, dict):
        return {key: np_free(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [np_free(part) for part in value]
    return fw.asarray(value) if isinstance(value, np.ndarray) else value


@pytest.mark.parametrize("seed", range(int(os.environ.get("FUSEWIRE_TEST_TRAININGS", 2))))
def test_any_training_continues_exactly_from_any_step(seed: int, tmp_path: Path) -> None:
    rng = random.Random(f"stop {seed}")
    through, loader, held_out = chosen(seed, folder=tmp_path / "through")
    through.fit(loader, 3, validate=held_out)
    stops = sorted(rng.sample(range(1, through.steps), 2))
    for stop in stops:
        trainer, loader, held_out = chosen(seed, folder=tmp_path)
        for batch in trainer.batches(loader, 3, validate=held_out, resume=True):
            trainer.step(batch)
            if trainer.steps == stop:
                break
        trainer.save()
    last, loader, held_out = chosen(seed, folder=tmp_path)
    last.fit(loader, 3, validate=held_out, resume=True)
    assert last.history.losses == through.history.losses
    assert final(last) == final(through)
