"""The records of a zone, for plugin transfer."""

from fastdns.plugins.kubernetes._handler import ViewHandler
from fastdns.plugins.transfer._transfer import Transfer

def zone_transfer(handler: ViewHandler, zone: bytes, serial: int | None) -> Transfer | None:
    """All records of a zone in lower-case wire form, copied from the store at one moment; None when the handler has no such zone.

    As in CoreDNS any name in one of the handler's zones counts as a zone. Raises MemoryError.
    """

def zone_size(handler: ViewHandler, zone: bytes) -> int:
    """The number of records of a zone, roughly; 0 when the handler has no such zone."""
