"""Services of compiled functions: compile queue, metrics, profiling spans and warnings."""
