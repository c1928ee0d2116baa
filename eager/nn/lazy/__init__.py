"""The lazy layers, which take sizes from their first input."""
