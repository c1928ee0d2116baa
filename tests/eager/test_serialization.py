"""Checkpoints: what can be saved, by which names other libraries find it, what errors say."""

from __future__ import annotations

import io
import json
import math
import os
import pickle
import struct
import subprocess
import sys
import zipfile
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import safetensors.numpy

import fusewire as fw
from fusewire import nn
from fusewire.eager.arrays.dtypes import DTYPES, kind
from fusewire.eager.errors import DeviceError, DTypeError, StateError
from fusewire.eager.files import atomic_files, safetensors_file


def through(obj: Any, **options: Any) -> Any:
    """`obj`, saved and loaded again."""
    file = io.BytesIO()
    fw.save(obj, file)
    return fw.load(io.BytesIO(file.getvalue()), **options)


def same(a: Any, b: Any) -> bool:
    """Whether two objects are equal in values, types and the dtypes of tensors."""
    if isinstance(a, fw.Tensor):
        return (isinstance(b, fw.Tensor) and a.dtype == b.dtype and a.shape == b.shape
                and a.numpy().tobytes() == b.numpy().tobytes())
    if type(a) is not type(b):
        return False
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    return a == b or (a != a and b != b)


# ---- what can be saved
@pytest.mark.parametrize("name", [n for n in DTYPES if n not in safetensors_file.LACKING])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (2, 3, 4)], ids=str)
def test_every_dtype_and_shape(name: str, shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(0).integers(0, 2, shape)
    x = fw.tensor(values if kind(DTYPES[name]) != "c" else values * 1j, dtype=name)
    assert same(through({"x": x}), {"x": x})


def test_files_and_views_of_memory(tmp_path: Path) -> None:
    """What lies in memory in another order is written in the right one; bytes of dtypes aligned."""
    x = fw.tensor(np.arange(12, dtype=np.float32).reshape(3, 4))
    state = {"odd": fw.ones(3, dtype=fw.int8), "turned": x.T, "step": x[:, ::2], "x": x,
             "wide": x.T.astype(fw.float64), "nothing": fw.zeros(0)}
    fw.save(state, tmp_path / "a.safetensors")
    loaded = fw.load(str(tmp_path / "a.safetensors"))
    assert same(loaded, state)
    held = (tmp_path / "a.safetensors").read_bytes()
    header = json.loads(held[8:8 + struct.unpack("<Q", held[:8])[0]])
    assert all(header[k]["data_offsets"][0] % x.dtype.itemsize == 0 for k, x in state.items())


def test_a_checkpoint_of_a_training_run() -> None:
    fw.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = fw.optim.AdamW(model.parameters(), lr=0.1)

    def step() -> float:
        optimizer.zero_grad()
        loss = (model(fw.ones(2, 3)) ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss.item()  # type: ignore[no-any-return]

    step()
    saved = through({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3,
                     "best": math.inf, "name": "run-7", "seen": [1, 2.5, None, True]})
    later = [step() for _ in range(3)]
    assert (saved["epoch"], saved["best"], saved["name"]) == (3, math.inf, "run-7")
    assert saved["seen"] == [1, 2.5, None, True]
    assert model.load_state_dict(saved["model"]) == ([], [])
    optimizer.load_state_dict(saved["optimizer"])
    assert [step() for _ in range(3)] == later


@pytest.mark.parametrize("obj", [
    {}, [], 3, None, "text", fw.ones(2), [fw.ones(1), (fw.zeros(2), 1)],
    {1: fw.ones(1), "1": fw.zeros(1), None: 2, False: 3, 2.5: 4}, {"a": (1, (2,)), "b": []},
    {"$tensor": "x", "$tuple": [1]}, {"a.b": fw.ones(1), "a": {"b": fw.zeros(1)}, "n": 0},
    {"__metadata__": fw.ones(1)}, {"": fw.ones(1)}, {"dtype": fw.bfloat16}, {"nan": math.nan},
    {"ümlaut\n": fw.ones(1), "z": {"ü": "ß"}}, 2 ** 80,
], ids=repr)
def test_trees_come_back_as_they_were(obj: Any) -> None:
    assert same(through(obj), obj)


def test_what_comes_back_as_something_simpler() -> None:
    layer = nn.Linear(2, 1, bias=False)
    got = through({"p": layer.weight, "n": np.float32(0.5), "i": np.int64(3), "a": np.ones(2),
                   "o": OrderedDict(a=1)})
    assert type(got["p"]) is fw.Tensor and not got["p"].requires_grad
    assert same(got["a"], fw.ones(2, dtype=fw.float64))
    assert (got["n"], got["i"], got["o"]) == (0.5, 3, {"a": 1})


def test_tied_weights() -> None:
    """In a checkpoint they are kept once; in a plain file under each name, for other readers."""
    model = nn.Sequential(nn.Linear(50, 50, bias=False), nn.Linear(50, 50, bias=False))
    model[1].weight = model[0].weight
    file, plain = io.BytesIO(), io.BytesIO()
    fw.save({"model": model.state_dict()}, file)
    fw.save(model.state_dict(), plain)
    assert len(file.getvalue()) < 11_000 < 20_000 < len(plain.getvalue())
    assert sorted(safetensors.numpy.load(plain.getvalue())) == ["0.weight", "1.weight"]
    for state in (fw.load(io.BytesIO(file.getvalue()))["model"],
                  fw.load(io.BytesIO(plain.getvalue()))):
        other = nn.Sequential(nn.Linear(50, 50, bias=False), nn.Linear(50, 50, bias=False))
        other[1].weight = other[0].weight
        assert other.load_state_dict(state) == ([], [])
        assert other[1].weight is other[0].weight
        assert same(other[0].weight.detach(), model[0].weight.detach())


# ---- other libraries
def test_the_safetensors_library_reads_our_files(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1)).double()
    model.register_buffer("steps", fw.tensor(7))
    fw.save(model.state_dict(), path)
    found = safetensors.numpy.load_file(path)
    assert found.keys() == model.state_dict().keys()
    assert all(same(fw.tensor(found[k]), x) for k, x in model.state_dict().items())
    with safetensors.safe_open(path, framework="numpy") as file:
        assert file.metadata()["format"] == "pt"
    assert list(fw.load(path)) == list(model.state_dict())  # in the order of the model


def test_nested_checkpoints_are_files_with_dotted_names(tmp_path: Path) -> None:
    path = tmp_path / "c.safetensors"
    fw.save({"model": {"fc.weight": fw.ones(2)}, "state": {0: [fw.zeros(1)]}, "epoch": 1}, path)
    assert sorted(safetensors.numpy.load_file(path)) == ["model.fc.weight", "state.0.0"]


def test_we_read_files_of_the_safetensors_library(tmp_path: Path) -> None:
    arrays = {"b": np.ones((2, 3), np.float32), "a": np.arange(4), "c": np.array(True)}
    path = tmp_path / "x.safetensors"
    safetensors.numpy.save_file(arrays, path, metadata={"note": "not ours"})
    for loaded in (fw.load(path), fw.load(path, "cpu")):
        assert same(dict(sorted(loaded.items())),
                    {k: fw.tensor(v) for k, v in sorted(arrays.items())})


def test_a_model_in_several_files(tmp_path: Path) -> None:
    fw.save({"a": fw.ones(1), "b": fw.zeros(2)}, tmp_path / "1.safetensors")
    fw.save({"c": fw.ones(3)}, tmp_path / "2.safetensors")
    index = tmp_path / "model.safetensors.index.json"
    files = {"c": "2.safetensors", "a": "1.safetensors", "b": "1.safetensors"}
    index.write_text(json.dumps({"metadata": {}, "weight_map": files}))
    assert same(fw.load(index), {"c": fw.ones(3), "a": fw.ones(1), "b": fw.zeros(2)})
    index.write_text(json.dumps({"weight_map": {"d": "2.safetensors"}}))
    with pytest.raises(StateError, match=r"lists 'd' in '2.safetensors', which lacks it"):
        fw.load(index)
    index.write_text("[]")
    with pytest.raises(StateError, match="is not an index of safetensors files"):
        fw.load(index)
    with pytest.raises(StateError, match=r"is a folder[\s\S]*1.safetensors, 2.safetensors, model"):
        fw.load(tmp_path)


def test_arrays_that_do_not_lie_aligned() -> None:
    header = json.dumps({"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    header += b" " * ((1 - len(header)) % 4)
    file = struct.pack("<Q", len(header)) + header + np.array([1, 2], "<f4").tobytes()
    assert fw.load(io.BytesIO(file))["x"].tolist() == [1, 2]


# ---- a file is the old one or the whole new one
def test_a_failure_while_writing_leaves_the_old_file(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.safetensors"
    fw.save({"x": fw.ones(1)}, path)

    def full(fd: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(atomic_files.os, "fsync", full)
    with pytest.raises(OSError, match="no space left"):
        fw.save({"x": fw.zeros(1)}, path)
    assert os.listdir(tmp_path) == ["x.safetensors"]
    assert fw.load(path)["x"].tolist() == [1]


POINTS = ("mkdir", "open", "write", "fsync", "replace")  # what a save does; it is killed in there
KILLED = """
import os, sys
import fusewire as fw
from fusewire.eager.files import safetensors_file

def save_killed(path, point):
    module = safetensors_file if point == "write" else os
    original = getattr(module, point)

    def killed(*args, **options):
        if point == "write":
            original(*args)
            os.truncate(args[0], os.path.getsize(args[0]) // 2)
        if "x.safetensors" in str(args[0]) or point == "fsync":
            os._exit(3)
        return original(*args, **options)

    setattr(module, point, killed)
    fw.save({"x": fw.zeros(1000)}, path)

for point in sys.argv[2:] * 2:
    child = os.fork()
    if not child:
        save_killed(os.path.join(sys.argv[1], point, "x.safetensors"), point)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3, point
"""


def test_a_killed_save_leaves_the_old_file_and_nothing_after_the_next(tmp_path: Path) -> None:
    for point in POINTS:
        (tmp_path / point).mkdir()
        fw.save({"x": fw.ones(1)}, tmp_path / point / "x.safetensors")
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), *POINTS], check=True)
    assert len(os.listdir(tmp_path / "write")) == 2  # the old file and what the second save left
    for point in POINTS:
        folder = tmp_path / point
        path, other = folder / "x.safetensors", folder / ".x.safetensors.notes.tmp"
        assert fw.load(path)["x"].tolist() == [1]
        other.write_text("of somebody else")
        fw.save({"x": fw.zeros(2)}, path)
        assert sorted(os.listdir(folder)) == [other.name, path.name]


def test_savers_of_one_path_leave_each_other_alone(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.safetensors"
    write, seen = safetensors_file.write, []

    def interrupted(made: str, *rest: Any) -> None:
        write(made, *rest)
        if len(seen) < 3:
            seen.append(made)
            fw.save({"x": fw.ones(len(seen))}, path)  # removes nothing of the saves around it

    monkeypatch.setattr(safetensors_file, "write", interrupted)
    fw.save({"x": fw.zeros(5)}, path)
    assert len(seen) == 3 and fw.load(path)["x"].shape == (5,)
    assert os.listdir(tmp_path) == ["x.safetensors"]


def test_threads_save_one_path(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"

    def save(n: int) -> None:
        for _ in range(30):
            fw.save({"x": fw.full((n,), n)}, path)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(save, range(1, 5)))
    x = fw.load(path)["x"]
    assert (x == x.size).all() and os.listdir(tmp_path) == ["x.safetensors"]


def test_what_was_loaded_stays_when_the_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    fw.save({"x": fw.ones(3)}, path)
    x = fw.load(path)["x"]
    fw.save({"x": x + 1}, path)
    assert (x.tolist(), fw.load(path)["x"].tolist()) == ([1, 1, 1], [2, 2, 2])


def test_links_and_folders(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        fw.save({"x": fw.ones(1)}, tmp_path / "no" / "x.safetensors")
    with pytest.raises(FileNotFoundError):
        fw.load(tmp_path / "x.safetensors")


class Slow(io.RawIOBase):
    """A stream that gives a few bytes at a time."""

    def __init__(self, held: bytes) -> None:
        self._held = io.BytesIO(held)

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        part = self._held.read(min(len(target), 100))
        target[:len(part)] = part
        return len(part)


class ReadOnly:
    """A file that can do nothing but read."""

    def __init__(self, held: bytes) -> None:
        self.read = io.BytesIO(held).read


def test_streams() -> None:
    file = io.BytesIO()
    fw.save({"x": fw.arange(1000)}, file)
    for stream in (Slow(file.getvalue()), ReadOnly(file.getvalue())):
        assert fw.load(stream)["x"].tolist() == list(range(1000))


# ---- errors
def messages(call: Any) -> list[str]:
    with pytest.raises((StateError, DTypeError)) as caught:
        call()
    return [line for line in str(caught.value).split("\n") if not line.startswith("  at:")]


def test_what_cannot_be_saved_is_named_by_its_key() -> None:
    file = io.BytesIO()
    assert messages(lambda: fw.save({"a": [1, {2, 3}]}, file)) == [
        "save: obj['a'][1] is of type set",
        "  help: checkpoints hold tensors, numbers, texts, None, and dicts, lists and tuples of "
        "these"]
    assert messages(lambda: fw.save({"model": nn.Linear(1, 1)}, file)) == [
        "save: obj['model'] is of type Linear", "  help: pass its state: .state_dict()"]
    assert messages(lambda: fw.save({(1, 2): 3}, file))[0] == \
        "save: the object has a key (1, 2) of type tuple"
    assert messages(lambda: fw.save({"x": fw.ones(1, dtype=fw.complex128)}, file))[0] == \
        "save: tensor 'x' is complex128, which the format does not have"
    endless: list[Any] = [1]
    endless.append(endless)
    assert messages(lambda: fw.save({"e": endless}, file))[0] == "save: obj['e'][1] holds itself"
    assert file.getvalue() == b""


def a_zip(name: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, b"\x80\x02}q\x00.")
    return file.getvalue()


@pytest.mark.parametrize(("content", "kind", "help"), [
    (a_zip("archive/data.pkl"), ": it is PyTorch's own (a zip with a pickle)",
     "safetensors.torch.save_file(torch.load(file, weights_only=True), 'model.safetensors')"),
    (pickle.dumps({"a": list(range(100))}), ": it is a pickle, perhaps PyTorch's own",
     "convert it where PyTorch is"),
    (a_zip("x.npy"), ": it is NumPy's .npz", "np.load"),
    (b"version https://git-lfs.github.com/spec/v1\noid", ": it is a pointer of Git LFS",
     "git lfs pull"),
    (b"<!DOCTYPE html><html>", ": it is HTML or XML", "a web page"),
    (b"", ": it is empty", ""), (b"\x01\x02", ": it is cut off", ""),
    (b"just some text, not a model", "", "fw.load reads files that fw.save or safetensors"),
])
def test_other_files_are_recognised(tmp_path: Path, content: bytes, kind: str, help: str) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(content)
    first, second = messages(lambda: fw.load(path))
    assert first == f"{str(path)!r} is not a safetensors file{kind}"
    assert help in second


def test_files_that_are_cut_off(tmp_path: Path) -> None:
    file = io.BytesIO()
    fw.save({"first": fw.ones(4), "second": fw.ones(100)}, file)
    held, path = file.getvalue(), tmp_path / "x.safetensors"
    path.write_bytes(held[:-10])
    for cut in (path, io.BytesIO(held[:-10]), io.BytesIO(held[:30])):
        name = repr(str(cut)) if isinstance(cut, Path) else "the file"
        first, second = messages(lambda cut=cut: fw.load(cut))
        assert first.startswith(f"{name} is a broken or incomplete safetensors file: ")
        assert second == "  help: if it was copied or downloaded, get it again"


@pytest.mark.parametrize("header", [
    b"{not json", b'{"x": 3}', b'{"x": {"dtype": "F32", "shape": [2]}}',
    b'{"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}',
    b'{"x": {"dtype": "F32", "shape": ["a"], "data_offsets": [0, 4]}}',
    b'{"x": {"dtype": "F32", "shape": [1], "data_offsets": [-4, 0]}}',
    b'{"x": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}, '
    b'"y": {"dtype": "U8", "shape": [2], "data_offsets": [1, 3]}}',
    b'{"__metadata__": {"fusewire": "3"}}',
    b'{"__metadata__": {"fusewire": "{\\"version\\": 1, \\"tree\\": {\\"$tensor\\": \\"x\\"}}"}}',
])
def test_broken_headers(header: bytes) -> None:
    content = struct.pack("<Q", len(header)) + header + b"\0" * 4
    assert "broken" in messages(lambda: fw.load(io.BytesIO(content)))[0]


def test_what_later_versions_or_other_libraries_may_write() -> None:
    tree = json.dumps({"version": 99, "tree": []})
    header = json.dumps({"__metadata__": {"fusewire": tree}}).encode()
    assert "was written by a later version, in format 99" in \
        messages(lambda: fw.load(io.BytesIO(struct.pack("<Q", len(header)) + header)))[0]
    header = b'{"w": {"dtype": "F4", "shape": [2], "data_offsets": [0, 1]}}'
    assert messages(lambda: fw.load(io.BytesIO(struct.pack("<Q", len(header)) + header + b"0")))[
        0] == "the file: tensor 'w' is F4, which is no dtype here"


def test_devices() -> None:
    with pytest.raises(DeviceError, match='device "cuda" is not available'):
        through({"x": fw.ones(1)}, map_location="cuda")
