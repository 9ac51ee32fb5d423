"""Ends a process that was told to end and does not: natively, whoever holds the GIL, and without allocating memory."""

def watch(number: int, seconds: float) -> None:
    """End the process ``seconds`` after signal ``number`` has come, unless it has ended by itself, with exit status 3.

    The handler that `signal.signal` has installed runs as before; must be called after it, from the main thread. A second call for a signal replaces the
    time. Raises OSError (no thread, no such signal).
    """
