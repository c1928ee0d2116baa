"""Tracebacks show the frames of users, and no more than the call of fusewire that raised."""

import subprocess
import sys
import traceback

import pytest

import fusewire as fw
import fusewire.torch
from fusewire.eager.errors import is_the_users

model = fw.nn.Sequential(fw.nn.Linear(8, 16), fw.nn.ReLU(), fw.nn.Linear(32, 2))
table = fw.ones(10, 3)


def use(x):
    return model(x)


def look_up(i):
    return table[i] * 2


def raise_own(x):
    raise ValueError("mine")


replayed = fw.compile(look_up)


def replay():
    for _ in range(4):
        replayed(fw.tensor([1, 2]))
    replayed(fw.tensor([1, -50]))


CALLS = {
    "eager": lambda folder: use(fw.ones(4, 8)),
    "compiled": lambda folder: fw.compile(use)(fw.ones(4, 8)),
    "a replay": lambda folder: replay(),
    "an own error": lambda folder: fw.compile(raise_own)(fw.ones(2)),
    "export": lambda folder: fw.onnx.export(use, (fw.ones(4, 8),), folder / "model.onnx"),
    "a refused export": lambda folder: fw.onnx.export(
        lambda x: x / len(x), (fw.ones(4),), folder / "model.onnx",
        dynamic_shapes={"x": {0: "n"}}),
    "a library": lambda folder: fw.aot.build(use, (fw.ones(4, 8),), folder / "library"),
    "load": lambda folder: fw.onnx.load(b"no model"),
}


def files(error):
    return [frame.filename for frame in traceback.extract_tb(error.__traceback__)]


@pytest.mark.parametrize("name", CALLS)
def test_inner_frames_are_hidden(name, tmp_path):
    with pytest.raises((fw.FusewireError, ValueError)) as caught:
        CALLS[name](tmp_path)
    inner = [file for file in files(caught.value) if not is_the_users(file)]
    assert len(inner) <= 1  # the call that the user wrote


def test_the_setting_debug_shows_them(monkeypatch, tmp_path):
    monkeypatch.setitem(vars(fw.settings), "debug", 1)
    with pytest.raises(fw.ShapeError) as caught:
        CALLS["compiled"](tmp_path)
    assert sum(not is_the_users(file) for file in files(caught.value)) > 5


def test_frames_of_an_error_of_python_inside_of_fusewire_stay(monkeypatch):
    """It may be a bug, whose report needs them."""
    monkeypatch.setattr("fusewire.eager.nn.functional.linear", divmod)
    with pytest.raises(TypeError) as caught:
        fw.compile(use)(fw.ones(4, 8))
    assert files(caught.value)[-1].endswith("linear.py")


def test_python_shows_an_error_without_inner_frames(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import fusewire as fw\ntry:\n    fw.ones(3) @ fw.ones(4)\n"
                      "except fw.ShapeError as error:\n    raise RuntimeError from error\n")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.stderr.count("  File ") == 2
    assert done.stderr.endswith("FUSEWIRE_DEBUG=1 shows them\n")


@pytest.mark.parametrize("call", [
    lambda folder: fusewire.torch.save(model, folder / "model.pt"),  # fails inside of pickle
    lambda folder: fw.models.from_pretrained(folder),  # inside of a model family
])
def test_the_line_of_an_error_is_the_users(call, tmp_path):
    with pytest.raises(fw.FusewireError) as caught:
        call(tmp_path)
    assert "test_tracebacks.py:" in caught.value.line
