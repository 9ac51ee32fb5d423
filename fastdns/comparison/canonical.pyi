"""Replies in the form that is compared: response code, AA, TC, and a set of records for each section (canonical.pxd says what is left aside)."""

from typing import NamedTuple

#: Owner in lower case, type, class, rdata with its names expanded and in lower case.
Record = tuple[bytes, int, int, bytes]

class Reply(NamedTuple):
    #: With the bits of OPT.
    rcode: int
    authoritative: bool
    truncated: bool
    #: Name of the question in lower case, wire form.
    question: bytes
    qtype: int
    #: Answer, authority, additional.
    sections: tuple[frozenset[Record], frozenset[Record], frozenset[Record]]

def read_reply(message: bytes) -> Reply:
    """Raises ValueError for a message that is malformed."""

def same(a: bytes, b: bytes) -> bool:
    """Whether two replies are equal, records taken as often as they are there. False where one is malformed."""
