"""Runs random programs by NumPy, eagerly and compiled, and says how they differ.

A result in which nothing is rounded has to have the same bits. Any other one may differ by a
multiple of its own error, which is how far NumPy's result is from the same program in wide floats.
"""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import fusewire as fw

from .namespaces import Fusewire, Numpy, is_float
from .pool import is_exact
from .writing import Program, write

EPSILON = {2: 2.0 ** -7, 4: 2.0 ** -23, 8: 2.0 ** -40}  # by bytes; gradients of 8 have no wide ones
SLACK = 64  # how many times its own error a result may differ from another order of evaluation
Outcome = list[list[Any]]  # per call: results, state and gradients


def state_of(s: types.SimpleNamespace) -> list[Any]:
    return [s.k, s.scale, s.flag, s.count, list(s.log), s.row, s.last]


@np.errstate(all="ignore")
def outcome(program: Program, xp: Any, wrap: Callable[[Any], Any] = lambda f: f) -> Outcome:
    """What all calls return and leave behind; an exception's type name ends the list."""
    env: dict[str, Any] = {"xp": xp}
    exec(compile(program.text, f"<program {program.seed}>", "exec"), env)
    function, s = wrap(env["f"]), types.SimpleNamespace()
    calls: Outcome = []
    for arrays, changes in zip(program.inputs, program.states):
        for name, value in changes.items():
            held = list(value) if isinstance(value, list) else value
            setattr(s, name, xp.array(value) if isinstance(value, np.ndarray) else held)
        inputs = {n: xp.array(a) for n, a in arrays.items()}
        try:
            calls.append([_plain(v) for v in _call(program, function, s, inputs)])
        except (fw.FusewireError, ValueError, IndexError, TypeError, OverflowError,
                ZeroDivisionError) as error:
            calls.append([f"raises: {type(error).__name__}: {error}"])
            break
    return calls


def _plain(value: Any) -> Any:
    return value.numpy() if isinstance(value, fw.Tensor) else value


def _call(program: Program, function: Any, s: Any, inputs: dict[str, Any]) -> list[Any]:
    tensors = isinstance(next(iter(inputs.values())), fw.Tensor)
    if tensors:
        for name in program.grads:
            inputs[name].requires_grad_(True)
    results = list(function(s, **inputs))
    values = [r.detach() if tensors else r for r in results]
    if tensors and program.grads:
        _backward(results)
    state = [v.detach() if isinstance(v, fw.Tensor) else v for v in state_of(s)]
    grads = [inputs[n].grad if tensors else None for n in program.grads]
    s.row = s.row.detach() if tensors else s.row
    return values + state + grads


def _backward(results: list[fw.Tensor]) -> None:
    """The gradients of a weighted sum of all results that have some."""
    loss = None
    for number, result in enumerate(results):
        if result.requires_grad:
            term = (result.astype(fw.float64) * (1 + number)).sum()
            loss = term if loss is None else loss + term
    if loss is not None and loss.requires_grad:
        loss.backward()


def difference(program: Program) -> str:
    """How the program differs between NumPy, eager and compiled; empty if it does not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        narrow, wide = (outcome(program, Numpy(program.half, w)) for w in (False, True))
        eager = outcome(program, Fusewire(program.half))
        eager_wide = outcome(program, Fusewire(program.half, True)) if program.grads else wide
        compiled = outcome(program, Fusewire(program.half), fw.compile)
    count = len(program.grads)
    for name, got, against in (("eager", eager, narrow), ("compiled", compiled, eager)):
        said = compare(program, got, against, wide, 0 if name == "compiled" else count)
        if not said and name == "compiled" and count:
            said = _compare_gradients(compiled, eager, eager_wide, count)
        if said:
            return f"{name}: {said}"
    return ""


def compare(program: Program, got: Outcome, against: Outcome, wide: Outcome, skip: int) -> str:
    """The first difference of results and state, or an empty text."""
    if len(got) != len(against):
        return f"{len(got)} calls, not {len(against)}: {got[-1]!s:.300} and {against[-1]!s:.300}"
    for call, (a, b) in enumerate(zip(got, against)):
        if raised(a) or raised(b):
            return "" if raised(a) and raised(b) else f"call {call}: {a!s:.300} and {b!s:.300}"
        count = len(program.results) + 7
        for i in range(count):
            name = program.results[i] if i < len(program.results) else ""
            signed, exact = name in program.signed_zero, name in program.exact
            said = _differs(a[i], b[i], wide[call][i] if call < len(wide) else b[i], signed, exact)
            if said:
                what = program.results[i] if i < len(program.results) else f"state {i - count + 7}"
                return f"call {call}, {what}: {said}"
    return ""


def raised(call: list[Any]) -> bool:
    return len(call) == 1 and isinstance(call[0], str) and call[0].startswith("raises: ")


def _compare_gradients(got: Outcome, eager: Outcome, wide: Outcome, count: int) -> str:
    for call, rows in enumerate(zip(got, eager, wide)):
        if any(raised(row) for row in rows):
            return ""
        for a, b, c in zip(*(row[-count:] for row in rows)):
            if (a is None) != (b is None):
                return f"call {call}: gradients {a} and {b}"
            if a is not None and (said := _differs(a, b, c, False, exact=False)):
                return f"call {call}, gradient: {said}"
    return ""


def _differs(got: Any, wanted: Any, wide: Any, signed: bool, exact: bool = True) -> str:
    if not hasattr(wanted, "dtype"):
        return "" if got == wanted else f"{got!r}, not {wanted!r}"
    got, wanted, wide = np.asarray(got), np.asarray(wanted), np.asarray(wide)
    if got.dtype != wanted.dtype or got.shape != wanted.shape:
        return f"{got.dtype}{got.shape}, not {wanted.dtype}{wanted.shape}"
    wrong = _wrong_elements(got, wanted, wide, signed, exact and is_exact(wanted, wide))
    if not wrong.any():
        return ""
    where = tuple(int(i) for i in np.argwhere(wrong)[0])
    return (f"{int(wrong.sum())} of {wrong.size} elements differ, first at {where}: "
            f"{got[where]!r}, not {wanted[where]!r} (wide {wide[where]!r})")


def _wrong_elements(got: np.ndarray, wanted: np.ndarray, wide: np.ndarray,
                    signed: bool, exact: bool) -> np.ndarray:
    if not is_float(got.dtype):
        return np.asarray(got != wanted)
    x, y, z = (a.astype(np.float64) for a in (got, wanted, wide))
    equal = (x == y) | (np.isnan(x) & np.isnan(y))
    if exact:
        zeros = signed & (x == 0) & (np.signbit(x) != np.signbit(y))
        return ~equal | zeros
    explained = np.isfinite(y) != np.isfinite(z)  # eager itself overflows where wide does not
    error = np.abs(y - z, where=np.isfinite(y) & np.isfinite(z), out=np.zeros_like(y))
    finite = np.abs(z, where=np.isfinite(z), out=np.zeros_like(z))
    largest = error.max() if error.size else 0.0
    scale = finite + max(1.0, finite.max() if finite.size else 0.0)  # operands may be as large
    bound = SLACK * error + 8 * largest + 8 * EPSILON[got.dtype.itemsize] * scale
    return ~equal & ~explained & ~(np.abs(x - y) <= bound)


@np.errstate(all="ignore")
def judge(seed: int) -> str:
    """How program `seed` differs, with its text made small; empty if it does not."""
    program = write(seed)
    said = difference(program)
    return f"program {seed}: {said}\n{smallest(program).text}" if said else ""


def smallest(program: Program) -> Program:
    """The program without the lines and calls that its difference does not need."""
    changed = True
    while changed:
        changed = False
        for fewer in _smaller(program):
            if _still_differs(fewer):
                program, changed = fewer, True
                break
    return program


def _smaller(program: Program) -> list[Program]:
    lines, results = program.lines, program.results
    candidates = [replace(program, results=(*results[:i], *results[i + 1:]))
                  for i in range(len(results)) if len(results) > 1]
    candidates += [replace(program, lines=(*lines[:i], *lines[i + 1:])) for i in range(len(lines))]
    candidates += [replace(program, grads=program.grads[1:])] if program.grads else []
    return candidates + [replace(program, inputs=program.inputs[:n], states=program.states[:n])
                         for n in (len(program.inputs) - 1,) if n]


def _still_differs(program: Program) -> bool:
    try:
        return "raises" not in (said := difference(program)) and bool(said)
    except NameError:
        return False
