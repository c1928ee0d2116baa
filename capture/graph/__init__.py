"""The graph of a trace: nodes, text that parses back, a verifier and a reference interpreter in
NumPy."""
