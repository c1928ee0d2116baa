"""Guards: the conditions under which a trace may be replayed, as generated code."""
