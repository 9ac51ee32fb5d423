"""Files of dnstap messages (https://dnstap.info), as Frame Streams: the messages of recorded queries as client queries and client responses."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from ipaddress import ip_address

from fastdns import __version__
from fastdns.plugins.dnstap import frames
from fastdns.plugins.dnstap._sender import message
from fastdns.plugins.recorder._records import Asked, Recorded
from fastdns.plugins.recorder.messages import REBUILT, Sent, messages, query, reply
from fastdns.plugins.recorder.question import FATES, asked_text

__all__ = ["Tap"]


class Tap:
    """Makes one file."""

    def __init__(self, offset: int) -> None:
        """``offset``: ns from the clock of records to the time since 1970."""
        self.offset = offset
        self.identity, self.version = socket.gethostname().encode(), f"fastdns-{__version__}".encode()

    def head(self) -> bytes:
        """What the file begins with."""
        return frames.control(frames.START, frames.CONTENT_TYPE)

    def end(self) -> bytes:
        return frames.control(frames.STOP)

    def packets(self, record: Recorded) -> Iterator[tuple[int, bytes]]:
        """Times (of the records' clock) and frames of the query and its reply, and of both questions to upstreams if there were two (`hedge`).

        Rebuilt messages say so in the field ``extra``.
        """
        asked = record.received + self.offset
        for sent in messages(record):
            answered = sent.at + self.offset if sent.is_reply else 0
            yield (
                sent.at,
                message(
                    self.identity, self.version, sent.remark.encode(), record.transport == 0,
                    record.client, record.client_port, record.local, record.local_port, asked, answered, sent.octets,
                ),
            )  # fmt: skip
        for one in record.pair:
            yield from self._forwarded(record, one)

    def _forwarded(self, record: Recorded, one: Asked) -> Iterator[tuple[int, bytes]]:
        """The question to an upstream, and its reply if there was one. The server's own address is not known."""
        host, _, port = one.upstream.rpartition(":")
        try:
            upstream, number = ip_address(host.strip("[]").partition("%")[0]).packed, int(port)
        except ValueError:  # cut
            return
        asked = record.received + round(one.at * 1e9)
        sent = [Sent(asked, False, query(record), "")]
        if FATES[one.fate] in ("answered", "replied"):
            sent.append(Sent(asked + round(one.took * 1e9), True, reply(record._replace(rcode=one.rcode, reply_flags=0)), ""))
        extra = f"{REBUILT}; {asked_text(one)}".encode()
        for each in sent:
            answered = each.at + self.offset if each.is_reply else 0
            yield (
                each.at,
                message(self.identity, self.version, extra, one.udp, b"", 0, upstream, number, asked + self.offset, answered, each.octets, forwarder=True),
            )
