"""Implements `fusewire launch`, which runs a script on several ranks."""

from __future__ import annotations

import argparse

from ..distributed.launcher import hosts_of, launch
from ..eager.settings import KNOBS
from .support.command import Command, Failed, Result
from .support.screen import Screen


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-n", "--ranks", type=int, required=True, help="number of processes")
    parser.add_argument("--hosts", default="", help="machines, separated by commas; default: here")
    parser.add_argument("--timeout", type=float, default=None,
                        help="seconds that a rank waits for others in a collective; default 600")
    parser.add_argument("script", help="a Python file that calls init_process_group()")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the script")


def _run(options: argparse.Namespace, screen: Screen) -> Result:
    variables = {} if options.timeout is None else {
        KNOBS["distributed_timeout"].variable: str(options.timeout)}
    status, culprits = launch(options.ranks, [options.script, *options.arguments],
                              hosts_of(options.hosts), variables)
    result: Result = {"ranks": options.ranks, "status": status, "failed": culprits}
    if status or culprits:
        what = "; ".join(culprits) or "see the output above"
        raise Failed(f"the job has ended with status {status}: {what}", result=result)
    return result


COMMAND = Command(
    "run a script on several processes",
    "Starts the script on each rank: by srun inside of a Slurm job, else by mpiexec. The ranks of "
    "a machine divide its processors. If a rank raises an error, is killed or does not come to a "
    "collective within the timeout, the job ends, and the rank is named with its last collective.",
    {"launch -n 4 train.py --epochs 3": "4 ranks on this machine",
     "launch -n 8 --hosts a,b train.py": "8 ranks on two machines",
     "launch -n 2 --timeout 30 train.py": "a missing rank ends the job after 30 seconds"},
    _add_arguments, _run)
