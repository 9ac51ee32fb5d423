"""Lines for standard output, written by a thread of their own."""

def put(line: str) -> bool:
    """Put one line, without its newline, from any thread that holds the GIL; False when it was dropped.

    Control characters, newlines too, come out as ``\\DDD``; at most 2,048 octets are written.
    """

def flush(timeout: float = 1.0) -> bool:
    """Wait until every line put so far is written; False when that takes longer than ``timeout`` seconds (a stuck pipe)."""

def dropped() -> int:
    """Lines dropped since the start: a ring was full, or the output refused them."""

def set_output(fd: int) -> int:
    """Write to another descriptor from now on (1 at the start); returns the former one."""

def set_debug(wanted: bool) -> None:
    """Whether DEBUG lines are wanted, process-wide."""

def debugging() -> bool:
    """Whether DEBUG lines are wanted."""
