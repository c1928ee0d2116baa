"""Runs a script as one rank of a job: `python -m fusewire.distributed.rank script.py arguments`.

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
from .rank_status import FOLDER_VARIABLE, RankStatus


def main(arguments: Sequence[str]) -> None:
    """Runs the script arguments[0] with the other arguments."""
    mpi = load_mpi()
    world = mpi.COMM_WORLD
    folder = os.environ.get(FOLDER_VARIABLE)
    status = RankStatus(folder, world.Get_rank()) if folder else None
    set_status(status)
    sys.argv[:] = list(arguments)
    sys.path.insert(0, os.path.dirname(os.path.abspath(arguments[0])))
    try:
        runpy.run_path(arguments[0], run_name="__main__")
        failed = False
    except SystemExit as error:
        failed = error.code not in (None, 0)
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        failed = True
    if status is not None:
        status.finish("failed" if failed else "done")
    if failed:
        print(f"rank {world.Get_rank()} of {world.Get_size()} has failed: the job ends",
              file=sys.stderr, flush=True)
        world.Abort(1)


if __name__ == "__main__":
    main(sys.argv[1:])
