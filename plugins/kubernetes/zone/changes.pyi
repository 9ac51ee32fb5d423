"""What changes of a zone of a cluster."""

from fastdns.plugins.kubernetes._handler import ViewHandler
from fastdns.plugins.transfer._transfer import Transfer
from fastdns.plugins.transfer.journal import Row

class Changes:
    """A zone of a handler, and how its versions follow from each other.

    Between two versions the store's writer notes which services have changed, with the records that they had, so a version costs by the number of
    those. One thread at a time may use it; `close` it before the store goes.
    """

    def __init__(self, handler: ViewHandler, zone: bytes) -> None:
        """One of the handler's zones, in lower-case wire form. Raises KeyError."""

    def known(self) -> bool:
        """Whether all objects have been listed, and not only read from a snapshot."""

    def advance(self, whole: bool = False) -> tuple[tuple[list[Row], list[Row]] | None, Transfer | None]:
        """Make a new version if something has changed, and with ``whole`` a transfer of all of it.

        Gives what was deleted and added, nothing for no new version; None where that is not known, as of the first version, of
        the next one after MemoryError was raised, and of one that is `too_large`.
        """

    #: The last version differs from the one before by more records than a journal keeps.
    too_large: bool

    def left_out(self) -> dict[tuple[int, bytes], int] | None:
        """Services, by world and key, of which the last version has not all records, and how many are missing. None: as at the last call."""

    @property
    def serial(self) -> int:
        """Of the last version; counts sixteenths of a second, or more often if there are more versions (RFC 1982).

        May be set where another configuration has had a version with these records.
        """

    @serial.setter
    def serial(self, value: int) -> None: ...
    @property
    def records(self) -> int:
        """Of the last version, without SOA and ZONEMD."""

    @property
    def soa(self) -> Row:
        """Of the last version."""

    @property
    def zonemd(self) -> Row:
        """Of the last version, with the digest of its records; see transfer/_digest.pxd."""

    def close(self) -> None:
        """Note no more changes. `serial` and `records` can still be read, nothing else."""
