"""Modules, containers, states and weight norms beside PyTorch's: the same script for both.

A script takes a library's `nn`, and functions that make tensors and dtypes of it, and notes what it
sees; errors are noted by those of Python's own classes that they are.
"""

from __future__ import annotations

import inspect
import itertools
import warnings
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

import fusewire as fw
from fusewire.eager.errors import FusewireError

THEIRS = SimpleNamespace(nn=torch.nn, ones=torch.ones, tensor=torch.tensor, lib=torch,
                         float64=torch.float64, grad=torch.autograd.grad)
OURS = SimpleNamespace(nn=fw.nn, ones=fw.ones, tensor=fw.tensor, lib=fw, float64=fw.float64,
                       grad=fw.autograd.grad)


class Notes(list[str]):
    """What a script saw, as texts that do not name the library."""

    def __call__(self, look: Callable[[], Any]) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                text = repr(look())
        except Exception as error:
            names = [c.__name__ for c in type(error).__mro__ if c.__module__ == "builtins"]
            text = " ".join(["raises", *names])
        for theirs, ours in (("torch.FloatTensor", "float32"), ("torch.", ""),
                             ("dtype('float64')", "float64"), ("dtype('float32')", "float32"),
                             ("_IncompatibleKeys", "Loaded")):
            text = text.replace(theirs, ours)
        self.append(text)


def agree(theirs: str, ours: str) -> bool:
    """Whether both saw the same; an `except` that catches their error has to catch ours."""
    if not theirs.startswith("raises "):
        return theirs == ours
    return ours.startswith("raises ") and theirs.split()[1] in ours.split()


def linear(nn: Any, *sizes: int) -> Any:
    return nn.Sequential(*[nn.Linear(a, b) for a, b in itertools.pairwise(sizes)])


# ---- scripts
def sequential(lib: Any, note: Notes) -> None:
    nn = lib.nn
    s = nn.Sequential(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 3))
    for look in (lambda: s[1:], lambda: s * 2, lambda: 3 * s, lambda: s + nn.Sequential(nn.Tanh()),
                 lambda: s.pop(1), lambda: s, lambda: s.insert(1, nn.Tanh()),
                 lambda: s.insert(-1, nn.ReLU()), lambda: s.insert(9, nn.ReLU()), lambda: s * 0,
                 lambda: s * -1, lambda: s * 1.5, lambda: s.extend([nn.Tanh()]), lambda: s[-1],
                 lambda: s[17], lambda: len(s), lambda: list((s * 2).state_dict()),
                 lambda: s.append(nn.GELU()), lambda: s.__delitem__(slice(0, 2)), lambda: s,
                 lambda: list(s.state_dict()), lambda: s.__setitem__(0, nn.Tanh()), lambda: s[0]):
        note(look)
    named = nn.Sequential(OrderedDict(a=nn.Linear(1, 1), b=nn.ReLU()))
    for look in (lambda: named.append(nn.ReLU()), lambda: named.pop(0), lambda: named,
                 lambda: named[0:1], lambda: nn.Sequential()):
        note(look)


def module_list(lib: Any, note: Notes) -> None:
    nn = lib.nn
    m = nn.ModuleList([nn.ReLU() for _ in range(3)] + [nn.Sequential(nn.Tanh()), nn.Tanh(),
                                                      nn.Tanh()])
    for look in (lambda: m, lambda: nn.ModuleList(), lambda: m[-2:], lambda: m + [nn.ReLU()],
                 lambda: m.pop(0), lambda: m(1), lambda: m.extend(nn.ReLU()), lambda: m.append(3),
                 lambda: m[10], lambda: m.insert(100, nn.ReLU()), lambda: m,
                 lambda: m.__delitem__(slice(1, 3)), lambda: m, lambda: m.pop(slice(0, 2)),
                 lambda: m.__iadd__([nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 3)]),
                 lambda: list(m.state_dict()), lambda: m.__setitem__(-1, nn.Tanh()), lambda: m):
        note(look)


def module_dict(lib: Any, note: Notes) -> None:
    nn = lib.nn
    d = nn.ModuleDict({"x": nn.ReLU(), "a": nn.Linear(1, 1)})
    for look in (lambda: d, lambda: list(d), lambda: d["q"], lambda: d.pop("x"), lambda: "a" in d,
                 lambda: d.update([("k", nn.ReLU())]), lambda: d, lambda: d.update(3), lambda: d(1),
                 lambda: d.update({"type": nn.ReLU()}), lambda: list(d.items()), lambda: len(d),
                 lambda: nn.ModuleDict(), lambda: d.add_module("a.b", nn.ReLU()),
                 lambda: d.update(nn.ModuleDict({"k": nn.Tanh()})), lambda: d.add_module("", None),
                 lambda: d.register_module("z", nn.ReLU()), lambda: d, lambda: list(d.values())):
        note(look)


def parameters(lib: Any, note: Notes) -> None:
    nn, ones = lib.nn, lib.ones
    p = nn.ParameterList([ones(2, 3), nn.Parameter(ones(1)), "text", 3])
    for look in (lambda: p, lambda: p[1:3], lambda: p[9], lambda: p.append(ones(2)), lambda: len(p),
                 lambda: nn.ParameterList([ones(1)]), lambda: p.extend(3), lambda: p,
                 lambda: list(dict(p.named_parameters())), lambda: nn.ParameterList(),
                 lambda: p.__setitem__(0, ones(4)), lambda: p, lambda: p.__iadd__([ones(1)])):
        note(look)
    q = nn.ParameterDict({"b": ones(2), "a": nn.Parameter(ones(1))})
    for look in (lambda: q, lambda: list(q), lambda: q.get("zz"), lambda: q.popitem()[0],
                 lambda: q.setdefault("n", ones(1)) is q["n"], lambda: q | {"v": ones(3)},
                 lambda: list(reversed(q)), lambda: q.fromkeys(["u"], ones(1)),
                 lambda: q.update([("w", ones(1))]), lambda: list(q.state_dict()),
                 lambda: nn.ParameterDict(OrderedDict(z=ones(1), a=ones(1))), lambda: q.copy(),
                 lambda: q.clear(), lambda: q, lambda: {"z": ones(1)} | q):
        note(look)


def lookups(lib: Any, note: Notes) -> None:
    nn = lib.nn
    m = nn.Sequential(nn.Sequential(nn.Linear(1, 2), nn.BatchNorm1d(2)), nn.ReLU())
    m[0].again = m[0][0]
    for look in (lambda: [n for n, _ in m.named_modules()], lambda: list(m.state_dict()),
                 lambda: [n for n, _ in m.named_modules(remove_duplicate=False)],
                 lambda: [n for n, _ in m.named_parameters(prefix="p")],
                 lambda: [n for n, _ in m.named_parameters(remove_duplicate=False)],
                 lambda: [n for n, _ in m.named_buffers()], lambda: len(list(m.modules())),
                 lambda: [n for n, _ in m[0].named_children()], lambda: m.get_submodule("0.0"),
                 lambda: m.get_submodule("0.7"), lambda: tuple(m.get_parameter("0.0.bias").shape),
                 lambda: m.get_parameter("0.0"), lambda: m.get_buffer("0.1.running_mean").shape[0],
                 lambda: m.get_buffer("0.1.weight"), lambda: m.set_submodule("0.0", nn.Tanh()),
                 lambda: m, lambda: m.set_submodule("", nn.Tanh()), lambda: m.train(3),
                 lambda: m.set_submodule("0.9", nn.Tanh(), strict=True),
                 lambda: m.set_submodule("1.x.y", nn.Tanh()), lambda: m.eval().training,
                 lambda: m.register_buffer("forward", None), lambda: m.register_buffer("a.b", None),
                 lambda: m.register_parameter("w", 3), lambda: m.add_module("w", 3), lambda: m.w,
                 lambda: m.set_submodule("1", nn.Identity()), lambda: m[1]):
        note(look)


def states(lib: Any, note: Notes) -> None:
    nn = lib.nn
    m, state = linear(nn, 2, 3, 1), linear(nn, 2, 3, 1).state_dict()
    part = {k: v for k, v in state.items() if k != "1.bias"}
    wrong = {**state, "0.bias": lib.ones(4)}
    for look in (lambda: m.load_state_dict(state), lambda: m.load_state_dict(part),
                 lambda: m.load_state_dict(part, strict=False),
                 lambda: m.load_state_dict({**part, "x.y": 1, "0.z": 2}, strict=False),
                 lambda: m.load_state_dict(wrong, strict=False), lambda: m.load_state_dict(3),
                 lambda: list(m.state_dict(prefix="a.")), lambda: m.double()[0].weight.dtype,
                 lambda: m.load_state_dict(state, assign=True), lambda: m[0].weight.dtype,
                 lambda: [p.requires_grad for p in m.state_dict(keep_vars=True).values()],
                 lambda: list(m.state_dict(destination=OrderedDict(k=1)))):
        note(look)


def conversions(lib: Any, note: Notes) -> None:
    nn = lib.nn
    m = nn.BatchNorm1d(2)

    def kinds() -> list[str]:
        return [str(x.dtype).rpartition(".")[2] for x in m.state_dict().values()]

    for look in (lambda: m.half(), lambda: m.bfloat16(), lambda: m.double(), lambda: m.float(),
                 lambda: m.to(lib.float64), lambda: m.to("cpu", lib.lib.float16), lambda: m.cpu(),
                 lambda: m.to(lib.ones(1)), lambda: m.to(dtype=lib.float64, non_blocking=True),
                 lambda: m.to("cpu"), lambda: m.to(lib.lib.int64), lambda: m.type(lib.float64),
                 lambda: m.to_empty(device="cpu")):
        note(look)
        note(kinds)


def lazies(lib: Any, note: Notes) -> None:
    nn = lib.nn
    made = [(nn.LazyLinear(3), (2, 4)), (nn.LazyConv2d(4, 3, groups=2), (1, 2, 5, 5)),
            (nn.LazyConvTranspose1d(4, 3, stride=2), (1, 2, 5)), (nn.LazyBatchNorm1d(), (3, 2)),
            (nn.LazyInstanceNorm2d(), (1, 2, 3, 3)), (nn.LazyBatchNorm3d(affine=False), (2,) * 5)]
    for layer, shape in made:
        one_lazy(lib, note, layer, shape)


def one_lazy(lib: Any, note: Notes, layer: Any, shape: tuple[int, ...]) -> None:
    for look in (lambda: layer, lambda: layer.weight.shape,
                 lambda: [type(x).__name__.replace("Parameter", "") for x in
                          layer.state_dict(keep_vars=True).values()],
                 lambda: tuple(layer(lib.ones(*shape)).shape), lambda: layer,
                 lambda: [tuple(x.shape) for x in layer.state_dict().values()],
                 lambda: type(layer).__name__):
        note(look)


SCRIPTS = [sequential, module_list, module_dict, parameters, lookups, states, conversions, lazies]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda s: s.__name__)
def test_the_same_script(script: Callable[[Any, Notes], None]) -> None:
    theirs, ours = Notes(), Notes()
    script(THEIRS, theirs)
    script(OURS, ours)
    differ = {i: pair for i, pair in enumerate(zip(theirs, ours)) if not agree(*pair)}
    assert differ == {} and len(ours) == len(theirs)


# ---- signatures
def signature(function: Any) -> list[Any]:
    """Names, kinds and plain defaults of the parameters."""
    plain = (int, float, str, bool, type(None))
    return [(p.name, p.kind.name, p.default if isinstance(p.default, plain) else "")
            for p in inspect.signature(function).parameters.values() if p.name != "self"]


def members(space: Any, names: list[str]) -> list[tuple[str, str]]:
    return [(space, name) for name in names]


UTILS = ("fuse_conv_bn_eval fuse_conv_bn_weights fuse_linear_bn_eval fuse_linear_bn_weights "
         "parameters_to_vector remove_spectral_norm remove_weight_norm skip_init spectral_norm "
         "vector_to_parameters weight_norm").split()
PARAMETRIZE = ("ParametrizationList cached is_parametrized register_parametrization "
               "remove_parametrizations type_before_parametrizations").split()
LAZY = [n for n in dir(torch.nn) if n.startswith("Lazy")]
METHODS = [(cls, name) for cls in ("Module", "Sequential", "ModuleList", "ModuleDict",
                                   "ParameterList", "ParameterDict")
           for name, value in vars(getattr(torch.nn, cls)).items()
           if inspect.isfunction(value) and (not name.startswith("_") or name == "__init__")]
# Devices and processes that are not here, and what PyTorch itself calls deprecated; names of
# arguments that nobody passes by name.
OTHER = {("Module", n) for n in ("ipu", "xpu", "mtia", "share_memory", "register_backward_hook",
                                 "compile", "forward", "__init__", "state_dict")}
OTHER |= {("Sequential", "extend")}


@pytest.mark.parametrize(("space", "name"), [
    *members("nn.utils", UTILS), *members("nn.utils.parametrize", PARAMETRIZE),
    *members("nn.utils.parametrizations", ["orthogonal", "spectral_norm", "weight_norm"]),
    *members("nn", LAZY), *[(f"nn.{c}", n) for c, n in METHODS if (c, n) not in OTHER]])
def test_signatures(space: str, name: str) -> None:
    theirs: Any = torch
    ours: Any = fw
    for part in (*space.split("."), name):
        theirs, ours = getattr(theirs, part), getattr(ours, part)
    assert signature(ours) == signature(theirs)


# ---- norms of weights: values, gradients, second gradients, names
def made(lib: Any, where: str, layer: str, how: dict[str, Any]) -> Any:
    nn = lib.nn
    base = {"linear": lambda: nn.Linear(4, 5), "conv": lambda: nn.Conv2d(3, 4, 3),
            "transposed": lambda: nn.ConvTranspose2d(3, 4, 3), "square": lambda: nn.Linear(4, 4),
            "wide": lambda: nn.Linear(6, 4), "tall": lambda: nn.Linear(4, 6)}[layer]()
    path, _, name = where.rpartition(".")
    space = getattr(nn.utils, path) if path else nn.utils
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the older functions are deprecated there
        return getattr(space, name)(base.double(), **how)


def run(lib: Any, model: Any, x: np.ndarray[Any, Any], second: bool) -> list[Any]:
    """The output and all gradients; where asked for, those of the sum of their squares too."""
    given = lib.tensor(x, requires_grad=True)
    out = model(given)
    own = list(model.parameters())
    first = lib.grad((out ** 2).sum(), [given, *own], create_graph=True)
    more = lib.grad(sum((g ** 2).sum() for g in first), own) if second else ()
    return [t.detach().numpy() for t in (out, *first, *more)]


NORMS = [
    *[("parametrizations.weight_norm", "linear", {"dim": d}) for d in (0, 1, None, -1)],
    *[("weight_norm", "linear", {"dim": d}) for d in (0, 1, None)], ("weight_norm", "conv", {}),
    ("parametrizations.weight_norm", "conv", {}),
    *[(n, layer, {"n_power_iterations": 2}) for n in ("parametrizations.spectral_norm",
                                                      "spectral_norm")
      for layer in ("linear", "conv", "transposed")],
    ("parametrizations.spectral_norm", "linear", {"name": "bias"}),
    *[("parametrizations.orthogonal", layer, {"orthogonal_map": m, "use_trivialization": t})
      for layer in ("square", "wide", "tall") for t in (True, False)
      for m in (None, "matrix_exp", "cayley", "householder")],
]


@pytest.mark.parametrize(("where", "layer", "how"), NORMS, ids=str)
def test_weights_with_norms(where: str, layer: str, how: dict[str, Any]) -> None:
    theirs, ours = made(THEIRS, where, layer, how), made(OURS, where, layer, how)
    state = {k: v.detach().numpy() for k, v in theirs.state_dict().items()}
    assert list(ours.state_dict()) == list(state) and repr(ours) == repr(theirs)
    assert ours.load_state_dict(state) == ([], [])
    x = np.random.default_rng(0).standard_normal(
        (2, 3, 6, 6) if layer in ("conv", "transposed") else (3, 6 if layer == "wide" else 4))
    # PyTorch's second gradients of a weight norm along one axis are wrong: they fail its own
    # gradgradcheck. Ours are tested against differences there, as those of every op.
    second = "weight_norm" not in where or how.get("dim", 0) in (None, -1)
    for mode in (True, False):
        got, want = (run(lib, m.train(mode), x, second) for lib, m in ((OURS, ours),
                                                                      (THEIRS, theirs)))
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8 * max(1, abs(b).max()))
    for name, value in theirs.state_dict().items():
        np.testing.assert_allclose(ours.state_dict()[name].numpy(), value.numpy(), atol=1e-12)


def test_second_gradients_of_weight_norm() -> None:
    model = fw.nn.utils.parametrizations.weight_norm(fw.nn.Linear(3, 2).double())
    names = list(dict(model.named_parameters()))
    values = [p.detach().requires_grad_() for p in model.parameters()]
    x = fw.tensor(np.random.default_rng(0).standard_normal((2, 3)))
    assert fw.autograd.gradgradcheck(
        lambda *p: fw.func.functional_call(model, dict(zip(names, p)), (x,)) ** 2, values)


def test_householder_originals_are_those_of_pytorch() -> None:
    theirs, ours = torch.nn.Linear(4, 6), fw.nn.Linear(4, 6)
    ours.load_state_dict({k: v.numpy() for k, v in theirs.state_dict().items()})
    how = {"orthogonal_map": "householder", "use_trivialization": False}
    torch.nn.utils.parametrizations.orthogonal(theirs, **how)
    fw.nn.utils.parametrizations.orthogonal(ours, **how)
    for name, value in theirs.state_dict().items():
        np.testing.assert_allclose(ours.state_dict()[name].numpy(), value.numpy(), atol=1e-5)


def test_fused_batch_norm() -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4))
    model(torch.randn(8, 3, 5, 5))
    ours = fw.nn.Sequential(fw.nn.Conv2d(3, 4, 3), fw.nn.BatchNorm2d(4))
    ours.load_state_dict({k: v.numpy() for k, v in model.state_dict().items()})
    want = torch.nn.utils.fuse_conv_bn_eval(*model.eval()).state_dict()
    got = fw.nn.utils.fuse_conv_bn_eval(*ours.eval()).state_dict()
    for name, value in want.items():
        np.testing.assert_allclose(got[name].numpy(), value.numpy(), rtol=1e-5, atol=1e-6)


# ---- files
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_checkpoints_move_both_ways(tmp_path: Path, dtype: str) -> None:
    theirs = linear(torch.nn, 3, 5, 2).to(getattr(torch, dtype))
    theirs.register_buffer("steps", torch.tensor(3))
    path = tmp_path / "model.safetensors"
    safetensors.torch.save_file(theirs.state_dict(), path)
    ours = linear(fw.nn, 3, 5, 2).to(dtype)
    ours.register_buffer("steps", fw.tensor(0))
    assert ours.load_state_dict(fw.load(path)) == ([], [])
    fw.save(ours.state_dict(), path)
    back = safetensors.torch.load_file(path)
    assert back.keys() == theirs.state_dict().keys()
    for name, value in theirs.state_dict().items():
        assert back[name].dtype == value.dtype and torch.equal(back[name], value)
    x = np.random.default_rng(0).standard_normal((4, 3))
    a = ours(fw.tensor(x).to(dtype)).detach().to("float64").numpy()
    b = theirs(torch.tensor(x).to(getattr(torch, dtype))).detach().double().numpy()
    tolerance = {"float16": 1e-2, "bfloat16": 5e-2}.get(dtype, 1e-6)
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_state_of_pytorch_loads_as_it_is(dtype: str) -> None:
    theirs = torch.nn.BatchNorm1d(3).to(getattr(torch, dtype))
    ours = fw.nn.BatchNorm1d(3).to(dtype)
    for keep in (False, True):
        assert ours.load_state_dict(theirs.state_dict(keep_vars=keep)) == ([], [])
    with torch.no_grad():
        theirs.weight.fill_(7)  # memory is not shared
    assert ours.weight.tolist() == [1, 1, 1]


def test_a_pickle_of_pytorch_is_refused_with_the_way_out(tmp_path: Path) -> None:
    for zipped in (True, False):
        torch.save(linear(torch.nn, 2, 1).state_dict(), tmp_path / "m.pt",
                   _use_new_zipfile_serialization=zipped)
        with pytest.raises(FusewireError, match=r"PyTorch's own[\s\S]*safetensors.torch.save_file"):
            fw.load(tmp_path / "m.pt")
