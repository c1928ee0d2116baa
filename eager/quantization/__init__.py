"""Models in small numbers: int8 after training, and 16 bits, with a report of what that costs."""

from .quantize import *
from .restore import *
