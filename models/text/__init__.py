"""Language models: text in, text or vectors out."""
