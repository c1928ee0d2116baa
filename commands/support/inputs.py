"""Tensors for a function that a user named: from --input, or from a file of examples."""

from __future__ import annotations

import argparse
import re
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...eager.arrays.dtypes import DTYPES, OWN
from ...eager.core.tensor import Tensor, from_numpy
from .command import Failed, WrongUsage
from .targets import NamedTarget

_SPEC = re.compile(r"(?:(?P<name>\w+)=)?(?P<dtype>\w+)\[(?P<sizes>[\w\s,]*)\]", re.ASCII)
_AXIS = re.compile(r"(?P<name>\w+):(?P<axis>\d+)=(?P<size>[^\W\d]\w*)", re.ASCII)
_POSITIONAL = re.compile(r"arr_(\d+)")  # what np.savez calls arrays without a name
_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)  # sizes of the example where any will do


class Spec(NamedTuple):
    """An input as it is written: `x=float32[batch,784]`."""

    name: str  # empty: the next parameter
    dtype: str
    sizes: tuple[int | str, ...]


class Axis(NamedTuple):
    """An axis that may vary: `x:0=batch`."""

    name: str
    axis: int
    size: str


@dataclass(frozen=True)
class Given:
    """Arguments of a call by name, and which of their axes have names."""

    tensors: Mapping[str, Tensor]
    dynamic: Mapping[str, Mapping[int, str]]

    def __str__(self) -> str:
        shown = (f"{name}={t.dtype.name}[{','.join(map(str, t.shape))}]"
                 for name, t in self.tensors.items())
        return ", ".join(shown) or "no arguments"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options by which a user says what a function is called with."""
    parser.add_argument("--input", type=spec, action="append", default=[], dest="inputs",
                        metavar="X=DTYPE[SIZES]", help="dtype and sizes of an argument, as in "
                        "x=float32[batch,784]; a named size is dynamic; filled with random "
                        "numbers; once per argument")
    parser.add_argument("--example", type=Path, metavar="FILE.npz",
                        help="arrays by argument name, as np.savez writes them, instead of "
                        "--input")
    parser.add_argument("--dynamic", type=axis, action="append", default=[], metavar="X:AXIS=NAME",
                        help="a dynamic axis, as in x:0=batch; may be given several times")


def spec(text: str) -> Spec:
    """An input as it is written, for argparse.

    >>> spec("x=float32[batch,784]")
    Spec(name='x', dtype='float32', sizes=('batch', 784))
    """
    found = _SPEC.fullmatch(text.strip())
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r}: write it like x=float32[batch,784]")
    if found["dtype"] not in DTYPES:
        raise argparse.ArgumentTypeError(
            f"{text!r}: there is no dtype {found['dtype']!r}; there are {', '.join(DTYPES)}")
    sizes = [part.strip() for part in found["sizes"].split(",") if part.strip()]
    return Spec(found["name"] or "", found["dtype"],
                tuple(int(s) if s.isdigit() else s for s in sizes))


def sizes(text: str) -> dict[str, int]:
    """Sizes by name as they are written, for argparse.

    >>> sizes("batch=8,length=128")
    {'batch': 8, 'length': 128}
    """
    parts = [part.strip().partition("=") for part in text.split(",")]
    if not all(name.isidentifier() and number.isdigit() for name, _, number in parts):
        raise argparse.ArgumentTypeError(f"{text!r}: write it like batch=8 or batch=8,length=128")
    return {name: int(number) for name, _, number in parts}


def axis(text: str) -> Axis:
    """An axis that may vary, for argparse.

    >>> axis("x:0=batch")
    Axis(name='x', axis=0, size='batch')
    """
    found = _AXIS.fullmatch(text.strip())
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r}: write it like x:0=batch")
    return Axis(found["name"], int(found["axis"]), found["size"])


def given(options: argparse.Namespace, target: NamedTarget, sizes: Mapping[str, int] | None = None
          ) -> Given:
    """What the options say that the target is called with, its named sizes as in `sizes` where they
    are there. WrongUsage where that is not enough."""
    if options.inputs and options.example:
        raise WrongUsage("--input and --example both describe the arguments",
                         "give only one of them")
    dynamic: dict[str, dict[int, str]] = {}
    if options.example and sizes:
        raise WrongUsage("the sizes of --example are fixed", "leave --sizes out, or use --input")
    if options.example:
        tensors = by_parameter(read(options.example), target)
    else:
        tensors, dynamic = _written(options.inputs, target, sizes or {})
        _check(tensors, target)
    for name, number, size in options.dynamic:
        dynamic.setdefault(name, {})[number] = size
    return Given(tensors, dynamic)


def by_parameter(arrays: Mapping[str, Tensor], target: NamedTarget) -> dict[str, Tensor]:
    """Tensors of a file by the names of the parameters that they are for."""
    found = _by_parameter(list(arrays.items()), target)
    _check(found, target)
    return found


def read(file: Path) -> dict[str, Tensor]:
    """The arrays of an .npz file by name."""
    found = _loaded(file)
    if isinstance(found, np.ndarray):
        raise Failed(f"{file} holds one array without a name", "np.savez(file, x=...) names it")
    return {name: tensor(array, f"{name} of {file}") for name, array in found.items()}


def read_one(file: Path) -> Tensor:
    """The array of an .npy file."""
    found = _loaded(file)
    if not isinstance(found, np.ndarray):
        raise Failed(f"{file} holds several arrays", "np.save writes one; or call it .npz")
    return tensor(found, str(file))


def _loaded(file: Path) -> Any:
    """What a file of NumPy's holds: an array, or a dictionary of them."""
    try:
        with warnings.catch_warnings(), open(file, "rb") as stream:
            warnings.simplefilter("ignore")
            found = np.load(stream, allow_pickle=False)
            return found if isinstance(found, np.ndarray) else dict(found)
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise Failed(f"{file} cannot be read as arrays: {error}",
                     "np.save and np.savez write such files") from error


def tensor(array: np.ndarray[Any, Any], what: str) -> Tensor:
    """An array from a file as a tensor."""
    if array.dtype not in OWN:
        raise Failed(f"{what} holds {array.dtype}", f"there are {', '.join(DTYPES)}")
    return from_numpy(np.array(array, OWN[array.dtype], order="C"))


def random(dtype: str, shape: Sequence[int], numbers: np.random.Generator) -> Tensor:
    """Normal numbers; 0 and 1 for integers, which may be indices, and for bool."""
    kind = DTYPES[dtype]
    if kind.kind in "biu":
        return from_numpy(np.asarray(numbers.integers(0, 2, shape)).astype(kind))
    values = np.asarray(numbers.standard_normal(shape))
    if kind.kind == "c":
        values = values + 1j * numbers.standard_normal(shape)
    return from_numpy(values.astype(kind))


def _written(specs: Sequence[Spec], target: NamedTarget, wanted: Mapping[str, int]
             ) -> tuple[dict[str, Tensor], dict[str, dict[int, str]]]:
    names = dict.fromkeys(s for spec in specs for s in spec.sizes if isinstance(s, str))
    if len(names) > len(_PRIMES):
        raise WrongUsage(f"--input: {len(names)} names of sizes are too many", "use --example")
    for name in wanted.keys() - names.keys():
        raise WrongUsage(f"no argument has a size {name!r}",
                         f"there are {', '.join(names)}" if names else "none has a name")
    sizes, numbers = {**dict(zip(names, _PRIMES)), **wanted}, np.random.default_rng(0)
    made = [(s.name, random(s.dtype, [sizes.get(n, n) for n in s.sizes], numbers))  # type: ignore
            for s in specs]
    tensors = _by_parameter(made, target)
    dynamic = {name: {i: n for i, n in enumerate(spec.sizes) if isinstance(n, str)}
               for name, spec in zip(tensors, specs)}
    return tensors, {name: axes for name, axes in dynamic.items() if axes}


def _by_parameter(found: Sequence[tuple[str, Tensor]], target: NamedTarget) -> dict[str, Tensor]:
    """Tensors by the parameters' names; those without a name by position."""
    known = list(target.parameters)
    made: dict[str, Tensor] = {}
    for i, (name, value) in enumerate(found):
        place = _POSITIONAL.fullmatch(name) if name not in known else None
        number = int(place[1]) if place else i
        if (place or not name) and number < len(known):
            name = known[number]
        if name in made:
            raise WrongUsage(f"{target.name} is given {name or 'an argument'!r} twice")
        made[name] = value
    return made


def _check(tensors: Mapping[str, Tensor], target: NamedTarget) -> None:
    """WrongUsage where the parameters are others than what is given."""
    parameters = target.parameters
    plain = {name: p for name, p in parameters.items()
             if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
    missing = [name for name, p in plain.items() if p.default is p.empty and name not in tensors]
    takes = ", ".join(parameters) or "nothing"
    if missing:
        told = " ".join(f"--input '{name}=float32[batch,8]'" for name in missing)
        raise WrongUsage(f"{target.name} takes {takes}: {', '.join(missing)} not given",
                         f"say what it is, as in {told}, or --example FILE.npz")
    unknown = [name for name in tensors if name not in plain]
    if unknown and len(plain) == len(parameters):
        raise WrongUsage(f"{target.name} has no argument {unknown[0]!r}", f"it takes {takes}")
