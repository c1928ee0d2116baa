"""Provides gradients under the names of `torch.autograd`."""

from ..core.tape import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from . import function
from .anomaly import detect_anomaly, is_anomaly_enabled, set_detect_anomaly
from .check import gradcheck, gradgradcheck
from .engine import backward, grad
from .function import Function

__all__ = [
    "Function", "backward", "detect_anomaly", "enable_grad", "function", "grad", "gradcheck",
    "gradgradcheck", "inference_mode", "is_anomaly_enabled", "is_grad_enabled",
    "is_inference_mode_enabled", "no_grad", "set_detect_anomaly", "set_grad_enabled",
]
