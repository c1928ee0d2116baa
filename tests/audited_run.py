"""Records functions in several threads under an audit hook, in a process of its own: a hook stays.

The hook lets other threads run while Python sets a profile function. Before 3.12 Python refuses to
set another one meanwhile. A recording without a profile function would follow no code.
"""

from __future__ import annotations

import sys
import time

from jobs import together

import fusewire as fw


def record(factor: float) -> None:
    """Asserts that a recording guards an attribute that the function reads."""
    class Holder:
        value = factor

    compiled = fw.compile(lambda x: fw.exp(x) * Holder.value, fullgraph=True)
    compiled(fw.ones(3)), compiled(fw.ones(3))
    Holder.value = factor + 1
    assert compiled(fw.zeros(3)).tolist() == [factor + 1] * 3


if __name__ == "__main__":
    sys.addaudithook(lambda event, args: time.sleep(1e-5) if event == "sys.setprofile" else None)
    for _ in range(5):
        together(*[lambda k=k: record(k) for k in range(3)])
