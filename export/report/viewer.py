"""Makes the page of `explain(html=...)`: one HTML file that shows a compiled function."""

from __future__ import annotations

import html
import json
import os
import tempfile
import webbrowser
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...capture.replay.report_data import segments_of
from .page import document, milliseconds, tiles

_FOLDER = Path(__file__).parent
MAX_CODE_CHARACTERS = 4_000_000  # of generated code in a page; the costliest kernels come first
LEFT_OUT = "left out, as the page would be too long: the method code() shows it"


def write_page(data: Mapping[str, Any], path: str | os.PathLike[str] | None, open: bool) -> None:
    """Writes the page of an explanation to a path, or to a temporary file if it is None. `open`
    shows it in the browser."""
    file = Path(tempfile.mkdtemp(prefix="fusewire-")) / "explain.html" if path is None \
        else Path(path)
    file.write_text(page_of(data), encoding="utf-8")
    if open:
        webbrowser.open(file.resolve().as_uri())


def page_of(data: Mapping[str, Any]) -> str:
    """The page for the data of an explanation (`Explanation.data`); it needs no network."""
    style, script = ((_FOLDER / f"viewer.{kind}").read_text(encoding="utf-8")
                     for kind in ("css", "js"))
    # Escaped so that no text ends the script element.
    text = json.dumps(_shortened(data), separators=(",", ":")).replace("<", "\\u003c")
    return document(f"{data['name']}, explained", [
        f"<h1>{html.escape(data['name'])}</h1>", tiles(_tiles(data)),
        '<noscript>The page needs JavaScript to show its data.</noscript><main id="viewer"></main>',
        f'<script type="application/json" id="data">{text}</script>',
        f"<script>\n{script}</script>"], style=style)


def _parts(data: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The native programs and library calls of all segments."""
    for segment in segments_of(data):
        yield from segment["parts"]


def _tiles(data: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    stats = data["stats"]
    kernels = [row for part in _parts(data) for row in part["kernels"]]
    yield str(stats["recordings"]), "recordings", ""
    yield str(stats["replays"]), "replays", "good" if stats["replays"] else ""
    yield str(stats["fallbacks"]), "eager calls", ""
    yield milliseconds(stats["compile_seconds"]), "compiling", ""
    yield str(len(kernels)), "kernels", ""
    total = sum(row["seconds"] for row in kernels)
    shown = milliseconds(total) if total >= 1e-4 else f"{1e6 * total:.1f}<small> µs</small>"
    yield shown, "in all kernels", ""


def _shortened(data: Mapping[str, Any]) -> dict[str, Any]:
    """The data with the code of the cheapest kernels left out, if there is too much."""
    left = MAX_CODE_CHARACTERS
    seconds: dict[tuple[int, str], float] = {}
    parts = list(_parts(data))
    for number, part in enumerate(parts):
        for row in part["kernels"]:
            key = number, row["function"]
            seconds[key] = seconds.get(key, 0.0) + row["seconds"]
    functions: list[dict[str, str]] = [{} for _ in parts]
    for (number, name), _ in sorted(seconds.items(), key=lambda item: -item[1]):
        code = parts[number]["functions"].get(name, "")
        left -= len(code)
        functions[number][name] = code if left >= 0 else LEFT_OUT
    shown = iter(functions)

    def shortened(of: Mapping[str, Any]) -> dict[str, Any]:
        return {**of, "segments": [
            {**segment, "parts": [{**part, "functions": next(shown)} for part in segment["parts"]]}
            for segment in of["segments"]]}

    return {**data, "programs": list(map(shortened, data["programs"])),
            "subgraphs": shortened(data["subgraphs"])}
