"""gymnasium, Hugging Face datasets and safetensors exchange tensors."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import fusewire as fw


@pytest.mark.filterwarnings("ignore")
def test_an_environment_of_gymnasium_takes_and_gives_tensors():
    pytest.importorskip("array_api_compat")  # which its conversion imports
    gym = pytest.importorskip("gymnasium")
    from gymnasium.wrappers import ArrayConversion

    plain = gym.make("CartPole-v1")
    converted = ArrayConversion(gym.make("CartPole-v1"), env_xp=np, target_xp=fw)
    (first, _), (expected, _) = converted.reset(seed=0), plain.reset(seed=0)
    assert isinstance(first, fw.Tensor) and first.tolist() == expected.tolist()
    for action in (1, 0, 1):
        found, theirs = converted.step(fw.asarray(action)), plain.step(action)
        assert found[0].tolist() == theirs[0].tolist() and float(found[1]) == theirs[1]


@pytest.mark.filterwarnings("ignore")
def test_environments_of_gymnasium_side_by_side():
    pytest.importorskip("array_api_compat")  # which its conversion imports
    gym = pytest.importorskip("gymnasium")
    from gymnasium.wrappers.vector import ArrayConversion

    converted = ArrayConversion(gym.make_vec("CartPole-v1", num_envs=2), env_xp=np, target_xp=fw)
    observations, _ = converted.reset(seed=0)
    stepped = converted.step(fw.asarray([0, 1]))
    assert observations.shape == (2, 4) and stepped[1].tolist() == [1.0, 1.0]


ROWS = {"x": [[1.0, 2.0], [3.0, 4.0]], "y": [0, 1], "ragged": [[1], [2, 3]], "name": ["a", "b"]}


@pytest.mark.filterwarnings("ignore")
def test_a_dataset_gives_tensors():
    datasets = pytest.importorskip("datasets")
    data = datasets.Dataset.from_dict(ROWS).with_format("fusewire")
    batch, row = data[:], data[1]
    assert batch["x"].dtype == fw.float32 and batch["x"].tolist() == ROWS["x"]
    assert batch["y"].dtype == fw.int64 and batch["y"].tolist() == [0, 1]
    assert [part.tolist() for part in batch["ragged"]] == [[1], [2, 3]]
    assert batch["name"] == ["a", "b"]
    assert row["x"].tolist() == [3.0, 4.0] and row["y"].shape == ()
    assert data["x"][:].tolist() == ROWS["x"]
    assert data.with_format("fw", dtype=fw.float64)[0]["x"].dtype == fw.float64


@pytest.mark.filterwarnings("ignore")
def test_a_loader_takes_a_dataset():
    datasets = pytest.importorskip("datasets")
    data = datasets.Dataset.from_dict({"x": ROWS["x"], "y": ROWS["y"]}).with_format("fusewire")
    (batch,) = fw.utils.data.DataLoader(data, batch_size=2)
    assert batch["x"].tolist() == ROWS["x"] and batch["y"].tolist() == [0, 1]


def test_the_order_of_imports_does_not_matter():
    pytest.importorskip("datasets")
    code = ("import {}\nprint(datasets.Dataset.from_dict({{'x': [1]}}).with_format('fusewire')[0])")
    for order in ("fusewire, datasets", "datasets, fusewire"):
        out = subprocess.run([sys.executable, "-W", "ignore", "-c", code.format(order)],
                             capture_output=True, text=True, check=True)
        assert out.stdout == "{'x': tensor(1)}\n"


def test_safetensors_of_numpy_writes_tensors():
    library = pytest.importorskip("safetensors.numpy")
    x = fw.rand(2, 3)
    assert library.load(library.save({"x": x}))["x"].tolist() == x.tolist()
    with pytest.raises(fw.ShapeError, match="do not lie side by side"):
        library.save({"x": x.T})  # it would write the memory, which is in the order of x
