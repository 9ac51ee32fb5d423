"""A TLS 1.3 client whose records are written by hand once Python's `ssl` has shaken hands: KeyUpdates, empty records, what no library sends."""

from __future__ import annotations

import socket
import ssl
import struct
from pathlib import Path

from cryptography.hazmat.primitives import hashes, hmac
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

from tests.certificates import client_context
from tests.server import Server
from tests.waiting import REPLY

__all__ = ["ALERT", "APPLICATION_DATA", "HANDSHAKE", "KEY_UPDATE", "RawClient"]

ALERT = 21
HANDSHAKE = 22
APPLICATION_DATA = 23
#: RFC 8446 4.6.3: update_not_requested.
KEY_UPDATE = bytes([24, 0, 0, 1, 0])

CIPHERS = {
    "TLS_AES_256_GCM_SHA384": (AESGCM, 32, hashes.SHA384()),
    "TLS_AES_128_GCM_SHA256": (AESGCM, 16, hashes.SHA256()),
    "TLS_CHACHA20_POLY1305_SHA256": (ChaCha20Poly1305, 32, hashes.SHA256()),
}


class RawClient:
    """A connection after its handshake (RFC 8446 5.2, 7.1 to 7.3)."""

    def __init__(self, server: Server) -> None:
        keylog = server.folder / "client-keylog"
        keylog.unlink(missing_ok=True)
        context = client_context(server.folder)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.keylog_filename = str(keylog)
        self.socket = socket.create_connection(("127.0.0.1", server.port), REPLY)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(incoming, outgoing)
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self.socket.sendall(outgoing.read())
                incoming.write(self.socket.recv(65536))
        self.socket.sendall(outgoing.read())
        cipher = tls.cipher()
        assert cipher is not None
        self._aead, self._key_size, self._hash = CIPHERS[cipher[0]]
        self._use(_secret(keylog, "CLIENT"))
        secret = _secret(keylog, "SERVER")
        self._server = self._aead(self._expand(secret, "key", self._key_size)), self._expand(secret, "iv", 12)
        self._received = 0
        #: The last one of the server.
        self.alert: int | None = None
        #: As they came, and what is decrypted of them.
        self._octets, self._clear = incoming.read(), b""

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def record(self, kind: int, content: bytes, padding: int = 0) -> bytes:
        """The next record."""
        inner = content + bytes([kind]) + bytes(padding)
        header = struct.pack(">BHH", APPLICATION_DATA, 0x0303, len(inner) + 16)
        self._sequence += 1
        return header + self._cipher.encrypt(_nonce(self._iv, self._sequence - 1), inner, header)

    def key_update(self) -> bytes:
        """A KeyUpdate; what follows has the next keys."""
        octets = self.record(HANDSHAKE, KEY_UPDATE)
        self._use(self._expand(self._secret, "traffic upd", len(self._secret)))
        return octets

    def reply(self) -> bytes:
        """The next message of DNS; b"" at the end of the connection."""
        while len(self._clear) < 2 or len(self._clear) < 2 + int.from_bytes(self._clear[:2], "big"):
            while len(self._octets) < 5 or len(self._octets) < 5 + int.from_bytes(self._octets[3:5], "big"):
                part = self.socket.recv(65536)
                if not part:
                    return b""
                self._octets += part
            size = 5 + int.from_bytes(self._octets[3:5], "big")
            cipher, iv = self._server
            inner = cipher.decrypt(_nonce(iv, self._received), self._octets[5:size], self._octets[:5])
            self._received += 1
            self._octets = self._octets[size:]
            if inner[-1] == APPLICATION_DATA:
                self._clear += inner[:-1]
            elif inner[-1] == ALERT:
                self.alert = inner[1]
        size = 2 + int.from_bytes(self._clear[:2], "big")
        message, self._clear = self._clear[2:size], self._clear[size:]
        return message

    def is_ended(self) -> bool:
        """Waits for the end of the connection, and reads what comes before it."""
        try:
            while self.socket.recv(65536):
                pass
        except ConnectionError:
            pass
        return True

    def _use(self, secret: bytes) -> None:
        self._secret = secret
        self._cipher = self._aead(self._expand(secret, "key", self._key_size))
        self._iv = self._expand(secret, "iv", 12)
        self._sequence = 0

    def _expand(self, secret: bytes, label: str, length: int) -> bytes:
        """HKDF-Expand-Label without a context; one step of HKDF is enough for all lengths here."""
        name = b"tls13 " + label.encode()
        code = hmac.HMAC(secret, self._hash)
        code.update(struct.pack(">HB", length, len(name)) + name + b"\0" + b"\x01")
        return code.finalize()[:length]


def _nonce(iv: bytes, sequence: int) -> bytes:
    return (int.from_bytes(iv, "big") ^ sequence).to_bytes(12, "big")


def _secret(keylog: Path, side: str) -> bytes:
    for line in keylog.read_text().splitlines():
        if line.startswith(f"{side}_TRAFFIC_SECRET_0 "):
            return bytes.fromhex(line.split()[2])
    raise AssertionError("no secret in the keylog")
