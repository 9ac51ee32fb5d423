"""What a client of IXFR says that it has."""

from __future__ import annotations

__all__ = ["OPTION_ZONE_DIGEST", "Version", "digest_of"]

#: See _digest.pxd.
OPTION_ZONE_DIGEST = 65226
SCHEME_PRIVATE = HASH_PRIVATE = 240


class Version(int):
    """A serial, and the digest of the records that the client has with it (_digest.pxd), b"" where it shows none."""

    digest: bytes

    def __new__(cls, serial: int, digest: bytes = b"") -> Version:
        """``digest`` is 32 octets, or none."""
        version = super().__new__(cls, serial)
        version.digest = digest
        return version


def digest_of(zonemd: bytes) -> bytes:
    """The digest in the rdata of a ZONEMD record; b"" where that is of another scheme."""
    return zonemd[6:] if len(zonemd) == 38 and zonemd[4:6] == bytes((SCHEME_PRIVATE, HASH_PRIVATE)) else b""
