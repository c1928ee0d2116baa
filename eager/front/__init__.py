"""Files of tensors, and advice for users of other libraries: above all of eager."""
