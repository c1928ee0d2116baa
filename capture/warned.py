"""What the user is told, once, where a compiled function does less than was asked for."""


class CaptureWarning(UserWarning):
    """A compiled function, or the way back through it, runs eagerly for the reason given."""
