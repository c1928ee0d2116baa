"""Writes cupy_names.json: which names CuPy has, and what they take, for `fake_cupy.py`.

Run it where CuPy is installed; it needs neither a driver nor a GPU:

    python tests/eager_cuda/cupy_names.py
"""

from __future__ import annotations

import inspect
import json
import pathlib
import re
from typing import Any

FILE = pathlib.Path(__file__).with_name("cupy_names.json")
MODULES = ("", "linalg", "fft")
FIRST_LINE = re.compile(r"_ndarray_base\.\w+\(self(?:, )?(.*?)\)(?: ->|$)")


def signature(function: Any) -> str | None:
    """`(a, axis=None)`: names and whether they have a default; None where Python cannot tell."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    shown = []
    for p in found:
        star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        if p.kind is p.KEYWORD_ONLY and "*" not in "".join(shown):
            shown.append("*")
        shown.append(star + p.name + ("" if p.default is p.empty else "=0"))
    return f"({', '.join(shown)})"


def method(function: Any) -> str | None:
    """The same of a method of arrays, which Cython writes at the start of its text."""
    found = FIRST_LINE.match((function.__doc__ or "").split("\n")[0])
    if found is None:
        return None
    names = [re.sub(r"=.*", "=0", part.split(" ")[-1].strip())
             for part in found.group(1).split(",") if part.strip()]
    return f"({', '.join(['self', *names])})"


def names_of(module: Any) -> dict[str, Any]:
    """Functions by their signatures, ufuncs by the dtypes of their loops."""
    found: dict[str, Any] = {}
    for name in sorted(dir(module)):
        value = getattr(module, name)
        if name.startswith("_") or inspect.isclass(value) or inspect.ismodule(value):
            continue
        if hasattr(value, "types"):
            found[name] = value.types
        elif callable(value):
            found[name] = signature(value)
    return found


def main() -> None:
    import cupy
    import cupyx.scipy.special

    found: dict[str, Any] = {"version": cupy.__version__}
    for path in MODULES:
        found[path] = names_of(getattr(cupy, path) if path else cupy)
    found["special"] = names_of(cupyx.scipy.special)
    found["methods"] = {name: method(getattr(cupy.ndarray, name))
                        for name in sorted(dir(cupy.ndarray))}
    lines = [f"{json.dumps(part)}: {{\n" + ",\n".join(
        f"{json.dumps(k)}: {json.dumps(v)}" for k, v in names.items()) + "\n}"
        if isinstance(names, dict) else f"{json.dumps(part)}: {json.dumps(names)}"
        for part, names in found.items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
