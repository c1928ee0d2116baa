"""Files of data sets are read as they were written; damaged ones are errors that name them."""

from __future__ import annotations

import gzip
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fusewire as fw
from fusewire import data
from fusewire.data import FileError


def idx(array: Any) -> bytes:
    """An array of bytes, or of other numbers, in the format of MNIST."""
    codes = {"u1": 8, "i1": 9, "i2": 11, "i4": 12, "f4": 13, "f8": 14}
    head = bytes([0, 0, codes[array.dtype.str[1:]], array.ndim])
    return head + struct.pack(f">{array.ndim}I", *array.shape) + array.astype(
        array.dtype.newbyteorder(">")).tobytes()


@pytest.fixture
def mnist_folder(tmp_path: Path) -> Path:
    """A data set of few images; those of training are packed."""
    rng = np.random.default_rng(0)
    for part, count in (("train", 7), ("t10k", 3)):
        images = idx(rng.integers(0, 256, (count, 28, 28)).astype(np.uint8))
        labels = idx(np.arange(count, dtype=np.uint8))
        pack, end = (gzip.compress, ".gz") if part == "train" else (bytes, "")
        (tmp_path / f"{part}-images-idx3-ubyte{end}").write_bytes(pack(images))
        (tmp_path / f"{part}-labels-idx1-ubyte{end}").write_bytes(pack(labels))
    return tmp_path


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "float32", "float64"])
@pytest.mark.parametrize("shape", [(5,), (2, 3, 4), (0, 3)])
def test_idx(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(0).normal(size=shape).astype(dtype)
    (tmp_path / "x").write_bytes(idx(array))
    actual = data.read_idx(tmp_path / "x")
    assert actual.dtype == array.dtype
    np.testing.assert_array_equal(actual.numpy(), array)


def test_mnist(mnist_folder: Path) -> None:
    images, classes = data.mnist(mnist_folder).tensors
    assert (images.shape, images.dtype, classes.tolist()) == \
        ((7, 1, 28, 28), fw.uint8, list(range(7)))
    assert len(data.mnist(mnist_folder, train=False)) == 3
    batch = next(iter(fw.utils.data.DataLoader(data.mnist(mnist_folder), 4)))
    assert batch[0].shape == (4, 1, 28, 28)


def test_cifar(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [rng.integers(0, 256, (2, 3073)).astype(np.uint8) for _ in range(6)]
    names = [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]
    for name, row in zip(names, rows):
        (tmp_path / name).write_bytes(row.tobytes())
    images, classes = data.cifar10(tmp_path).tensors
    whole = np.concatenate(rows[:5])
    np.testing.assert_array_equal(images.numpy().reshape(10, -1), whole[:, 1:])
    np.testing.assert_array_equal(classes.numpy(), whole[:, 0])
    assert len(data.cifar10(tmp_path, train=False)) == 2


def test_cifar_of_100_classes_in_the_folder_above(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).integers(0, 256, (4, 3074)).astype(np.uint8)
    (tmp_path / "cifar-100-binary").mkdir()
    (tmp_path / "cifar-100-binary" / "test.bin").write_bytes(rows.tobytes())
    fine = data.cifar100(tmp_path, train=False).tensors
    coarse = data.cifar100(tmp_path, train=False, coarse=True).tensors
    np.testing.assert_array_equal(fine[1].numpy(), rows[:, 1])
    np.testing.assert_array_equal(coarse[1].numpy(), rows[:, 0])
    assert fine[0].shape == (4, 3, 32, 32)


@pytest.fixture
def image_folder(tmp_path: Path) -> Path:
    image = pytest.importorskip("PIL.Image")
    for name, colour in (("cat", (255, 0, 0)), ("dog", (0, 0, 255))):
        (tmp_path / name / "more").mkdir(parents=True)
        image.new("RGB", (6, 4), colour).save(tmp_path / name / "1.png")
        image.new("L", (6, 4), 100).save(tmp_path / name / "more" / "2.PNG")
    return tmp_path


def test_folders_of_images(image_folder: Path) -> None:
    images = data.ImageFolder(image_folder)
    assert (images.classes, len(images)) == (["cat", "dog"], 4)
    pixels, number = images[2]
    assert (pixels.shape, pixels.dtype, number) == ((3, 4, 6), fw.uint8, 1)
    assert pixels[:, 0, 0].tolist() == [0, 0, 255]
    batches = fw.utils.data.DataLoader(data.ImageFolder(image_folder, size=(8, 5)), 4)
    assert [x.shape for x, _ in batches] == [(4, 3, 8, 5)]
    assert data.ImageFolder(image_folder, mode="L")[1][0].shape == (1, 4, 6)


def test_folders_of_sound(tmp_path: Path) -> None:
    soundfile = pytest.importorskip("soundfile")
    sound = np.random.default_rng(0).uniform(-0.5, 0.5, (50, 2)).astype(np.float32)
    for name in ("yes", "no"):
        (tmp_path / name).mkdir()
        soundfile.write(tmp_path / name / "a.wav", sound, 8000, subtype="FLOAT")
    actual, number = data.SoundFolder(tmp_path, 8000)[1]
    np.testing.assert_array_equal(actual.numpy(), sound.T)
    assert number == 1 and data.read_sound(tmp_path / "no" / "a.wav")[1] == 8000
    longer, shorter = (data.SoundFolder(tmp_path, 8000, n)[0][0].numpy() for n in (60, 20))
    np.testing.assert_array_equal(longer, np.pad(sound.T, ((0, 0), (0, 10))))
    np.testing.assert_array_equal(shorter, sound.T[:, :20])
    with pytest.raises(FileError, match="has 8000 samples in a second, the data set 16000"):
        data.SoundFolder(tmp_path, 16000)[0]


def test_lines_of_several_files(tmp_path: Path) -> None:
    """With other ends of lines, without an end, empty lines, and an empty file."""
    texts = [b"one\r\n\nthr\xc3\xa9e", b"", b"four\n"]
    for i, text in enumerate(texts):
        (tmp_path / f"{i}.txt").write_bytes(text)
    lines = data.TextLines([tmp_path / f"{i}.txt" for i in range(3)])
    assert [lines[i] for i in range(len(lines))] == ["one", "", "thrée", "four"]
    assert lines[-1] == "four"
    with pytest.raises(IndexError, match="there is no line 4"):
        lines[4]


def damaged_files(folder: Path) -> dict[str, tuple[Any, bytes | None]]:
    """For each kind of file: what reads it, and contents that are wrong; None: no file."""
    whole = idx(np.zeros((2, 3), np.uint8))
    file = folder / "file"
    return {
        "idx: missing": (lambda: data.read_idx(file), None),
        "idx: another format": (lambda: data.read_idx(file), b"hello"),
        "idx: short": (lambda: data.read_idx(file), whole[:-1]),
        "idx: long": (lambda: data.read_idx(file), whole + b"x"),
        "idx: no sizes": (lambda: data.read_idx(file), whole[:6]),
        "idx: damaged gzip": (lambda: data.read_idx(file), gzip.compress(whole)[:-9]),
        "idx: changed gzip": (lambda: data.read_idx(file), gzip.compress(whole)[:-6] + b"123456"),
        "image: missing": (lambda: data.read_image(file), None),
        "image: another format": (lambda: data.read_image(file), b"hello"),
        "sound: missing": (lambda: data.read_sound(file), None),
        "sound: another format": (lambda: data.read_sound(file), b"hello"),
        "csv: missing": (lambda: data.read_csv(file), None),
        "csv: empty": (lambda: data.read_csv(file), b""),
        "csv: rows of other lengths": (lambda: data.read_csv(file), b"a,b\n1,2\n3\n"),
        "csv: only a header": (lambda: data.read_csv(file), b"a,b\n"),
        "csv: an empty number": (lambda: data.read_csv(file), b"a,b\n1,2\n,3\n"),
        "csv: no such column": (lambda: data.read_csv(file, ["c"]), b"a,b\n1,2\n"),
        "parquet: missing": (lambda: data.ParquetTable(file), None),
        "parquet: another format": (lambda: data.ParquetTable(file), b"hello"),
        "text: missing": (lambda: data.TextLines(file), None),
        "text: no UTF-8": (lambda: data.TextLines(file)[1], b"good\nb\xffd\n"),
        "folder: missing": (lambda: data.mnist(file), None)}


@pytest.mark.parametrize("name", damaged_files(Path()))
def test_a_missing_or_damaged_file_is_named_with_the_reason(tmp_path: Path, name: str) -> None:
    needs = {"image": "PIL", "sound": "soundfile", "csv": "pyarrow", "parquet": "pyarrow"}
    if (package := needs.get(name.partition(":")[0])) is not None:
        pytest.importorskip(package)
    read, contents = damaged_files(tmp_path)[name]
    if contents is not None:
        (tmp_path / "file").write_bytes(contents)
    with pytest.raises(FileError) as caught:
        read()
    text = str(caught.value)
    assert str(tmp_path / "file") in text and "test_files.py" in caught.value.line
    assert ("does not exist" if contents is None else "") in text and caught.value.help


def test_parts_of_a_data_set_that_are_missing_are_named(mnist_folder: Path) -> None:
    (mnist_folder / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(FileError, match=r"has none of t10k-labels-idx1-ubyte, .*\.gz"):
        data.mnist(mnist_folder, train=False)
    (mnist_folder / "test").write_bytes(b"a pickle")
    with pytest.raises(FileError, match="is a pickle, which can run code"):
        data.cifar100(mnist_folder, train=False)
    (mnist_folder / "test.bin").write_bytes(b"short")
    with pytest.raises(FileError, match="5 bytes are no whole number of records of 3074 bytes"):
        data.cifar100(mnist_folder, train=False)


def test_a_damaged_image_is_named_by_the_worker_that_reads_it(image_folder: Path) -> None:
    file = image_folder / "dog" / "1.png"
    file.write_bytes(file.read_bytes()[:45])
    loader = fw.utils.data.DataLoader(data.ImageFolder(image_folder), 1, num_workers=2)
    with pytest.raises(FileError, match=r"(?s)DataLoader worker 0 .*sample 2 .*1\.png cannot be"):
        list(loader)


@pytest.mark.parametrize(("module", "use"), [
    ("PIL.Image", lambda path: data.read_image(path)),
    ("soundfile", lambda path: data.read_sound(path)),
    ("pyarrow.csv", lambda path: data.read_csv(path)),
    ("pyarrow.parquet", lambda path: data.ParquetTable(path))])
def test_a_missing_package_is_an_error_that_says_how_to_install_it(
        monkeypatch: pytest.MonkeyPatch, tmp_path: Path, module: str, use: Any) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(fw.StateError, match=f"need the package {module.split('.')[0]}") as caught:
        use(tmp_path / "file")
    assert caught.value.help == 'pip install "fusewire[data]"'
