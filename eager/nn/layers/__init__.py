"""The layers, one family a file."""
