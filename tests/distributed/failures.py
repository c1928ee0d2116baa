"""Ends ranks at random moments of a training: `python tests/distributed/failures.py --moments 50`.

A rank is killed, stopped, or raises an error, while it traces, compiles, computes, communicates or
saves. Each time the job must end within the timeout and two seconds, name the rank or what the
others waited for, leave no process, and leave a checkpoint that loads. `test_mpi.py` has one moment
of each kind, between collectives.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import fusewire as fw
import fusewire.distributed as dist
from fusewire import nn
from fusewire.distributed.launcher import launch

KINDS = ("kill", "stop", "raise")
GRACE = 2.0  # seconds beside the timeout

SOURCE = """
    import os, signal, sys, threading, time
    from pathlib import Path

    what, moment, folder = sys.argv[1], float(sys.argv[2]), Path(sys.argv[3])

    class Lost(BaseException):  # many libraries take an Exception of a moment for an answer
        pass

    def end(*_):
        (folder / "moment").write_text(repr(time.time()))
        if what == "raise":
            raise Lost
        os.kill(os.getpid(), signal.SIGKILL if what == "kill" else signal.SIGSTOP)

    import fusewire as fw
    import fusewire.distributed as dist
    from fusewire import nn

    dist.init_process_group()
    if dist.get_rank() == 1:
        signal.signal(signal.SIGALRM, end)
        signal.setitimer(signal.ITIMER_REAL, moment)
    fw.manual_seed(0)
    model = nn.Sequential(*[nn.Linear(16, 16) for _ in range(3)])
    dist.replicate(model, bucket_mb=0.001)
    optimizer = fw.optim.AdamW(model.parameters(), lr=0.01)

    @fw.compile
    def step(x):
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return dist.all_reduce(loss.detach(), "mean")

    begin = time.time()
    while time.time() - begin < 60 or any(dist.all_gather_object(False)):
        step(fw.rand(8, 16))
        dist.checkpoint.save({"model": model, "optimizer": optimizer}, folder / "checkpoint")
"""


@contextlib.contextmanager
def messages_in(path: Path) -> Iterator[None]:
    """A context in which this process and those that it starts write errors into a file."""
    kept = os.dup(2)
    with path.open("wb") as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def processes_with(text: str) -> int:
    """The number of other processes whose command line has a text."""
    found = 0
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found += int(path.parent.name) != os.getpid() and text.encode() in path.read_bytes()
    return found


def problem(what: str, moment: float, timeout: float) -> str:
    """What went wrong in one job whose rank 1 ends `moment` seconds after it has joined, or ""."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "script.py"
        script.write_text("\n".join(line[4:] for line in SOURCE.splitlines()))
        with messages_in(Path(folder) / "messages"):
            status, culprits = launch(2, [str(script), what, str(moment), folder], variables={
                "FUSEWIRE_DISTRIBUTED_TIMEOUT": str(timeout)})
        late = time.time() - float((Path(folder) / "moment").read_text())
        if status == 0 or not culprits:
            return f"status {status}, culprits {culprits}"
        messages = (Path(folder) / "messages").read_text(errors="replace")
        if not re.search(r"rank 1[,:]", "\n".join([*culprits, messages])):
            return f"nothing names rank 1: {culprits}\n{messages}"
        if late > timeout + GRACE:
            return f"it ended after {late:.1f} s"
        if processes_with(folder):
            return "a process is left"
        return _broken_checkpoint(Path(folder) / "checkpoint")


def _broken_checkpoint(folder: Path) -> str:
    if not (folder / "index.json").exists():
        return ""  # it ended before the first one
    model = nn.Sequential(*[nn.Linear(16, 16) for _ in range(3)])
    optimizer = fw.optim.AdamW(model.parameters(), lr=0.01)
    try:
        dist.checkpoint.load({"model": model, "optimizer": optimizer}, folder)
    except fw.FusewireError as error:
        return f"the checkpoint does not load: {error}"
    return ""


def main() -> int:
    """Runs all moments; the exit status is the number of problems."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moments", type=int, default=50, help="of each kind")
    parser.add_argument("--timeout", type=float, default=2.0)
    parser.add_argument("--longest", type=float, default=6.0, help="latest moment in seconds")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    problems = 0
    for number in range(options.moments):
        for what in KINDS:
            moment = random.Random(f"{options.seed} {number} {what}").uniform(0, options.longest)
            found = problem(what, moment, options.timeout)
            problems += bool(found)
            print(f"{what} after {moment:.3f} s: {found or 'ended well'}", flush=True)
    print(f"{problems} problems in {options.moments * len(KINDS)} jobs")
    return problems


if __name__ == "__main__":
    sys.exit(main())
