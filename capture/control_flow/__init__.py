"""Control flow of a trace: decisions, loop detection, loop gradients and branch merging."""
