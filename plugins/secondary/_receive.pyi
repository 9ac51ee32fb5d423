"""Zone transfers in: messages of AXFR and IXFR into the draft of a zone."""

from fastdns.index.change import ZoneChange
from fastdns.index.zone import Zone, ZoneDraft

class TransferError(ValueError):
    """The primary's messages are no transfer of the zone. ``rcode`` is what it refused with, else 0; ``bound`` is ``octets``, ``records`` or ""."""

    rcode: int
    bound: str

class Receiver:
    """Takes the messages of one transfer. With ``serial`` (of the version that serves) IXFR was asked for."""

    #: The whole zone has come; or (IXFR) there is nothing newer.
    done: bool
    #: IXFR: the primary has nothing newer than ``serial``.
    current: bool
    #: The differences came, not the whole zone.
    differences: bool
    #: Of the primary, once its SOA has come.
    target: int

    #: The records were compared with the digest in the zone's ZONEMD record; see transfer/_digest.pxd.
    checked: bool

    def __init__(self, zone: Zone, serial: int | None = None, *, records: int, octets: int, digest: bytes = b"") -> None:
        """At most so many records and octets of messages are taken. ``digest`` is of the records of the version that serves. Raises MemoryError."""

    def feed(self, message: bytes, ident: int) -> bool:
        """Take one message with this id; whether the transfer is complete. Raises TransferError, ZoneError and MemoryError."""

    def finish(self) -> ZoneDraft | ZoneChange:
        """The zone's new version, finished: a change where differences came.

        Raises TransferError, also for records that the zone's digest is not of, and as `ZoneDraft.finish` and `ZoneChange.finish`.
        """

def signature_place(message: bytes) -> tuple[int, bytes, int, int] | None:
    """Where a message's TSIG begins, its owner, where its rdata begin and how long they are; None: it has none. Raises ValueError."""
