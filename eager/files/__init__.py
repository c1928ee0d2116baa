"""Reads and writes files: the format of safetensors, and files that are replaced atomically."""
