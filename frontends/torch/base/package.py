"""The package `fusewire` as a module, which has all functions of tensors.

The front end lies below the root package, so it cannot import it. It loads when a program first
uses it, and the root package is loaded then.
"""

from __future__ import annotations

import sys
from typing import Any

fw: Any = sys.modules[__name__.partition(".")[0]]
