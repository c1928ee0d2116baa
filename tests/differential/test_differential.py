"""Random programs give the same by NumPy, eagerly and compiled, call after call.

They have integers that wrap around, 8 and 16 bits, NaN, infinities, -0.0, empty and 0-d arrays,
negative steps, duplicates in scatter, sizes and state that change between calls, and gradients
taken outside of the compiled function. More of them: `python tests/differential/run.py`.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from differential import judging
from differential.judging import difference, judge, outcome, smallest
from differential.namespaces import Fusewire, Numpy
from differential.writing import CALLS, Program, write

PROGRAMS = int(os.environ.get("FUSEWIRE_TEST_PROGRAMS", "100"))
CHUNK = 20


@pytest.mark.parametrize("first", range(0, PROGRAMS, CHUNK))
def test_programs_agree(first: int) -> None:
    wrong = [said for seed in range(first, first + CHUNK) if (said := judge(seed))]
    assert not wrong, "\n".join(wrong)


def features(program: Program) -> set[str]:
    """What the issue of such programs is: dtypes, values and changes that occur in this one."""
    arrays = [a for call in program.inputs for a in call.values()]
    found = {a.dtype.name for a in arrays}
    found |= {"0-d" for a in arrays if not a.ndim} | {"empty" for a in arrays if not a.size}
    found |= {"nan" for a in arrays if a.dtype == np.float32 and np.isnan(a).any()}
    found |= {"sizes" for a, b in zip(program.inputs, program.inputs[1:])
              if [x.shape for x in a.values()] != [x.shape for x in b.values()]}
    found |= {"state"} if any(program.states[1:]) else set()
    found |= {"gradients"} if program.grads else set()
    return found | {word for word in ("::-1", "index_add", "s.flag", "<<") if word in program.text}


def test_all_features_occur() -> None:
    occurring = set().union(*(features(write(seed)) for seed in range(200)))
    assert occurring >= {"int8", "uint8", "int16", "uint16", "int64", "uint64", "float16",
                         "bfloat16", "float64", "bool", "0-d", "empty", "nan", "sizes", "state",
                         "gradients", "::-1", "index_add", "s.flag", "<<"}


def test_few_programs_end_with_an_exception() -> None:
    lengths = [len(outcome(write(seed), Fusewire("float16"))) for seed in range(40)]
    assert np.mean([length == CALLS for length in lengths]) > 0.9


def forgetful(function: Any) -> Any:
    """The function, whose results from the third call on are those of one call before."""
    earlier: list[Any] = []

    def run(s: Any, **inputs: Any) -> Any:
        earlier.append(function(s, **inputs))
        return earlier[-1] if len(earlier) < 3 else earlier[-2]
    return run


def test_a_wrong_result_is_found_and_the_program_made_small(
        monkeypatch: pytest.MonkeyPatch) -> None:
    program = replace(write(5), grads=())
    assert not difference(program)
    monkeypatch.setattr(judging.fw, "compile", forgetful)
    assert "compiled: call 2" in difference(program)
    assert len(smallest(program).lines) < len(program.lines)


def test_one_unit_in_the_last_place_is_rounding_where_there_is_rounding() -> None:
    narrow, wide = (np.asarray([0.1, 2.0], d) / np.asarray(3, d) for d in ("float32", "float64"))
    other = np.nextafter(narrow, np.float32(1))
    assert not judging._differs(other, narrow, wide, False)
    assert judging._differs(np.float32([0.1, 2.0]), narrow, wide, False)
    assert judging._differs(np.nextafter(np.float32([2]), np.float32(3)), np.float32([2]),
                            np.float64([2]), False)


def test_the_namespaces_have_the_same_dtypes() -> None:
    values = np.float32([1.5])
    assert Numpy("float16").array(values).dtype == Fusewire("float16").array(values).numpy().dtype
