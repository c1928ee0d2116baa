"""Checkpoints of trainings on several ranks load on other numbers of ranks and in other schemes."""

from __future__ import annotations

import copy
import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fusewire as fw
import fusewire.distributed as dist
from fusewire import nn
from fusewire.distributed import P
from fusewire.distributed.checkpoint.placement import Placement, whole_of
from fusewire.eager.errors import ArgumentError, StateError

F = nn.functional
TOLERANCE, BATCH = 1e-13, 12
ROWS = np.random.default_rng(0).standard_normal((20, BATCH, 6))
LAYOUTS = {"0.weight": P("model", None), "2.weight": P(None, "model")}


def network() -> nn.Module:
    """A model whose parameters have odd sizes, with buffers, and the same one each time."""
    model = nn.Sequential(nn.Linear(6, 12), nn.BatchNorm1d(12), nn.Linear(12, 5),
                          nn.Linear(5, 3, bias=False)).to(fw.float64)
    for i, p in enumerate(model.parameters()):
        p.data = fw.tensor(np.random.default_rng(i).standard_normal(p.shape) / 4)
    return model


def adamw(parameters: Any) -> Any:
    return fw.optim.AdamW(parameters, lr=0.01)


def replicated(model: Any) -> Any:
    return dist.replicate(model), adamw(model.parameters()), None


def zero(model: Any) -> Any:
    dist.replicate(model)
    return model, dist.ZeroRedundancyOptimizer(adamw, model.parameters()), None


def sharded(model: Any) -> Any:
    return dist.fully_shard(model), adamw(model.parameters()), None


def tensor_parallel(model: Any, then: Callable[..., Any] = dist.replicate, data: int = 1) -> Any:
    mesh = dist.init_device_mesh((data, dist.get_world_size() // data), ("data", "model"))
    dist.shard(model, LAYOUTS, mesh)
    then(model, mesh["data"])
    return model, adamw(model.parameters()), mesh["data"]


def both(model: Any) -> Any:
    return tensor_parallel(model, dist.fully_shard, 2)


SCHEMES: dict[str, Callable[[Any], Any]] = {
    "replicate": replicated, "zero": zero, "fully sharded": sharded, "tensor": tensor_parallel,
    "sharded x tensor": both}


def train(scheme: Callable[[Any], Any] | None, steps: range, folder: Path | None,
          source: str | None = None) -> list[float]:
    """The losses of some steps, from a checkpoint and to one."""
    model, group = network(), None
    if scheme is None:
        optimizer = adamw(model.parameters())
    else:
        model = dist.join_batches(model)
        model, optimizer, group = scheme(model)
    state = {"model": model, "optimizer": optimizer, "step": 0}
    if source is not None:
        assert dist.checkpoint.load(state, source)["step"] == steps.start
    ranks, rank = dist.get_world_size(group) if scheme else 1, dist.get_rank(group) if scheme else 0
    losses = []
    for number in steps:
        x = fw.tensor(ROWS[number][rank * BATCH // ranks:(rank + 1) * BATCH // ranks])
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(float(dist.all_reduce(loss.detach(), "mean", group) if scheme else loss))
    if folder is not None:
        dist.checkpoint.save({**state, "step": steps.stop}, folder)
    return losses


EXPECTED = train(None, range(20), None)
CHAINS = {
    "2 to 4 to 1 to 3 ranks": [("replicate", 2), ("zero", 4), (None, 0), ("fully sharded", 3)],
    "all schemes": [("fully sharded", 3), ("sharded x tensor", 4), ("tensor", 2),
                    ("fully sharded", 1), ("zero", 3), ("sharded x tensor", 4), (None, 0)],
}


@pytest.mark.parametrize("name", CHAINS)
def test_a_training_resumes_on_other_ranks(name: str, tmp_path: Path) -> None:
    """Each run trains two steps and saves; the losses are those of one run on one process."""
    losses: list[float] = []
    for number, (scheme, ranks) in enumerate(CHAINS[name]):
        steps = range(2 * number, 2 * number + 2)
        # The folder is the same one each time, so a save replaces the one from which it started.
        args = (SCHEMES[scheme] if scheme else None, steps, tmp_path,
                str(tmp_path) if number else None)
        found = dist.run_fake(ranks, train, *args) if ranks else [train(*args)]
        losses += found[0]
    assert losses == pytest.approx(EXPECTED[:len(losses)], abs=TOLERANCE)


def test_a_file_of_one_process_loads_in_each_scheme(tmp_path: Path) -> None:
    model = network()
    optimizer = adamw(model.parameters())
    for number in range(2):
        optimizer.zero_grad()
        model(fw.tensor(ROWS[number])).square().mean().backward()
        optimizer.step()
    path = str(tmp_path / "one.safetensors")
    fw.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 2}, path)
    for name, scheme in SCHEMES.items():
        found = dist.run_fake(4 if name == "sharded x tensor" else 2, train, scheme, range(2, 4),
                              None, path)
        assert found[0] == pytest.approx(EXPECTED[2:4], abs=TOLERANCE), name


@pytest.mark.parametrize("seed", range(20))
def test_parts_are_put_together(seed: int) -> None:
    """Any cut of any array: the boxes of a part are its elements, in the order of its memory."""
    choose = random.Random(seed)
    shape = tuple(choose.randint(0 if seed % 5 == 0 else 1, 5) for _ in range(choose.randint(0, 4)))
    array = np.arange(int(np.prod(shape))).reshape(shape)
    begin, end = sorted(choose.randint(0, array.size) for _ in range(2))
    for placed, row in ((whole_of(shape), array.reshape(-1)),
                        (Placement(shape, (0,) * len(shape), shape, begin, end),
                         array.reshape(-1)[begin:end])):
        found = [array[tuple(slice(o, o + n) for o, n in zip(box.origin, box.shape))].reshape(-1)
                 for box in placed.boxes()]
        np.testing.assert_array_equal(np.concatenate([*found, row[:0]]), row)


@pytest.mark.parametrize("dtype", [fw.bfloat16, fw.float8_e4m3fn, fw.complex64, fw.int8])
def test_dtypes(dtype: Any, tmp_path: Path) -> None:
    def run(folder: Path) -> None:
        model = nn.Module()
        model.register_buffer("table", fw.tensor(np.arange(12.0).reshape(3, 4)).astype(dtype))
        dist.checkpoint.save({"model": model}, folder)
        model.table.zero_()
        dist.checkpoint.load({"model": model}, folder)
        np.testing.assert_array_equal(model.table.astype(fw.complex64).numpy().real,
                                      np.arange(12.0).reshape(3, 4))

    dist.run_fake(2, run, tmp_path)


def test_each_part_is_written_once(tmp_path: Path) -> None:
    """Ranks share the writing of what all of them have; two names of one tensor share its data."""
    def run() -> None:
        model = nn.ModuleList([nn.Linear(64, 64, bias=False) for _ in range(3)])
        model[2].weight = model[0].weight
        dist.replicate(model)
        dist.checkpoint.save({"model": model}, tmp_path)

    dist.run_fake(2, run)
    index = json.loads((tmp_path / "index.json").read_text())
    sizes = [path.stat().st_size for path in tmp_path.glob("*.rank*.safetensors")]
    assert len(sizes) == 2 and max(sizes) < 64 * 64 * 4 + 200
    assert index["tensors"]["model.2.weight"] == index["tensors"]["model.0.weight"]
    assert len(os.listdir(tmp_path)) == 4


def test_a_save_that_ends_early_leaves_the_checkpoint_before(tmp_path: Path, monkeypatch: Any
                                                             ) -> None:
    """A rank fails while it writes its file, or the first one while it writes the index."""
    def run(step: int, fails: str) -> None:
        model = nn.Linear(3, 3, bias=False)
        with fw.no_grad():
            model.weight.fill_(step)
        dist.fully_shard(model)
        if fails:
            with pytest.raises((StateError, OSError), match="no space"):
                dist.checkpoint.save({"model": model, "step": step}, tmp_path)
        else:
            dist.checkpoint.save({"model": model, "step": step}, tmp_path)

    def stored() -> tuple[int, float]:
        model = nn.Linear(3, 3, bias=False)
        step = dist.checkpoint.load({"model": model, "step": 0}, tmp_path)["step"]
        return step, float(model.weight.mean())

    from fusewire.distributed.checkpoint import saving

    def no_space(*args: Any) -> None:
        raise OSError("no space left on the device")

    dist.run_fake(2, run, 1, "")
    with monkeypatch.context() as patch:
        patch.setattr(saving, "write_part_file", no_space)
        dist.run_fake(2, run, 2, "write_part_file")
    assert stored() == (1, 1.0)
    with monkeypatch.context() as patch:
        patch.setattr("json.dump", no_space)
        with pytest.raises((StateError, OSError, fw.CollectiveError)):
            dist.run_fake(2, lambda: dist.checkpoint.save({"model": nn.Linear(3, 3)}, tmp_path),
                          timeout=1)
    assert stored() == (1, 1.0)
    dist.run_fake(2, run, 3, "")
    assert stored() == (3, 3.0)
    assert len(os.listdir(tmp_path)) == 4  # two ranks, values, index


def test_objects_and_values(tmp_path: Path) -> None:
    """Schedulers, tuples and tensors; values are those of the first rank."""
    def run() -> Any:
        model = dist.replicate(nn.Linear(2, 2))
        optimizer = adamw(model.parameters())
        scheduler = fw.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
        optimizer.step()
        scheduler.step()
        state = {"model": model, "optimizer": optimizer, "scheduler": scheduler,
                 "seeds": (dist.get_rank(), fw.ones(2))}
        dist.checkpoint.save(state, tmp_path)
        scheduler.step()
        loaded = dist.checkpoint.load(state, tmp_path)
        return optimizer.param_groups[0]["lr"], loaded["seeds"], scheduler.last_epoch

    for rate, (seed, ones), epoch in dist.run_fake(2, run):
        assert (rate, seed, ones.tolist(), epoch) == (0.005, 0, [1.0, 1.0], 1)


def saved(tmp_path: Path, **state: Any) -> str:
    dist.checkpoint.save(state or {"model": nn.Linear(2, 3)}, tmp_path)
    return str(tmp_path)


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda t: dist.checkpoint.load({"model": nn.Linear(3, 2)}, saved(t)), StateError,
     r"model.weight has the shape \(3, 2\), the model's has \(2, 3\)"),
    (lambda t: dist.checkpoint.load({"model": nn.Linear(2, 3, bias=False)}, saved(t)), StateError,
     "unexpected: model.bias"),
    (lambda t: dist.checkpoint.load({"net": nn.Linear(2, 3)}, saved(t)), StateError,
     "missing: net.weight"),
    (lambda t: dist.checkpoint.load({"model": nn.Linear(2, 3), "step": 0}, saved(t)), StateError,
     "has no 'step'"),
    (lambda t: dist.checkpoint.load({}, t), StateError, "there is no checkpoint"),
    (lambda t: saved(t, optimizer=adamw(nn.Linear(2, 3).parameters())), ArgumentError,
     "is in no module of this checkpoint"),
    (lambda t: dist.run_fake(2, lambda: saved(t, model=nn.Linear(2, 3))), StateError,
     "ranks 0 and 1 have different parameters under the name 'model.weight'"),
    (lambda t: dist.run_fake(2, lambda: saved(t, model=nn.Linear(2, 3 + dist.get_rank()))),
     StateError, "are no whole tensor of one shape"),
])
def test_errors(call: Any, error: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=message):
        call(tmp_path)


def test_a_broken_index(tmp_path: Path) -> None:
    saved(tmp_path)
    (tmp_path / "index.json").write_text('{"version": 9}')
    with pytest.raises(StateError, match="by another version, in format 9"):
        dist.checkpoint.load({}, tmp_path)
    (tmp_path / "index.json").write_text("{")
    with pytest.raises(StateError, match="is not the index of a checkpoint"):
        dist.checkpoint.load({}, tmp_path)


def test_groups_of_an_optimizer(tmp_path: Path) -> None:
    """Settings follow their group; another division of the parameters is refused."""
    model = network()
    first, *others = model.parameters()
    groups = [{"params": [first], "lr": 0.5}, {"params": others}]
    optimizer = adamw(copy.copy(groups))
    dist.checkpoint.save({"model": model, "optimizer": optimizer}, tmp_path)
    optimizer.param_groups[0]["lr"] = 0.1
    dist.checkpoint.load({"model": model, "optimizer": optimizer}, tmp_path)
    assert [g["lr"] for g in optimizer.param_groups] == [0.5, 0.01]
    with pytest.raises(StateError, match="was saved for other groups of parameters"):
        dist.checkpoint.load({"model": model, "optimizer": adamw(model.parameters())}, tmp_path)
