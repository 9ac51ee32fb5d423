"""The signing thread: makes the signatures that workers did not find, beside the hot path."""

from __future__ import annotations

import itertools
import struct
import time
from typing import TYPE_CHECKING

from fastdns import control
from fastdns.plugins.dnssec._signing import open_queue, serve_requests
from fastdns.plugins.dnssec.keys import rrsig
from fastdns.protocol.parameters import TYPE_DNSKEY
from fastdns.telemetry.log import Log

if TYPE_CHECKING:
    from fastdns.plugins.dnssec._dnssec import DnssecHandler
    from fastdns.plugins.dnssec.keys import Key

__all__ = ["THREAD", "Signing"]

log = Log("plugin/dnssec")

ORIGINAL_TTL = 3600

#: Seconds around now in which signatures are good: the clocks of resolvers may be behind, or off by an hour of daylight saving time.
BEFORE = 3 * 3600
AFTER = 8 * 86400
#: Seconds between two looks for signatures that are nearly over.
CLEAN_EVERY = 8 * 3600

_numbers = itertools.count(1)
_signings: dict[int, Signing] = {}
#: Started before any handler serves.
THREAD = control.OffloadThread("dnssec", open_queue, lambda: serve_requests(_sign, _free_retired))


class Signing:
    """What one server block's RRsets are signed with."""

    def __init__(self, keys: list[Key]) -> None:
        self.keys = keys
        self.number = next(_numbers)
        #: Set before it serves.
        self.handler: DnssecHandler
        split = any(key.is_ksk for key in keys) and any(not key.is_ksk and key.is_zsk for key in keys)
        self._for_keys = [key for key in keys if key.is_ksk] if split else keys
        self._for_rest = [key for key in keys if key.is_zsk] if split else keys
        self._timer: control.Timer | None = None

    def start(self) -> None:
        """Take requests from here on."""
        _signings[self.number] = self
        self._timer = control.every(CLEAN_EVERY, self.clean)

    def stop(self) -> None:
        """No more requests will come, and none is on its way."""
        _signings.pop(self.number, None)
        if self._timer is not None:
            self._timer.cancel()

    def clean(self) -> None:
        """Drop signatures that are nearly over."""
        self.handler.clean(int(time.time()))

    def signatures(self, key: bytes) -> bytes:
        """For what a cache key says (signer's name, canonical RRset): from the cache, or made and put there."""
        now = int(time.time())
        found = self.handler.find(key, now)  # equal sets may have waited in one queue
        if found is not None:
            return found
        end = _name_end(key, 0)
        signer, body = key[:end], key[end:]
        kind = struct.unpack_from("!H", body, _name_end(body, 0))[0]
        out = b""
        for signing_key in self._for_keys if kind == TYPE_DNSKEY else self._for_rest:
            rdata = rrsig(signing_key, signer, body, now - BEFORE, now + AFTER, ORIGINAL_TTL)
            out += struct.pack("!H", len(rdata)) + rdata
        if out:
            self.handler.put(key, (now - BEFORE) & 0xFFFFFFFF, (now + AFTER) & 0xFFFFFFFF, out)
        return out


def _name_end(octets: bytes, at: int) -> int:
    while octets[at]:
        at += octets[at] + 1
    return at + 1


def _sign(number: int, key: bytes) -> bytes | None:
    signing = _signings.get(number)
    if signing is None:
        return None
    try:
        return signing.signatures(key)
    except Exception as error:  # whatever the library says: the set stays unsigned, as in CoreDNS
        log.error(f"Failed to sign: {error}")
        return None


def _free_retired() -> None:
    for signing in list(_signings.values()):
        signing.handler.free_retired()
