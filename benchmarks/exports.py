"""Compares onnxruntime's speed on models exported by fusewire and by PyTorch.

Each model is one function of a library's modules, so both have equal code and weights. The batch is
dynamic in both exports. The table also shows PyTorch's file, loaded and compiled by fusewire. Run
`python -m benchmarks.exports`.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import fusewire as fw

from .__main__ import prepare_environment
from .table import seconds, table, times
from .timing import interleaved

TOLERANCE = 1e-4  # relative to the largest element
OPSETS = (18, 23)


def mlp(lib: Any) -> Any:
    """Linear layers with GELU and LayerNorm between them."""
    nn = lib.nn
    return nn.Sequential(nn.Linear(512, 1024), nn.GELU(), nn.LayerNorm(1024), nn.Linear(1024, 1024),
                         nn.GELU(), nn.LayerNorm(1024), nn.Linear(1024, 256))


def encoder(lib: Any) -> Any:
    """nn's layer of a transformer encoder."""
    return lib.nn.TransformerEncoderLayer(256, 8, 1024, 0.0, "gelu", batch_first=True)


def encoder_first(lib: Any) -> Any:
    """nn's layer of a transformer encoder with norms first, and ReLU."""
    return lib.nn.TransformerEncoderLayer(256, 8, 1024, 0.0, batch_first=True, norm_first=True)


def gpt(lib: Any, width: int = 256, heads: int = 8) -> Any:
    """A block of GPT-2: causal attention, then an MLP with the approximate GELU."""
    nn, F = lib.nn, lib.nn.functional

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            n, t, _ = x.shape
            parts = self.qkv(self.first(x)).chunk(3, -1)
            split = (lib.moveaxis(p.reshape(n, t, heads, -1), 1, 2) for p in parts)
            mixed = F.scaled_dot_product_attention(*split, is_causal=True)
            x = x + self.out(lib.moveaxis(mixed, 1, 2).reshape(n, t, width))
            return x + self.down(F.gelu(self.up(self.second(x)), approximate="tanh"))

    return Block()


def llama(lib: Any, width: int = 256, heads: int = 8, groups: int = 2) -> Any:
    """A block of Llama: rotated, grouped heads, RMS norms, a gated MLP."""
    nn, F = lib.nn, lib.nn.functional
    each = width // heads

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.RMSNorm(width), nn.RMSNorm(width)
            self.q, self.out, self.gate, self.up = (
                nn.Linear(width, n, bias=False) for n in (width, width, 3 * width, 3 * width))
            self.k, self.v = (nn.Linear(width, width // groups, bias=False) for _ in range(2))
            self.down = nn.Linear(3 * width, width, bias=False)

        def forward(self, x: Any) -> Any:
            n, t, _ = x.shape
            y = self.first(x)
            q, k, v = (lib.moveaxis(layer(y).reshape(n, t, -1, each), 1, 2)
                       for layer in (self.q, self.k, self.v))
            q, k = rotated(q), rotated(k)
            mixed = F.scaled_dot_product_attention(q, repeated(k), repeated(v), is_causal=True)
            x = x + self.out(lib.moveaxis(mixed, 1, 2).reshape(n, t, width))
            y = self.second(x)
            return x + self.down(F.silu(self.gate(y)) * self.up(y))

    def rotated(x: Any) -> Any:
        t = x.shape[2]
        rates = 1e4 ** (lib.arange(0, each, 2, dtype=lib.float32) / -each)
        angles = lib.arange(t, dtype=lib.float32)[:, None] * rates[None]
        angles = lib.concat([angles, angles], -1)
        turned = lib.concat([-x[..., each // 2:], x[..., :each // 2]], -1)
        return x * lib.cos(angles) + turned * lib.sin(angles)

    def repeated(x: Any) -> Any:
        n, h, t, _ = x.shape
        wide = lib.broadcast_to(x[:, :, None], (n, h, groups, t, each))
        return wide.reshape(n, h * groups, t, each)

    return Block()


def resnet(lib: Any) -> Any:
    """A block of a ResNet that halves the image."""
    nn = lib.nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.main = nn.Sequential(
                nn.Conv2d(64, 128, 3, 2, 1, bias=False), nn.BatchNorm2d(128), nn.ReLU(),
                nn.Conv2d(128, 128, 3, 1, 1, bias=False), nn.BatchNorm2d(128))
            self.short = nn.Sequential(nn.Conv2d(64, 128, 1, 2, bias=False), nn.BatchNorm2d(128))

        def forward(self, x: Any) -> Any:
            return nn.functional.relu(self.main(x) + self.short(x))

    return Block()


def mobilenet(lib: Any) -> Any:
    """An inverted residual of MobileNetV3, with squeeze and excitation."""
    nn = lib.nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wide = nn.Sequential(
                nn.Conv2d(40, 160, 1, bias=False), nn.BatchNorm2d(160), nn.Hardswish(),
                nn.Conv2d(160, 160, 5, 1, 2, groups=160, bias=False), nn.BatchNorm2d(160),
                nn.Hardswish())
            self.share = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(160, 40, 1), nn.ReLU(),
                                       nn.Conv2d(40, 160, 1), nn.Hardsigmoid())
            self.out = nn.Sequential(nn.Conv2d(160, 40, 1, bias=False), nn.BatchNorm2d(40))

        def forward(self, x: Any) -> Any:
            y = self.wide(x)
            return x + self.out(y * self.share(y))

    return Block()


def unet(lib: Any, mode: str = "nearest") -> Any:
    """A block of a diffusion U-Net, and upsampling by 2."""
    nn = lib.nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.main = nn.Sequential(
                nn.GroupNorm(8, 64), nn.SiLU(), nn.Conv2d(64, 64, 3, 1, 1),
                nn.GroupNorm(8, 64), nn.SiLU(), nn.Conv2d(64, 64, 3, 1, 1))
            self.more = nn.Upsample(scale_factor=2, mode=mode)

        def forward(self, x: Any) -> Any:
            return self.more(x + self.main(x))

    return Block()


def smooth_unet(lib: Any) -> Any:
    """A block of a diffusion U-Net, and bilinear upsampling by 2."""
    return unet(lib, "bilinear")


def convnet(lib: Any) -> Any:
    """Convolutions, pooling, a linear layer."""
    nn = lib.nn
    return nn.Sequential(
        nn.Conv2d(3, 32, 7, 2, 3), nn.ReLU(), nn.MaxPool2d(3, 2, 1), nn.Conv2d(32, 64, 3, 1, 1),
        nn.ReLU6(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(64 * 14 * 14, 100))


def lstm(lib: Any) -> Any:
    """An LSTM over 40 steps, and a linear layer for each step."""
    nn = lib.nn

    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.out = nn.LSTM(64, 128, batch_first=True), nn.Linear(128, 10)

        def forward(self, x: Any) -> Any:
            return self.out(self.lstm(x)[0])

    return Tagger()


TEXT, IMAGE = (8, 64, 256), (4, 3, 112, 112)
MODELS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "mlp": (mlp, (64, 512)), "encoder": (encoder, TEXT), "encoder_first": (encoder_first, TEXT),
    "gpt": (gpt, TEXT), "llama": (llama, TEXT), "resnet": (resnet, (4, 64, 56, 56)),
    "mobilenet": (mobilenet, (4, 40, 28, 28)), "unet": (unet, (2, 64, 32, 32)),
    "smooth_unet": (smooth_unet, (2, 64, 32, 32)), "convnet": (convnet, IMAGE),
    "lstm": (lstm, (8, 40, 64)),
}


def pair(name: str) -> tuple[Any, Any, Any]:
    """PyTorch's model and fusewire's with equal weights, and an input."""
    import torch

    make, shape = MODELS[name]
    torch.manual_seed(0)
    theirs, ours = make(torch).eval(), make(fw).eval()
    for buffer in theirs.buffers():
        if buffer.is_floating_point():
            buffer.uniform_(0.5, 1.5)  # statistics other than zeros and ones
    ours.load_state_dict({k: fw.from_numpy(v.numpy()) for k, v in theirs.state_dict().items()})
    return theirs, ours, np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def export(theirs: Any, x: Any, path: Path) -> None:
    """Writes PyTorch's model, and hides the messages of its exporter."""
    import torch

    logging.disable(logging.WARNING)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(theirs, (torch.from_numpy(x),), path, dynamo=True, external_data=False,
                          dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    logging.disable(logging.NOTSET)


def session(path: Path) -> Callable[[Any], Any]:
    """A function that runs a model in onnxruntime, on as many threads as fusewire takes."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = fw.get_num_threads(), 3
    made = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda x: made.run(None, {made.get_inputs()[0].name: x})[0]


def compiled(path: Path) -> Callable[[Any], Any]:
    """A function that runs a model loaded and compiled by fusewire."""
    model = fw.compile(fw.onnx.load(path).eval())

    def run(x: Any) -> Any:
        with fw.no_grad():
            return model(fw.from_numpy(x)).numpy()

    return run


def measured(name: str, folder: Path, rounds: int) -> list[str]:
    """The row of a model: the nodes of each export, and the times of a call."""
    import onnx
    import torch

    theirs, ours, x = pair(name)
    file = folder / f"{name}.onnx"
    export(theirs, x, file)
    runs, nodes = {"torch": session(file), "loaded": compiled(file)}, {}
    nodes["torch"] = len(onnx.load(file).graph.node)
    for opset in OPSETS:
        own = folder / f"{name}-{opset}.onnx"
        fw.onnx.export(ours, (fw.from_numpy(x),), own, dynamic_shapes=({0: "n"},), opset=opset)
        runs[str(opset)], nodes[str(opset)] = session(own), len(onnx.load(own).graph.node)
    with torch.no_grad():
        wanted = theirs(torch.from_numpy(x)).numpy()
    for kind, run in runs.items():
        apart = float(np.abs(run(x) - wanted).max() / np.abs(wanted).max())
        assert apart < TOLERANCE, (name, kind, apart)
    found = interleaved({kind: lambda run=run: run(x) for kind, run in runs.items()}, rounds)
    took = {kind: found[kind].median for kind in runs}
    return [name, *map(str, nodes.values()), seconds(took["torch"]),
            *(seconds(took[str(opset)]) for opset in OPSETS),
            *(times(took["torch"] / took[str(opset)]) for opset in OPSETS),
            seconds(took["loaded"])]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser("python -m benchmarks.exports", description=__doc__)
    parser.add_argument("models", nargs="*", metavar="model", help=", ".join(MODELS))
    parser.add_argument("--rounds", type=int, default=40, help="samples of each, at most")
    given = parser.parse_args()
    heads = ["nodes", *(f"nodes {opset}" for opset in OPSETS), "torch's",
             *(f"ours {opset}" for opset in OPSETS), *(f"torch's / {opset}" for opset in OPSETS),
             "loaded"]
    with tempfile.TemporaryDirectory() as folder:
        rows = [measured(name, Path(folder), given.rounds) for name in given.models or MODELS]
    print("\n".join(table(["model", *heads], rows)))


if __name__ == "__main__":
    prepare_environment()
    main()
