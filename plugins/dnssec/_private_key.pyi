class BadKeyError(ValueError):
    """The numbers are not those of a private key; names libcrypto's reason."""

class SigningError(ValueError):
    """libcrypto cannot sign, for example because its configuration refuses SHA-1; names its reason."""

class PrivateKey:
    """A private key. It signs in any thread, without the GIL."""

    #: The public half as in a DNSKEY record (RFC 3110 2, RFC 6605 4, RFC 8080 3).
    @property
    def public(self) -> bytes: ...
    def sign(self, data: bytes) -> bytes:
        """The signature as in an RRSIG record. SigningError."""

def rsa_key(numbers: tuple[int, int, int, int, int], digest: str) -> PrivateKey:
    """Of modulus, public and private exponent and the two primes; ``digest`` is libcrypto's name of what it signs with. ValueError where they do not fit."""

def ecdsa_key(secret: bytes, coordinate: int) -> PrivateKey:
    """On P-256 or P-384, whose coordinates have 32 or 48 octets. BadKeyError for a secret that is no number from 1 to below the curve's order."""

def ed25519_key(secret: bytes) -> PrivateKey:
    """Of 32 octets. BadKeyError for another length."""
