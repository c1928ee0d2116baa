"""`fw.caches`: shows the caches in memory of compiled code and plans."""

from __future__ import annotations

from typing import Any

from ...capture.replay.report_format import Explanation, ReportSection
from ...capture.runtime.specialization_cache import every_cache


class Caches(Explanation):
    """The caches as text; `rows()` has the numbers."""

    _rows: list[dict[str, Any]]

    def rows(self) -> list[dict[str, Any]]:
        """A row per kind of cache: `name`, the number of `caches`, the `values` in all of them, the
        most that one holds (`limit`), `hits`, `misses`, and how many values were `evicted`."""
        return self._rows


def caches() -> Caches:
    """The caches in memory of compiled code and of plans that call it, with their sizes and hits.

    Some kinds, such as the sizes of a graph, have one cache for each compiled function.

    >>> import fusewire as fw
    >>> y = fw.exp(fw.ones(1 << 18))
    >>> next(row["limit"] for row in fw.caches().rows() if row["name"] == "eager calls")
    4096
    """
    rows: dict[str, dict[str, Any]] = {}
    for cache in every_cache():
        row = rows.setdefault(cache.name, {
            "name": cache.name, "caches": 0, "values": 0, "limit": cache.policy.limit,
            "hits": 0, "misses": 0, "evicted": 0})
        for column, count in (("caches", 1), ("values", len(cache)), ("hits", cache.hits),
                              ("misses", cache.misses), ("evicted", cache.evicted)):
            row[column] += count
    columns = ("name", "caches", "values", "limit", "hits", "misses", "evicted")
    table = [columns, *[tuple([str(row[c]) for c in columns]) for row in rows.values()]]
    shown = Caches([ReportSection("caches of compiled code and plans", rows=table)])
    shown._rows = list(rows.values())
    return shown
