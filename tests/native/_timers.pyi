"""A worker's timers, as tests see them. All times are nanoseconds of one clock."""

class Timers:
    """A wheel of its own with ``number`` timers, numbered from 0, none of them running; the clock stands at ``now``.

    Raises MemoryError; methods raise IndexError for a timer that is none.
    """

    number: int

    def __init__(self, number: int, now: int = ...) -> None: ...
    def start(self, which: int, deadline: int) -> None:
        """Start a timer, or start it anew."""

    def stop(self, which: int) -> None:
        """Stop a timer, if it runs."""

    def plan(self, which: int, again: int = ..., stops: int = ..., starts: tuple[int, int] = ...) -> None:
        """What a timer does when it fires: start itself once more with the deadline ``again`` (0: not), stop another (-1: none), start (another, deadline)."""

    def turn(self, now: int) -> list[int]:
        """Fire what is due; the numbers of those that fired, in order. Raises OverflowError when that does not end."""

    def timeout(self, now: int) -> int:
        """Milliseconds until something may be due, -1 when nothing runs."""

    def running(self, which: int) -> bool:
        """Whether a timer runs."""

    def __len__(self) -> int:
        """How many run."""
