"""Modules in notebooks: a tree with arguments and numbers of parameters, everything escaped."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import pytest

import fusewire as fw
from fusewire import nn

MODELS = [nn.Linear(3, 4), nn.ReLU(), nn.Sequential(nn.Linear(3, 4), nn.Tanh()),
          nn.LazyLinear(4), nn.LSTM(3, 5), nn.TransformerEncoderLayer(8, 2), nn.ModuleList(),
          nn.Sequential(*[nn.Linear(2, 2) for _ in range(40)])]


class Balanced(HTMLParser):
    """Fails for an end tag that does not belong to the innermost open one."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
def test_the_tree_is_html_and_names_every_module(model: nn.Module) -> None:
    text = model._repr_html_()
    parser = Balanced()
    parser.feed(text)
    assert parser.open == []
    assert all(type(m).__name__ in text for m in model.modules())


def test_parameters_are_counted_once_and_shown_with_their_types() -> None:
    layer = nn.Linear(3, 4)
    layer.bias.requires_grad_(False)
    shared = nn.Sequential(layer, layer)._repr_html_()
    assert "16 parameters" in shared and "32 parameters" not in shared
    assert "weight float32[4, 3]" in shared and "bias float32[4], frozen" in shared


def test_lazy_parameters_are_not_known_yet() -> None:
    assert "0 parameters and more, not known yet" in nn.LazyLinear(4)._repr_html_()


def test_many_children_are_folded_at_first() -> None:
    few, many = (nn.Sequential(*[nn.Linear(2, 2) for _ in range(n)])._repr_html_() for n in (2, 40))
    assert few.count("<details open>") == 1 and many.count("<details open>") == 0


def test_texts_are_escaped() -> None:
    class Named(nn.Module):
        def extra_repr(self) -> str:
            return "<b>&"

    assert "(&lt;b&gt;&amp;)" in Named()._repr_html_()


def test_a_history_shows_a_chart_and_a_table() -> None:
    history = fw.training.History()
    assert "no steps yet" in history._repr_html_()
    for loss in (1.0, 0.5, 0.25):
        history.add_step(loss=loss, rate=0.1, seconds=0.01)
    history.add_epoch(0, 3, 0.03, {"val_loss": 0.2})
    text = history._repr_html_()
    assert "<svg" in text and "<th>val_loss</th>" in text and "<td>0.5833</td>" in text
