"""Compares the times of one computation among libraries, and reports many such comparisons."""
