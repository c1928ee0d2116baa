"""Searches the length of a step: Nocedal and Wright, "Numerical Optimization" (2006), 3.5, 3.6.

The search ends at a point with the strong Wolfe conditions: the loss is down by at least a share
of the decrease that its slope promised, and the slope is flat. Trial lengths follow PyTorch's
rules, so that the numbers are equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

SUFFICIENT_DECREASE, CURVATURE = 1e-4, 0.9  # of the slope at the start


class Point(NamedTuple):
    """A trial length with the loss and the gradient there, and the slope along the direction."""

    t: float
    loss: float
    gradient: Any
    slope: float


def search(
    evaluate: Callable[[float], Point], start: Point, t: float, size: float, tolerance: float,
    most: int,
) -> tuple[Point, int]:
    """A point that satisfies the conditions, or else the lowest one; and the number of evaluations.

    Tries `t` first, then at most `most` other lengths. size: the largest element of the direction;
    smaller changes of elements than `tolerance` end the search.
    """
    before, now, tried = start, evaluate(t), 0
    while tried < most:
        if _too_high(now, start) or (tried > 1 and now.loss >= before.loss):
            break
        if _is_flat(now, start):
            return now, tried + 1
        if now.slope >= 0:
            break
        bounds = (now.t + 0.01 * (now.t - before.t), now.t * 10)
        before, now, tried = now, evaluate(_between(before, now, bounds)), tried + 1
    if tried >= most:
        return (start if start.loss <= now.loss else now), tried + 1
    return _zoom(evaluate, start, [before, now], size, tolerance, tried, most)


def _zoom(
    evaluate: Callable[[float], Point], start: Point, bracket: list[Point], size: float,
    tolerance: float, tried: int, most: int,
) -> tuple[Point, int]:
    """The result of `search` between two points that enclose a good one."""
    low, stalled = _lower(bracket), False
    while tried < most and abs(bracket[1].t - bracket[0].t) * size >= tolerance:
        t, stalled = _trial(bracket, stalled)
        now, tried = evaluate(t), tried + 1
        if _too_high(now, start) or now.loss >= bracket[low].loss:
            bracket[1 - low] = now
            low = _lower(bracket)
            continue
        done = _is_flat(now, start)
        if not done and now.slope * (bracket[1 - low].t - bracket[low].t) >= 0:
            bracket[1 - low] = bracket[low]
        bracket[low] = now
        if done:
            break
    return bracket[low], tried + 1


def _too_high(now: Point, start: Point) -> bool:
    return now.loss > start.loss + SUFFICIENT_DECREASE * now.t * start.slope


def _is_flat(now: Point, start: Point) -> bool:
    return abs(now.slope) <= -CURVATURE * start.slope


def _lower(bracket: list[Point]) -> int:
    return 0 if bracket[0].loss <= bracket[1].loss else 1


def _trial(bracket: list[Point], stalled: bool) -> tuple[float, bool]:
    """A length inside of the bracket, and True if it is close to an end for the first time.

    The second time it keeps a tenth of the bracket away from the end.
    """
    least, most = sorted(point.t for point in bracket)
    t = _between(bracket[0], bracket[1], (least, most))
    margin = 0.1 * (most - least)
    if min(most - t, t - least) >= margin:
        return t, False
    if stalled or not least < t < most:
        return (most - margin if abs(t - most) < abs(t - least) else least + margin), False
    return t, True


def _between(a: Point, b: Point, bounds: tuple[float, float]) -> float:
    """The minimum of the cubic through two points with their slopes, clipped to `bounds`."""
    least, most = bounds
    if a.t > b.t:
        a, b = b, a
    width = b.t - a.t
    bend = a.slope + b.slope + 3 * (a.loss - b.loss) / width if width else math.nan
    root = bend * bend - a.slope * b.slope
    if not root >= 0:
        return (least + most) / 2
    across = b.slope - a.slope + 2 * math.sqrt(root)
    if across == 0:
        return (least + most) / 2
    return min(max(b.t - width * ((b.slope + math.sqrt(root) - bend) / across), least), most)
