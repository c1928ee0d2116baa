"""Tests writes at indices that a compiled function computes: in place, and never seen by others."""

from __future__ import annotations

import os

import numpy as np
import pytest
from index_programs import COLUMNS, ROWS, outcome, program

import fusewire as fw

COUNT = int(os.environ.get("FUSEWIRE_TEST_INDEX_PROGRAMS", "40"))
FROM = int(os.environ.get("FUSEWIRE_TEST_INDEX_PROGRAMS_FROM", "0"))


@pytest.mark.parametrize("seed", range(FROM, FROM + COUNT))
def test_random_programs_with_index_writes_agree_with_eager(seed):
    run, make = program(seed)
    compiled, states = fw.compile(run), (make(), make())
    rng = np.random.default_rng(seed)
    for call in range(6):
        x = rng.standard_normal((ROWS if seed % 2 else 3, COLUMNS)).astype(np.float32)
        wanted = outcome(run, states[0], x)
        have = outcome(compiled, states[1], x)
        assert len(have) == len(wanted)
        for ours, theirs in zip(have, wanted):
            if isinstance(theirs, str):
                assert ours == theirs
            else:
                np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5,
                                           err_msg=f"call {call}")
        if any(isinstance(value, str) for value in wanted):
            break  # eager leaves what it has written before an error, a compiled call nothing
