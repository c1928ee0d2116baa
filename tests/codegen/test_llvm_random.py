"""Random kernels give the same results as LLVM code and in `interpret`."""

import numpy as np
import pytest
from loop_kernels import TARGETS, check_all
from random_kernels import Maker


@pytest.mark.parametrize("target", TARGETS)
def test_random_kernels(target):
    rng = np.random.default_rng(7)
    check_all([Maker(rng).kernel() for _ in range(6 if target else 12)], target)
