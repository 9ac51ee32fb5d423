#: The hashes by name: ``sha1``, ``sha224``, ``sha256``, ``sha384``, ``sha512``.
KINDS: dict[str, int]

def hash_of(kind: str, parts: list[bytes]) -> bytes:
    """The digest of ``parts``, one after another. KeyError for an unknown kind."""

def hmac_of(kind: str, secret: bytes, parts: list[bytes]) -> bytes:
    """The HMAC of ``parts`` (RFC 2104). KeyError for an unknown kind."""

def same(a: bytes, b: bytes) -> bool:
    """Whether two digests are equal, compared in constant time. ValueError for different lengths."""
