#: The hashes by name: ``sha1``, ``sha224``, ``sha256``, ``sha384``, ``sha512``.
KINDS: dict[str, int]

class DigestError(ValueError):
    """libcrypto does not offer the hash, or refuses the secret; names both library and hash."""

def hash_of(kind: str, data: bytes) -> bytes:
    """The digest of ``data``. KeyError for an unknown kind, DigestError."""

def hmac_of(kind: str, secret: bytes, parts: list[bytes]) -> bytes:
    """The HMAC of ``parts`` (RFC 2104), one after another. KeyError for an unknown kind, DigestError."""

def same(a: bytes, b: bytes) -> bool:
    """Whether two digests are equal, compared in constant time. ValueError for different lengths."""
