"""Quantizes trained models to int8, bfloat16 or float16, and reports the loss of accuracy."""

from .quantize import *
from .restore import *
