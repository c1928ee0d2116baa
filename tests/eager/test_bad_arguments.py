"""A bad argument gets an error of fusewire that names the function, or a result; no other error.

More random calls: `FUSEWIRE_TEST_BAD=20000 FUSEWIRE_TEST_SEED=3 pytest this file`.
"""

from __future__ import annotations

import math
import os
import random
import warnings
from typing import Any

import pytest
from bad_arguments import QUESTIONS, Bad, Call, bad_arguments, names_it, tensors_of, valid_calls
from layers.every import LAYERS, Layer

import fusewire as fw

CALLS = valid_calls()
ROWS = {row.name: row for row in LAYERS if row.call is None}
COUNT = int(os.environ.get("FUSEWIRE_TEST_BAD", "1500"))
SEED = int(os.environ.get("FUSEWIRE_TEST_SEED", "0"))
LARGEST = 10 ** 7  # elements; no valid call has more than a few hundred


def outcome(call: Call, **changed: Any) -> Any:
    """The result, or the error, of a call; any error but ours and a TypeError fails the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call.run(**changed)
        except (fw.FusewireError, TypeError) as error:
            return error


def check(call: Call, bad: Bad) -> None:
    result = outcome(call, **{bad.name: bad.value})
    where = f"{call.name}({bad.name}={bad.value!r:.60})"
    if isinstance(result, Exception):
        assert names_it(result, call), f"{where}: {result}"
    else:
        assert not bad.must_fail or call.name.split(".")[-1] in QUESTIONS, f"{where}: accepted"
        assert all(x.size < LARGEST for x in tensors_of(result)), where


def test_almost_every_public_function_has_a_valid_call() -> None:
    assert len(CALLS) > 750


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_one_bad_argument(call: Call) -> None:
    for bad in bad_arguments(call):
        check(call, bad)


def test_two_bad_arguments() -> None:
    rng = random.Random(SEED)
    pairs = [(call, list(bad_arguments(call))) for call in CALLS.values()]
    pairs = [(call, bad) for call, bad in pairs if len(bad) > 1]
    for _ in range(COUNT):
        call, every = rng.choice(pairs)
        chosen = rng.sample(every, 2)
        result = outcome(call, **{bad.name: bad.value for bad in chosen})
        if isinstance(result, Exception):
            assert names_it(result, call), f"{call.name}({chosen}): {result}"


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_layer_made_with_a_bad_number_fails_by_an_error_of_its_own(row: Layer) -> None:
    """At the call at the latest: a size of 0, say, may make a layer, but one of no input."""
    inputs = [fw.from_numpy(a) for a in row.arrays()]
    for n, value in enumerate(row.args):
        if isinstance(value, int) and not isinstance(value, bool):
            for bad in (0, -1, 7, math.nan):
                args = (*row.args[:n], bad, *row.args[n + 1:])
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    try:
                        row.run(getattr(fw.nn, row.name)(*args, **row.kwargs), *inputs)
                    except fw.FusewireError:
                        pass
