"""Autodiff of traces: the symbolic tape, the partitioner of forward and backward, and backward
programs."""
