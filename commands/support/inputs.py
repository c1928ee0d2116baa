"""Builds the arguments of a user's function, from --input or from a file of examples."""

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
from .targets import UserFunction

_SPEC = re.compile(r"(?:(?P<name>\w+)=)?(?P<dtype>\w+)\[(?P<sizes>[\w\s,]*)\]", re.ASCII)
_AXIS = re.compile(r"(?P<name>\w+):(?P<axis>\d+)=(?P<size>[^\W\d]\w*)", re.ASCII)
_POSITIONAL = re.compile(r"arr_(\d+)")  # the names that np.savez gives to unnamed arrays
_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)  # default values of named sizes


class Spec(NamedTuple):
    """A parsed --input, such as `x=float32[batch,784]`."""

    name: str  # empty: the next parameter
    dtype: str
    sizes: tuple[int | str, ...]


class Axis(NamedTuple):
    """A parsed --dynamic, such as `x:0=batch`."""

    name: str
    axis: int
    size: str


@dataclass(frozen=True)
class Arguments:
    """Arguments of a call by name, and the names of their dynamic axes."""

    tensors: Mapping[str, Tensor]
    dynamic: Mapping[str, Mapping[int, str]]

    def __str__(self) -> str:
        shown = (f"{name}={t.dtype.name}[{','.join(map(str, t.shape))}]"
                 for name, t in self.tensors.items())
        return ", ".join(shown) or "no arguments"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options that describe the arguments of a function."""
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
    """Parses the text of --input, for argparse.

    >>> spec("x=float32[batch,784]")
    Spec(name='x', dtype='float32', sizes=('batch', 784))
    """
    match = _SPEC.fullmatch(text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r}: write it like x=float32[batch,784]")
    if match["dtype"] not in DTYPES:
        raise argparse.ArgumentTypeError(
            f"{text!r}: there is no dtype {match['dtype']!r}; dtypes are {', '.join(DTYPES)}")
    sizes = [part.strip() for part in match["sizes"].split(",") if part.strip()]
    return Spec(match["name"] or "", match["dtype"],
                tuple(int(s) if s.isdigit() else s for s in sizes))


def sizes(text: str) -> dict[str, int]:
    """Parses sizes by name, for argparse.

    >>> sizes("batch=8,length=128")
    {'batch': 8, 'length': 128}
    """
    parts = [part.strip().partition("=") for part in text.split(",")]
    if not all(name.isidentifier() and number.isdigit() for name, _, number in parts):
        raise argparse.ArgumentTypeError(f"{text!r}: write it like batch=8 or batch=8,length=128")
    return {name: int(number) for name, _, number in parts}


def axis(text: str) -> Axis:
    """Parses the text of --dynamic, for argparse.

    >>> axis("x:0=batch")
    Axis(name='x', axis=0, size='batch')
    """
    match = _AXIS.fullmatch(text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r}: write it like x:0=batch")
    return Axis(match["name"], int(match["axis"]), match["size"])


def arguments(options: argparse.Namespace, target: UserFunction,
              sizes: Mapping[str, int] | None = None) -> Arguments:
    """The arguments that the options describe. `sizes`: values of named sizes. WrongUsage if the
    options do not fit the parameters of the target."""
    if options.inputs and options.example:
        raise WrongUsage("--input and --example both describe the arguments",
                         "give only one of them")
    dynamic: dict[str, dict[int, str]] = {}
    if options.example and sizes:
        raise WrongUsage("the sizes of --example are fixed", "leave --sizes out, or use --input")
    if options.example:
        tensors = from_file(options.example, target)
    else:
        tensors, dynamic = _random_tensors(options.inputs, target, sizes or {})
        _check(tensors, target, "describe it, as in --input '{0}=float32[batch,8]', or pass "
               "--example FILE.npz")
    for name, number, size in options.dynamic:
        dynamic.setdefault(name, {})[number] = size
    return Arguments(tensors, dynamic)


def from_file(file: Path, target: UserFunction) -> dict[str, Tensor]:
    """The arrays of an .npz file by the names of the target's parameters. WrongUsage if they do
    not fit these."""
    tensors = _by_parameter(list(read(file).items()), target)
    _check(tensors, target, f"{file} holds {', '.join(tensors) or 'nothing'}; "
           f"np.savez({str(file)!r}, {{0}}=...) adds it")
    return tensors


def read(file: Path) -> dict[str, Tensor]:
    """The arrays of an .npz file by name."""
    arrays = _loaded(file)
    if isinstance(arrays, np.ndarray):
        raise Failed(f"{file} holds one array without a name", "np.savez(file, x=...) names it")
    return {name: tensor(array, f"{name} of {file}") for name, array in arrays.items()}


def read_one(file: Path) -> Tensor:
    """The array of an .npy file."""
    array = _loaded(file)
    if not isinstance(array, np.ndarray):
        raise Failed(f"{file} holds several arrays",
                     "save one array with np.save, or name the file .npz")
    return tensor(array, str(file))


def _loaded(file: Path) -> Any:
    """The contents of a NumPy file: an array, or a dictionary of arrays."""
    try:
        with warnings.catch_warnings(), open(file, "rb") as stream:
            warnings.simplefilter("ignore")
            arrays = np.load(stream, allow_pickle=False)
            return arrays if isinstance(arrays, np.ndarray) else dict(arrays)
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise Failed(f"{file} cannot be read as arrays: {error}",
                     "np.save and np.savez write such files") from error


def tensor(array: np.ndarray[Any, Any], what: str) -> Tensor:
    """An array from a file as a tensor."""
    if array.dtype not in OWN:
        raise Failed(f"{what} holds {array.dtype}", f"dtypes are {', '.join(DTYPES)}")
    return from_numpy(np.array(array, OWN[array.dtype], order="C"))


def random(dtype: str, shape: Sequence[int], numbers: np.random.Generator) -> Tensor:
    """Random numbers: normal for floats, 0 and 1 for bool and integers, which may be indices."""
    kind = DTYPES[dtype]
    if kind.kind in "biu":
        return from_numpy(np.asarray(numbers.integers(0, 2, shape)).astype(kind))
    values = np.asarray(numbers.standard_normal(shape))
    if kind.kind == "c":
        values = values + 1j * numbers.standard_normal(shape)
    return from_numpy(values.astype(kind))


def _random_tensors(specs: Sequence[Spec], target: UserFunction, fixed_sizes: Mapping[str, int]
                    ) -> tuple[dict[str, Tensor], dict[str, dict[int, str]]]:
    names = dict.fromkeys(s for spec in specs for s in spec.sizes if isinstance(s, str))
    if len(names) > len(_PRIMES):
        raise WrongUsage(f"--input names {len(names)} sizes, at most {len(_PRIMES)} are supported",
                         "pass arrays with --example")
    for name in fixed_sizes.keys() - names.keys():
        raise WrongUsage(f"no argument has a size {name!r}",
                         f"the sizes are {', '.join(names)}" if names else "no size has a name")
    sizes, numbers = {**dict(zip(names, _PRIMES)), **fixed_sizes}, np.random.default_rng(0)
    named = [(s.name, random(s.dtype, [sizes.get(n, n) for n in s.sizes], numbers))  # type: ignore
             for s in specs]
    tensors = _by_parameter(named, target)
    dynamic = {name: {i: n for i, n in enumerate(spec.sizes) if isinstance(n, str)}
               for name, spec in zip(tensors, specs)}
    return tensors, {name: axes for name, axes in dynamic.items() if axes}


def _by_parameter(named_tensors: Sequence[tuple[str, Tensor]], target: UserFunction
                  ) -> dict[str, Tensor]:
    """Tensors by parameter name. Tensors without a name are assigned by position."""
    parameters = list(target.parameters)
    tensors: dict[str, Tensor] = {}
    for i, (name, value) in enumerate(named_tensors):
        match = _POSITIONAL.fullmatch(name) if name not in parameters else None
        number = int(match[1]) if match else i
        if (match or not name) and number < len(parameters):
            name = parameters[number]
        if name in tensors:
            raise WrongUsage(f"{target.name} gets {name or 'an argument'!r} twice",
                             "describe each argument once")
        tensors[name] = value
    return tensors


def _check(tensors: Mapping[str, Tensor], target: UserFunction, remedy: str) -> None:
    """Raises WrongUsage if the tensors do not fit the parameters of the target. `remedy` says how
    to pass the missing parameter {0}."""
    parameters = target.parameters
    plain = {name: p for name, p in parameters.items()
             if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
    missing = [name for name, p in plain.items() if p.default is p.empty and name not in tensors]
    takes = ", ".join(parameters) or "nothing"
    if missing:
        raise WrongUsage(f"{target.name} takes {takes}: {', '.join(missing)} missing",
                         remedy.format(missing[0]))
    unknown = [name for name in tensors if name not in plain]
    if unknown and len(plain) == len(parameters):
        raise WrongUsage(f"{target.name} has no argument {unknown[0]!r}", f"it takes {takes}")
