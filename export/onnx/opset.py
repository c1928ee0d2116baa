"""Which opset a model is written in: what is asked for, or the newest that a runtime loads."""

from __future__ import annotations

import re
from typing import Any

from ...eager.errors import ExportError

OPSETS = (17, 23)  # the first and last that the tests cover
DEFAULT = 18  # of IR version 8: onnxruntime loads it from 1.14, of February 2023, on

# The newest opset of each version of onnxruntime, from its table of compatible versions. The IR
# version that a model is written in is the first that has its opset, which it loads then, too.
_ONNXRUNTIME = {(1, 12): 17, (1, 14): 18, (1, 15): 19, (1, 17): 20, (1, 18): 21, (1, 21): 22,
                (1, 23): 23}
_HELP = 'as in target="onnxruntime>=1.16"'


def opset_of(opset: Any, target: Any) -> int:
    """The opset to write in. ExportError where the two do not go together."""
    newest = OPSETS[1] if target is None else _newest(target)
    wanted = opset if opset is not None else DEFAULT if target is None else newest
    if type(wanted) is not int or not OPSETS[0] <= wanted <= OPSETS[1]:
        raise ExportError(f"export: opset {wanted!r} is not supported", f"opsets {OPSETS[0]} to "
                          f"{OPSETS[1]} are; {DEFAULT} runs nearly everywhere")
    if wanted > newest:
        raise ExportError(f"export: {target} loads opset {newest} at most, not {wanted}",
                          f"leave out opset, or give opset={newest}")
    return wanted


def _newest(target: Any) -> int:
    found = re.fullmatch(r"onnxruntime\s*(?:>=|==|~=)\s*(\d+)\.(\d+)(?:\.[\d*]+)?", str(target))
    if found is None:
        raise ExportError(f"export: target {target!r} is no version of onnxruntime", _HELP)
    version = int(found[1]), int(found[2])
    opsets = [opset for first, opset in _ONNXRUNTIME.items() if first <= version]
    if not opsets:
        first = ".".join(map(str, min(_ONNXRUNTIME)))
        raise ExportError(f"export: {target} loads none of the opsets that are written here",
                          f"onnxruntime {first} does, and all after it")
    return opsets[-1]
