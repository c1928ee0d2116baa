"""The page of `explain(html=...)` in a browser: hover, click, search, collapse, without network.

What the tests need is as in `test_browser.py`.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from browser.driving import driven, installed_driver
from browser.explained import PROGRAMS, SEARCHES
from fusewire.capture.replay.compiled_function import CaptureWarning
from fusewire.capture.replay.report_data import segments_of
from house.repo import ROOT

NAMES = [make.__name__ for make in PROGRAMS]
PICTURE = ROOT / "docs" / "how_to" / "viewer.png"


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    """The data of each explained function, by name."""
    return {}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory, data: dict[str, Any]) -> dict[str, Any]:
    """What each page showed, by name."""
    folder = tmp_path_factory.mktemp("viewer")
    driver, pages = installed_driver(folder), {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CaptureWarning)
        for make in PROGRAMS:
            path = folder / f"{make.__name__}.html"
            data[make.__name__] = make().explain(html=path).data
            pages[make.__name__] = {"url": path.as_uri(), "search": SEARCHES[make.__name__]}
    found = driven("drive_viewer.mjs", driver, {"pages": pages, "pictures": str(folder)})
    if not PICTURE.exists():  # with few colours, so that it is small
        pytest.importorskip("PIL.Image").open(folder / "step-light.png").quantize(64).save(PICTURE)
    return {**found, "folder": folder}


@pytest.mark.parametrize("name", NAMES)
def test_a_page_needs_no_network_and_has_no_errors(found: dict[str, Any], name: str) -> None:
    assert found[name]["complaints"] == []
    assert found[name]["requests"] == [(found["folder"] / f"{name}.html").as_uri()]


@pytest.mark.parametrize("name", NAMES)
def test_every_kernel_of_the_data_is_a_box(found: dict[str, Any], data: dict[str, Any], name: str
                                           ) -> None:
    kernels = [row for row in _kernels(data[name])]
    assert found[name]["kernels"] == len(kernels) == found[name]["expanded"]
    assert found[name]["collapsed"] == 0
    wanted = [row for row in kernels if SEARCHES[name] in _searched(row)]
    assert found[name]["matching"] == len(wanted)
    assert found[name]["unmatched"] == 0


@pytest.mark.parametrize("name", NAMES)
def test_hovering_shows_the_facts_and_clicking_the_code(found: dict[str, Any], data: dict[str, Any],
                                                        name: str) -> None:
    seen = found[name]
    for fact in ("source line", "time", "memory", "arithmetic", "limit", "not fused"):
        assert fact in seen["tip"]
    parts = [part for segment in segments_of(data[name]) for part in segment["parts"]]
    kernel = seen["tip"].splitlines()[0]
    codes = [part["functions"][row["function"]] for part in parts for row in part["kernels"]
             if row["name"] == kernel and row["line"] in seen["tip"]]
    assert seen["code"] in codes and f".{kernel}(" in seen["code"]
    assert "explained.py" in seen["lines"]
    assert seen["closed"]


def test_control_flow_shows_the_calls_of_each_path(found: dict[str, Any], data: dict[str, Any]
                                                   ) -> None:
    text = found["newton"]["text"]
    branch = next(b for p in data["newton"]["programs"] for b in p["flow"] if b["kind"] == "branch")
    assert branch["text"] in text and "↩ to the loop" in text
    for edge in branch["edges"]:
        calls = f"{edge['uses']} call{'' if edge['uses'] == 1 else 's'}"
        assert f"{edge['label']}\n{calls}" in text
    assert "took an outcome that has no trace yet" in text
    assert "Remedy: none, if it happens once for each path" in text


def test_graph_breaks_have_their_line_and_a_remedy(found: dict[str, Any]) -> None:
    text = found["broken"]["text"]
    assert "random.random() returns a different value on each call" in text
    assert "Remedy: read it before the call and pass the value as an argument" in text
    assert "scaled = (x * 2 + 1) * random.random()" in text
    assert "tolist() hands" in text
    assert "Subgraphs between graph breaks" in text


def test_a_program_of_a_thousand_kernels_can_be_collapsed(found: dict[str, Any]) -> None:
    assert found["large"]["kernels"] > 1000 and found["large"]["height"] < 1000


@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_light_or_dark_as_the_reader_wants(found: dict[str, Any], name: str) -> None:
    assert found[name]["light"] == "rgb(251, 251, 250)"
    assert found[name]["dark"] == "rgb(20, 23, 26)"


def test_the_picture_is_one(found: dict[str, Any]) -> None:
    assert (found["folder"] / "step-dark.png").read_bytes().startswith(b"\x89PNG")
    assert PICTURE.stat().st_size < 150_000


def test_the_data_are_json(found: dict[str, Any], data: dict[str, Any]) -> None:
    page = Path(found["folder"] / "step.html").read_text(encoding="utf-8")
    text = page.split('<script type="application/json" id="data">')[1].split("</script>")[0]
    assert json.loads(text) == json.loads(json.dumps(data["step"]))


def _kernels(data: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for segment in segments_of(data) for part in segment["parts"]
            for row in part["kernels"]]


def _searched(row: dict[str, Any]) -> str:
    return " ".join([row["name"], row["line"], *row["refusals"]]).lower()
