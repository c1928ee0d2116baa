"""A CuPy without a GPU: arrays that hold NumPy memory but are none of NumPy's.

It has the functions, dtypes and keyword arguments that the real one has (cupy_names.json), refuses
what that refuses (conversions to NumPy, NumPy's arrays beside its own, other devices' arrays), and
differs from NumPy where CuPy's documentation says so: results without axes are arrays, an index
outside wraps around, and which of several values for one place stays is left open.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import pathlib
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np

NAMES = json.loads(pathlib.Path(__file__).with_name("cupy_names.json").read_text())
DEVICES = 2
_KINDS = "biufc"


class _State(threading.local):
    device = 0
    stream: Any = None


STATE = _State()


def _wrap(value: Any, device: int | None = None) -> Any:
    """NumPy's results as arrays of ours, in tuples too."""
    if isinstance(value, (np.ndarray, np.generic)):
        return made(np.asarray(value), STATE.device if device is None else device)
    if isinstance(value, (tuple, list)):
        items = [_wrap(v, device) for v in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def made(host: Any, device: int) -> ndarray:
    if host.dtype.kind not in _KINDS and host.dtype != ml_dtypes.bfloat16:
        raise ValueError(f"Unsupported dtype {host.dtype}")
    out = object.__new__(ndarray)
    out._host, out._device = host, device
    return out


def _unwrap(value: Any) -> Any:
    """Our arrays as NumPy's; TypeError for arrays of NumPy's own, as CuPy converts none."""
    if isinstance(value, ndarray):
        if value._device != STATE.device:
            raise ValueError(f"array device {value._device} is not the current {STATE.device}")
        return value._host
    if isinstance(value, np.ndarray):
        raise TypeError(f"Unsupported type {type(value)}")
    if isinstance(value, (tuple, list)) and any(isinstance(v, (ndarray, np.ndarray))
                                                for v in value):
        return type(value)(map(_unwrap, value))
    return value


def _checked(shown: str | None, args: Any, kwargs: Any) -> None:
    """TypeError where the real function does not take these arguments."""
    if shown is not None:
        names: dict[str, Any] = {}
        exec(compile(f"def f{shown}: pass", __file__, "exec"), names)  # CuPy's, not a user's
        inspect.signature(names["f"]).bind(*args, **kwargs)


def _quiet(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    with np.errstate(all="ignore"):
        return function(*args, **kwargs)


# ---- functions
def function(name: str, shown: str | None, run: Callable[..., Any]) -> Callable[..., Any]:
    def called(*args: Any, **kwargs: Any) -> Any:
        _checked(shown, args, kwargs)
        given = {k: _unwrap(v) for k, v in kwargs.items()}
        if name in ("argsort", "sort"):  # CuPy's are always stable
            given["kind"] = "stable"
        return _wrap(_quiet(run, *map(_unwrap, args), **given))

    called.__name__ = name
    return called


class ufunc:
    """A function of elements, for the dtypes that it has loops for."""

    def __init__(self, name: str, loops: list[str]) -> None:
        self.__name__, self.types = name, [loop for loop in loops if "E" not in loop]  # bfloat16
        self.run = getattr(np, name, None) or getattr(_special(), name)

    def __call__(self, *args: Any, out: Any = None, dtype: Any = None, casting: Any = None
                 ) -> Any:
        given = [_unwrap(a) for a in args]
        self._check([a.dtype for a in given if isinstance(a, np.ndarray)])
        found = _quiet(self.run, *given, **({} if dtype is None else {"dtype": dtype}))
        if out is None:
            return _wrap(found)
        (out._host if isinstance(out, ndarray) else out)[...] = found
        return out

    def _check(self, dtypes: list[Any]) -> None:
        if not dtypes:
            return
        common = np.result_type(*dtypes)
        ends = {loop.split("->")[0][-1] for loop in self.types}
        if common == ml_dtypes.bfloat16 or not any(np.can_cast(common, end) for end in ends):
            raise TypeError(f"Wrong type ({common}) of arguments for cupy_{self.__name__}")

    def reduce(self, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None,
               keepdims: bool = False) -> Any:
        if self.__name__ == "add":
            return array.sum(axis, dtype, out, keepdims)
        if self.__name__ == "multiply":
            return array.prod(axis, dtype, out, keepdims)
        raise NotImplementedError(f"`cupy_{self.__name__}.reduce` is not supported yet")

    def accumulate(self, array: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        if self.__name__ == "add":
            return array.cumsum(axis, dtype, out)
        if self.__name__ == "multiply":
            return array.cumprod(axis, dtype, out)
        raise NotImplementedError(f"`cupy_{self.__name__}.accumulate` is not supported yet")

    def reduceat(self, array: Any, indices: Any, axis: int = 0, dtype: Any = None,
                 out: Any = None) -> Any:
        if self.__name__ != "add":
            raise NotImplementedError(f"`cupy_{self.__name__}.reduceat` is not supported yet")
        raise AssertionError("CuPy gives differences of running sums, which lose digits")

    def at(self, a: Any, indices: Any, b: Any = None) -> None:
        raise AssertionError("CuPy does it by atomic operations, in no fixed order")


def _special() -> Any:
    """NumPy's own form of cupyx.scipy.special, as far as fusewire asks for it."""
    from fusewire.eager.arrays import cpu_kernels

    return types.SimpleNamespace(erf=cpu_kernels.erf)


# ---- arrays
class ndarray:
    """An array on a GPU that is not there."""

    _host: Any
    _device: int
    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, shape: Any, dtype: Any = float, memptr: Any = None, strides: Any = None,
                 order: str = "C") -> None:
        self._host, self._device = np.empty(shape, dtype), STATE.device

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use "
                        "`.get()` to construct a NumPy array explicitly.")

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if "out" in kwargs:
            (kwargs["out"],) = kwargs["out"]
        found = getattr(module(), function.__name__, None)
        if found is None or (method != "__call__" and not hasattr(found, method)):
            return NotImplemented
        return (found if method == "__call__" else getattr(found, method))(*inputs, **kwargs)

    def __array_function__(self, function: Any, kinds: Any, args: Any, kwargs: Any) -> Any:
        space: Any = module()
        for part in function.__module__.split(".")[1:]:
            space = getattr(space, part, None)
        found = getattr(space, function.__name__, None)
        if found is None or not all(issubclass(k, (ndarray, np.ndarray)) for k in kinds):
            return NotImplemented
        return found(*args, **kwargs)

    def get(self, stream: Any = None, order: str = "C", out: Any = None, blocking: bool = True
            ) -> Any:
        return self._host.copy(order)

    def set(self, arr: Any, stream: Any = None) -> None:
        self._host[...] = arr

    @property
    def device(self) -> Any:
        return Device(self._device)

    @property
    def data(self) -> Any:
        return types.SimpleNamespace(ptr=self._host.ctypes.data, device=self.device)

    def view(self, dtype: Any = None, type: Any = None) -> Any:
        return made(self._host.view() if dtype is None else self._host.view(dtype), self._device)

    def tolist(self) -> Any:
        return self._host.tolist()

    def item(self, *args: Any) -> Any:
        return self._host.item(*args)

    def __getitem__(self, index: Any) -> Any:
        return _wrap(self._host[_index(index, self.shape)], self._device)

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(value, np.ndarray) and value.ndim:
            raise TypeError(f"Unsupported type {type(value)}")
        at = _index(index, self.shape)
        if isinstance(at, tuple) and any(isinstance(i, np.ndarray) and i.dtype.kind in "iu"
                                         for i in at):
            _set_in_no_order(self._host, at, _unwrap(value))
        else:
            self._host[at] = _unwrap(value)

    def __len__(self) -> int:
        return len(self._host)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        return bool(self._host)

    def __int__(self) -> int:
        return int(self._host)

    def __float__(self) -> float:
        return float(self._host)

    def __complex__(self) -> complex:
        return complex(self._host)

    def __repr__(self) -> str:
        return repr(self._host)

    def __reduce__(self) -> Any:
        return array, (self._host,)

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Any:
        return self.copy()

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self._device

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None,
                   copy: Any = None) -> Any:
        if dl_device is not None and int(dl_device[0]) == 1:
            return self._host.copy().__dlpack__(max_version=max_version)
        return self  # the capsule, which only `from_dlpack` below opens

    def scatter_add(self, slices: Any, value: Any) -> None:
        np.add.at(self._host, _index(slices, self.shape), _unwrap(value))


def _axes(item: Any) -> int:
    """How many axes an item of an index stands for."""
    if item is None or item is Ellipsis:
        return 0
    return item.ndim if isinstance(item, np.ndarray) and item.dtype.kind == "b" else 1


def _index(index: Any, shape: tuple[int, ...]) -> Any:
    """An index for NumPy: integers outside of their axis wrap around, as in CuPy."""
    items = index if isinstance(index, tuple) else (index,)
    items = tuple(i if isinstance(i, np.ndarray) else _unwrap(i) for i in items)  # it takes NumPy's
    found, axis = [], 0
    for i in items:
        if isinstance(i, np.ndarray) and i.dtype.kind in "iu" and shape[axis]:
            i = i % shape[axis]
        axis += len(shape) - sum(map(_axes, items)) if i is Ellipsis else _axes(i)
        found.append(i)
    return tuple(found)


def _set_in_no_order(host: Any, at: Any, value: Any) -> None:
    """Sets elements; of several for one place the first stays, where NumPy keeps the last."""
    places = np.arange(host.size).reshape(host.shape)[at]
    values = np.broadcast_to(np.asarray(value), places.shape).reshape(-1)
    _, first = np.unique(places.reshape(-1), return_index=True)
    host.reshape(-1)[places.reshape(-1)[first]] = values[first]


def _binary(name: str, swapped: bool) -> Callable[..., Any]:
    def operator(self: Any, other: Any) -> Any:
        if not isinstance(other, (ndarray, np.ndarray, np.generic, bool, int, float, complex)):
            return NotImplemented
        return module().__dict__[name](*((other, self) if swapped else (self, other)))

    return operator


_OPERATORS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "true_divide",
    "floordiv": "floor_divide", "mod": "remainder", "pow": "power", "matmul": "matmul",
    "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "lshift": "left_shift",
    "rshift": "right_shift"}
_COMPARE = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater",
            "ge": "greater_equal"}
for _short, _name in _OPERATORS.items():
    setattr(ndarray, f"__{_short}__", _binary(_name, False))
    setattr(ndarray, f"__r{_short}__", _binary(_name, True))
for _short, _name in _COMPARE.items():
    setattr(ndarray, f"__{_short}__", _binary(_name, False))
for _short, _name in {"neg": "negative", "pos": "positive", "abs": "absolute",
                      "invert": "invert"}.items():
    setattr(ndarray, f"__{_short}__", lambda self, _name=_name: module().__dict__[_name](self))
for _short, _name in _OPERATORS.items():
    def _in_place(self: Any, other: Any, _name: str = _name) -> Any:
        found = module().__dict__[_name](self, other)
        np.copyto(self._host, found._host, casting="same_kind")
        return self

    if f"__i{_short}__" in NAMES["methods"]:
        setattr(ndarray, f"__i{_short}__", _in_place)


def _method(name: str, shown: str | None) -> Any:
    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        _checked(shown, (self, *args), kwargs)
        if name == "argsort" or name == "sort":  # always stable
            kwargs["kind"] = "stable"
        given = {k: _unwrap(v) for k, v in kwargs.items() if k != "out" or v is not None}
        if name == "take" and self.size:  # wraps around
            given["mode"] = "wrap"
        places = [_unwrap(a) for a in args]
        if name in ("sum", "prod") and len(places) > 2 and places[2] is None:
            given.update(zip(("axis", "dtype", "out", "keepdims"), places))
            places = []
        return _wrap(_quiet(getattr(host_of(self), name), *places, **given), self._device)

    return called


def host_of(x: ndarray) -> Any:
    """The memory of an array; of bool and small floats in what CuPy computes with."""
    return x._host


def _attribute(name: str) -> Any:
    def get(self: Any) -> Any:
        found = getattr(self._host, name)
        return made(found, self._device) if isinstance(found, np.ndarray) else found

    def set(self: Any, value: Any) -> None:
        setattr(self._host, name, _unwrap(value))

    return property(get, set)


for _name, _shown in NAMES["methods"].items():
    if _name.startswith("_") or _name in vars(ndarray) or not hasattr(np.ndarray, _name):
        continue
    _own = getattr(np.ndarray, _name)
    setattr(ndarray, _name, _method(_name, _shown) if callable(_own) else _attribute(_name))


# ---- making arrays
def array(obj: Any, dtype: Any = None, copy: bool = True, order: str = "K", subok: bool = False,
          ndmin: int = 0, *, blocking: bool = False) -> Any:
    host = obj._host if isinstance(obj, ndarray) else obj
    return _wrap(np.array(host, dtype, copy=True))


def asarray(a: Any, dtype: Any = None, order: Any = None, *, blocking: bool = False) -> Any:
    if isinstance(a, ndarray) and dtype in (None, a.dtype):
        return a
    return array(a, dtype)


def from_dlpack(x: Any) -> Any:
    found = x.__dlpack__()
    return found if isinstance(found, ndarray) else _wrap(np.from_dlpack(x))


# ---- cupy.cuda
class Device:
    """A GPU; as a context the current one."""

    def __init__(self, device: Any = None) -> None:
        self.id = STATE.device if device is None else int(device)
        self.mem_info = (1 << 30, 1 << 31)
        self.compute_capability = "90"
        self._before: list[int] = []

    def __enter__(self) -> Any:
        self._before.append(STATE.device)
        STATE.device = self.id
        return self

    def __exit__(self, *error: Any) -> None:
        STATE.device = self._before.pop()

    def use(self) -> None:
        STATE.device = self.id

    def synchronize(self) -> None:
        pass

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Device) and self.id == other.id

    __hash__ = None  # type: ignore[assignment]


class Stream:
    """A queue of work; as a context the current one."""

    null: Any = None

    def __init__(self, null: bool = False, non_blocking: bool = False, ptds: bool = False,
                 priority: int = 0) -> None:
        self.ptr, self.non_blocking, self._before = id(self), non_blocking, []

    def __enter__(self) -> Any:
        self._before.append(STATE.stream)
        STATE.stream = self
        return self

    def __exit__(self, *error: Any) -> None:
        STATE.stream = self._before.pop()

    def use(self) -> Any:
        STATE.stream = self
        return self

    def synchronize(self) -> None:
        pass

    def wait_event(self, event: Any) -> None:
        pass

    def record(self, event: Any = None) -> Any:
        return event or Event()

    done = True


Stream.null = Stream(null=True)


class Event:
    """A point in a stream."""

    done = True

    def __init__(self, block: bool = False, disable_timing: bool = False,
                 interprocess: bool = False) -> None:
        pass

    def record(self, stream: Any = None) -> None:
        pass

    def synchronize(self) -> None:
        pass


class MemoryPool:
    """What memory is taken from."""

    def used_bytes(self) -> int:
        return 1024

    def total_bytes(self) -> int:
        return 4096

    def free_all_blocks(self, stream: Any = None) -> None:
        pass


_POOL = MemoryPool()
_MODULE: Any = None


def module() -> Any:
    """The module `cupy`."""
    global _MODULE
    if _MODULE is None:
        _MODULE = _built()
    return _MODULE


def _space(name: str, names: dict[str, Any], numpys: Any) -> Any:
    made: Any = types.ModuleType(name)
    for key, shown in names.items():
        run = getattr(numpys, key, None)
        if isinstance(shown, list) and run is not None:
            setattr(made, key, ufunc(key, shown))
        elif run is not None:
            setattr(made, key, function(key, shown, run))
    return made


def _built() -> Any:
    made = _space("cupy", NAMES[""], np)
    made.linalg = _space("cupy.linalg", NAMES["linalg"], np.linalg)
    made.fft = _space("cupy.fft", NAMES["fft"], np.fft)
    made.lib = types.SimpleNamespace(stride_tricks=types.SimpleNamespace(
        as_strided=lambda x, shape=None, strides=None: _wrap(
            np.lib.stride_tricks.as_strided(_unwrap(x), shape, strides))))
    made.__version__ = NAMES["version"]
    made.__file__ = f"{__file__}/__init__.py"
    for own in (ndarray, ufunc, array, asarray, from_dlpack):
        setattr(made, own.__name__, own)
    made.asnumpy = lambda a, **how: a.get() if isinstance(a, ndarray) else np.asarray(a)
    made.get_default_memory_pool = lambda: _POOL
    made.cuda = types.ModuleType("cupy.cuda")
    for own in (Device, Stream, Event, MemoryPool):
        setattr(made.cuda, own.__name__, own)
    made.cuda.get_current_stream = lambda device_id=-1: STATE.stream or Stream.null
    made.cuda.runtime = types.SimpleNamespace(
        getDevice=lambda: STATE.device, getDeviceCount=lambda: DEVICES,
        setDevice=lambda device: setattr(STATE, "device", device),
        getDeviceProperties=lambda device: {"name": b"Not a GPU", "totalGlobalMem": 1 << 31})
    return made


@contextlib.contextmanager
def installed() -> Iterator[Any]:
    """A context in which this is CuPy, on a machine with two GPUs, for fusewire."""
    from fusewire.eager.arrays import devices
    from fusewire.eager.cuda import driver
    from fusewire.eager.cuda.device import CUDA

    cupyx: Any = types.ModuleType("cupyx")
    cupyx.errstate = lambda **how: contextlib.nullcontext()
    special: Any = types.ModuleType("cupyx.scipy.special")
    special.erf = ufunc("erf", NAMES["special"]["erf"])
    made = {"cupy": module(), "cupyx": cupyx,
            "cupyx.scipy": types.ModuleType("cupyx.scipy"), "cupyx.scipy.special": special}
    before = {name: sys.modules.get(name) for name in made}
    real, find = driver.driver, driver.importlib.util.find_spec
    sys.modules.update(made)
    driver.driver = lambda: driver.Driver("", "", DEVICES, 12040)
    driver.importlib.util.find_spec = lambda name, *rest: made.get(name) or find(name, *rest)
    driver.probe.cache_clear()
    try:
        yield made["cupy"]
    finally:
        for name, value in before.items():
            sys.modules.pop(name)
            if value is not None:
                sys.modules[name] = value
        driver.driver, driver.importlib.util.find_spec = real, find
        driver.probe.cache_clear()
        devices.unload("cuda")
        CUDA.forget()
        STATE.device, STATE.stream = 0, None
