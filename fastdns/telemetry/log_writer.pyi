"""Log lines, which a native thread writes to standard output; the native side is in ``log_writer.pxd``."""

def flush(timeout: float = 1.0) -> bool:
    """Wait until all lines queued so far are written. False when that takes longer than ``timeout`` seconds (the output is blocked)."""

def dropped() -> int:
    """The number of lines dropped since the start of the process: a ring was full, or writing failed."""

def set_output(fd: int) -> int:
    """Set the descriptor that lines are written to (1 at first). Returns the former one."""

def set_debug(wanted: bool) -> None:
    """Set whether DEBUG lines are written, process-wide."""

def debugging() -> bool:
    """Whether DEBUG lines are written."""
