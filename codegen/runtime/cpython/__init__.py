"""Depends on CPython's internals: object layout, entry points and mutation counters."""
