"""The data of `explain()`: complete, JSON, and equal to what the text and the code say."""

from __future__ import annotations

import json
import random
import warnings
from pathlib import Path
from typing import Any

import pytest

import fusewire as fw
from browser.explained import broken, large, newton, small, step
from fusewire.capture.graph_breaks.remedies import (
    _DEFAULT,
    _RECORDING_DEFAULT,
    recording_remedy_of,
    remedy_of,
)
from fusewire.capture.replay.compiled_function import CaptureWarning

HERE = Path(__file__).name


def parts(data: Any) -> list[dict[str, Any]]:
    """The native programs and library calls of all segments."""
    return [part for program in data["programs"] for segment in program["segments"]
            for part in segment["parts"]]


@pytest.fixture(scope="module", params=[small, step, newton, large])
def data(request: pytest.FixtureRequest) -> Any:
    return request.param().explain().data


def test_json_holds_the_data(data: Any) -> None:
    assert json.loads(json.dumps(data)) == data


def test_the_form_is_the_documented_one(data: Any) -> None:
    assert set(data) == {"version", "name", "stats", "costs", "costs_text", "awaited",
                         "graph_breaks", "subgraphs", "recompiled", "programs", "sources"}
    for program in data["programs"]:
        assert set(program) == {"number", "uses", "guards", "scalars", "native", "hot_paths",
                                "flow", "segments"}
        for block in program["flow"]:
            assert set(block) == {"kind", "text", "site", "uses", "segments", "edges", "jump",
                                  "exits"}
    for part in parts(data):
        assert set(part) == {"title", "kernels", "arena", "functions"}
        for row in part["kernels"]:
            assert {"name", "line", "seconds", "bytes", "flops", "limit", "tasks", "reads",
                    "refusals", "function"} <= set(row)


def test_the_flow_is_one_tree_whose_counts_add_up(data: Any) -> None:
    for program in data["programs"]:
        flow, below = program["flow"], [0]
        for number in below:
            below += [edge["to"] for edge in flow[number]["edges"]]
        assert sorted(below) == list(range(len(flow)))
        assert flow[0]["uses"] == program["uses"]
        for block in flow:
            assert block["kind"] != "branch" or \
                block["uses"] == sum(edge["uses"] for edge in block["edges"])
            assert block["jump"] < len(flow)


def test_every_kernel_has_code_and_reads_earlier_ones(data: Any) -> None:
    for part in parts(data):
        for number, row in enumerate(part["kernels"]):
            assert part["functions"][row["function"]].startswith("define internal void @task.")
            assert all(0 <= before < number for before in row["reads"])


def test_no_two_arrays_of_the_arena_overlap_while_both_are_in_use(data: Any) -> None:
    for part in parts(data):
        values = part["arena"]["values"]
        for value in values:
            assert value["first"] <= value["last"]
            assert value["offset"] + value["bytes"] <= part["arena"]["bytes"]
        for i, a in enumerate(values):
            for b in values[:i]:
                in_time = a["first"] < b["last"] and b["first"] < a["last"]
                in_space = a["offset"] < b["offset"] + b["bytes"] \
                    and b["offset"] < a["offset"] + a["bytes"]
                assert not (in_time and in_space), (a, b)


def test_which_kernels_read_which() -> None:
    @fw.compile
    def chain(x: Any, w: Any) -> Any:
        a = x @ w
        b = w @ x
        return (a @ b).sum(), b

    for _ in range(2):
        chain(fw.ones(64, 64), fw.ones(64, 64))
    (part,) = parts(chain.explain().data)
    readers = {tuple(row["reads"]) for row in part["kernels"]}
    products = [n for n, row in enumerate(part["kernels"]) if row["name"].endswith("contract")]
    first, second, last = products
    assert set(part["kernels"][last]["reads"]) >= {first, second}
    assert part["kernels"][first]["reads"] == part["kernels"][second]["reads"] == []
    assert (last,) in readers  # the sum


def test_the_lines_are_those_of_the_file() -> None:
    @fw.compile
    def doubled(x: Any) -> Any:
        return fw.tanh(x) * 2

    for _ in range(2):
        doubled(fw.ones(100))
    data = doubled.explain().data
    (row,) = parts(data)[0]["kernels"]
    line = row["line"].split(":")[1]
    assert data["sources"][HERE][line] == "        return fw.tanh(x) * 2"


def test_why_a_kernel_is_not_fused() -> None:
    @fw.compile
    def columns(x: Any) -> Any:
        return fw.softmax(x, axis=-1).sum(0)

    for _ in range(2):
        columns(fw.ones(100, 64))
    refusals = [why for row in parts(columns.explain().data)[0]["kernels"]
                for why in row["refusals"]]
    assert any("it reduces axes (0,), the kernel (1,)" in why for why in refusals)


def test_sizes_that_differ_are_in_the_titles() -> None:
    @fw.compile(dynamic=True)
    def halved(x: Any) -> Any:
        return (x * 0.5).sum()

    for n in (3, 5, 7, 9):
        halved(fw.ones(n))
    titles = [part["title"] for part in parts(halved.explain().data)]
    assert titles and all("n0 = " in title for title in titles)


def test_library_calls_are_rows_with_a_reason() -> None:
    @fw.compile
    def spectrum(x: Any) -> Any:
        return fw.linalg.svd(x * 2)[1].sum()

    for _ in range(2):
        spectrum(fw.ones(4, 4))
    found = parts(spectrum.explain().data)
    assert [row["name"] for part in found for row in part["kernels"] if "why" in row]
    assert any(part["title"].startswith("library call of ") for part in found)


def test_a_graph_break_has_line_reason_and_remedy() -> None:
    @fw.compile
    def noisy(x: Any) -> Any:
        return x * random.random()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CaptureWarning)
        noisy(fw.ones(3))
    (row,) = noisy.explain().data["graph_breaks"]
    assert row["line"].startswith(f"{HERE}:") and row["times"] == 1
    assert row["why"].startswith(row["line"]) and row["remedy"] in noisy.explain()


@pytest.mark.parametrize("why", [
    "f.py:3: io.open() returns a different value on each call",
    "f.py:3: write() writes output on each call",
    "f.py:3: tolist() hands the values of `x` to Python",
    "f.py:3: a tensor with 9 elements is made from Python values or a NumPy array here; make it "
    "before the call",
    "f.py:3: an object of class Box is created in the call and outlives it",
    "a profiler is active, and recording needs the profiler hook",
    "it recompiles on most calls (first: guard failed: argument 0 is float32[3])",
    "f.py:3: its branches form more than 64 paths",
])
def test_known_reasons_have_remedies_of_their_own(why: str) -> None:
    assert remedy_of(why) != _DEFAULT


def test_other_reasons_have_a_general_remedy() -> None:
    assert remedy_of("f.py:3: something new") == _DEFAULT
    assert recording_remedy_of("guard failed: something new") == _RECORDING_DEFAULT


@pytest.mark.parametrize("why", [
    "f.py:3 took an outcome that has no trace yet",
    "guard failed: argument 1 == 2.0",
    "guard failed: argument `name` == 'step0'",
    "guard failed: argument 0 is float32[5, 3]",
    "guard failed: n0 == 8, where n0 = argument 0.shape[0]",
    "guard failed: attribute training of argument 0 is True",
    "guard failed: argument 1 is <function f>",
    "guard failed: global rows has 3 elements",
])
def test_known_causes_of_recordings_have_remedies_of_their_own(why: str) -> None:
    assert recording_remedy_of(why) != _RECORDING_DEFAULT


def test_recordings_with_one_cause_are_one_row_and_a_size_is_not_blamed_for_a_text() -> None:
    @fw.compile
    def named(x: Any, name: str) -> Any:
        return x * 2

    for n in range(5):
        named(fw.ones(3 + n), f"step{n}")
    (row,) = named.explain().data["recompiled"]
    assert row["why"] == "guard failed: argument 1 == 'step0'" and row["times"] == 4
    assert "leave the text out" in row["remedy"] and row["remedy"] in named.explain()


def test_subgraphs_have_their_kernels() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CaptureWarning)
        f = broken()
    segments = f.explain().data["subgraphs"]["segments"]
    rows = [row for segment in segments for part in segment["parts"] for row in part["kernels"]]
    assert {row["line"].split(",")[0].partition(":")[0] for row in rows} == {"explained.py"}
    assert all(row["name"] in f.explain() for row in rows) and len(rows) >= 2


def test_a_page_is_written_and_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    f = fw.compile(lambda x: x + 1)
    f(fw.ones(2))
    f.explain(html=tmp_path / "page.html")
    assert opened == [] and (tmp_path / "page.html").read_text(encoding="utf-8").startswith("<!DOC")
    f.explain(open=True)
    assert opened[0].startswith("file://") and opened[0].endswith("explain.html")


def test_no_text_of_a_user_ends_the_script(tmp_path: Path) -> None:
    f = fw.compile(lambda x: x + 1)
    f.__name__ = "</script><script>alert(1)</script>"
    f(fw.ones(2))
    f.explain(html=tmp_path / "page.html")
    assert "<script>alert" not in (tmp_path / "page.html").read_text(encoding="utf-8")
