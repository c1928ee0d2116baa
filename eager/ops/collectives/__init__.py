"""Collectives: ops that several processes compute together."""
