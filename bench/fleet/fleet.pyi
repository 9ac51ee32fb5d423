"""Many simulated secondaries of one zone, on one thread."""

from fastdns.bench.generator.histogram import Histogram

class Fleet:
    """Secondaries with addresses from 127.1.0.1 on, a connection to the server each.

    With ``notified`` they take NOTIFY on UDP port ``port`` of their addresses, and ask for differences at once. Else each asks for the SOA
    every ``poll`` seconds, and for differences if its serial is later. Who has lost its connection makes another one after up to a second, at random, then
    after twice as long, up to ten, and asks for the SOA first.

    Changes are A records with addresses from 198.18.0.0 on: that of change N is 198.18.0.0 + N.
    """

    def __init__(
        self,
        *,
        count: int,
        address: bytes,
        zone: bytes,
        port: int,
        notified: bool,
        poll: float,
        tls: bool,
        changes: int,
        checked: int,
        receive_buffer: int,
        fresh: bool = False,
    ) -> None:
        """``address`` is a sockaddr_in; ``zone`` is in wire form; ``changes`` bounds N; every ``checked``-th secondary computes the digest of its records.
        ``fresh``: each question has a connection of its own, which ends with the answer.

        Raises OSError and MemoryError.
        """

    def run(self) -> None:
        """All of it, until `stop`; without the GIL."""

    def stop(self) -> None: ...
    def change(self, number: int, replaced: int) -> None:
        """Change ``number`` is written now. It takes the place of change ``replaced`` (-1: of none), which then nobody has to see any more."""

    def begin(self) -> None:
        """Count from zero on, latencies too."""

    def missing(self, last: int) -> int:
        """Changes up to ``last`` that a secondary which holds the zone does not have, over all secondaries."""

    @property
    def latency(self) -> Histogram:
        """From the write of a change to the version applied in which a secondary has it."""

    @property
    def filled(self) -> Histogram:
        """From the start of `run` until a secondary has its first version."""

    @property
    def counters(self) -> dict[str, int]:
        """Since `begin`: transfers by kind, octets, faults, and what the thread took (``cpu``, ``waited`` for a CPU, ``longest`` round: ns)."""

    @property
    def holding(self) -> int:
        """Secondaries that have a version."""

    @property
    def connected(self) -> int: ...
