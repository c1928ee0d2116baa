"""Helpers that the commands share."""
