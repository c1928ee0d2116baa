"""Models as PyTorch's exporters write them, and their trip through fusewire and back.

Each is a published architecture, small and with random weights, called at two sizes.
"""

from __future__ import annotations

import contextlib
import copy
import io
import logging
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import starmap
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
import transformers
from parity.models import MODELS as IMAGE_MODELS
from parity.models import resnet, torchvision
from parity.pretrained import DECODERS, PUBLISHED

import fusewire as fw

TOLERANCE = 1e-5  # of the largest element of an output: float32, sums in another order
Axes = tuple[dict[int, str], ...]  # of each input, the axes that vary
BATCH, TOKENS, IMAGES = {0: "n"}, {0: "n", 1: "t"}, {0: "n", 2: "h", 3: "w"}
SIZES = ((2, 7), (3, 5))  # how many examples, and how many tokens each has


@dataclass(frozen=True)
class Exported:
    """A model, the arrays that it is called with for (examples, tokens), and what varies."""

    make: Callable[[], Any]
    inputs: Callable[[int, int], tuple[Any, ...]]
    axes: Axes
    keywords: tuple[str, ...] = ()
    outputs: Callable[[Any], Any] = lambda out: out
    script: bool = True  # whether the exporter before dynamo takes it


def t5() -> Any:
    return transformers.T5ForConditionalGeneration(transformers.T5Config(
        vocab_size=99, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4,
        decoder_start_token_id=0))


def mobilenet() -> Any:
    kind = torchvision.models.mobilenetv3
    blocks, last = kind._mobilenet_v3_conf("mobilenet_v3_small", width_mult=0.5)
    return torchvision.models.MobileNetV3(blocks, last, num_classes=7)


def tagger(kind: str) -> Callable[[], Any]:
    """Recurrent layers in both directions, and a class for each token."""
    class Tagger(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = torch.nn.Embedding(99, 16)
            self.layers = getattr(torch.nn, kind)(16, 32, 2, batch_first=True, bidirectional=True)
            self.out = torch.nn.Linear(64, 5)

        def forward(self, x: Any) -> Any:
            return self.out(self.layers(self.words(x))[0])

    return Tagger


RNG = np.random.default_rng(0)


def tokens(*shape: int, count: int = 99) -> Any:
    return RNG.integers(0, count, shape)


def images(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def sentences(n: int, t: int) -> tuple[Any, ...]:
    """Tokens, their segments, and which of them count: the last two of one sentence do not."""
    mask = np.ones((n, t), np.int64)
    mask[1, -2:] = 0
    return tokens(n, t), tokens(n, t, count=2), mask


def of_images(name: str, inputs: Any, axes: Axes, script: bool = True) -> Exported:
    """A model of `parity.models`."""
    model = next(m for m in IMAGE_MODELS if m.name == name)
    return Exported(model.make, inputs, axes, (), model.outputs, script)


def decoder(name: str) -> Exported:
    """A model of `parity.pretrained` that continues a text."""
    return Exported(DECODERS[name], lambda n, t: (tokens(n, t),), (TOKENS,), ("input_ids",),
                    lambda out: out.logits, script=False)


MODELS = {
    "BERT": Exported(PUBLISHED["BERT"].make, sentences, (TOKENS,) * 3,
                     ("input_ids", "token_type_ids", "attention_mask"),
                     lambda out: (out.last_hidden_state, out.pooler_output)),
    "GPT-2": decoder("GPT-2"),
    "Llama": decoder("Llama"),
    "T5": Exported(t5, lambda n, t: (tokens(n, t), tokens(n, t + 1)), (TOKENS, {0: "n", 1: "u"}),
                   ("input_ids", "decoder_input_ids"), lambda out: out.logits),
    "Whisper": Exported(PUBLISHED["Whisper"].make, lambda n, t: (images(n, 8, 40), tokens(n, t)),
                        (BATCH, TOKENS), ("input_features", "decoder_input_ids"),
                        lambda out: out.logits, script=False),
    "ViT": of_images("ViT", lambda n, t: (images(n, 3, 32, 32),), (BATCH,), script=False),
    "ResNet": Exported(resnet("Bottleneck", [1, 1, 1, 1]),
                       lambda n, t: (images(n, 3, 16 * n, 8 * t),), (IMAGES,)),
    "MobileNet": Exported(mobilenet, lambda n, t: (images(n, 3, 32 * n, 16 * t),), (IMAGES,)),
    "U-Net": of_images("U-Net", lambda n, t: (images(n, 3, 16, 16), tokens(n, count=50)),
                       (BATCH, BATCH)),
    **{kind: Exported(tagger(kind), lambda n, t: (tokens(n, t),), (TOKENS,))
       for kind in ("LSTM", "GRU")},
}
WAYS = [(name, script) for name, model in MODELS.items() for script in (False, True)
        if model.script or not script]


class Called(torch.nn.Module):
    """A model called by position, which gives tensors."""

    def __init__(self, model: Exported) -> None:
        super().__init__()
        self.model, self.how = model.make().eval(), model
        if hasattr(self.model, "config") and hasattr(self.model.config, "use_cache"):
            self.model.config.use_cache = False

    def forward(self, *given: Any) -> Any:
        by_name = dict(zip(self.how.keywords, given))
        return self.how.outputs(self.model(**by_name) if by_name else self.model(*given))


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """A context without what exporters tell."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), \
                contextlib.redirect_stderr(io.StringIO()), torch.no_grad():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


def export(theirs: Any, arrays: tuple[Any, ...], axes: Axes, path: Path, script: bool = False
           ) -> None:
    """Writes the model with PyTorch's exporter, or with the one before that."""
    given, names = tuple(map(torch.from_numpy, arrays)), [f"x{i}" for i in range(len(arrays))]
    varying = tuple({axis: torch.export.Dim.DYNAMIC for axis in each} for each in axes)
    how: dict[str, Any] = {"dynamo": False, "dynamic_axes": dict(zip(names, axes))} if script \
        else {"dynamo": True, "dynamic_shapes": (varying,), "external_data": False}
    with quiet():
        torch.onnx.export(theirs, given, path, input_names=names, **how)


def session(path: Path, threads: int = 2) -> Callable[..., list[Any]]:
    """onnxruntime's run of a model, of arrays."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    made = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [i.name for i in made.get_inputs()]
    return lambda *arrays: made.run(None, dict(zip(names, arrays)))  # type: ignore[no-any-return]


@dataclass
class Trip:
    """What became of a model: its nodes before and after, and how far results are apart."""

    nodes: int = 0
    nodes_again: int = 0
    conditions: tuple[str, ...] = ()
    errors: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    calls: dict[str, Callable[[], Any]] = field(default_factory=dict)

    @contextlib.contextmanager
    def timed(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - began


def trip(name: str, script: bool, folder: Path) -> Trip:
    """Exports with PyTorch, loads, runs, compiles, exports again, and runs that in onnxruntime.

    Errors are the largest differences from PyTorch's own results, at both sizes, as a share of the
    largest element.
    """
    model, found = MODELS[name], Trip()
    torch.manual_seed(0)
    theirs = Called(model)
    inputs = [model.inputs(*size) for size in SIZES]
    with torch.no_grad():
        wanted = [listed(theirs(*map(torch.from_numpy, arrays))) for arrays in inputs]
    first, second = folder / "first.onnx", folder / "second.onnx"
    with found.timed("PyTorch's export"):
        export(theirs, inputs[0], model.axes, first, script)
    with found.timed("load"):
        ours = fw.onnx.load(first).eval()
    compiled = fw.compile(copy.deepcopy(ours))  # a module is compiled in its place
    with found.timed("export"):
        report = fw.onnx.export(ours, tuple(map(fw.from_numpy, inputs[0])), second,
                                dynamic_shapes=model.axes)
    found.nodes, found.nodes_again = nodes(first), nodes(second)
    found.conditions = tuple(map(str, report.conditions))
    runs = {"eager": tensors(ours), "compiled": tensors(compiled),
            "compiled again": tensors(compiled), "onnxruntime": session(first),
            "exported again": session(second)}
    for kind, run in runs.items():
        with found.timed(kind):
            found.errors[kind] = max(map(apart, starmap(run, inputs), wanted))
        found.calls[kind] = lambda run=run: run(*inputs[0])
    found.calls["PyTorch"] = without_tape(theirs, inputs[0])
    return found


def tensors(fn: Any) -> Callable[..., list[Any]]:
    """A function of tensors as one of arrays."""
    def run(*arrays: Any) -> list[Any]:
        with fw.no_grad():
            return listed(fn(*map(fw.from_numpy, arrays)))

    return run


def without_tape(theirs: Any, arrays: tuple[Any, ...]) -> Callable[[], Any]:
    given = tuple(map(torch.from_numpy, arrays))

    def run() -> Any:
        with torch.no_grad():
            return theirs(*given)

    return run


def listed(out: Any) -> list[Any]:
    return [t.numpy() for t in (out if isinstance(out, (tuple, list)) else (out,))]


def apart(got: list[Any], wanted: list[Any]) -> float:
    """The largest difference, as a share of the largest element."""
    for a, b in zip(got, wanted, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        assert np.isfinite(a).all()
    return max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(got, wanted))


def nodes(path: Path) -> int:
    return len(onnx.load(path, load_external_data=False).graph.node)
