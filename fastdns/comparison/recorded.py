"""What is read of files with messages of DNS."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["REBUILT", "Recorded", "RecordingError"]

#: What the remark of a message begins with that *recorder* has rebuilt: the comment of a packet, the field `extra` of dnstap.
REBUILT = b"rebuilt by fastdns"


class RecordingError(ValueError):
    """A file that cannot be read; the text begins with its path."""


class Recorded(NamedTuple):
    """A message between a client and a server."""

    octets: bytes
    is_reply: bool
    #: Address of the client, 4 or 16 octets; empty where a dnstap message names none.
    client: bytes
