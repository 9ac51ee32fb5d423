"""Files of dnstap messages (https://dnstap.info), as Frame Streams: the messages of recorded queries as client queries and client responses."""

from __future__ import annotations

import socket
from collections.abc import Iterator

from fastdns import __version__
from fastdns.plugins.dnstap import frames
from fastdns.plugins.dnstap._sender import message
from fastdns.plugins.recorder._records import Recorded
from fastdns.plugins.recorder.messages import messages

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
        """Times (of the records' clock) and frames of the query and its reply. Rebuilt messages say so in the field ``extra``."""
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
