"""Load of a server: closed loops of callers, in a process and on a processor of their own."""
