"""`fusewire explain`: what the compiler makes of a function of a file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest


def test_for_people(call: Any, net: Path) -> None:
    done = call("explain", "net.py:Net", "--input", "x=float32[n,4]", "--html", "net.html")
    assert done.status == 0 and done.out.startswith("Net(x=float32[2,4])\n\nforward: 1 recording")
    assert "argument x is float32[n0, 4]" in done.out and "net.py:13" in done.out
    page = Path("net.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>") and "argument x is float32[n0, 4]" in page
    outside = r"<script[^>]* src|<link|@import|url\(|fetch\(|https?://(?!www.w3.org/2000/svg)"
    assert not re.search(outside, page)


def test_for_programs(call: Any, net: Path) -> None:
    found = call("explain", "net.py:product", "--input", "float32[8]", "--input", "float32[8]",
                 "--calls", "5", "--json").json
    assert (found["recordings"], found["replays"], found["refusals"]) == (1, 4, {})
    assert found["kernels"] and found["explanation"].startswith("product: 1 recording, 4 replays")


@pytest.mark.filterwarnings("ignore::fusewire.capture.runtime.warnings.CaptureWarning")
def test_what_is_in_the_way(call: Any, net: Path) -> None:
    done = call("explain", "net.py:talks", "--input", "float32[8]")
    assert done.status == 0 and "getpid() returns a different value on each call" in done.out
    assert "ran one by one; subgraphs pay for arrays of more than 32,768 elements" in done.out


@pytest.mark.filterwarnings("ignore::fusewire.capture.runtime.warnings.CaptureWarning")
def test_what_is_compiled_beside_a_graph_break(call: Any, net: Path) -> None:
    done = call("explain", "net.py:talks", "--input", "float32[100000]")
    assert done.status == 0 and "1 subgraph compiled" in done.out


def test_a_function_that_is_compiled_already(call: Any, net: Path) -> None:
    net.write_text("import fusewire as fw\n@fw.compile\ndef f(x):\n    return x.sum() * 2\n")
    done = call("explain", "net.py:f", "--input", "x=int64[3]")
    assert done.status == 0 and "f: 1 recording, 2 replays" in done.out
