"""Models of torchvision: convolutional and other networks for classes, pixels and videos."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from .catalogue import MODELS, Model, floats, images, with_weights

_SIZES = {"inception_v3": 299}  # others: 224
_INITIAL = ("googlenet", "inception_v3")


def _torchvision(name: str, where: str = "", **given: Any) -> Callable[[], Any]:
    def make() -> Any:
        from .torchvision_ops import torchvision

        models = torchvision.models
        return getattr(getattr(models, where) if where else models, name)(
            weights=None, **given)

    return make


def _ours(file: str, name: str, *given: Any) -> Callable[[Any], Any]:
    """Makes the model of a function in a file of `models/vision`."""
    def make(module: Any) -> Any:
        function = getattr(import_module(f"fusewire.models.vision.{file}"), name)
        return with_weights(function(*given), module)

    return make


_OWN = {
    "resnet18": ("resnet", "resnet18"), "resnet50": ("resnet", "resnet50"),
    "resnext50_32x4d": ("resnet", "resnext50_32x4d"), "mobilenet_v2": ("mobilenet", "mobilenet_v2"),
    "mobilenet_v3_large": ("mobilenet", "mobilenet_v3_large"),
    "efficientnet_b0": ("efficientnet", "efficientnet", "b0"),
    "convnext_tiny": ("convnext", "convnext_tiny"), "vit_b_16": ("vit", "vit_b_16"),
    "swin_t": ("swin", "swin_t"),
}


def _add(kind: str, *names: str, trains: Sequence[str] = ()) -> None:
    for name in names:
        given = {"init_weights": True} if name in _INITIAL else {}  # else they warn
        MODELS[name] = Model(kind, _torchvision(name, **given), images(_SIZES.get(name, 224)),
                             ours=_ours(*_OWN[name]) if name in _OWN else None,
                             trains=name in trains)


_add("convolutional", "resnet18", "resnet50", "resnext50_32x4d", "vgg11", "densenet121",
     "googlenet", "inception_v3", "squeezenet1_1", trains=("resnet18", "resnet50"))
_add("depthwise", "mobilenet_v2", "mobilenet_v3_large", "efficientnet_b0", "convnext_tiny",
     "shufflenet_v2_x1_0", "mnasnet1_0", "regnet_y_400mf",
     trains=("mobilenet_v2", "efficientnet_b0", "convnext_tiny"))
_add("image transformer", "vit_b_16", "swin_t", "maxvit_t", trains=("vit_b_16", "swin_t"))

for _name in ("fcn_resnet50", "deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large"):
    MODELS[_name] = Model("pixels", _torchvision(
        _name, "segmentation", weights_backbone=None), images(224), lambda out: out["out"])
MODELS["r3d_18"] = Model("video", _torchvision("r3d_18", "video"), floats("x", 3, 8, 112, 112))
