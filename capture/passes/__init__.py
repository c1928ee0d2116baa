"""Graph passes: each takes a graph and returns an equal one that is cheaper."""
