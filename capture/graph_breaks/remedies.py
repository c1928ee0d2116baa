"""Says what to do against a graph break or a new recording, by the text of its reason."""

from __future__ import annotations

import re

_REMEDIES = (  # a part of the reason, and the remedy; the first that fits counts
    ("returns a different value on each call",
     "read it before the call and pass the value as an argument"),
    ("writes output on each call",
     "return the value and write it after the call; print() and logging are compiled"),
    ("starts a thread", "start the thread before the call"),
    ("stops in a debugger", "remove it, or debug with FUSEWIRE_COMPILE=0"),
    ("is made from Python values or a NumPy array",
     "make the tensor before the call and pass it as an argument"),
    ("to Python", "compute with tensor operations, such as fw.where, or read the value after the "
                  "call; x.item() and `if` on a value of one element are compiled"),
    ("becomes a plain number", "use x.item(), which stays compiled, or tensors"),
    ("the exact value of a number is needed",
     "compute with tensors here, or do this part outside of the function"),
    ("recompiles on most calls",
     "make what differs between the calls an argument that is a tensor, or mark sizes by dynamic="),
    ("more than", "merge the branches by fw.where, or compile smaller functions"),
    ("raises an error here that depends on values",
     "check the values before the call"),
    ("outlives", "return plain tensors, tuples, lists or dictionaries"),
    ("contains itself", "return plain tensors, tuples, lists or dictionaries"),
    ("replaces sys.stdout", "redirect the output outside of the function"),
    ("inside of a transform", "call it outside of the transform"),
    ("the cached function", "pass plain numbers and texts to the cached function"),
    ("a profiler is active", "use fw.profile(), which needs no profiler hook"),
    ("is compared with", "compare with a number that the dtype can hold, or cast the tensor"),
    ("too little memory", "use smaller batches, or free memory"),
    ("the next call is traced", "nothing: it concerns this call alone"),
)
_DEFAULT = "move this line out of the compiled function; what remains is compiled as one program"


_RECORDING_REMEDIES = (  # a pattern in the reason of a recording, and the remedy
    (r"outcome that has no trace yet",
     "none, if it happens once for each path; else choose by fw.where. If the line makes a plain "
     "number, use x.item() in place of float(x), int(x) or x.tolist()"),
    (r"where n\d+ =", "use the size as it is, without len(), int() or a range of it in Python"),
    (r"== ['\"]|== b['\"]", "leave the text out of the function: each text is a recording"),
    (r"(==|is) (-?[\d.]+(e[+-]?\d+)?|-?inf|nan)$",
     "none: the next recording holds for any number. If it comes again, pass a tensor"),
    (r" is \w+\[",
     "none for a size: the next recording holds for any size. Cast tensors to one dtype before "
     "the call"),
    (r" is (True|False|None)$", "none, if it happens once for each value"),
    (r" is <", "make the object once, before the loop of calls"),
    (r" has \d+ ", "pass as many elements in each call, or join them to one tensor"),
    (r"paths of a branch differ|the next call is traced", "none: it happens once"),
)
_RECORDING_DEFAULT = "keep the value the same from call to call, or pass it as a tensor"


def recording_remedy_of(why: str) -> str:
    """What to do against recordings with this reason."""
    return next((remedy for pattern, remedy in _RECORDING_REMEDIES if re.search(pattern, why)),
                _RECORDING_DEFAULT)


def remedy_of(why: str) -> str:
    """What to do against a graph break with this reason, as the warning states it."""
    return next((remedy for part, remedy in _REMEDIES if part in why), _DEFAULT)
