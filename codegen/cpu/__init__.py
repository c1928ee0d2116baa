"""Lowers groups to loops for CPUs: pointwise and reduction nests, scans, sorts and scatters."""
