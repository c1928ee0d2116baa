"""Ctrl-C at any instruction of a call, once or twice: the state is that before or that after the
call, and later calls are right."""

from __future__ import annotations

import os

import pytest
import signals

import fusewire as fw

POINTS = int(os.environ.get("FUSEWIRE_TEST_SIGNALS", "1"))
SLOW = {"recording", "recorded decisions", "first replay", "second replay", "first graph breaks"}


@pytest.mark.filterwarnings("ignore::fusewire.capture.runtime.warnings.CaptureWarning")
@pytest.mark.parametrize("name", signals.CASES)
def test_ctrl_c_leaves_no_call_half_made(name: str) -> None:
    assert not signals.faults(name, POINTS * (2 if name in SLOW else 20), seed=5)


class Box:
    total = 0

    def __init__(self) -> None:
        self.items, self.names, self.count = [1], {"a": 1}, 0
        self.seen = {1, 2}
        self.weight = fw.ones(2).requires_grad_()


def test_an_interrupted_recording_has_changed_nothing() -> None:
    box, n = Box(), 1

    def changes(x: fw.Tensor) -> None:
        nonlocal n
        n += 1
        box.items.append(2)
        box.names.update(b=2)
        box.seen.discard(1)
        box.count, Box.total = 1, 1
        box.extra = x
        (box.weight * x).sum().backward()
        with fw.no_grad():
            box.weight.mul_(2)
        raise KeyboardInterrupt

    edge = box.weight.edge
    with pytest.raises(KeyboardInterrupt):
        fw.compile(changes)(fw.ones(2))
    assert (n, box.items, box.names, box.seen, box.count) == (1, [1], {"a": 1}, {1, 2}, 0)
    assert Box.total == 0 and not hasattr(box, "extra")
    assert box.weight.tolist() == [1, 1] and box.weight.grad is None and box.weight.edge is edge


def test_an_interrupted_line_search_has_moved_nothing() -> None:
    p = fw.tensor([3.0, -2.0], requires_grad=True)
    optimizer, calls = fw.optim.LBFGS([p], line_search_fn="strong_wolfe"), 0

    def closure() -> fw.Tensor:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        optimizer.zero_grad()
        loss = ((p - 1) ** 4).sum()
        loss.backward()
        return loss

    with pytest.raises(KeyboardInterrupt):
        optimizer.step(closure)
    assert p.tolist() == [3.0, -2.0] and not optimizer.state[p]
