"""The records of an external zone, for plugin transfer."""

from fastdns.plugins.k8s_external._external import ExternalZones
from fastdns.plugins.transfer._transfer import Transfer

def zone_transfer(handler: ExternalZones, zone: bytes, serial: int | None) -> Transfer | None:
    """All records of a zone in lower-case wire form, copied from the store at one moment; None when it is none of the handler's zones.

    Raises MemoryError.
    """
