"""Libraries for programs that know no Python: `build` makes an object file and its C header."""

from .build import Built, build

__all__ = ["Built", "build"]
