"""What a compiled function tells of itself: explain, graph, code, stats, clear."""

from __future__ import annotations

import html.parser
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import fusewire as fw
from fusewire.capture.replay.compiled_function import CaptureWarning
from fusewire.capture.replay.report_format import Explanation, ReportSection
from fusewire.codegen.cuda.runtime import nvrtc
from fusewire.eager.errors import ArgumentError, CodegenError

HERE = Path(__file__).name


def decides() -> Any:
    @fw.compile
    def choose(x: Any, k: float) -> Any:
        if x.sum() > 0:
            return x * k
        return x - k

    for sign in (1, 1, -1, 1, -1):
        choose(fw.ones(3) * sign, 2.0)
    return choose


def test_it_begins_with_counts() -> None:
    first = decides().explain().splitlines()[0]
    assert re.fullmatch(r"choose: 2 recordings, 3 replays, 0 eager calls, \d\.\d\d s compiling",
                        first)


def test_it_says_when_a_recording_is_valid() -> None:
    text = decides().explain()
    assert "guards" in text and "    argument 1 == 2.0" in text
    assert "argument 0 is float32[3]" in text


def test_it_shows_decisions_by_line_with_how_often_each_way_was_taken() -> None:
    lines = [line.strip() for line in decides().explain().splitlines()]
    asked = next(line for line in lines if " branches on " in line)
    assert re.fullmatch(rf"{HERE}:\d+ branches on the bool\[\] of greater of {HERE}:\d+", asked)
    assert "True: 2 times" in lines and "False: 1 time" in lines


def test_it_shows_numbers_as_one_writes_them() -> None:
    @fw.compile
    def f(x: Any) -> Any:
        return x if x.max().item() * 2 + 1 > 3 else -x

    f(fw.ones(3))
    assert "branches on (((max.item() * 2) + 1) > 3)" in f.explain()


def test_it_says_why_it_recorded_again() -> None:
    choose = decides()
    choose(fw.ones(3, dtype=fw.float64), 2.0)
    title, *why = choose.explain().splitlines()[2:6]
    assert title == "recompiled"
    assert re.fullmatch(rf"  {HERE}:\d+ took an outcome that has no trace yet \(1 time\)", why[0])
    assert why[1].startswith("    remedy: none, if it happens once for each path")
    assert why[2] == "  guard failed: argument 0 is float32[3] (1 time)"


def test_it_says_what_is_changed() -> None:
    weight = fw.ones(3)

    @fw.compile
    def step(x: Any) -> None:
        weight.add_(x)

    step(fw.ones(3))
    text = step.explain()
    assert "changes\n      closure variable weight\n" in text
    assert "not compiled yet" in text


def test_it_says_why_a_function_runs_eagerly() -> None:
    @fw.compile
    def f(x: Any) -> Any:
        return fw.asarray(x.numpy() + 1)

    with pytest.warns(CaptureWarning):
        f(fw.ones(100))
    assert re.search(rf"graph breaks\n  {HERE}:\d+: .*NumPy", f.explain())


def test_kernels_are_listed_by_cost_with_their_lines() -> None:
    @fw.compile
    def f(x: Any, w: Any) -> Any:
        return (x @ w).tanh().sum()

    for _ in range(2):
        f(fw.ones(64, 64), fw.ones(64, 64))
    heading, *rows = [line.split() for line in f.explain().partition("synthetic values\n")[2]
                      .splitlines()]
    assert heading == ["kernel", "us", "share", "KB", "GB/s", "limit", "line"]
    assert all(row[-1].startswith(HERE) for row in rows)
    assert [float(row[1]) for row in rows] == sorted((float(r[1]) for r in rows), reverse=True)


class Tags(html.parser.HTMLParser):
    """Checks that every tag is closed in order, and collects the text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open, self.tags, self.text = list[str](), list[Any](), ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_notebook_shows_the_same_as_html() -> None:
    found = decides().explain()
    page = Tags(found._repr_html_())
    words = {word for line in found.splitlines() for word in line.split()}
    assert not {w for w in words if w not in page.text}
    assert {"details", "table"} <= {tag for tag, _ in page.tags}


def test_html_is_escaped_and_brings_no_colours_and_no_links() -> None:
    sections = [ReportSection("a <b> & c", [ReportSection("<script>")], [("x",), ("<i>",)])]
    text = Explanation(sections)._repr_html_()
    assert "<script>" not in text and "<b>" not in text and "&lt;i&gt;" in text
    assert not re.search(r"(?<!-)color:|http|src=", text)  # legible on dark and on light pages


def test_columns_of_numbers_end_in_one_place() -> None:
    text = Explanation([ReportSection("t", (), [("name", "us"), ("a", "1.5"), ("long", "10.0")])])
    assert text.splitlines() == ["t", "  name    us", "  a      1.5", "  long  10.0"]


def test_an_explanation_is_a_text_that_prints_itself() -> None:
    found = decides().explain()
    assert isinstance(found, str) and repr(found) == str(found)


# ---- graph and code

def test_a_graph_is_shown_with_the_users_lines() -> None:
    graph = decides().graph()
    assert re.search(rf"multiply\(.*\)  # float32\[3\]  {HERE}:\d+", graph)


def test_programs_are_chosen_by_their_number() -> None:
    choose = decides()
    choose(fw.ones(3, dtype=fw.float64), 2.0)
    assert "float64" in choose.graph() and "float64" in choose.graph(1)
    assert "float64" not in choose.graph(2)
    with pytest.raises(ArgumentError, match="there is no program 3 of choose, which has 2"):
        choose.graph(3)


def test_the_graph_after_every_pass() -> None:
    @fw.compile
    def f(x: Any) -> Any:
        return fw.softmax(x, 0) * 1

    f(fw.ones(3))
    text = f.graph(passes=True)
    assert text.index("softmax(") < text.index("# after decompose") < text.index("# after simplify")
    assert "softmax(" not in text.partition("# after decompose")[2]


def test_generated_code() -> None:
    choose = decides()
    assert "define " in choose.code() and choose.code() == choose.code("llvm")
    assert ".globl" in choose.code("asm")


def test_code_that_was_not_needed_yet_is_made() -> None:
    @fw.compile
    def f(x: Any) -> Any:
        return x + 1

    assert f.code() == ""
    f(fw.ones(3))
    assert "define " in f.code()


def test_other_code_is_not_there() -> None:
    with pytest.raises(ArgumentError, match=r"code\('ptx'\): there is 'llvm', 'asm', 'cuda'"):
        decides().code("ptx")


# ---- code for a GPU, of what ran on the CPU

def test_code_for_cuda_is_that_of_the_recording() -> None:
    @fw.compile
    def f(x: Any) -> Any:
        return fw.tanh(x) * 2

    f(fw.ones(300, 7))
    launch, *code = f.code("cuda").splitlines()
    assert re.fullmatch(rf"// k0_multiply<<<3, 256>>>  {HERE}:\d+.*", launch)
    assert 'extern "C" __global__ void __launch_bounds__(256, 2)' in code
    if sys.platform != "darwin":  # for which there is no compiler of CUDA C
        assert nvrtc.compile("\n".join(code), "sm_80").resources.keys() >= {"k0_multiply"}


def test_every_stage_has_code_for_cuda() -> None:
    assert decides().code("cuda").count('extern "C" __global__') >= 2


def test_code_for_cuda_of_sizes_that_vary_is_for_those_that_were_met() -> None:
    @fw.compile(dynamic=True)
    def f(x: Any) -> Any:
        return x.exp().sum(-1)

    f(fw.ones(5, 1231))
    with pytest.raises(CodegenError, match="the sizes of this function are dynamic"):
        f.code("cuda")
    f(fw.ones(5, 1231))
    assert "1231" in f.code("cuda")


def test_code_for_cuda_names_calls_that_have_none() -> None:
    @fw.compile
    def f(x: Any) -> Any:
        return fw.linalg.qr(fw.exp(x * 2)).Q.tanh()

    f(fw.rand(2000, 100))
    before, call, after = f.code("cuda").partition("\n// call of qr ")
    assert call and "// k0_exp<<<" in before and "// k0_tanh<<<" in after


# ---- stats and clear

def test_stats_count_calls() -> None:
    stats = decides().stats
    assert (stats.recordings, stats.replays, stats.fallbacks) == (2, 3, 0)
    assert stats.compile_seconds > 0


def test_clear_forgets_everything() -> None:
    choose = decides()
    choose.clear()
    assert choose.stats.recordings == 0 and choose.graph() == ""
    choose(fw.ones(3), 2.0)
    assert choose.stats.recordings == 1
