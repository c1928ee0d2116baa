"""Methods and protocols of the tensor, bound to functions of the ops."""
