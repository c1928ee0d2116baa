"""Chooses the opset of a model: the requested one, or the newest that a target runtime loads."""

from __future__ import annotations

import re
from typing import Any

from ...eager.errors import ExportError

OPSETS = (17, 25)  # the first and last that the tests cover
DEFAULT = 18  # of IR version 8: onnxruntime loads it from 1.14, of February 2023, on

# The newest opset of each version of onnxruntime, from its table of compatible versions. A model
# gets the first IR version that has its opset, so the runtime loads the IR version, too.
_ONNXRUNTIME = {(1, 12): 17, (1, 14): 18, (1, 15): 19, (1, 17): 20, (1, 18): 21, (1, 21): 22,
                (1, 23): 23}
_HELP = 'as in target="onnxruntime>=1.16"'


def opset_of(opset: Any, target: Any) -> int:
    """The opset to write. Raises ExportError if the target does not load the requested opset."""
    newest = OPSETS[1] if target is None else _newest(target)
    requested = opset if opset is not None else DEFAULT if target is None else newest
    if type(requested) is not int or not OPSETS[0] <= requested <= OPSETS[1]:
        raise ExportError(f"export: opset {requested!r} is not supported", f"opsets {OPSETS[0]} to "
                          f"{OPSETS[1]} are supported; {DEFAULT} runs nearly everywhere")
    if requested > newest:
        raise ExportError(f"export: {target} loads opset {newest} at most, not {requested}",
                          f"leave out opset, or pass opset={newest}")
    return requested


def _newest(target: Any) -> int:
    match = re.fullmatch(r"onnxruntime\s*(?:>=|==|~=)\s*(\d+)\.(\d+)(?:\.[\d*]+)?", str(target))
    if match is None:
        raise ExportError(f"export: target {target!r} is not a version of onnxruntime", _HELP)
    version = int(match[1]), int(match[2])
    opsets = [opset for first, opset in _ONNXRUNTIME.items() if first <= version]
    if not opsets:
        first = ".".join(map(str, min(_ONNXRUNTIME)))
        raise ExportError(f"export: {target} loads none of the opsets {OPSETS[0]} to {OPSETS[1]}",
                          f"use onnxruntime {first} or later")
    return opsets[-1]
