"""How tensors are shown."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import fusewire as fw

TEXTS: list[tuple[fw.Tensor, str]] = [
    (fw.tensor([1.0, 2.0]), "tensor([1., 2.])"),
    (fw.tensor(3.0), "tensor(3.)"),
    (fw.tensor(True), "tensor(True)"),
    (fw.tensor([1, 2], dtype=fw.int8), "tensor([1, 2], dtype=int8)"),
    (fw.tensor([1.5, 2.0], dtype=fw.bfloat16), "tensor([1.5, 2. ], dtype=bfloat16)"),
    (fw.tensor([1 + 2j]), "tensor([1.+2.j])"),
    (fw.tensor([float("nan"), float("inf")]), "tensor([nan, inf])"),
    (fw.zeros(0), "tensor([])"),
    (fw.zeros(2, 0, dtype=fw.float64), "tensor([], shape=(2, 0), dtype=float64)"),
    (fw.ones(1).requires_grad_(), "tensor([1.], requires_grad=True)"),
    (fw.ones(1).requires_grad_() * 2, "tensor([2.], grad_fn=<multiply>)"),
    (fw.arange(10_000), "tensor([   0,    1,    2, ..., 9997, 9998, 9999])"),
    (fw.zeros(13, dtype=fw.float64).requires_grad_(),
     "tensor([0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0.],\n"
     "       dtype=float64, requires_grad=True)"),
    (fw.arange(4).reshape(2, 2), "tensor([[0, 1],\n        [2, 3]])"),
]


@pytest.mark.parametrize(("x", "text"), TEXTS, ids=lambda v: v if isinstance(v, str) else "")
def test_repr(x: fw.Tensor, text: str) -> None:
    assert repr(x) == str(x) == f"{x}" == text


@pytest.mark.parametrize(("options", "text"), [
    ({"precision": 2}, "tensor([3.33e-01, 1.00e-05])"),
    ({"sci_mode": True, "precision": 1}, "tensor([3.3e-01, 1.0e-05])"),
    ({"sci_mode": False, "precision": 5}, "tensor([0.33333, 0.00001])"),
    ({"threshold": 1, "edgeitems": 1}, "tensor([3.3333334e-01, 9.9999997e-06])"),
    ({"linewidth": 20}, "tensor([3.3333334e-01,\n        9.9999997e-06])"),
])
def test_options(options: dict[str, Any], text: str) -> None:
    x = fw.tensor([1 / 3, 1e-5])
    with fw.printoptions(**options):
        assert repr(x) == text
    assert repr(x) == "tensor([3.3333334e-01, 9.9999997e-06])"


def test_options_stay_until_they_are_set_again() -> None:
    with fw.printoptions():
        fw.set_printoptions(precision=1)
        fw.set_printoptions(edgeitems=2)
        assert repr(fw.tensor(1 / 3)) == "tensor(0.3)"
    assert repr(fw.tensor(1 / 3)) == "tensor(0.33333334)"


def test_numpys_own_options_do_not_matter() -> None:
    with np.printoptions(precision=1, threshold=1, sign="+"):
        assert repr(fw.tensor([0.25, 0.5])) == "tensor([0.25, 0.5 ])"


@pytest.mark.parametrize("options", [{"precision": -1}, {"edgeitems": 0}, {"sci_mode": "yes"},
                                     {"threshold": 1.5}])
def test_options_that_are_not_possible(options: dict[str, Any]) -> None:
    with pytest.raises(fw.DTypeError, match=f"set_printoptions: {next(iter(options))}="):
        fw.set_printoptions(**options)


# ---- in a notebook
def facts(x: fw.Tensor) -> dict[str, str]:
    """The facts that a notebook shows, by name."""
    shown = x._repr_html_().replace("&nbsp;", " ")
    return dict(re.findall(r"<b>([^<]*)</b> ([^<]*?)(?:   |</div>)", shown))


def test_a_notebook_shows_the_facts() -> None:
    x = fw.tensor([[1.0, float("nan"), -2.5], [float("inf"), 0.0, float("nan")]])
    assert facts(x) == {"shape": "(2, 3)", "dtype": "float32", "device": "cpu", "bytes": "24",
                        "range": "-2.5 … 1", "NaN": "2", "inf": "1"}
    assert facts(fw.arange(3000))["range"] == "0 … 2,999"
    assert facts(fw.tensor([True, False, True]))["True"] == "2 of 3"
    assert facts(fw.tensor([2**63 + 1], dtype=fw.uint64))["range"] == \
        "9,223,372,036,854,775,809 … 9,223,372,036,854,775,809"
    for plain in (fw.zeros(0, 2), fw.tensor([1j])):
        assert set(facts(plain)) == {"shape", "dtype", "device", "bytes"}


@pytest.mark.parametrize("x", [
    fw.arange(100.0), fw.arange(100), fw.tensor([-1.7e308, 1.7e308], dtype=fw.float64),
    fw.tensor([0.0, 65504.0], dtype=fw.float16), fw.tensor([1.0, 2.0], dtype=fw.bfloat16),
    fw.tensor([5e-324, 0.0], dtype=fw.float64),
], ids=str)
def test_the_histogram_is_a_picture_in_the_page(x: fw.Tensor) -> None:
    shown = x._repr_html_()
    picture = ElementTree.fromstring(shown[shown.index("<svg"):shown.index("</svg>") + 6])
    heights = [int(bar.get("height", "")) for bar in picture if "x" in bar.attrib]
    assert heights and max(heights) == 34 and min(heights) > 0
    assert "href" not in shown and "url(" not in shown


@pytest.mark.parametrize("x", [fw.tensor(1.0), fw.ones(5), fw.tensor([True, False]),
                               fw.tensor([1j, 2]), fw.tensor([float("nan")] * 3), fw.zeros(0)])
def test_no_histogram_without_a_spread(x: fw.Tensor) -> None:
    assert "<svg" not in x._repr_html_()


def test_text_is_escaped_and_large_tensors_say_that_a_part_was_looked_at() -> None:
    assert "grad_fn=&lt;multiply&gt;" in (fw.ones(1).requires_grad_() * 2)._repr_html_()
    large = fw.broadcast_to(fw.tensor(1.0), (3, 1 << 22))
    assert facts(large)["sample"] == "4,194,304 of 12,582,912 elements"
