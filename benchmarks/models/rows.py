"""Measures each row in a process of its own, which ends after a time limit."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ..comparison.row import Row
from .catalogue import Case


class NoRow(RuntimeError):
    """A process has ended without a row: wrong values, another failure, or the time limit."""


def row_of(case: Case, options: Sequence[str], seconds: float) -> Row:
    """The row of a case. NoRow, with the reason, if there is none."""
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as folder:
        out = Path(folder) / "row.json"
        command = [sys.executable, "-m", str(__package__), "--alone", case.name, str(case.batch),
                   case.mode, "--json", str(out), *options]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              text=True, start_new_session=True) as process:
            try:
                errors = process.communicate(timeout=seconds)[1]
            except subprocess.TimeoutExpired:
                raise NoRow(f"{case}: not done after {seconds:.0f} s") from None
            finally:
                _end(process)
        if not out.exists():
            raise NoRow(f"{case}: {(errors.strip().splitlines() or ['no message'])[-1][:300]}")
        return Row(**json.loads(out.read_text(encoding="utf-8")))


def _end(process: subprocess.Popen[str]) -> None:
    """Ends a process and those that it has started: torch.compile starts some."""
    with contextlib.suppress(ProcessLookupError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
