"""Profiles and Chrome traces of compiled programs."""
