"""From a plugin's result to the worker: see executor/conclusion.pxd."""

def note_fork() -> None:
    """Called in a child that a plugin has forked: its thread ends where it would go on to serve."""
