"""Digits as people draw them: strokes of points, of a square whose sides go from 0 to 1."""

from __future__ import annotations

import math

Point = tuple[float, float]


def _arc(x: float, y: float, across: float, down: float, begin: float, end: float,
         count: int = 10) -> list[Point]:
    """Points of an ellipse around (x, y), from one angle to another, in degrees, clockwise."""
    angles = [math.radians(begin + (end - begin) * i / (count - 1)) for i in range(count)]
    return [(x + across * math.cos(a), y + down * math.sin(a)) for a in angles]


DRAWINGS: dict[str, list[list[Point]]] = {
    "0": [_arc(0.5, 0.5, 0.2, 0.32, -90, 270)],
    "1": [[(0.4, 0.3), (0.53, 0.18), (0.53, 0.82)]],
    "2": [_arc(0.5, 0.36, 0.19, 0.18, -170, 40) + [(0.32, 0.8), (0.72, 0.8)]],
    "3": [_arc(0.47, 0.34, 0.19, 0.16, -150, 90) + _arc(0.47, 0.66, 0.21, 0.16, -90, 150)],
    "4": [[(0.56, 0.15), (0.28, 0.58), (0.74, 0.58)], [(0.58, 0.4), (0.55, 0.85)]],
    "5": [[(0.68, 0.18), (0.38, 0.18), (0.36, 0.45)] + _arc(0.48, 0.62, 0.2, 0.19, -120, 150)],
    "6": [[(0.6, 0.15), (0.42, 0.4)] + _arc(0.5, 0.65, 0.17, 0.18, -180, 180)],
    "7": [[(0.3, 0.2), (0.7, 0.2), (0.45, 0.82)]],
    "8": [_arc(0.5, 0.33, 0.15, 0.15, 90, 450) + _arc(0.5, 0.66, 0.18, 0.17, -90, 270)],
    "9": [_arc(0.5, 0.36, 0.16, 0.18, 0, 360) + [(0.66, 0.36), (0.6, 0.82)]],
}
