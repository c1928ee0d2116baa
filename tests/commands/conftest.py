"""What tests of the command share: calls of it, and a file as a user would write it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import fusewire as fw
from fusewire.commands.main import main

NET = '''
import fusewire as fw
from fusewire import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(4, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.head(fw.relu(self.encoder(x)))


class Sized(nn.Module):
    def __init__(self, size):
        super().__init__()


def made():
    return Net()


def product(x, y):
    return (x * y).sum(-1)


def talks(x):
    import os
    print("a line of the user's")
    return x + os.getpid() * 0


def broken(x):
    return inner(x)


def inner(x):
    raise ValueError(f"no {x.shape} here")


def bends(x):
    return x @ fw.ones((5, 5))


model, number = Net(), 3
'''


class Done(NamedTuple):
    """What a call of the command left."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The object on standard output, which holds nothing else."""
        return json.loads(self.out)


Call = Callable[..., Done]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """call("export", "net.py:Net", ...): the command in this process."""

    def done(*arguments: Any) -> Done:
        capsys.readouterr()
        try:
            status = main([str(a) for a in arguments])
        except SystemExit as stopped:  # argparse
            status = int(stopped.code or 0)
        return Done(status, *capsys.readouterr())

    return done


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of networks and functions; its folder is the current one."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "net.py"
    file.write_text(NET, encoding="utf-8")
    return file


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, np.ndarray, np.ndarray]:
    """A model of any number of rows, with rows for it and what it gives for them."""
    monkeypatch.chdir(tmp_path)
    fw.manual_seed(0)
    layer = fw.nn.Linear(4, 3)
    rows = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    fw.onnx.export(layer, (fw.from_numpy(rows),), "model.onnx", input_names=["rows"],
                   output_names=["scores"], dynamic_shapes={"rows": {0: "batch"}}, verify=False)
    return tmp_path / "model.onnx", rows, layer(fw.from_numpy(rows)).numpy()
