"""Tracing: runs a function once and records ops, guards' inputs, side effects and outputs."""
