"""What native code knows of CPython: object layout, entry points and mutation counters."""
