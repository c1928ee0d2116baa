"""Native code for single eager ops on large arrays."""
