"""Continues texts with a decoder, token by token."""
