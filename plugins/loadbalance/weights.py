"""The weight file of ``loadbalance weighted``: read, checked, and read again when it changes."""

from __future__ import annotations

import hashlib

from fastdns import control
from fastdns._wire import name_wire
from fastdns.corefile import CorefileError
from fastdns.corefile.address import packed
from fastdns.corefile.duration import format_duration
from fastdns.plugins.loadbalance._loadbalance import LoadbalanceHandler
from fastdns.telemetry.log import Log

__all__ = ["WeightFile", "parse"]

log = Log("plugin/loadbalance")

SECOND = 10**9

#: Packed addresses and weights by owner name in wire form.
Weights = dict[bytes, list[tuple[bytes, int]]]


class WeightFile:
    """A weight file, and the handler that its table is for."""

    def __init__(self, path: str, reload: int, handler: LoadbalanceHandler) -> None:
        self.path = path
        #: Nanoseconds between two looks; 0: none.
        self.reload = reload
        self.handler = handler
        self._checksum = b""
        self._timer: control.Timer | None = None
        self._missing = False

    def start(self) -> None:
        """Read it before the block serves. Raises CorefileError when it is malformed, or missing and never read again."""
        try:
            self._update()
        except OSError as error:
            if not self.reload:
                raise CorefileError("plugin/loadbalance: weight file open error") from error
            self._missing = True
            log.warning(f"Failed to open weight file:weight file open error. Will try again in {format_duration(self.reload)}")
        except ValueError as error:
            raise CorefileError(f"plugin/loadbalance: {error}") from error

    def watch(self) -> None:
        """Look at it from time to time, from now on."""
        if self.reload:
            self._timer = control.every(self.reload / SECOND, self.look)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def look(self) -> None:
        """Take up a changed file. A broken one is logged once, and the old weights stay."""
        try:
            self._update()
            self._missing = False
        except OSError:
            if not self._missing:
                log.error("weight file open error")
            self._missing = True
        except ValueError as error:
            log.error(str(error))

    def _update(self) -> None:
        with open(self.path, "rb") as file:
            octets = file.read()
        checksum = hashlib.sha256(octets).digest()
        if checksum == self._checksum:
            return
        self._checksum = checksum
        self.handler.set_weights(parse(octets.decode("utf-8", "surrogateescape"), self.path))
        log.info(f"Successfully reloaded weight file {self.path}")


def parse(text: str, path: str) -> Weights:
    """The table that a file says. Raises ValueError with CoreDNS's texts."""
    weights: Weights = {}
    current: list[tuple[bytes, int]] | None = None
    for line in text.split("\n"):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        words = line.split()
        if len(words) == 1:
            if packed(words[0]) is not None:
                raise ValueError(f'wrong domain name:"{words[0]}" in weight file {path}. (Maybe a missing weight value?)')
            current = _domain(weights, words[0])
        elif len(words) == 2:
            address = packed(words[0])
            if address is None:
                raise ValueError(f'wrong IP address:"{words[0]}" in weight file {path}')
            if not (words[1].isascii() and words[1].isdigit() and 0 < int(words[1]) <= 255):
                raise ValueError(f'wrong weight value:"{words[1]}" in weight file {path}')
            if current is None:
                raise ValueError(f"missing domain name in weight file {path}")
            current.append((address, int(words[1])))
        else:
            raise ValueError(f'could not parse weight line:"{line}" in weight file {path}')
    return weights


def _domain(weights: Weights, name: str) -> list[tuple[bytes, int]]:
    try:
        return weights.setdefault(name_wire(name), [])
    except ValueError:
        return []  # no name that a record could have
