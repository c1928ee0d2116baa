"""Puts the edges of the tape in the order in which a backward visits them."""

from __future__ import annotations

from typing import Any

from ..core.tape import Leaf

Edge = Any  # Entry | Leaf


def topological(roots: list[Edge], stop: set[Edge] | None) -> list[Edge]:
    """Every edge reachable from `roots`, not beyond `stop`; an edge comes before those it uses."""
    seen: set[Edge] = set()
    visits: list[Edge] = []
    stack: list[Edge] = list(roots)
    while stack:  # no recursion: long chains would exhaust it
        edge = stack.pop()
        if edge is None:  # all edges that the one below uses are in `visits` now
            visits.append(stack.pop())
        elif edge not in seen:
            seen.add(edge)
            if stop and edge in stop:
                visits.append(edge)
                continue
            stack += (edge, None)
            for used in edge.edges:
                if used is not None and used not in seen:
                    if used.edges:
                        stack.append(used)
                    else:  # a leaf, which uses nothing
                        seen.add(used)
                        visits.append(used)
    visits.reverse()
    return visits


def leading_to(targets: set[Edge], visits: list[Edge]) -> set[Edge]:
    """The edges of `visits` from which the backward reaches one of `targets`, those included."""
    leading: set[Edge] = set(targets)
    for edge in reversed(visits):
        for used in edge.edges:
            if used in leading:
                leading.add(edge)
                break
    return leading


def leaves_when_due(visits: list[Edge]) -> list[Edge]:
    """`visits` with each leaf that has hooks right behind the last edge that uses it, so that the
    hooks can work while the backward goes on."""
    hooked = {edge for edge in visits if isinstance(edge, Leaf) and type(edge) is not Leaf}
    if not hooked:
        return visits
    behind: dict[Edge, list[Edge]] = {}
    waiting = set(hooked)
    for edge in reversed(visits):
        for used in edge.edges:
            if used in waiting:
                waiting.remove(used)
                behind.setdefault(edge, []).append(used)
    moved = hooked - waiting
    return [e for edge in visits if edge not in moved for e in (edge, *behind.get(edge, ()))]
