"""`torch.save` and `torch.load`: `.pt` files in both directions, and files that are refused."""

from __future__ import annotations

import io
import pickle
import zipfile
from collections import OrderedDict

import pytest

import fusewire as fw
import fusewire.torch as torch
from fusewire.torch import nn

real = pytest.importorskip("torch")

DTYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8",
          "bool", "complex64")


def contents(t):
    values = t.arange(6).reshape(2, 3)
    return {"tensors": {name: values.to(getattr(t, name)) for name in DTYPES},
            "turned": values.T, "number": t.tensor(2.5), "empty": t.zeros(0, 3), "epoch": 3,
            "nested": [1.5, "a", None, True, (1, 2), {"x": values}], "size": t.Size([1, 2]),
            "ordered": OrderedDict(a=t.ones(2)), "set": {1, 2}}


def plain(value):
    if isinstance(value, (fw.Tensor, real.Tensor)):
        name = str(value.dtype).removeprefix("torch.")
        return name, tuple(value.shape), value.tolist()
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return type(value)(map(plain, value)) if type(value) in (list, tuple) else value


@pytest.mark.parametrize("writer", ["fusewire", "torch"])
@pytest.mark.parametrize("reader", ["fusewire", "torch"])
def test_files_in_both_directions(tmp_path, writer, reader):
    modules = {"fusewire": torch, "torch": real}
    path = tmp_path / "saved.pt"
    modules[writer].save(contents(modules[writer]), path)
    got = modules[reader].load(path)
    assert plain(got) == plain(contents(modules[writer]))
    if reader == "fusewire":
        assert type(got["number"]) is torch.Tensor


def test_state_dicts_of_both_fit_both():
    ours = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.LSTM(4, 2))
    theirs = real.nn.Sequential(real.nn.Linear(3, 4), real.nn.BatchNorm1d(4), real.nn.LSTM(4, 2))
    file = io.BytesIO()
    torch.save(ours.state_dict(), file)
    file.seek(0)
    theirs.load_state_dict(real.load(file, weights_only=True))
    file = io.BytesIO()
    real.save(theirs.state_dict(), file)
    file.seek(0)
    loaded = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.LSTM(4, 2))
    loaded.load_state_dict(torch.load(file, map_location="cpu"))
    for name, value in ours.state_dict().items():
        assert torch.equal(value, loaded.state_dict()[name]), name


def test_modules_are_not_saved():
    with pytest.raises(fw.DTypeError, match=r"cannot save a Linear[\s\S]*state_dict"):
        torch.save(nn.Linear(2, 2), io.BytesIO())


def test_a_file_that_names_code_is_refused(tmp_path):
    class Evil:
        def __reduce__(self):
            return eval, ("1/0",)

    path = tmp_path / "evil.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("evil/data.pkl", pickle.dumps(Evil(), 2))
    with pytest.raises(fw.ImportModelError, match=r"names __builtin__\.eval"):
        torch.load(path)
    real.save(real.nn.Linear(2, 2), path)
    with pytest.raises(fw.ImportModelError, match=r"torch\.nn\.modules\.linear\.Linear"):
        torch.load(path)


def test_damaged_files(tmp_path):
    path = tmp_path / "a.pt"
    torch.save({"x": torch.ones(4)}, path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for name in members:
        broken = tmp_path / "broken.pt"
        with zipfile.ZipFile(broken, "w") as archive:
            for other, data in members.items():
                archive.writestr(other, data[:3] if other == name else data)
        if name.endswith(("version", "byteorder")):
            assert torch.load(broken)["x"].tolist() == [1, 1, 1, 1]
        else:
            with pytest.raises(fw.ImportModelError):
                torch.load(broken)
    path.write_bytes(b"no archive")
    with pytest.raises(fw.ImportModelError, match=r"no file of torch\.save"):
        torch.load(path)
    with pytest.raises(FileNotFoundError, match="no such file"):
        torch.load(path.with_suffix(".missing"))


def test_a_tensor_that_reaches_over_its_block_is_refused(tmp_path):
    path = tmp_path / "a.pt"
    torch.save(torch.ones(4), path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data.replace(b"K\x04\x85", b"K\x7f\x85"))
    with pytest.raises(fw.ImportModelError):
        torch.load(path)
