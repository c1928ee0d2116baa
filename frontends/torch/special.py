"""Special functions, under PyTorch's names and keywords."""

from __future__ import annotations

from ...eager.namespaces import special as _plain
from .base.generate import same_named as _same_named

globals().update({name: _same_named(getattr(_plain, name), name) for name in _plain.__all__})
