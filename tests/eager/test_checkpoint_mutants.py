"""Damaged and hostile checkpoints: each is loaded, or refused by an error with a name.

Many more by `FUSEWIRE_MUTANTS=10000 pytest tests/eager/test_checkpoint_mutants.py`.
"""

import copy
import io
import json
import os
import random
import struct
import tracemalloc

import pytest

import fusewire as fw
from fusewire import nn
from fusewire.eager.errors import DTypeError, FusewireError, StateError

COUNT = int(os.environ.get("FUSEWIRE_MUTANTS", "300"))


def deep(opening, closing, depth):
    return opening * depth + "1" + closing * depth


WRONG = [  # texts in the place of any part of a header or a tree
    deep("[", "]", 5000), deep('{"a":', "}", 5000), deep('{"$tuple":[', "]}", 2000), "[" * 100_000,
    "-1", "1e400", "NaN", "-Infinity", "9" * 30, "9" * 5000, str(2 ** 63), str(2 ** 64 - 1), "0",
    "null", "true", '""', '"\\u0000"', '"\\ud800"', '"x"', "[]", "{}", "[[]]", '{"$tensor": 3}',
    '{"$dtype": "object"}', '{"$dtype": []}', '{"$dict": [[[1], 2]]}', '{"$dict": 7}',
    '{"$tuple": 7}', '{"$new": 1}', '{"__class__": 1}', "[" + "1," * 70 + "1]", "[0, -4]", "[8, 4]",
    "[9223372036854775807, 0]", "[4611686018427387904, 4, 0]", '"complex128"', '"F8_E4M3"',
]
MARK = "\x01"  # stands where a wrong text comes in


@pytest.fixture(scope="module")
def content():
    model = nn.Linear(3, 2)
    optimizer = fw.optim.Adam(model.parameters())
    model(fw.ones(1, 3)).sum().backward()
    optimizer.step()
    file = io.BytesIO()
    fw.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3,
             "rates": (0.1, float("nan")), "dtype": fw.float16, 7: [None, True]}, file)
    return file.getvalue()


def taken_apart(content):
    """The header, with its tree as an object, and the bytes of the tensors."""
    end = 8 + struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:end])
    tree = json.loads(header["__metadata__"].pop("fusewire"))
    return header, tree, content[end:]


def put_together(header, tree, data, twice=False):
    """The file, and with `twice` every key of its header two times."""
    metadata = header.get("__metadata__")
    if isinstance(metadata, dict):
        header = {**header, "__metadata__": {**metadata, "fusewire": tree}}
    text = json.dumps(header)
    raw = (f"{text[:-1]}, {text[1:]}" if twice else text).encode()
    return struct.pack("<Q", len(raw)) + raw + data


def places(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(
        value) if isinstance(value, list) else ()
    for key, part in items:
        yield from places(part, (*path, key))


def text_with(value, path, wrong):
    """`value` as JSON, with the text `wrong` at a path."""
    if not path:
        return wrong
    value = copy.deepcopy(value)
    part = value
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = MARK
    return json.dumps(value).replace(json.dumps(MARK), wrong)


def of_tree(content, rng):
    header, tree, data = taken_apart(content)
    text = text_with(tree, rng.choice(list(places(tree))), rng.choice(WRONG))
    return put_together(header, text, data)


def of_header(content, rng):
    header, tree, data = taken_apart(content)
    header["__metadata__"]["fusewire"] = json.dumps(tree)
    raw = text_with(header, rng.choice(list(places(header))), rng.choice(WRONG)).encode(
        "utf-8", "surrogatepass")
    return struct.pack("<Q", len(raw)) + raw + data


def of_offsets(content, rng):
    """Tensors that overlap, lie outside or elsewhere, of other sizes."""
    header, tree, data = taken_apart(content)
    name = rng.choice([n for n in header if n != "__metadata__"])
    other = header[rng.choice([n for n in header if n != "__metadata__"])]
    header[name] = {**header[name], rng.choice(["data_offsets", "shape", "dtype"]): other[
        rng.choice(["data_offsets", "shape", "dtype"])]}
    return put_together(header, json.dumps(tree), data, rng.random() < 0.3)


def of_bytes(content, rng):
    raw = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(raw))
        raw[at:at + rng.randint(0, 3)] = rng.randbytes(rng.randint(0, 3))
    return bytes(raw[:rng.choice([len(raw), rng.randrange(len(raw))])])


@pytest.mark.parametrize("kind", [of_tree, of_header, of_offsets, of_bytes])
def test_mutants(kind, content):
    rng, refused = random.Random(kind.__name__), 0
    tracemalloc.start()
    for number in range(COUNT):
        mutant = kind(content, rng)
        try:
            fw.load(io.BytesIO(mutant))
        except FusewireError:
            refused += 1
        except Exception as error:
            raise AssertionError(f"{kind.__name__} {number}: {mutant[:400]!r}") from error
    assert tracemalloc.get_traced_memory()[1] < 256 << 20
    tracemalloc.stop()
    assert refused > COUNT // 3


@pytest.mark.parametrize("wrong", [
    *WRONG, '{"weight_map": 3}', '{"weight_map": {"x": 3}}', '{"weight_map": {"x": "index.json"}}',
    '{"weight_map": {"x": "../x.safetensors"}}', '{"weight_map": {"x": "/etc/hostname"}}',
    '{"weight_map": {"x": "tree.safetensors"}}', '{"weight_map": {"y": "flat.safetensors"}}',
])
def test_indices_of_several_files(wrong, tmp_path):
    fw.save([fw.ones(2)], tmp_path / "tree.safetensors")
    fw.save({"x": fw.ones(2)}, tmp_path / "flat.safetensors")
    (tmp_path / "index.json").write_text(wrong)
    with pytest.raises(StateError):
        fw.load(tmp_path / "index.json")


def test_what_is_nested_too_deeply_is_neither_saved_nor_loaded(content):
    header, tree, data = taken_apart(content)
    tree["tree"] = MARK
    text = json.dumps(tree).replace(json.dumps(MARK), deep("[", "]", 5000))
    with pytest.raises(StateError, match="broken checkpoint: its objects are nested too deeply"):
        fw.load(io.BytesIO(put_together(header, text, data)))
    obj = []
    for _ in range(5000):
        obj = [obj]
    with pytest.raises(DTypeError, match="save: the object is nested too deeply"):
        fw.save(obj, io.BytesIO())
