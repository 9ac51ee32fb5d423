"""The records below one path of etcd, for workers."""

from collections.abc import Sequence

#: Key below the path, kind of host, host in wire form, its address, name of the key in wire form, rdata of TXT, group, whether there is a host,
#: TTL, position of the lease or -1, port, priority, weight, labels to strip, mail.
Row = tuple[bytes, int, bytes, bytes, bytes, bytes, bytes, bool, int, int, int, int, int, int, bool]

HOST_NONE: int
HOST_TEXT: int
HOST_NAME: int
HOST_4: int
HOST_6: int
HOST_BROKEN: int

class Records:
    """What a handler answers from."""

    def publish(self, rows: Sequence[Row], leases: Sequence[float]) -> None:
        """Replace everything. Rows are sorted by key; leases are the seconds that each has left. Raises MemoryError."""
    def renew(self, lease: int, seconds: float) -> None:
        """A lease of the published records has this long left."""
    @property
    def synced(self) -> bool:
        """Whether anything was published."""
