"""The launcher finds mpiexec, what it needs, and the library that belongs to it."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, PackagePath
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fusewire.distributed import launcher, mpi_files
from fusewire.distributed.mpi_files import find_mpi
from fusewire.distributed.rank_status import RankStatus, read_states
from fusewire.eager.errors import DeviceError


@pytest.fixture
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs that is the PATH of this process, without wheels of MPI."""
    def none(name: str) -> Any:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(mpi_files, "distribution", none)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    for name in ("SLURM_JOB_ID", "MPI4PY_LIBMPI"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def write(path: Path, content: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    path.chmod(0o755)
    return path


def test_no_mpiexec(prefix: Path) -> None:
    with pytest.raises(DeviceError, match="there is no mpiexec"):
        find_mpi()


def test_hydra_needs_its_proxy(prefix: Path) -> None:
    """A link to mpiexec is followed to the folder in which the proxy lies."""
    real = write(prefix / "real" / "mpiexec", "starts hydra_pmi_proxy")
    link = prefix / "bin" / "mpiexec"
    link.parent.mkdir()
    link.symlink_to(real)
    with pytest.raises(DeviceError, match=r"needs hydra_pmi_proxy, which is not in .*bin"):
        find_mpi()
    write(prefix / "real" / "hydra_pmi_proxy")
    assert find_mpi() == (str(real), None)
    write(prefix / "bin" / "hydra_pmi_proxy")
    assert find_mpi() == (str(link), None)


def test_other_launchers_need_no_proxy(prefix: Path) -> None:
    mpiexec = write(prefix / "bin" / "mpiexec", "starts prted")
    assert find_mpi() == (str(mpiexec), None)


@pytest.mark.parametrize("library", ["libmpi.so.12", "libmpi.so.40", "libmpi.12.dylib"])
def test_the_library_of_a_wheel(prefix: Path, monkeypatch: pytest.MonkeyPatch, library: str
                                ) -> None:
    """A wheel in another environment, which this one extends."""
    mpiexec = write(prefix / "other" / "bin" / "mpiexec")
    held = [mpiexec, write(prefix / "other" / "lib" / library),
            write(prefix / "other" / "lib" / "libmpicxx.so.12"),
            write(prefix / "other" / "lib" / "libmpi.so")]

    files = [PackagePath(path) for path in held]
    for file, path in zip(files, held):
        file.dist = SimpleNamespace(locate_file=lambda _, path=path: path)
    monkeypatch.setattr(mpi_files, "distribution", lambda name: SimpleNamespace(files=files))
    assert find_mpi() == (str(mpiexec), str(held[1]))
    command, variables = launcher.command(2, ["train.py"], "folder")
    assert command[:3] == [str(mpiexec), "-n", "2"]
    assert variables == {"MPI4PY_LIBMPI": str(held[1])}
    monkeypatch.setenv("MPI4PY_LIBMPI", "chosen")
    assert launcher.command(2, ["train.py"], "folder")[1] == {"MPI4PY_LIBMPI": "chosen"}


@pytest.mark.parametrize("text", ["all_reduce", "é" * 999, "\U0001f600" * 999, "\1\"\\" * 999,
                                  "a\udcff.py:3"])
def test_notes_of_ranks_in_any_script(tmp_path: Path, text: str) -> None:
    """The launcher reads the beginning of a long text, whatever its bytes; a file name that is no
    UTF-8 has marks in it."""
    status = RankStatus(str(tmp_path), 3)
    status.note(text, "failed")
    state, = read_states(str(tmp_path))
    assert (state.rank, state.end) == (3, "failed")
    assert text.replace("\udcff", "?").startswith(state.last)
    assert len(state.last) >= min(len(text), 80)


def test_a_rank_that_failed_before_others_were_ended(tmp_path: Path,
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 1 notes that it failed, and mpiexec ends rank 0, while the launcher looks at them."""
    ranks = [RankStatus(str(tmp_path), rank) for rank in range(2)]

    def lives(pid: int) -> bool:
        ranks[1].finish("failed")
        return False

    monkeypatch.setattr(launcher, "_lives", lives)
    looks = iter([None, 1, 1, 1])
    job: Any = SimpleNamespace(poll=lambda: next(looks))
    assert 1 in [s.rank for s in launcher._watch(job, str(tmp_path)) if s.end == "failed"]
