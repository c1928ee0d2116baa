"""What an entry on disk says of a program: data in a format of its own, which runs nothing."""

from __future__ import annotations

import ast
import copy
import json
import pickle
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kinds import KINDS

import fusewire as fw
from fusewire.capture.passes.bounds_checks import BoundsCheck
from fusewire.capture.sizes.size_expr import Quotient, SizeExpr, SizeSymbol, constant, symbol
from fusewire.codegen.cache import program_entry
from fusewire.codegen.compile import compile_graph
from fusewire.codegen.dynamic.dynamic_program import DynamicProgram
from fusewire.codegen.program.executable import Interface
from fusewire.codegen.program.native_program import ProgramFacts
from fusewire.codegen.program.prepack import PrepackedBuffers
from fusewire.codegen.program.prepacked_executable import Parts
from fusewire.codegen.runtime import disk_cache as disk_module
from fusewire.eager.arrays.shapes import TensorType

PACKAGE = Path(fw.__file__).resolve().parent
MUTANTS = 1500
CLASSES = {ProgramFacts, Parts, Interface, BoundsCheck, PrepackedBuffers, SizeExpr, SizeSymbol,
           Quotient, DynamicProgram,
           TensorType, str, int, float,
           bool, type(None), list, tuple, dict, frozenset, set, np.ndarray}

TYPE = TensorType((3, 4), fw.float32)
INTERFACE = Interface(
    [TYPE, TensorType((5,), fw.bfloat16)], [np.arange(6.0).reshape(2, 3), np.array([1 + 2j])],
    [TYPE], [2], [0], [(1, BoundsCheck(1, 7, "an index"))], [BoundsCheck(0, 3, "a class", -1)],
                      ((3, 4),), ())
VALUE = ("0" * 64 + ".o", ProgramFacts(frozenset({"expf", "logf"}), 3, 17.25),
         (Parts(INTERFACE, 64, PrepackedBuffers(1, (0,), (256,))),
          DynamicProgram({"n": 64}, {"n": "n"}, None, [(symbol("n", 1, 64),)],
                         [(symbol("n", 1, 64) // constant(3) + constant(1),)])))


def plain(x: Any) -> Any:
    """A value that equal ones are equal to: arrays as what they hold."""
    if isinstance(x, np.ndarray):
        return x.dtype, x.shape, x.tobytes()
    if isinstance(x, (Interface, DynamicProgram)):
        return type(x), {name: plain(value) for name, value in vars(x).items()}
    if isinstance(x, (list, tuple)):
        return type(x), [plain(value) for value in x]
    return x


def test_a_value_comes_back_as_it_was() -> None:
    found = program_entry.from_bytes(program_entry.to_bytes(VALUE))
    assert plain(found) == plain(VALUE)
    assert found[2][0].interface.inputs[0].dtype is fw.float32  # much asks for the very object


def test_what_has_no_place_in_an_entry_makes_none() -> None:
    assert program_entry.to_bytes(object()) == program_entry.to_bytes([lambda: 1]) == b""


@pytest.mark.parametrize("raw", [b"", b"{}", b"\n", b"[]\n", b"null\n", b"{\n", b"\xff\n" * 5,
                                 b'{"value": ["Unknown"], "rows": [], "arrays": []}\n'])
def test_bytes_that_are_no_entry(raw: bytes) -> None:
    with pytest.raises(program_entry.Damaged):
        program_entry.from_bytes(raw)


# ---- an entry that is meant ill
RAN: list[str] = []
_WATCHING: list[bool] = []


def _note(event: str, arguments: Any) -> None:
    if _WATCHING and event in ("exec", "compile", "import", "open", "os.system", "subprocess.Popen",
                               "ctypes.dlopen", "pickle.find_class", "marshal.loads"):
        RAN.append(event)


@pytest.fixture
def watched() -> Iterator[list[str]]:
    """The events of running something that a test has caused."""
    if not hasattr(_note, "added"):
        sys.addaudithook(_note)
        _note.added = True  # type: ignore[attr-defined]
    RAN.clear()
    yield RAN
    _WATCHING.clear()


class Ill:
    def __reduce__(self) -> Any:
        return print, ("it has run",)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_is_no_entry(protocol: int, disk: Path, capsys: Any) -> None:
    """Even where it is sealed like an entry, and found under the name of a program."""
    graph, arrays = KINDS["pointwise"].graph(9, "float32")
    wanted = compile_graph(graph)([*arrays])
    for path in disk.glob("*.program"):
        disk_module.save(path.name, pickle.dumps(Ill(), protocol))
    found = compile_graph(graph)([*arrays])
    assert [a.tobytes() for a in found] == [a.tobytes() for a in wanted]
    assert capsys.readouterr().out == ""


def places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Every container of a JSON tree, with each of its keys."""
    for key in tree if isinstance(tree, dict) else range(len(tree)):
        yield tree, key
        if isinstance(tree[key], (dict, list)):
            yield from places(tree[key])


def changed_tree(raw: bytes, rng: random.Random) -> bytes:
    """The entry with a few parts of its JSON replaced, removed, doubled or swapped."""
    head, _, data = raw.partition(b"\n")
    tree = json.loads(head)
    for _ in range(rng.choice([1, 1, 2, 4])):
        owner, key = rng.choice(list(places(tree)))
        other, of = rng.choice(list(places(tree)))
        how = rng.randrange(4)
        if how == 0:
            owner[key] = rng.choice([None, True, -1, 1 << 70, 1e400, "", "os.system", "@", [], {},
                                     ["@", -1], ["@", 10 ** 6], ["dtype", "O"], ["tuple"],
                                     ["dict", [1]], ["array", "x", "float32", [1 << 40]]])
        elif how == 1:
            owner[key] = copy.deepcopy(other[of])
        elif how == 2 and isinstance(owner, list):
            owner.pop(key)
        elif isinstance(owner, list):
            owner.insert(key, copy.deepcopy(other[of]))
    return json.dumps(tree).encode() + b"\n" + data


def changed_bytes(raw: bytes, rng: random.Random) -> bytes:
    """The entry with a few bytes changed, or cut off."""
    made = bytearray(raw)
    for _ in range(rng.choice([1, 2, 9])):
        made[rng.randrange(len(made))] = rng.randrange(256)
    return bytes(made[:rng.randrange(len(made))] if rng.random() < 0.3 else made)


def classes_in(x: Any) -> set[type]:
    """The classes of a value and of what it holds."""
    held: Any = []
    if isinstance(x, (list, tuple, set, frozenset)):
        held = x
    elif isinstance(x, dict):
        held = [*x, *x.values()]
    elif isinstance(x, (Interface, DynamicProgram, PrepackedBuffers)):
        held = vars(x).values()
    return {type(x)}.union(*map(classes_in, held))


@pytest.mark.parametrize("change", [changed_tree, changed_bytes])
def test_mutants_are_damaged_or_plain_data(change: Any, watched: list[str]) -> None:
    raw, read = program_entry.to_bytes(VALUE), 0
    rng = random.Random(25)
    dtypes = {type(d) for d in fw.eager.arrays.dtypes.OWN}
    numbers = {d.type for d in fw.eager.arrays.dtypes.OWN}
    for _ in range(MUTANTS):
        mutant = change(raw, rng)
        _WATCHING.append(True)
        try:
            found = program_entry.from_bytes(mutant)
        except program_entry.Damaged:
            continue
        finally:
            _WATCHING.clear()
        read += 1
        assert classes_in(found) <= CLASSES | dtypes | numbers
    assert watched == [] and 0 < read < MUTANTS


# ---- the sources
def imported(path: Path) -> set[str]:
    """The modules that a source imports anywhere in it, by their first names."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add(str(node.module).split(".")[0])
    return found


@pytest.mark.parametrize("folder", ["capture", "codegen", "export"])
def test_no_source_reads_objects_that_run_code(folder: str) -> None:
    files = sorted((PACKAGE / folder).rglob("*.py"))
    unsafe = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "_pickle"}
    assert files and {str(f): imported(f) & unsafe for f in files if imported(f) & unsafe} == {}
