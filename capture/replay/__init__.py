"""Replay: the compiled function, its traces, the fast path of a call, checks and reports."""
