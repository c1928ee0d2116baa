"""Follows what the code of a traced function reads, by its bytecode."""
