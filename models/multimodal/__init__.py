"""Models that join images and text."""
