"""`import fusewire` is quick and loads nothing that it may not need."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HEAVY = ("onnx", "onnxruntime", "cupy", "tqdm", "hypothesis", "safetensors")
LIMIT = 0.15  # seconds of processor time beside NumPy, which takes about 0.1 of the 0.25 promised
TIMED = ("import time, numpy; start = time.process_time(); import fusewire; "
         "print(time.process_time() - start)")


def run(code: str, cache: Path | None = None) -> str:
    """What a fresh interpreter prints when it runs `code`, with its bytecode kept in `cache`."""
    environment = dict(os.environ)
    if cache is not None:
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        environment["PYTHONPYCACHEPREFIX"] = str(cache)
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


def test_nothing_heavy_is_loaded() -> None:
    loaded = run("import sys, fusewire; print(*sys.modules)").split()
    assert [name for name in HEAVY if name in loaded] == []


def test_the_import_is_quick(tmp_path: Path) -> None:
    run(TIMED, tmp_path)  # as on every later import, the bytecode is there
    assert min(float(run(TIMED, tmp_path)) for _ in range(5)) < LIMIT


def test_nothing_is_printed_or_warned() -> None:
    assert run("import fusewire") == ""
