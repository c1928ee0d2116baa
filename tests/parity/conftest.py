"""The tables against PyTorch are tested where PyTorch is installed: it is no dependency of ours."""

from __future__ import annotations

import importlib.util

PUBLISHED = ("transformers", "torchvision", "diffusers",
             "gguf", "accelerate")  # whose models are compared with ours
EXPORT = (*PUBLISHED, "onnxscript", "onnxruntime")  # what their exporter needs, and runs


def missing(*names: str) -> bool:
    return any(importlib.util.find_spec(name) is None for name in names)


collect_ignore_glob = ["test_*.py"] if missing("torch") else [
    *(["test_models_torch.py", "test_pretrained_torch.py", "test_gguf_torch.py",
         "test_tokenizers_torch.py", "test_beams_torch.py"]
      if missing(*PUBLISHED) else []),
    *(["test_exported_torch.py", "test_control_flow_torch.py"] if missing(*EXPORT) else [])]
