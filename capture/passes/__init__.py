"""Graph passes. Each returns an equivalent graph that is cheaper to run."""
