"""What fusewire tells other libraries about its tensors, once a program has imported them."""
