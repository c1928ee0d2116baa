"""The losses as layers."""
