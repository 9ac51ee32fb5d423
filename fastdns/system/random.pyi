"""Unpredictable numbers (ChaCha20)."""

class Generator:
    """A generator keyed by the kernel's randomness; a forked child gets a key of its own."""

    def next(self) -> int:
        """32 bits."""

    def below(self, n: int) -> int:
        """A number from 0 to n - 1. Raises ValueError for 0."""

def keystream(key: bytes, counter: int) -> bytes:
    """One block of 64 octets for a 32-octet key (RFC 8439 2.3). Raises ValueError for a key of another length."""
