"""`import fusewire` is quick and loads nothing that it may not need."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("onnx", "onnxruntime", "cupy", "tqdm", "hypothesis", "safetensors")
LIMIT = 0.15  # seconds of processor time beside NumPy, which takes about 0.1 of the 0.25 promised


def run(code: str) -> str:
    """What a fresh interpreter prints when it runs `code`."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_nothing_heavy_is_loaded() -> None:
    loaded = run("import sys, fusewire; print(*sys.modules)").split()
    assert [name for name in HEAVY if name in loaded] == []


def test_the_import_is_quick() -> None:
    code = ("import time, numpy; start = time.process_time(); import fusewire; "
            "print(time.process_time() - start)")
    assert min(float(run(code)) for _ in range(5)) < LIMIT


def test_nothing_is_printed_or_warned() -> None:
    done = subprocess.run([sys.executable, "-W", "error", "-c", "import fusewire"],
                          capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
