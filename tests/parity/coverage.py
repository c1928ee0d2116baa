"""Which public functions there are, and why some of them have no entry in the table."""

from __future__ import annotations

import inspect
from typing import Any

import fusewire as fw

NAMESPACES = {"": fw, "linalg.": fw.linalg, "fft.": fw.fft, "special.": fw.special,
              "signal.": fw.signal, "signal.windows.": fw.signal.windows,
              "nn.functional.": fw.nn.functional}

# Functions that are not of tensors to tensors, or that have no counterpart.
WITHOUT: dict[str, str] = {}
for names, why in {
    "backward grad": "it is what the columns of gradients call",
    "no_grad enable_grad inference_mode set_grad_enabled is_grad_enabled "
    "is_inference_mode_enabled": "a setting of the tape, of no values",
    "can_cast isdtype result_type finfo iinfo broadcast_shapes": "of dtypes or shapes, not values",
    "from_dlpack from_numpy": "takes over an array",
    "load save": "files: test_module_torch.py and test_models_torch.py compare them",
    "load_compiled": "torch keeps no recordings: tests/export/test_saved.py has it",
    "quantize load_quantized": "another interface: test_quantize.py has it, and with onnxruntime "
        "test_onnx_quantized.py",
    "get_autocast_dtype is_autocast_enabled": "a setting, of no values: see test_amp_torch.py",
    "caches clear_caches compile empty_cache get_num_threads profile set_num_threads printoptions "
    "set_printoptions":
        "a setting, of no values",
    "bernoulli binomial multinomial normal poisson rand rand_like randint randint_like randn "
    "randn_like randperm": "random numbers: the streams of the two are not the same",
    "nn.functional.gumbel_softmax": "random numbers: tests/eager/test_activations.py has it",
    "nn.functional.nms nn.functional.nms_mask nn.functional.roi_align":
        "torchvision's: test_onnx_regions.py compares them with onnxruntime",
    "fork_rng get_rng_state initial_seed manual_seed seed set_rng_state":
        "the state of random numbers",
}.items():
    WITHOUT.update(dict.fromkeys(names.split(), why))


def public() -> dict[str, Any]:
    """Functions by name, as entries have it."""
    found = {}
    for prefix, namespace in NAMESPACES.items():
        names = getattr(namespace, "__all__", None) or [n for n in dir(namespace) if n[0] != "_"]
        for name in names:
            value = getattr(namespace, name)
            if callable(value) and not inspect.isclass(value):
                found[prefix + name] = value
    return found
