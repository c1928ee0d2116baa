"""A graph as one native program: memory plan, launches, prepacked weights and calls."""
