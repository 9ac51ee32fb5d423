"""The workers: threads with sockets, timers and a mailbox each. The native side is in ``engine/loop.pxd``."""

class Workers:
    """The workers of an :class:`fastdns.engine.engine.Engine`, which makes them."""

    @property
    def count(self) -> int: ...
    @property
    def running(self) -> bool: ...
    def start(self) -> None: ...
    def stop(self) -> None:
        """Ends the threads."""
    def close_connections(self) -> None:
        """Ends all connections at once, whatever is under way on them."""
    def parked(self) -> int:
        """Queries that wait for something now."""
    def statistics(self) -> dict[str, int]:
        """Sums over the workers: parked, evicted, dropped, send_errors, connections, slots, large_refused."""
