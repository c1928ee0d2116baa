"""Code on disk: found again by other processes, and never in anybody's way."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

import fusewire as fw
from fusewire.codegen.runtime import disk_cache, jit, object_cache
from fusewire.codegen.runtime.cpython.object_layout import LAYOUT
from fusewire.codegen.runtime.target import host, named
from fusewire.eager.settings import settings

PARENT = Path(fw.__file__).resolve().parent.parent
POSIX = pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder for entries, empty; what is the same for all programs is loaded already."""
    run()
    before = settings.disk_mb, settings.disk_dir
    settings.disk_mb, settings.disk_dir = 64, str(tmp_path / "objects")
    yield tmp_path / "objects"
    settings.disk_mb, settings.disk_dir = before


@pytest.fixture
def made(monkeypatch: Any) -> list[str]:
    """The modules that LLVM had to compile."""
    found: list[str] = []
    compile_object = jit.compile_object

    def noting(ir: str, target: Any) -> bytes:
        found.append(ir)
        return compile_object(ir, target)

    monkeypatch.setattr(jit, "compile_object", noting)
    return found


def run(factor: float = 2.0) -> float:
    """What a compiled function gives that is new each time."""
    return settled(lambda x: (x * factor).sum(), fw.ones(3))


def settled(function: Any, x: fw.Tensor) -> float:
    """What a function gives once its code is there."""
    compiled = fw.compile(function)
    return [compiled(x).item() for _ in range(3)][-1]


def entries(folder: Path, kind: str = "*.o") -> list[Path]:
    return sorted(folder.glob(kind))


def test_the_same_code_is_made_once(folder: Path, made: list[str]) -> None:
    assert [run(), run(), run()] == [6.0, 6.0, 6.0]
    assert len(made) == 1 == len(entries(folder))


def test_another_function_has_other_code(folder: Path, made: list[str]) -> None:
    assert [run(2.0), run(3.0)] == [6.0, 9.0]
    assert len(made) == 2 == len(entries(folder))


def test_an_edited_source_has_other_code(folder: Path, made: list[str], tmp_path: Path) -> None:
    """The same name in the same file: what counts is what the function does."""
    source = tmp_path / "model.py"

    def said(text: str) -> float:
        source.write_text(f"def loss(x):\n    return {text}\n")
        names: dict[str, Any] = {}
        exec(compile(source.read_text(), source, "exec"), names)  # as a new process would
        return settled(names["loss"], fw.full(3, 2.0))

    assert [said("x.sum() * 2"), said("x.sum() * 3"), said("x.sum() * 2")] == [12.0, 18.0, 12.0]
    assert len(made) == 2 == len(entries(folder))


def test_an_entry_under_another_name_is_none(folder: Path, made: list[str]) -> None:
    run(2.0)
    first, = entries(folder)
    run(3.0)
    second, = set(entries(folder)) - {first}
    second.write_bytes(first.read_bytes())
    assert run(3.0) == 9.0 and len(made) == 3


def test_another_processor_has_other_code() -> None:
    ir = "; the same text"
    assert object_cache.key(ir, host()) != object_cache.key(ir, named("x86-64-v2"))


def test_nothing_is_kept_where_that_is_asked_for(folder: Path, made: list[str]) -> None:
    settings.disk_mb = 0
    assert [run(), run()] == [6.0, 6.0]
    assert len(made) == 2 and not folder.exists()


@pytest.mark.parametrize("damage", [
    lambda raw: b"", lambda raw: raw[:-1], lambda raw: raw[:40], lambda raw: b"x" + raw[1:],
    lambda raw: raw[:-5] + bytes([raw[-5] ^ 1]) + raw[-4:], lambda raw: raw + b"more"])
def test_what_is_damaged_is_made_anew(folder: Path, made: list[str], damage: Any) -> None:
    run()
    entry, = entries(folder)
    good = entry.read_bytes()
    entry.write_bytes(damage(good))
    assert run() == 6.0 and len(made) == 2
    assert entry.read_bytes() == good and run() == 6.0 and len(made) == 2


@POSIX
def test_what_others_may_write_is_not_run(folder: Path, made: list[str]) -> None:
    run()
    entry, = entries(folder)
    entry.chmod(0o666)
    assert run() == 6.0 and len(made) == 2


@POSIX
def test_a_folder_that_others_may_write_is_not_used(folder: Path, made: list[str]) -> None:
    folder.mkdir()
    folder.chmod(0o777)
    assert [run(), run()] == [6.0, 6.0]
    assert len(made) == 2 and entries(folder) == []


def put_pipe(path: Path, entry: bytes) -> None:
    os.mkfifo(path, 0o600)


def put_socket(path: Path, entry: bytes) -> None:
    """Bound where the path is short: a socket's may have a hundred bytes."""
    with socket.socket(socket.AF_UNIX) as server, tempfile.TemporaryDirectory(dir="/tmp") as short:
        server.bind(f"{short}/s")
        shutil.move(f"{short}/s", path)


def put_link(path: Path, entry: bytes) -> None:
    path.with_name("elsewhere").write_bytes(entry)
    path.symlink_to(path.with_name("elsewhere"))


def put_endless_link(path: Path, entry: bytes) -> None:
    path.symlink_to("/dev/zero")


def put_folder(path: Path, entry: bytes) -> None:
    path.mkdir()


def put_file_that_others_write(path: Path, entry: bytes) -> None:
    path.write_bytes(entry)
    path.chmod(0o620)


def within(seconds: float, call: Callable[[], Any]) -> Any:
    """What a call gives, which may not wait for anything."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(call()), daemon=True)
    thread.start()
    thread.join(seconds)
    assert found, "it waits"
    return found[0]


@POSIX
@pytest.mark.parametrize("put", [put_pipe, put_socket, put_link, put_endless_link, put_folder,
                                 put_file_that_others_write])
def test_what_is_no_file_of_ours_is_no_entry(folder: Path, put: Callable[[Path, bytes], None]
                                             ) -> None:
    """Nothing waits for it, and an entry takes its place; a folder stays."""
    name = "0" * 64 + ".o"
    disk_cache.save(name, b"image")
    entry = (folder / name).read_bytes()
    (folder / name).unlink()
    put(folder / name, entry)
    assert within(30, lambda: (disk_cache.load(name), True)) == (None, True)
    assert within(30, lambda: (disk_cache.save(name, b"new"), True)) == (None, True)
    is_folder = put is put_folder
    assert disk_cache.load(name) == (None if is_folder else b"new")
    assert [e.name for e in disk_cache.entries(folder)] == [name]


@POSIX
def test_a_pipe_in_the_place_of_the_folder(folder: Path, made: list[str]) -> None:
    os.mkfifo(folder)
    assert within(60, lambda: [run(), run()]) == [6.0, 6.0]


@POSIX
def test_the_file_that_was_looked_at_is_the_one_that_is_read(folder: Path, monkeypatch: Any
                                                             ) -> None:
    """Another file takes the name of an entry right after somebody has asked whose it is."""
    disk_cache.save("a.o", b"image")
    disk_cache.save("b.o", b"image")
    other = b"fusewire object 2\n" + disk_cache.digest("a.o", b"other") + b"other"

    def swapped(about: Any) -> bool:
        (folder / "c").write_bytes(other)
        os.replace(folder / "c", folder / "a.o")
        return True

    monkeypatch.setattr(disk_cache, "_is_ours", lambda about: stat.S_ISDIR(about.st_mode)
                        or swapped(about))
    assert disk_cache.load("a.o") == b"image"


@POSIX
def test_a_folder_that_takes_the_place_of_ours(folder: Path, tmp_path: Path, monkeypatch: Any
                                               ) -> None:
    """What was opened is used to the end, whatever has its name by then."""
    disk_cache.save("a.o", b"image")
    is_ours = disk_cache._is_ours

    def moved(about: Any) -> bool:
        if stat.S_ISDIR(about.st_mode) and not (tmp_path / "ours").exists():
            folder.rename(tmp_path / "ours")
            folder.mkdir()
        return is_ours(about)

    monkeypatch.setattr(disk_cache, "_is_ours", moved)
    disk_cache.save("b.o", b"image")
    assert list(folder.iterdir()) == []
    assert {p.name for p in (tmp_path / "ours").iterdir()} == {"a.o", "b.o"}


def test_a_folder_that_cannot_be_written(folder: Path, made: list[str], monkeypatch: Any) -> None:
    def refused(*where: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(disk_cache, "_replace", refused)
    assert [run(), run()] == [6.0, 6.0]
    assert len(made) == 2 and entries(folder) == []


def test_a_file_in_the_place_of_the_folder(folder: Path, made: list[str]) -> None:
    folder.write_text("no folder")
    assert [run(), run()] == [6.0, 6.0]
    assert len(made) == 2 and folder.read_text() == "no folder"


def test_what_a_killed_process_left_is_no_entry(folder: Path, made: list[str]) -> None:
    folder.mkdir(mode=0o700)
    name = object_cache.key("; a text", host())
    (folder / "half.part").write_bytes(b"fusewire object 1\nhalf")
    assert disk_cache.load(name) is None
    disk_cache.save(name, b"image")
    assert disk_cache.load(name) == b"image"


def test_the_oldest_go_where_there_is_too_much(folder: Path) -> None:
    settings.disk_mb = 1
    names = [f"{i:064d}.o" for i in range(8)]
    for age, name in enumerate(names):
        disk_cache.save(name, bytes(200_000))
        os.utime(folder / name, (age, age))
    assert disk_cache.load(names[4]) is not None  # of use: now it is the newest
    disk_cache.save("f.o", bytes(200_000))
    kept = {p.name for p in entries(folder)}
    assert names[4] in kept and "f.o" in kept and names[0] not in kept
    assert sum(p.stat().st_size for p in entries(folder)) <= 1 << 20


def test_small_entries_keep_to_the_limit_with_few_looks_at_the_folder(
        folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at a folder of 20,000 entries takes longer than to compile a small program."""
    looks = Mock(wraps=disk_cache._evict)
    monkeypatch.setattr(disk_cache, "_evict", looks)
    settings.disk_mb = 1
    for i in range(1600):
        disk_cache.save(f"{i:064d}.o", bytes(1000))
    assert sum(p.stat().st_size for p in entries(folder)) < 1.3 * (1 << 20)
    assert 20 < looks.call_count < 300  # a hundred on average


def test_threads_that_write_the_same(folder: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: disk_cache.save("a.o", bytes([1]) * 100_000), range(40)))
        found = list(pool.map(lambda i: disk_cache.load("a.o"), range(40)))
    assert found == [bytes([1]) * 100_000] * 40 and len(entries(folder)) == 1


_SCRIPT = """
import fusewire as fw
from fusewire.codegen.runtime import disk_cache, jit
from fusewire.codegen.runtime.cpython import mutation_watch
made, used = [], set()
compile_object, load = jit.compile_object, disk_cache.load
jit.compile_object = lambda *args: made.append(args) or compile_object(*args)
disk_cache.load = lambda name: used.add(name) or load(name)
mutation_watch._dict_watch_works()  # loads code where changed dictionaries are told of
layers = fw.nn.Sequential(*[fw.nn.Linear(8, 8) for _ in range(8)], fw.nn.GELU(), fw.nn.Dropout())
optimizer = fw.optim.Adam(layers.parameters())

@fw.compile(fullgraph=True)
def step(x):
    optimizer.zero_grad()
    loss = layers(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss

losses = [step(fw.ones(4, 8)).item() for _ in range(3)]
print(len(made), losses[0] > 0, *sorted(used))
"""


def started(folder: Path, **environment: str) -> subprocess.Popen[str]:
    """A process that compiles a program, with all that it needs besides."""
    variables = {**os.environ, "FUSEWIRE_DISK_DIR": str(folder), "FUSEWIRE_DISK_MB": "64",
                 "PYTHONPATH": str(PARENT), **environment}
    return subprocess.Popen([sys.executable, "-c", _SCRIPT], env=variables, text=True,
                            stdout=subprocess.PIPE)


def said(process: subprocess.Popen[str]) -> tuple[int, list[str]]:
    """How many modules it had to compile, and the names of all entries that it looked for."""
    words = process.communicate(timeout=300)[0].split()
    assert process.returncode == 0 and words[1] == "True"
    return int(words[0]), words[2:]


def test_processes_find_what_others_made(tmp_path: Path) -> None:
    """Two at once, both with nothing to begin with; then one that has nothing to compile. What a
    module says is the same in all of them: no address, no order of a set."""
    seeds = iter("1234")

    def another() -> subprocess.Popen[str]:
        return started(tmp_path, PYTHONHASHSEED=next(seeds))

    first = [said(process) for process in [another(), another()]]
    again, names = said(another())
    assert again == 0 and [m for _, m in first] == [names, names]
    assert [entry.name for entry in entries(tmp_path, "*")] == names
    assert len(entries(tmp_path)) >= (4 if LAYOUT else 2)  # a program, threads, entries, observer


@pytest.mark.parametrize("damage", [lambda raw: b"", lambda raw: raw[:-1] + b"x"])
def test_damage_to_what_all_programs_use(tmp_path: Path, damage: Any) -> None:
    count, names = said(started(tmp_path))
    good = {entry: entry.read_bytes() for entry in entries(tmp_path, "*")}
    for entry, raw in good.items():
        entry.write_bytes(damage(raw))
    assert said(started(tmp_path)) == (count, names)
    assert {entry: entry.read_bytes() for entry in entries(tmp_path, "*")} == good


def test_processes_that_can_keep_nothing(tmp_path: Path) -> None:
    """Its folder is a file."""
    folder = tmp_path / "objects"
    folder.write_text("no folder")
    count, names = said(started(folder))
    assert count == sum(n.endswith(".o") for n in names) and folder.read_text() == "no folder"
