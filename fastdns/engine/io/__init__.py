"""Transports of the workers."""
