"""The control flow of a traced function: blocks in a tree, their segments and exits."""
