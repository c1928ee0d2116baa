"""Parameters and buffers of modules."""

from __future__ import annotations

from ..base.tensor_class import Buffer as Buffer
from ..base.tensor_class import Parameter as Parameter
