"""The lazy interpreter: defers ops between graph breaks, so that they run as one graph."""
