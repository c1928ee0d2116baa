"""What is damaged, cut off, or for another machine or version is refused, by what the file says."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fusewire as fw
from fusewire.capture.guards.predicates import CONDITIONS
from fusewire.capture.heap.object_recipes import BUILDERS
from fusewire.capture.scalars.scalar_expr import OPERATORS
from fusewire.codegen.llvm import step_table
from fusewire.codegen.runtime import target
from fusewire.eager.errors import ImportModelError
from fusewire.export.saved import file
from fusewire.export.saved.executables import CODE
from fusewire.export.saved.trace_codecs import KINDS


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A small program with a state."""
    weight = fw.arange(6.0).reshape(2, 3)

    @fw.compile
    def f(x: fw.Tensor) -> fw.Tensor:
        return fw.tanh(x @ weight) + 1

    f(fw.ones(4, 2))
    f.save(tmp_path / "f.fw")
    return tmp_path / "f.fw"


def head(path: Path) -> tuple[bytes, dict[str, Any]]:
    raw = path.read_bytes()
    return raw, json.loads(raw[8:8 + int.from_bytes(raw[:8], "little")])


def altered(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Writes other facts into a file, with the digest that belongs to them."""
    raw, header = head(path)
    end = 8 + int.from_bytes(raw[:8], "little")
    about = json.loads(header["__metadata__"]["fusewire.saved"])
    change(about)
    header["__metadata__"]["fusewire.saved"] = json.dumps(about)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + raw[end:])
    file.seal(str(path))


def test_it_is_a_safetensors_file(saved: Path) -> None:
    found = fw.load(saved)
    assert np.array_equal(found["weight"].numpy(), np.arange(6.0).reshape(2, 3))


def test_any_byte_that_differs_is_refused(saved: Path) -> None:
    raw, header = head(saved)
    size = int.from_bytes(raw[:8], "little")
    inside = [8 + size + place for name, at in header.items() if name != "__metadata__"
              for place in (at["data_offsets"][0], at["data_offsets"][1] - 1)]
    for place in (*range(8), *range(8, 8 + size, 211), *inside, len(raw) - 1):
        changed = bytearray(raw)
        changed[place] ^= 1
        saved.write_bytes(changed)
        with pytest.raises((ImportModelError, fw.StateError),
                           match=r"damaged|broken|no saved|not a"):
            fw.load_compiled(saved)


@pytest.mark.parametrize("left", [0, 5, 8, 100, 0.5, 0.99, -1])
def test_what_is_cut_off_is_refused(saved: Path, left: float) -> None:
    raw = saved.read_bytes()
    saved.write_bytes(raw[:int(left * len(raw)) if 0 < left < 1 else int(left)])
    with pytest.raises((ImportModelError, fw.StateError)):
        fw.load_compiled(saved)


def test_a_checkpoint_is_no_program(tmp_path: Path) -> None:
    fw.save({"a": fw.ones(2)}, tmp_path / "a.safetensors")
    with pytest.raises(ImportModelError, match=r"no saved program\n.*\n.*fw\.load reads"):
        fw.load_compiled(tmp_path / "a.safetensors")
    (tmp_path / "b.pt").write_bytes(b"PK\x03\x04 data.pkl and more")
    with pytest.raises(fw.StateError, match="PyTorch"):
        fw.load_compiled(tmp_path / "b.pt")
    with pytest.raises(FileNotFoundError):
        fw.load_compiled(tmp_path / "c.fw")


def test_another_format(saved: Path) -> None:
    altered(saved, lambda about: about.update(format=file.FORMAT + 1, version="9.9"))
    with pytest.raises(ImportModelError, match=rf"saved by fusewire 9\.9 in format "
                                               rf"{file.FORMAT + 1}; this version reads format"):
        fw.load_compiled(saved)


def test_another_processor(saved: Path) -> None:
    altered(saved, lambda about: about.update(cpu="mars", needs=[*about["needs"], "warp9"]))
    with pytest.raises(ImportModelError, match=rf"processor mars; this one, {target.host().cpu}, "
                                               "lacks warp9"):
        fw.load_compiled(saved)


def test_another_system(saved: Path) -> None:
    altered(saved, lambda about: about.update(triple="wasm32-unknown-web"))
    with pytest.raises(ImportModelError, match=rf"for wasm32-unknown-web .*; this machine is "
                                               rf"{target.host().triple}"):
        fw.load_compiled(saved)


def test_code_for_an_older_processor_runs_on_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not target.host().x86:
        pytest.skip("the levels are those of x86-64")
    monkeypatch.setattr(fw.settings, "cpu", "x86-64-v2")
    f = fw.compile(lambda x: fw.exp(x) * 2)
    f(fw.ones(3))
    f.save(tmp_path / "f.fw")
    monkeypatch.undo()
    about = json.loads(head(tmp_path / "f.fw")[1]["__metadata__"]["fusewire.saved"])
    assert about["cpu"] == "x86-64-v2" and "avx" not in about["needs"]
    np.testing.assert_allclose(fw.load_compiled(tmp_path / "f.fw")(fw.ones(3)).numpy(),
                               np.exp(np.ones(3)) * 2, rtol=1e-6)


def test_the_old_file_stays_where_a_new_one_cannot_be_written(saved: Path) -> None:
    before = saved.read_bytes()
    f = fw.compile(lambda x: x.numpy())
    with pytest.raises(fw.ExportError):
        f.save(saved)
    assert saved.read_bytes() == before
    assert [p.name for p in saved.parent.iterdir()] == ["f.fw"]


def test_a_file_that_was_made_to_mislead_names_no_code(saved: Path) -> None:
    """Nothing of a description is run as Python: what is no known kind, name or class is an
    error."""
    arrays, description = file.read(saved)
    text = json.dumps(description)
    for old, new in (('"tensor", ["dict"', '"__import__(\'os\')", ["dict"'),
                     ('["class", "Tensor"]', '["class", "os.system"]'),
                     ('["guard"', '["os.system"')):
        assert old in text
        with pytest.raises(ImportModelError):
            file_with(saved, arrays, json.loads(text.replace(old, new)))


def file_with(path: Path, arrays: dict[str, Any], description: Any) -> None:
    """Loads a file of this description."""
    file.write(path, arrays, description, target.host(), "0")
    fw.load_compiled(path)


def test_the_format_has_another_number_when_it_changes() -> None:
    """What files are made of, and how object code is called, by a digest: where this fails, raise
    FORMAT in export/saved/file.py if files of before would be read wrongly, and note it here."""
    fields = {kind.tag: getattr(cls, "_fields", None) or list(
        getattr(cls, "__dataclass_fields__", ())) for cls, kind in {**KINDS, **CODE}.items()}
    conditions = {name: text for name, text in CONDITIONS.items() if isinstance(text, str)}
    told = repr((sorted(fields.items()), sorted(conditions.items()), sorted(BUILDERS),
                 sorted(OPERATORS), step_table._TYPES, step_table._PROGRAM))
    assert (file.FORMAT, hashlib.sha256(told.encode()).hexdigest()[:16]) == (9, "76baecff307eae83")
