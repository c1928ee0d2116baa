"""Runs a script as one rank of a job: `python -m fusewire.distributed.rank folder script.py ...`.

A rank that raises an error ends the whole job. Otherwise the others would wait for it.
"""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from collections.abc import Sequence

from .engines.mpi import load_mpi
from .groups import set_status
from .rank_status import RankStatus


def main(arguments: Sequence[str]) -> None:
    """Runs a script as a rank.

    Args:
        arguments: the folder in which the ranks write their state, the script, its arguments.
    """
    folder, script, *rest = arguments
    mpi = load_mpi()
    world = mpi.COMM_WORLD
    status = RankStatus(folder, world.Get_rank())
    set_status(status)
    sys.argv[:] = [script, *rest]
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    try:
        runpy.run_path(script, run_name="__main__")
        failed = False
    except SystemExit as error:
        failed = error.code not in (None, 0)
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        failed = True
    status.finish("failed" if failed else "done")
    if failed:
        print(f"rank {world.Get_rank()} of {world.Get_size()} has failed: the job ends",
              file=sys.stderr, flush=True)
        world.Abort(1)


if __name__ == "__main__":
    main(sys.argv[1:])
