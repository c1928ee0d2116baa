"""Matches detected boxes with targets, as COCO defines it: one after the other, by score."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

OVERLAPS = np.linspace(0.5, 0.95, 10)  # least intersection over union of a match
AREAS = {"all": (0.0, 1e10), "small": (0.0, 32.0 ** 2), "medium": (32.0 ** 2, 96.0 ** 2),
         "large": (96.0 ** 2, 1e10)}  # pixels
MOST = (1, 10, 100)  # detections of one class in one image that count
_ALMOST = 1 - 1e-10  # COCO takes a rounded overlap of 1 for a whole one


@dataclass
class ClassMatches:
    """The matches of one class in all images, an entry for each image."""

    scores: list[Any] = field(default_factory=list)  # (n,), the highest first
    right: list[Any] = field(default_factory=list)  # (areas, overlaps, n)
    ignored: list[Any] = field(default_factory=list)  # (areas, overlaps, n)
    targets: list[Any] = field(default_factory=list)  # (areas,): targets that count

    def of(self, area: int, most: int) -> tuple[Any, Any, Any, int]:
        """Scores (n,), right and ignored (overlaps, n), and the number of targets."""
        return (np.concatenate([scores[:most] for scores in self.scores]),
                np.concatenate([right[area, :, :most] for right in self.right], axis=1),
                np.concatenate([ignored[area, :, :most] for ignored in self.ignored], axis=1),
                int(sum(targets[area] for targets in self.targets)))


def match_image(matches: ClassMatches, overlaps: Any, scores: Any, areas: Any, is_crowd: Any,
                target_areas: Any) -> None:
    """Adds the matches of one image and class.

    Args:
        matches: those of the class so far.
        overlaps: intersection over union (detections, targets).
        scores, areas: of the detections, (detections,).
        is_crowd, target_areas: of the targets, (targets,).
    """
    order = np.argsort(-scores, kind="stable")[:MOST[-1]]
    overlaps, areas = overlaps[order], areas[order]
    low, high = np.array([*AREAS.values()]).T[:, :, None]
    skipped = is_crowd | (target_areas < low) | (target_areas > high)
    right, ignored = _matched(overlaps, is_crowd, skipped)
    outside = ((areas < low) | (areas > high))[:, None]
    matches.scores.append(scores[order])
    matches.right.append(right)
    matches.ignored.append(ignored | (~right & outside))
    matches.targets.append((~skipped).sum(axis=1))


def _matched(overlaps: Any, is_crowd: Any, skipped: Any) -> tuple[Any, Any]:
    """Which detections match, and which of these matches do not count: (areas, overlaps, n).

    A detection takes the free target with the largest overlap. Targets that do not count are taken
    only if no other is there. Of equal ones the last is taken.
    """
    count, targets = overlaps.shape
    shape = (len(skipped), len(OVERLAPS), targets)
    least = np.minimum(OVERLAPS, _ALMOST)[:, None]
    free = np.ones(shape, dtype=bool)
    right = np.zeros((*shape[:2], count), dtype=bool)
    ignored = np.zeros_like(right)
    if not targets:
        return right, ignored
    for i, overlap in enumerate(overlaps):
        possible = free & (overlap >= least)
        first_choice = possible & ~skipped[:, None]
        chosen = np.where(first_choice.any(axis=2, keepdims=True), first_choice, possible)
        best = targets - 1 - np.argmax(np.where(chosen, overlap, -1.0)[..., ::-1], axis=2)
        right[..., i] = chosen.any(axis=2)
        ignored[..., i] = right[..., i] & np.take_along_axis(skipped, best, axis=1)
        taken = (np.arange(targets) == best[..., None]) & right[..., i, None]
        free &= ~taken | is_crowd
    return right, ignored
