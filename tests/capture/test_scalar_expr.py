"""Scalar expressions that are long, or that share subexpressions."""

from __future__ import annotations

import fusewire as fw

SCALES = (1.0, 2.0, -3.0, 0.25)


def test_a_number_that_is_used_twice_in_the_next_one() -> None:
    """Written out, the last of these would have 2**60 parts."""
    def f(x: fw.Tensor) -> fw.Tensor:
        n = x.sum().item()
        for _ in range(60):
            n = n * 0.75 + n * 0.25
        return x * n

    run = fw.compile(f)
    for scale in SCALES:
        x = fw.ones(3) * scale
        assert run(x).tolist() == f(x).tolist()
    assert run.stats.recordings == 1
    assert len(str(run.explain())) < 5000


def test_a_number_that_took_many_steps() -> None:
    """More steps than Python's stack is deep."""
    def f(x: fw.Tensor) -> float:
        n = x.sum().item()
        for _ in range(3000):
            n = n * 0.999 + 0.001
        return n

    run = fw.compile(f)
    for scale in SCALES:
        assert run(fw.ones(3) * scale) == f(fw.ones(3) * scale)
    assert run.stats.recordings == 1


def test_a_decision_on_a_long_number() -> None:
    def f(x: fw.Tensor) -> fw.Tensor:
        n = x.sum().item()
        for _ in range(40):
            n = n * 0.5 + n * 0.5
        return x if n > 4 else -x

    run = fw.compile(f)
    for scale in SCALES:
        x = fw.ones(3) * scale
        assert run(x).tolist() == f(x).tolist()
    assert run.stats.recordings == 2
    assert len(str(run.explain())) < 5000
