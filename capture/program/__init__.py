"""The traced program: a control-flow tree of blocks, its exits and the plan of its segments."""
