"""The demonstration: a small network learns handwritten digits, eagerly and compiled."""
