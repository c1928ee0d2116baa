"""Draws programs, checks their values, and compares their times with those of other libraries.

    python -m benchmarks.sweep --seed 1 --count 100
    python -m benchmarks.sweep --seed 1 --count 56 --peers ""     # values alone
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from ..__main__ import prepare_environment


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0; 1 if values of fusewire are wrong."""
    prepare_environment()
    # Imports follow the settings, which NumPy and the other libraries read on import.
    import fusewire as fw

    from ..comparison.report import text
    from ..comparison.row import WrongValues
    from ..peers import present
    from .callers import PEERS
    from .families import FAMILIES
    from .measure import measured
    from .program import programs

    fw.settings.disk_mb = 0  # the environment may have been read before it was set
    options = parser(list(PEERS), list(FAMILIES)).parse_args(arguments)
    rows, wrong, peers = [], list[str](), present(options.peers)
    for number, program in enumerate(programs(options.seed, options.count, options.family)):
        try:
            rows.append(measured(program, peers, options.rounds))
        except WrongValues as failure:
            wrong.append(str(failure))
            continue
        row = rows[-1]
        print(f"{number} {row.family}: {row.about}: {row.ratio:.2f} of {row.best} "
              + " ".join(row.notes), file=sys.stderr, flush=True)
    print(text(rows))
    print(*wrong, sep="\n")
    if options.json:
        options.json.write_text(json.dumps([asdict(r) for r in rows], indent=1), encoding="utf-8")
    return int(bool(wrong))


def parser(peers: list[str], names: list[str]) -> argparse.ArgumentParser:
    """The parser of the command line."""
    made = argparse.ArgumentParser("python -m benchmarks.sweep", description=__doc__,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--seed", type=int, default=0, help="of the programs (default: 0)")
    made.add_argument("--count", type=int, default=len(names), metavar="N",
                      help="programs (default: one of each family)")
    made.add_argument("--family", action="append", choices=names, default=[],
                      help="draw from these families only; may be given several times")
    made.add_argument("--peers", metavar="A,B", default=[p for p in peers if p != "torch.compile"],
                      type=lambda text: [p for p in text.split(",") if p],
                      help=f'of {", ".join(peers)}; "" for none (default: all but torch.compile, '
                           "which compiles for seconds)")
    made.add_argument("--rounds", type=int, default=9, help="samples of each (default: 9)")
    made.add_argument("--json", type=Path, metavar="FILE", help="write the rows to FILE")
    return made


if __name__ == "__main__":
    sys.exit(main())
