"""The other server: its slots, and the copies on their way to it."""

from fastdns.telemetry.metrics import Metric

#: What `Target.pump` ends with.
TIME: int
STOPPED: int
SUSPECTS: int
SILENT: int
REFUSED: int
FLOODED: int
#: Why questions are not asked.
SKIPPED: tuple[str, ...]
RESULTS_TOTAL: Metric
SKIPPED_TOTAL: Metric

class Target:
    """A server that is asked what ours is asked. One thread calls `begin`, `pump`, `suspects` and `end`."""

    name: str
    def __init__(
        self, name: str, address: bytes, is_local: bool, share: float, rate: float, outstanding: int, timeout: float, octets: int, examined: float
    ) -> None:
        """``address``: 4 or 16 octets; ``is_local``: clients may have it, too. ``share``: of the questions, up to 1; ``rate``: questions a second;
        ``outstanding``: questions that wait; ``timeout``: seconds; ``octets`` of copies on their way; ``examined``: suspects a second. OSError, MemoryError.
        """
    def begin(self, fd: int, own_port: int) -> None:
        """Ask over a connected UDP socket from now on: one question, and all once it is answered."""
    def end(self) -> None:
        """Ask nothing more; what waits is given up."""
    def pump(self, seconds: float) -> int:
        """Ask and compare, without the GIL, for so long, or until there is something to tell: see `TIME` and the others."""
    def suspects(self) -> list[tuple[bytes, bytes, bytes, bytes]]:
        """Question, client's address, our reply, and the other reply (empty: none) of those that seem to differ, each once."""
    def stop(self, stopping: bool = True) -> None:
        """Have `pump` end."""
    @property
    def is_up(self) -> bool:
        """Whether it answers."""
    @property
    def counts(self) -> dict[str, int]:
        """Results that Python did not look at: ``same``, ``truncated``, ``unexamined``."""
