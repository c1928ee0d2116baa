"""Starts the ranks of a job by srun or mpiexec, watches them, and says which one has failed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..eager.errors import ArgumentError, FusewireError
from ..eager.settings import KNOBS
from .mpi_files import find_mpi
from .rank_status import RankState, read_states

_LIBRARY = "MPI4PY_LIBMPI"  # the variable by which mpi4py takes a library
_POLL = 0.05  # seconds between two looks at the ranks
_TEST_TIMEOUT = 60.0  # seconds that a rank of a test waits for others
_FLAGS, _EXITING = 5, 4  # of /proc/PID/stat: the field behind the state, and PF_EXITING in it
_GRACE = 2.0  # seconds that ranks have to end after one of them has failed


def command(ranks: int, script: Sequence[str], folder: str, hosts: Sequence[str] = ()
            ) -> tuple[list[str], dict[str, str]]:
    """The command that starts a script on `ranks` ranks, and the variables that the ranks need: by
    srun inside of a Slurm job, else by mpiexec. The ranks write their state into `folder`.

    Raises:
        ArgumentError: less than one rank.
        DeviceError: there is no mpiexec, or a program that it needs is missing.
    """
    if ranks < 1:
        raise ArgumentError(f"launch: the number of ranks must be at least 1, got {ranks}",
                            "as in fusewire launch -n 4 train.py")
    entry = [sys.executable, "-m", "fusewire.distributed.rank", folder, *script]
    if "SLURM_JOB_ID" in os.environ and shutil.which("srun"):
        return ["srun", "-n", str(ranks), *(["-w", ",".join(hosts)] if hosts else []), *entry], {}
    mpiexec, library = find_mpi()
    return [mpiexec, "-n", str(ranks), *(["-hosts", ",".join(hosts)] if hosts else []), *entry], \
        {_LIBRARY: os.environ.get(_LIBRARY, library)} if library else {}


def environment(ranks_here: int) -> dict[str, str]:
    """The environment of the ranks: those on one machine divide its processors, unless a variable
    says how many threads each has."""
    variables = dict(os.environ)
    threads = KNOBS["threads"].variable
    if not {threads, "OMP_NUM_THREADS"} & variables.keys():
        variables[threads] = str(max(1, (os.cpu_count() or 1) // ranks_here))
    return variables


def launch(ranks: int, script: Sequence[str], hosts: Sequence[str] = (),
           variables: Mapping[str, str] | None = None) -> tuple[int, list[str]]:
    """The exit status of a job, and a line on each rank that ended it.

    No process of the job on this machine is left when this returns.
    """
    with tempfile.TemporaryDirectory() as folder:
        started, needed = command(ranks, script, folder, hosts)
        job = subprocess.Popen(started, env=environment(-(-ranks // max(1, len(hosts)))) | needed
                               | dict(variables or {}))
        try:
            culprits = _watch(job, folder)
        except BaseException:
            job.terminate()
            raise
        finally:
            _end(job, folder)
        return job.returncode, [str(state) for state in culprits]


def hosts_of(text: str) -> list[str]:
    """The names of machines in a list separated by commas."""
    return [host for host in text.split(",") if host]


def check_launch(ranks: int, hosts: Sequence[str] = (), sizes_mb: Sequence[int] = (1, 10, 100)
                 ) -> dict[str, Any]:
    """The report of `self_test.report` for a job of some ranks, with `start`, the seconds from
    the command to the first collective; or only `problem`, why there is none."""
    with tempfile.TemporaryDirectory() as folder:
        path, begin = Path(folder) / "report.json", time.monotonic()
        script = str(Path(__file__).parent / "self_test.py")
        try:
            status, culprits = launch(
                ranks, [script, str(path), ",".join(map(str, sizes_mb))], hosts,
                {KNOBS["distributed_timeout"].variable: str(_TEST_TIMEOUT)})
        except FusewireError as error:
            return {"problem": f"{error.message}; {error.help}"}
        if status or culprits or not path.exists():
            return {"problem": f"the job has ended with status {status}: "
                    f"{'; '.join(culprits) or 'see the output above'}"}
        report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    report["start"] = report.pop("began") - begin
    wrong = [f"{', '.join(names)} on rank {rank}" for rank, names in report["wrong"].items()]
    return report | ({"problem": f"wrong results of {'; '.join(wrong)}"} if wrong else {})


def _watch(job: subprocess.Popen[bytes], folder: str) -> list[RankState]:
    """The ranks that failed or vanished first, and those that were stopped, after the job has ended
    or its time is over."""
    culprits: list[RankState] = []
    stopped: list[RankState] = []
    end = float("inf")
    while job.poll() is None and time.monotonic() < end:
        if not culprits:
            states = read_states(folder)
            stopped = [s for s in states if not s.end and _is_stopped(s.pid)]
            lost = {s.rank for s in states if not s.end and not _lives(s.pid)}
            # One that failed has noted it before mpiexec ended the others.
            culprits = [s for s in read_states(folder) if s.end == "failed" or s.rank in lost]
            end = time.monotonic() + _GRACE if culprits else end
        time.sleep(_POLL)
    if not culprits and job.poll():
        states = read_states(folder)  # mpiexec has ended the others at once
        culprits = [s for s in states if s.end == "failed"] or [s for s in states if not s.end]
    return culprits + [s._replace(last=f"which was stopped, {s.last}") for s in stopped
                       if job.poll() != 0 and s.pid not in {c.pid for c in culprits}]


def _lives(pid: int) -> bool:
    """True if a process of this machine runs or is stopped, and does not end now. A process closes
    its connections before it has ended, and mpiexec may end the others in between."""
    state, *fields = _process_fields(pid)
    if not fields:
        return not Path("/proc/self").exists()  # unknown on systems without /proc
    return state != "Z" and not int(fields[_FLAGS]) & _EXITING


def _is_stopped(pid: int) -> bool:
    """True if a signal or a debugger has stopped a process."""
    return _process_fields(pid)[0] in ("T", "t")


def _process_fields(pid: int) -> list[str]:
    """The state of a process and the fields behind it in /proc/PID/stat; [""] if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return [""]


def _end(job: subprocess.Popen[bytes], folder: str) -> None:
    """Kills the rest of a job on this machine."""
    if job.poll() is None:
        job.terminate()
    killed = [state.pid for state in read_states(folder)
              if (not state.end or state.end == "failed") and _belongs(state.pid, folder)]
    for pid in killed:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        job.wait(_GRACE)
    if job.poll() is None:
        job.kill()
        job.wait()
    end = time.monotonic() + _GRACE
    while any(_belongs(pid, folder) for pid in killed) and time.monotonic() < end:
        time.sleep(_POLL / 10)  # the system takes some time to end a process


def _belongs(pid: int, folder: str) -> bool:
    """True if a process is a rank of this job, and no later one with its number."""
    with contextlib.suppress(OSError):
        return folder.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return False
