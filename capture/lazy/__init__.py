"""The lazy interpreter: delays ops between graph breaks, so that they run as one graph."""
