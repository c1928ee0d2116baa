"""Rows of normalization layers."""

from __future__ import annotations

from typing import Any

from inputs import x
from layers.row import layer

SPACES: dict[int, Any] = {1: ((6, 3), (4, 3, 5)), 2: ((3, 3, 4, 2),), 3: ((2, 3, 2, 3, 2),)}
BATCH: tuple[dict[str, Any], ...] = (
    {}, {"momentum": None}, {"eps": 0.1, "momentum": 0.7}, {"affine": False}, {"bias": False},
    {"track_running_stats": False}, {"affine": False, "track_running_stats": False})
for d, shapes in SPACES.items():
    for shape in shapes:
        for more in BATCH if d == 1 else BATCH[:3]:
            label = f"{shape} {', '.join(f'{k}={v}' for k, v in more.items())}"
            layer(f"BatchNorm{d}d", 3, **more, inputs=[x(*shape)], label=label, loose=8)
INSTANCE: tuple[dict[str, Any], ...] = (
    {}, {"affine": True}, {"affine": True, "bias": False}, {"track_running_stats": True},
    {"affine": True, "track_running_stats": True, "momentum": 0.4, "eps": 0.1})
for d, shape in ((1, (2, 3, 5)), (2, (2, 3, 4, 2)), (3, (2, 3, 2, 3, 2))):
    for more in INSTANCE:
        layer(f"InstanceNorm{d}d", 3, **more, inputs=[x(*shape)], loose=8)
    layer(f"InstanceNorm{d}d", 3, affine=True, inputs=[x(*shape[1:])], label="without samples",
          loose=8)

NORMALIZED: tuple[tuple[Any, dict[str, Any]], ...] = (
    (4, {}), ((3, 4), {"eps": 0.1}), ([4], {"elementwise_affine": False}), (4, {"bias": False}))
for size, more in NORMALIZED:
    layer("LayerNorm", size, **more, inputs=[x(2, 3, 4)], loose=8)
    if "bias" not in more:
        layer("RMSNorm", size, **more, inputs=[x(2, 3, 4)], loose=8)
for shape in ((2, 6), (2, 6, 3), (2, 6, 2, 3)):
    layer("GroupNorm", 2, 6, inputs=[x(*shape)], label=str(shape), loose=8)
layer("GroupNorm", 3, 6, eps=0.1, affine=False, inputs=[x(2, 6, 3)], loose=8)
layer("GroupNorm", 6, 6, bias=False, inputs=[x(2, 6, 3)], loose=8)
layer("LocalResponseNorm", 3, inputs=[x(2, 5, 3)])
layer("LocalResponseNorm", 4, alpha=0.5, beta=1.5, k=2.0, inputs=[x(2, 6, 3, 2)])
NONE = dict.fromkeys(("grad", "grad grad"), "torch's own backward cannot run with create_graph")
layer("CrossMapLRN2d", 3, alpha=0.5, inputs=[x(2, 5, 3, 2)], differs=NONE)
layer("CrossMapLRN2d", 4, alpha=0.5, beta=0.5, k=2, inputs=[x(2, 5, 3, 2)], differs=NONE)
layer("CrossMapLRN2d", 5, inputs=[x(2, 2, 3, 2)], differs=NONE)
layer("SyncBatchNorm", 3, inputs=[x(4, 3, 2)], call=lambda lib, module, a: module.eval()(a),
      label="in use")  # where it trains, PyTorch's needs a GPU
