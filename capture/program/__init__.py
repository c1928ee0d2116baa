"""The traced program: a control-flow graph of blocks, its exits and the plan of its segments."""
